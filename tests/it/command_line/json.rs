//! `--json`: one JSON value on standard output, for results and for failures.

use serde_json::Value;

use super::FITS;
use crate::support::PipelineTest;

#[test]
fn every_json_output_parses() {
    let test = PipelineTest::locked(FITS);
    test.run_with(&["--set", "vars.lr=3e-4"]).ok();
    test.run().ok();
    for line in [
        "plan --json",
        "why table --json",
        "status --json",
        "show fit --json",
        "verify pipeline.yaml --json",
        "verify pipeline.yaml --cache --json",
        "verify pipeline.yaml --rerun --json",
        "verify pipeline.yaml --twice table --json",
        "runs --json",
        "runs show --json",
        "runs show latest~1 --json",
        "diff --json",
        "cache du --json",
        "cache ls --json",
        "cache gc --json",
        "cache fsck --json",
        "data list --json",
        "data info medical --json",
        "metrics --json",
        "metrics macro_f1 --json",
        "schema",
    ] {
        let value = test.typed(line).ok().json();
        assert!(value.is_object() || value.is_array(), "{line}: {value}");
    }
    for event in test.run().ok().events() {
        assert!(event["event"].is_string(), "{event}");
    }
}

#[test]
fn a_failure_in_a_pipeline_file_has_its_place() {
    let test =
        PipelineTest::new("name: wrong\nstages:\n  one: { command: { run: x, outputs: [x], shel: bash } }\n");
    for command in ["run", "plan", "status", "verify"] {
        let error =
            test.typed(&format!("{command} pipeline.yaml --json")).exits_with(2).reports("`shell`").json();
        assert_eq!((&error["event"], &error["code"]), (&"error".into(), &2.into()), "{error}");
        assert_eq!((&error["file"], &error["line"]), (&"pipeline.yaml".into(), &3.into()), "{error}");
        assert_eq!((&error["column"], &error["problems"][0]["column"]), (&43.into(), &43.into()), "{error}");
        assert!(error["hint"].as_str().unwrap().contains("`shell`"), "{error}");
        assert!(error["message"].as_str().unwrap().contains("`shel`"), "{error}");
    }
    test.typed("status pipeline.yaml").exits_with(2).prints_nothing();
}

#[test]
fn any_other_failure_is_one_object_with_the_exit_code() {
    let test = PipelineTest::new(FITS);
    for (line, code, word) in [
        ("diff --json", 2, "pipe run"),
        ("runs show --json", 2, "pipe run"),
        ("plan none.yaml --json", 2, "none.yaml"),
        ("plan pipeline.yaml tabel --json", 2, "table"),
        ("run pipeline.yaml --json --jobs 0", 2, "--jobs"),
        ("run pipeline.yaml --json --nonsense", 2, "--nonsense"),
        ("metrics macro_fi --json", 2, "macro_f1"),
        ("data info bibtx --json", 2, "bibtex"),
    ] {
        let ran = test.typed(line).exits_with(code);
        let error = ran.json();
        assert_eq!((&error["event"], &error["code"]), (&"error".into(), &code.into()), "{line}: {error}");
        assert!(error.to_string().contains(word), "{line}: {error}");
        assert!(error["line"].is_null(), "{line}: {error}");
        let problems = error["problems"].as_array().unwrap();
        assert!(problems.iter().all(|problem| problem["line"].is_null()), "{line}: {error}");
        assert_eq!(ran.stdout.lines().count(), 1, "{line}: it is one line among the events of a run");
        assert!(!ran.stderr.is_empty(), "{line}: the text is on standard error too");
    }
}

#[test]
fn a_failed_stage_is_an_event_and_its_run_an_exit_code() {
    let test = PipelineTest::new("name: bad\nstages:\n  bad: { command: { run: exit 7, outputs: [x] } }\n");
    let ran = test.run().exits_with(1);
    assert_eq!(ran.instances("failed"), ["bad"]);
    let events = ran.events();
    let summary = events.last().unwrap();
    assert_eq!((&summary["event"], &summary["summary"]["failed"]), (&"run_finished".into(), &Value::from(1)));
}
