#!/usr/bin/env bash
# Checks that the published results still follow from code, parameters and data:
#     docs/ci/verify.sh pull-request      takes seconds: checks every lock, and computes the quickstart twice
#     docs/ci/verify.sh nightly           checks what the locks name in the cache, and computes a sample again
#     docs/ci/verify.sh relock [FILE...]  runs these pipelines, or all that have a lock, and rewrites their locks
# PIPE is the program, JUNIT a directory for reports, TWICE the pipeline to compute twice.
set -euo pipefail
level=${1:?name a level: pull-request, nightly or relock}
shift
pipe=${PIPE:-target/release/pipe}
reports=${JUNIT:-}
twice=${TWICE:-pipelines/quickstart.yaml}

path=$PATH
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
    # Everything is checked; the first failure determines the exit code.
    if [[ $worst -eq 0 ]]; then worst=$code; fi
}

for lock in "${locks[@]}"; do
    pipeline=${lock%.lock}.yaml
    name=$(basename "$pipeline" .yaml)
    # The other programs of the pipeline, if it needs some and they are installed. Only `nightly` and `relock` run them.
    PATH=$PWD/.bench-env/$name/bin:$path
    case $level in
        pull-request) verify "$name" "$pipeline" --lock --strict ;;
        nightly) verify "$name" "$pipeline" --strict --cache --rerun "sample=${SAMPLE:-3}" "budget=${BUDGET:-20m}" ;;
        relock) "$pipe" run "$pipeline" --no-progress && "$pipe" lock "$pipeline" --rebuild ;;
        *) echo "there is no level \`$level\`; use pull-request, nightly or relock" >&2; exit 2 ;;
    esac
done
if [[ $level == pull-request && -f $twice ]]; then
    verify twice "$twice" --twice
fi
exit "$worst"
