//! What commands say about runs that were: with which settings, and what of it lies in `results/`.

use serde_json::Value;

use crate::support::{PipelineTest, Ran};

const VARIANTS: &str = "
name: paper
vars: { x: 1, unused: 0 }
stages:
  value: { command: { run: \"echo ${vars.x} > value.txt\", outputs: [value.txt] } }
  table: { command: { run: cp in/value table.tex, inputs: { value: value }, outputs: [table.tex] } }
outputs: [table]
";

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stdout))
}

fn run_id(test: &PipelineTest) -> String {
    json(&test.pipe(&["runs", "--json"]).ok())[0]["run"].as_str().unwrap().to_owned()
}

#[test]
fn results_of_a_run_with_other_settings_are_told_by_every_command_that_looks() {
    let test = PipelineTest::new(VARIANTS);
    test.run().ok();
    test.run_with(&["--set", "vars.x=2"]).ok();
    let sentence =
        format!("results/paper/table.tex was left by run {}, with --set vars.x=2; repeat", run_id(&test));
    for command in ["plan", "status", "report"] {
        test.pipe(&[command, "pipeline.yaml"]).ok().says(&sentence);
        let same = test.pipe(&[command, "pipeline.yaml", "--set", "vars.x=2"]).ok();
        assert!(!same.stderr.contains("left by"), "{}", same.stderr);
    }
    let status = json(&test.pipe(&["status", "--json"]).ok());
    assert_eq!(status[0]["leftovers"], Value::Array(Vec::new()));
    let [left] = status[1]["leftovers"].as_array().unwrap().as_slice() else { panic!("{status}") };
    assert_eq!((&left["set"][0], &left["run"]), (&"vars.x=2".into(), &run_id(&test).into()));
    test.run().ok();
    assert!(!test.pipe(&["status"]).ok().stderr.contains("left by"));
    test.pipe(&["plan", "pipeline.yaml", "--set", "vars.x=2"]).ok().says("without --set");
}

#[test]
fn settings_that_change_no_result_are_not_worth_a_word() {
    let test = PipelineTest::new(VARIANTS);
    test.run_with(&["--set", "vars.unused=7", "--set", "vars.x=1"]).ok();
    let status = test.pipe(&["status"]).ok();
    assert!(!status.stderr.contains("left by"), "{}", status.stderr);
    test.run_with(&["--set", "vars.x=2", "value"]).ok();
    let status = test.pipe(&["status"]).ok();
    assert!(!status.stderr.contains("left by"), "this run placed nothing: {}", status.stderr);
}

#[test]
fn a_lock_is_not_written_of_something_else_than_what_lies_in_the_results() {
    let test = PipelineTest::new(VARIANTS);
    test.run().ok();
    test.run_with(&["--set", "vars.x=2"]).ok();
    test.pipe(&["lock", "pipeline.yaml"]).exits_with(2).says("with --set vars.x=2").says("pipe run pipeline.yaml");
    assert!(!test.file("pipeline.lock").exists());
    test.run().ok();
    test.write("results/paper/table.tex", "edited\n");
    test.pipe(&["lock", "pipeline.yaml"]).exits_with(2).says("pipe run pipeline.yaml --overwrite");
    test.run_with(&["--overwrite"]).ok();
    test.pipe(&["lock", "pipeline.yaml"]).ok();
    test.pipe(&["verify", "pipeline.yaml"]).ok();
}

#[test]
fn the_list_of_runs_says_what_was_set() {
    let test = PipelineTest::new(VARIANTS);
    test.run_with(&["--set", "vars.x=a b"]).ok();
    test.pipe(&["runs"]).ok().says("--set 'vars.x=a b'");
    test.pipe(&["runs", "show"]).ok().says("--set 'vars.x=a b'");
    assert_eq!(json(&test.pipe(&["runs", "--json"]).ok())[0]["set"][0], "vars.x=a b");
}
