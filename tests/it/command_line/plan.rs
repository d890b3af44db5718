//! `pipe plan`, `pipe why` and `pipe status`.

use super::{FITS, fits};
use crate::support::PipelineTest;

#[test]
fn a_plan_lists_what_would_run_and_check_turns_it_into_an_exit_code() {
    let test = PipelineTest::new(FITS);
    test.typed("plan pipeline.yaml")
        .ok()
        .prints("fit[adaptive]")
        .prints("never run before")
        .reports_nothing();
    test.typed("plan pipeline.yaml --check").exits_with(10).prints("table");
    assert!(!test.file("cache").exists(), "looking must not write");
    test.run().ok();
    test.typed("plan pipeline.yaml --check").ok().prints("nothing to run");
    test.typed("plan --check pipeline.yaml --set vars.lr=3e-4").exits_with(10);
    test.edit("pipeline.yaml", "cat in", "cat -n in");
    test.typed("plan --check fit").ok();
    test.typed("plan --check table").exits_with(10);
}

#[test]
fn a_plan_as_json_has_the_state_of_every_instance() {
    let test = fits();
    test.edit("pipeline.yaml", "cat in", "cat -n in");
    let plan = test.typed("plan --json").ok().json();
    let states: Vec<(&str, &str)> = plan
        .as_array()
        .unwrap()
        .iter()
        .map(|stage| (stage["instance"].as_str().unwrap(), stage["state"].as_str().unwrap()))
        .collect();
    assert_eq!(states[..2], [("fit[adaptive]", "fresh"), ("fit[static]", "fresh")]);
    assert_eq!(states[2].0, "table");
    assert_ne!(states[2].1, "fresh");
    assert!(plan[2]["why"].is_object(), "{plan}");
}

#[test]
fn why_shows_the_old_and_the_new_value() {
    let test = fits();
    test.edit("pipeline.yaml", "0.0001", "3e-4");
    test.typed("why fit[static]")
        .ok()
        .prints("params.run")
        .prints("0.0001")
        .prints("0.0003")
        .reports_nothing();
    let why = test.typed("why fit[static] --json").ok().json();
    assert!(why.to_string().contains("\"params.run\""), "{why}");
    test.typed("why table").ok().prints("fit[adaptive]");
    assert_eq!(test.typed("why fit --json").ok().json().as_array().unwrap().len(), 2);
}

#[test]
fn a_fresh_stage_has_no_reason_to_run() {
    let test = fits();
    test.typed("why table").ok().prints("fresh");
    test.typed("why").exits_with(2).reports("<STAGE>");
}

#[test]
fn status_has_one_line_per_instance() {
    let test = fits();
    let status = test.typed("status").ok().reports_nothing();
    assert_eq!(status.stdout.matches("fresh").count(), 3, "{}", status.stdout);
    test.edit("pipeline.yaml", "cat in", "cat -n in");
    let status = test.typed("status pipeline.yaml").ok();
    assert_eq!(status.stdout.matches("fresh").count(), 2, "{}", status.stdout);
    let json = test.typed("status --json").ok().json();
    assert_eq!(json[0]["kind"], "command");
    assert!(json[0]["key"].is_string() && json[2]["key"].is_null(), "{json}");
}

#[test]
fn a_variable_that_nothing_uses_is_reported() {
    let test = fits();
    test.edit("pipeline.yaml", "vars: { ", "vars: { prior: 5, ");
    for command in ["plan pipeline.yaml", "run pipeline.yaml"] {
        test.typed(command).ok().reports("pipeline.yaml:3: nothing uses the variable `vars.prior`");
    }
    test.typed("status pipeline.yaml").ok().reports_nothing();
}

#[test]
fn a_stage_that_would_continue_from_a_checkpoint_says_so() {
    let test = PipelineTest::new(
        "
name: unfinished
stages:
  data: { synthetic: { rows: 60, test_rows: 20, features: 20, labels: 4, labels_per_row: 1, features_per_row: 4 } }
  eval: { evaluate: { data: data, predictions: { file: predictions.csv } } }
",
    );
    test.write("predictions.csv", "nonsense");
    test.run().exits_with(1);
    let note = "will run (from a checkpoint)";
    assert!(!test.typed("status").ok().stdout.contains(note));
    let states = test.files_below("cache/v2/pipelines");
    let state = String::from_utf8_lossy(states.values().next().unwrap()).into_owned();
    let failed = state.split("\"failed\"").nth(1).unwrap();
    let key = failed.split("\"key\":\"").nth(1).unwrap().split('"').next().unwrap();
    test.write(&format!("cache/v2/checkpoints/{key}/checkpoint"), "");
    test.typed("status").ok().prints(note);
    test.typed("plan").ok().prints(note);
    assert_eq!(test.typed("plan --json").ok().json()[1]["checkpoint"], true);
}

/// Three commands, of which the second fails if the first gives 2.
const CHAIN: &str = "
name: chain
vars: { x: 1 }
stages:
  a: { command: { run: \"echo ${vars.x} > a\", outputs: [a] } }
  b: { command: { run: \"grep -v 2 in/a > b\", inputs: { a: a }, outputs: [b] } }
  c: { command: { run: cat in/b > c, inputs: { b: b }, outputs: [c] } }
";

#[test]
fn why_still_knows_the_root_cause_after_a_failed_run() {
    let test = PipelineTest::new(CHAIN);
    test.run().ok();
    test.edit("pipeline.yaml", "x: 1", "x: 2");
    test.run().exits_with(1);
    test.typed("why b")
        .ok()
        .prints("it failed in run")
        .prints("inputs.a changed")
        .prints("the error was: ")
        .prints("caused by a (computed ")
        .prints("params.run \"echo 1 > a\" -> \"echo 2 > a\"");
    test.typed("why c")
        .ok()
        .prints("caused by b (will run)")
        .prints("the error was: ")
        .prints("caused by a (computed ");
    let never_run = PipelineTest::new(CHAIN);
    never_run.edit("pipeline.yaml", "x: 1", "x: 2").run().exits_with(1);
    let why = never_run.typed("why c").ok().prints("caused by b (will run): it failed in run").stdout;
    assert_eq!(why.matches("caused by").count(), 1, "c itself was never run, and waits for b only:\n{why}");
    let json = test.typed("why c --json").ok().json();
    let causes: Vec<&str> = json[0]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| cause["instance"].as_str().unwrap())
        .collect();
    assert_eq!(causes, ["b", "a"], "{json}");
}
