//! `pipe run --sandbox` and `pipe verify --twice` name every file that a command read without declaring it.

use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::processes::{running, wait_until};
use crate::support::{PipelineTest, Ran};

/// Creates a project with some files and one stage, whose command finds the project at `$ROOT`.
fn project(run: &str, inputs: &str) -> PipelineTest {
    let stage = format!(
        "name: t\nstages:\n  it:\n    command:\n      run: |\n        {run}\n      inputs: {inputs}\n      \
         outputs: [out.txt]\n      env: [ROOT]\n"
    );
    let test = PipelineTest::new(&stage);
    test.write("data.csv", "1\n").write("raw/a.csv", "2\n").write("raw/b.csv", "3\n");
    test
}

fn run(test: &PipelineTest, args: &[&str]) -> Ran {
    let mut command = test.command(&[&["run", "pipeline.yaml", "--sandbox"], args].concat());
    command.env("ROOT", test.path());
    Ran::finish(command)
}

/// Runs the pipeline and returns the files that the event names as read and as written.
fn undeclared(test: &PipelineTest) -> (Vec<String>, Vec<String>) {
    let ran = run(test, &["--json"]);
    let text = |values: &Value| {
        values.as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let events = ran.events();
    let found = events.iter().find(|event| event["event"] == "undeclared");
    let found = found.map(|event| (text(&event["read"]), text(&event["written"]))).unwrap_or_default();
    let failed = ran.code == Some(1);
    assert_eq!(failed, !found.0.is_empty(), "{ran:?}");
    found
}

#[track_caller]
fn reads(run: &str, inputs: &str, expected: &[&str]) {
    assert_eq!(undeclared(&project(run, inputs)).0, expected, "{run}");
}

#[test]
fn a_stage_that_reads_an_undeclared_file_fails_and_the_lines_to_add_make_it_pass() {
    let test = project("cat ../../../../../../data.csv \"$ROOT\"/raw/a.csv > out.txt", "{}");
    let failed = run(&test, &[]).exits_with(1);
    let failed = failed
        .reports("`data.csv`, `raw/a.csv`")
        .reports("    data: { file: data.csv }\n    a: { file: raw/a.csv }");
    drop(failed);
    assert_eq!(run(&test, &["--json"]).instances("hit"), [""; 0], "its result was not kept");
    test.edit(
        "pipeline.yaml",
        "inputs: {}",
        "inputs:\n        data: { file: data.csv }\n        a: { file: raw/a.csv }",
    );
    run(&test, &[]).ok();
    assert_eq!(run(&test, &["--json"]).ok().instances("hit"), ["it"]);
}

#[test]
fn commands_whose_results_are_in_the_cache_are_said_to_be_not_observed() {
    let test = project("cat \"$ROOT\"/data.csv > out.txt", "{}");
    let mut unobserved = test.command(&["run", "pipeline.yaml"]);
    unobserved.env("ROOT", test.path());
    Ran::finish(unobserved).ok();
    run(&test, &[]).ok().says("--sandbox did not observe 1 command whose result was in the cache");
    run(&test, &["--force", "it"]).exits_with(1).reports("`data.csv`");
}

#[test]
fn a_run_without_the_option_is_not_observed() {
    let test = project("cat \"$ROOT\"/data.csv > out.txt", "{}");
    let mut command = test.command(&["run", "pipeline.yaml", "--json"]);
    command.env("ROOT", test.path());
    let ran = Ran::finish(command).ok();
    assert!(ran.events().iter().all(|event| event["event"] != "undeclared"));
}

#[test]
fn files_are_seen_however_they_are_read() {
    reads("sh -c '(setsid sh -c \"cat $ROOT/data.csv\")' > out.txt", "{}", &["data.csv"]);
    reads("while read x; do echo $x; done < \"$ROOT\"/data.csv > out.txt", "{}", &["data.csv"]);
    reads("cat \"$ROOT\"/raw/*.csv > out.txt", "{}", &["raw/a.csv", "raw/b.csv"]);
    reads("ln -s \"$ROOT\"/data.csv x; cat x > out.txt", "{}", &["data.csv"]);
    reads("ln \"$ROOT\"/data.csv x; cat x > out.txt", "{}", &["data.csv"]);
    reads("cd \"$ROOT\"/raw; cat ./../data.csv > \"$PIPE_OUT_OUT\"", "{}", &["data.csv"]);
    reads("cat /proc/self/cwd/../../../../../../data.csv > out.txt", "{}", &["data.csv"]);
    let test = project("\"$ROOT\"/tool > out.txt", "{}");
    test.write("tool", "#!/bin/sh\necho 1\n");
    assert!(Command::new("chmod").arg("+x").arg(test.file("tool")).status().unwrap().success());
    assert_eq!(undeclared(&test).0, ["tool"]);
}

#[test]
fn a_program_without_libraries_is_observed_too() {
    let test = project("\"$ROOT\"/reader \"$ROOT\"/data.csv > out.txt", "{ reader: { file: reader } }");
    test.write("reader.c", "#include <stdio.h>\nint main(int n, char **a) { FILE *f = fopen(a[1], \"r\"); putchar(fgetc(f)); return n != 2; }");
    let compiled = Command::new("cc")
        .args(["-static", "-o"])
        .args([test.file("reader"), test.file("reader.c")])
        .stderr(Stdio::null())
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        println!("skipped: `cc -static` does not work here");
        return;
    }
    assert_eq!(undeclared(&test).0, ["data.csv"]);
}

#[test]
fn declared_inputs_and_own_files_are_no_finding() {
    let all = "{ data: { file: data.csv }, raw: { file: raw } }";
    reads("cat in/data in/raw/*.csv \"$ROOT\"/data.csv \"$ROOT\"/raw/b.csv > out.txt", all, &[]);
    reads("echo 1 > $TMPDIR/x; cat $TMPDIR/x > y; mv y out.txt; cat out.txt", "{}", &[]);
    reads("f=$(mktemp /tmp/own.XXXXXX); echo 1 > $f; cat $f > out.txt; rm $f", "{}", &[]);
    reads(
        "cat /etc/passwd /proc/self/status > out.txt; ls \"$ROOT\" > list; cat < list >> out.txt",
        "{}",
        &[],
    );
    reads("cat \"$ROOT\"/missing.csv > out.txt || true", "{}", &[]);
    let test = project("cat in/link > out.txt; cat \"$ROOT\"/link >> out.txt", "{ link: { file: link } }");
    symlink(test.file("data.csv"), test.file("link")).unwrap();
    assert_eq!(undeclared(&test).0, [""; 0], "both are the declared file");
}

#[test]
fn outputs_of_other_stages_are_declared_by_their_names() {
    let test = PipelineTest::new(
        "
name: t
stages:
  one: { command: { run: 'mkdir -p d/e; echo 1 > d/e/x; echo 2 > f', outputs: [d, f] } }
  two: { command: { run: 'cat in/d/e/x in/f > out', inputs: { d: one.d, f: one.f }, outputs: [out] } }
",
    );
    test.run_with(&["--sandbox"]).ok();
}

#[test]
fn a_python_module_beside_the_script_is_named_also_if_it_is_compiled() {
    let python = "import json, helper; print(json.dumps(helper.value))";
    let test = project("python3 in/script > out.txt", "{ script: { file: scripts/fit.py } }");
    test.write("scripts/fit.py", python).write("scripts/helper.py", "value = 1");
    if !Command::new("python3").arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success()) {
        println!("skipped: there is no python3");
        return;
    }
    assert_eq!(undeclared(&test), (vec!["scripts/helper.py".to_owned()], Vec::new()));
    assert!(test.file("scripts/__pycache__").is_dir(), "from now on, Python reads the compiled file");
    assert_eq!(undeclared(&test), (vec!["scripts/helper.py".to_owned()], Vec::new()));
}

#[test]
fn files_that_are_written_outside_are_named_in_a_warning() {
    let test = project(
        "echo 1 > out.txt; echo 1 >> \"$ROOT\"/log.txt; echo 1 > \"$ROOT\"/gone; rm \"$ROOT\"/gone",
        "{}",
    );
    assert_eq!(undeclared(&test), (Vec::new(), vec!["log.txt".to_owned()]));
    let test = project("echo 1 > out.txt; echo 1 >> \"$ROOT\"/log.txt", "{}");
    run(&test, &[]).ok().reports("it wrote `log.txt` outside of its working directory");
}

#[test]
fn verify_twice_names_undeclared_inputs_and_still_compares() {
    let test = project("cat \"$ROOT\"/data.csv > out.txt", "{}");
    let verify = |args: &[&str]| {
        let mut command = test.command(&[&["verify", "pipeline.yaml", "--twice"], args].concat());
        command.env("ROOT", test.path());
        Ran::finish(command)
    };
    let text =
        verify(&[]).exits_with(1).prints("undeclared  it: it read `data.csv`, which it does not declare");
    let text = text.prints("        data: { file: data.csv }").prints("1 same, 1 with undeclared inputs");
    drop(text);
    let found = verify(&["--json"]).exits_with(1).json();
    assert_eq!(
        (&found["outcome"], &found["checks"][0]["outcome"]),
        (&"undeclared".into(), &"undeclared".into())
    );
    assert_eq!(
        (&found["checks"][0]["what"], &found["checks"][1]["outcome"]),
        (&"inputs".into(), &"same".into())
    );
    test.edit("pipeline.yaml", "inputs: {}", "inputs: { data: { file: data.csv } }");
    verify(&[]).ok().prints("1 check: 1 same");
}

#[test]
fn a_stage_that_is_observed_fails_and_is_explained_as_usual() {
    let test = project("echo last words >&2; exit 7", "{}");
    run(&test, &[]).exits_with(1).reports("exit code 7").reports("last words");
    let test = project("x", "{}");
    test.edit("pipeline.yaml", "run: |\n        x", "run: [no-such-program]");
    run(&test, &[]).exits_with(1).reports("`no-such-program` was not found");
}

#[test]
fn a_run_inside_of_an_observed_stage_says_that_it_cannot_observe() {
    let pipe = env!("CARGO_BIN_EXE_pipe");
    let test = project(&format!("{pipe} run --sandbox 2> out.txt || cat out.txt"), "{}");
    // The inner program itself is not declared, so this fails; what it printed is kept.
    drop(run(&test, &[]));
    let mut logs = test.command(&["logs", "pipeline.yaml", "it"]);
    logs.env("ROOT", test.path());
    Ran::finish(logs).ok().prints("this process is itself observed");
}

#[test]
fn nothing_is_left_behind_if_an_observed_run_is_killed_or_interrupted() {
    let test = project(
        "setsid sleep 1001.375 & (while :; do cat \"$ROOT\"/data.csv > out.txt; done) & sleep 1001.5; sleep 1001.75",
        "{}",
    );
    for signal in ["-KILL", "-INT"] {
        let mut command = test.command(&["run", "pipeline.yaml", "--sandbox"]);
        let mut child = command.env("ROOT", test.path()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("the stage runs", || running("1001.375") && running("1001.5"));
        std::thread::sleep(Duration::from_millis(50));
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        child.wait().unwrap();
        wait_until("everything is gone", || {
            ["1001.375", "1001.5", "1001.75"].iter().all(|word| !running(word))
        });
    }
}

#[test]
fn what_an_observed_command_leaves_running_is_ended() {
    let test = project("(setsid sleep 1001.25 > /dev/null 2>&1 &); echo 1 > out.txt", "{}");
    run(&test, &[]).ok();
    assert!(!running("1001.25"));
}
