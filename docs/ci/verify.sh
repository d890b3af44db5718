#!/usr/bin/env bash
# Checks that what is published still follows from code, parameters and data:
#     docs/ci/verify.sh pull-request      seconds: every lock, and the quickstart twice
#     docs/ci/verify.sh nightly           what the locks name in the cache, and a sample computed again
#     docs/ci/verify.sh relock [FILE...]  computes these pipelines, or those that have a lock, and writes their locks anew
# PIPE is the program, JUNIT a directory for reports, TWICE the pipeline to run twice.
set -euo pipefail
level=${1:?pull-request, nightly or relock?}
shift
pipe=${PIPE:-target/release/pipe}
reports=${JUNIT:-}
twice=${TWICE:-pipelines/quickstart.yaml}

shopt -s nullglob
locks=(pipelines/*.lock)
if [[ $level == relock && $# -gt 0 ]]; then
    locks=("${@/%.yaml/.lock}")
fi
if [[ ${#locks[@]} -eq 0 && $level != pull-request ]]; then
    echo "there are no locks in pipelines/; \`pipe lock FILE\` writes one" >&2
    exit 2
fi

worst=0
verify() {
    local name=$1 code=0
    shift
    if [[ -n $reports ]]; then
        mkdir -p "$reports"
        set -- "$@" --junit "$reports/$name.xml"
    fi
    "$pipe" verify "$@" || code=$?
    # Everything is looked at, and the first thing that is wrong decides.
    if [[ $worst -eq 0 ]]; then worst=$code; fi
}

for lock in "${locks[@]}"; do
    pipeline=${lock%.lock}.yaml
    name=$(basename "$pipeline" .yaml)
    case $level in
        pull-request) verify "$name" "$pipeline" --lock ;;
        nightly) verify "$name" "$pipeline" --cache --rerun "sample=${SAMPLE:-3}" "budget=${BUDGET:-20m}" ;;
        relock) "$pipe" run "$pipeline" --no-progress && "$pipe" lock "$pipeline" --rebuild ;;
        *) echo "there is no level \`$level\`" >&2; exit 2 ;;
    esac
done
if [[ $level == pull-request && -f $twice ]]; then
    verify twice "$twice" --twice
fi
exit "$worst"
