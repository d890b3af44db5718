//! The packages of commands: `env: { venv: ... }`, `{ uv: ... }` and `{ conda: ... }`, mostly with small scripts in place of
//! Python, uv and conda.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::{PipelineTest, Ran};

const PIPELINE: &str = "\
name: packages
stages:
  use:
    matrix: { seed: [1, 2] }
    command:
      run: cat \"$VIRTUAL_ENV$CONDA_PREFIX/packages\" > out.txt; echo ${matrix.seed} $(command -v tool) >> out.txt
      env: { venv: requirements.txt, python: ./python }
      outputs: [out.txt]
";

/// A Python whose version is in the file `version`, and whose pip notes each installation in the file `installed`.
const PYTHON: &str = r#"#!/bin/sh
case "$1$2" in
    -I-c) echo "fake $(cat 'DIR/version')"; echo 'DIR/python' ;;
    -mvenv) mkdir -p "$3/bin"; cp 'DIR/python' "$3/bin/python"; cp 'DIR/python' "$3/bin/tool" ;;
    -mpip)
        echo once >> 'DIR/installed'
        for last in "$@"; do :; done
        if grep -q broken "$last"; then echo "there is no package broken" >&2; exit 1; fi
        cp "$last" "$(dirname "$0")/../packages" ;;
esac
"#;

const UV: &str = r#"#!/bin/sh
case "$1" in
    python) echo 'DIR/python' ;;
    sync)
        mkdir -p "$UV_PROJECT_ENVIRONMENT/bin"
        cp 'DIR/python' "$UV_PROJECT_ENVIRONMENT/bin/python"
        cat uv.lock pyproject.toml > "$UV_PROJECT_ENVIRONMENT/packages" ;;
esac
"#;

const CONDA: &str = r#"#!/bin/sh
[ "$1 $2 $3 $5" = "env create --prefix --file" ] || exit 1
mkdir -p "$4/bin"
cp "$6" "$4/packages"
"#;

fn project(yaml: &str) -> PipelineTest {
    let test = PipelineTest::new(yaml);
    for (name, script) in [("python", PYTHON), ("tools/uv", UV), ("tools/conda", CONDA)] {
        test.write(name, script.replace("DIR", test.path().to_str().unwrap()));
        std::fs::set_permissions(test.file(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    test.write("version", "3.12.1").write("requirements.txt", "a==1\n");
    test
}

fn installations(test: &PipelineTest) -> usize {
    std::fs::read_to_string(test.file("installed")).unwrap_or_default().lines().count()
}

/// Runs the pipeline with the scripts on PATH.
fn run_with_tools(test: &PipelineTest) -> Ran {
    let mut command = test.command(&["run", "pipeline.yaml", "--json"]);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", test.file("tools").display()));
    Ran::finish(command)
}

#[test]
fn packages_are_installed_once_and_their_content_is_part_of_the_key() {
    let test = project(PIPELINE);
    let ran = test.run().ok();
    assert_eq!(ran.computed().len(), 2);
    assert_eq!(installations(&test), 1, "two stages share them");
    let output = test.typed("get use[seed=2].out").ok().stdout;
    assert!(output.starts_with("a==1\n2 "), "{output}");
    assert!(output.trim_end().ends_with("/bin/tool"), "they come first on PATH: {output}");

    assert_eq!(test.run().ok().computed(), [""; 0]);
    test.write("requirements.txt", "a==2\n");
    test.typed("why pipeline.yaml use[seed=1]").ok().prints("inputs.env changed");
    assert_eq!(test.run().ok().computed().len(), 2);
    assert_eq!(installations(&test), 2);
    test.write("requirements.txt", "a==1\n");
    assert_eq!(test.run().ok().computed(), [""; 0], "back to what was computed before");
}

#[test]
fn the_version_of_the_interpreter_is_part_of_the_key() {
    let test = project(PIPELINE);
    test.run().ok();
    test.typed("show pipeline.yaml use[seed=1]").ok().prints("interpreter: fake 3.12.1");
    test.write("version", "3.13.0");
    test.typed("why pipeline.yaml use[seed=1]").ok().prints("interpreter fake 3.12.1 -> fake 3.13.0");
    assert_eq!(test.run().ok().computed().len(), 2);
    assert_eq!(installations(&test), 2);
}

#[test]
fn a_stage_that_is_tried_out_uses_the_installed_packages() {
    let test = project(PIPELINE);
    test.run().ok();
    test.typed("run use[seed=1] --try").ok().prints("out:");
    test.typed("lock").ok();
    test.typed("verify --rerun use[seed=1]").ok();
    assert_eq!(installations(&test), 1);
    let mut shell = test.command(&["shell", "use[seed=1]"]);
    shell.env("SHELL", "true");
    Ran::finish(shell).ok();
    assert_eq!(installations(&test), 1);
    test.write("requirements.txt", "a==2\n");
    test.typed("run use[seed=1] --try").ok();
    test.run().ok();
    assert_eq!(installations(&test), 2, "packages that were installed for a trial are used later");
}

#[test]
fn damaged_packages_are_installed_again() {
    let test = project(PIPELINE);
    test.run().ok();
    for (damaged, expected) in [("/packages", 2), ("/bin/python", 3)] {
        // An installation that was damaged before is still there, because a process may be using it.
        for file in test.files_below("cache/v2/packages").into_keys() {
            if file.to_string_lossy().ends_with(damaged) {
                std::fs::remove_file(test.file("cache/v2/packages").join(file)).unwrap();
            }
        }
        test.edit("pipeline.yaml", "seed: [1, ", &format!("seed: [1, 1{expected}, "));
        test.run().ok();
        assert_eq!(installations(&test), expected, "{damaged}");
    }
}

#[test]
fn a_failed_installation_shows_its_log_and_leaves_nothing_behind() {
    let test = project(PIPELINE);
    test.write("requirements.txt", "broken\n");
    let failed = test.typed("run pipeline.yaml use[seed=1]").exits_with(1);
    failed
        .reports("the packages of `venv: requirements.txt` could not be installed")
        .reports("no package broken");
    assert!(test.files_below("cache/v2/packages").is_empty());
    test.write("requirements.txt", "a==1\n");
    test.run().ok();
}

#[test]
fn an_interpreter_that_does_not_exist_is_named_by_plan_and_run() {
    let test = project(&PIPELINE.replace("./python", "no-such-python"));
    let sentence = "the program `no-such-python` was not found, and the environment of this command needs it";
    test.typed("plan pipeline.yaml").ok().prints("cannot run").prints(sentence);
    test.typed("run pipeline.yaml").exits_with(1).reports(sentence);
    let test = project(&PIPELINE.replace("requirements.txt", "other.txt"));
    test.typed("run pipeline.yaml").refuses("other.txt");
}

#[test]
fn uv_installs_from_the_lock_and_the_project_file_beside_it() {
    let test = project(&PIPELINE.replace("venv: requirements.txt, python: ./python", "uv: ml/uv.lock"));
    test.write("ml/uv.lock", "lock\n").write("ml/pyproject.toml", "project\n");
    assert_eq!(run_with_tools(&test).ok().computed().len(), 2);
    test.write("ml/pyproject.toml", "other\n");
    assert_eq!(run_with_tools(&test).ok().computed().len(), 2);
    assert!(!test.file("ml/.venv").exists());
}

#[test]
fn conda_installs_from_its_file() {
    let test =
        project(&PIPELINE.replace("venv: requirements.txt, python: ./python", "conda: environment.yml"));
    test.write("environment.yml", "dependencies: [python=3.12]\n");
    let ran = run_with_tools(&test).ok();
    assert_eq!(ran.computed().len(), 2);
    let output = test.typed("get use[seed=1].out").ok().stdout;
    assert!(output.starts_with("dependencies: [python=3.12]\n1"), "{output}");
}

#[test]
fn jobs_on_a_cluster_share_the_installed_packages() {
    let test = project(PIPELINE);
    let batch = "\
engine: template
submit: setsid sh \"$PIPE_JOB_SCRIPT\" > /dev/null 2>&1 & echo $!
status: ps -e -o pid=
cancel: kill $PIPE_JOB_IDS
";
    test.write("engines/batch.yaml", batch);
    assert_eq!(test.run_with(&["--engine", "batch"]).ok().computed().len(), 2);
    assert_eq!(installations(&test), 1);
}

#[test]
fn a_real_virtual_environment_needs_no_network_if_nothing_is_required() {
    let has_venv = Command::new("python3").args(["-c", "import ensurepip, venv"]).output();
    if !has_venv.is_ok_and(|output| output.status.success()) {
        println!("skipped: python3 has no venv");
        return;
    }
    let test = PipelineTest::new(
        "\
name: real
stages:
  where:
    command:
      run: python -c 'import sys; print(sys.prefix)' > prefix.txt; echo \"$VIRTUAL_ENV\" >> prefix.txt
      env: { venv: requirements.txt }
      outputs: [prefix.txt]
",
    );
    test.write("requirements.txt", "--no-index\n");
    test.run().ok();
    let output = test.typed("get where.prefix").ok().stdout;
    let lines: Vec<&str> = output.lines().collect();
    assert!(lines.len() == 2 && lines[0] == lines[1] && lines[0].contains("cache/v2/packages"), "{output}");
}
