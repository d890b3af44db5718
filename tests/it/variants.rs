//! Results of runs with other `--set` values, and what commands say about them.

use serde_json::Value;

use crate::support::{PipelineTest, Ran, worker_program};

const VARIANTS: &str = "
name: paper
vars: { x: 1, unused: 0 }
stages:
  value: { command: { run: \"echo ${vars.x} > value.txt\", outputs: [value.txt] } }
  table: { command: { run: cp in/value table.tex, inputs: { value: value }, outputs: [table.tex] } }
outputs: [table]
";

fn run_id(test: &PipelineTest) -> String {
    test.typed("runs --json").ok().json()[0]["run"].as_str().unwrap().to_owned()
}

#[test]
fn every_command_that_looks_warns_of_results_of_other_settings() {
    let test = PipelineTest::new(&VARIANTS.replace(", unused: 0", ""));
    test.run().ok();
    test.run_with(&["--set", "vars.x=2"]).ok();
    let sentence =
        format!("results/paper/table.tex was written by run {} with --set vars.x=2", run_id(&test));
    for command in ["plan", "status", "report"] {
        test.typed(&format!("{command} pipeline.yaml")).ok().reports(&sentence);
        test.typed(&format!("{command} pipeline.yaml --set vars.x=2")).ok().reports_nothing();
    }
    let status = test.typed("status --json").ok().json();
    assert_eq!(status[0]["leftovers"], Value::Array(Vec::new()));
    let [left] = status[1]["leftovers"].as_array().unwrap().as_slice() else { panic!("{status}") };
    assert_eq!((&left["set"][0], &left["run"]), (&"vars.x=2".into(), &run_id(&test).into()));
    test.run().ok();
    test.typed("status").ok().reports_nothing();
    test.typed("plan pipeline.yaml --set vars.x=2").ok().reports("without --set");
}

#[test]
fn settings_that_change_no_result_are_not_mentioned() {
    let test = PipelineTest::new(VARIANTS);
    test.run_with(&["--set", "vars.unused=7", "--set", "vars.x=1"]).ok();
    test.typed("status").ok().reports_nothing();
    test.run_with(&["--set", "vars.x=2", "value"]).ok();
    test.typed("status").ok().reports_nothing();
}

#[test]
fn a_lock_is_not_written_if_the_results_are_of_another_variant() {
    let test = PipelineTest::new(VARIANTS);
    test.run().ok();
    test.run_with(&["--set", "vars.x=2"]).ok();
    test.pipe(&["lock", "pipeline.yaml"])
        .exits_with(2)
        .says("with --set vars.x=2")
        .says("pipe run pipeline.yaml");
    assert!(!test.file("pipeline.lock").exists());
    test.run().ok();
    test.write("results/paper/table.tex", "edited\n");
    test.pipe(&["lock", "pipeline.yaml"]).exits_with(2).says("pipe run pipeline.yaml --overwrite");
    test.run_with(&["--overwrite"]).ok();
    test.pipe(&["lock", "pipeline.yaml"]).ok();
    test.pipe(&["verify", "pipeline.yaml"]).ok();
}

#[test]
fn the_list_of_runs_has_their_settings() {
    let test = PipelineTest::new(VARIANTS);
    test.run_with(&["--set", "vars.x=a b"]).ok();
    test.pipe(&["runs"]).ok().says("--set 'vars.x=a b'");
    test.pipe(&["runs", "show"]).ok().says("--set 'vars.x=a b'");
    assert_eq!(test.typed("runs --json").ok().json()[0]["set"][0], "vars.x=a b");
}

#[test]
fn a_comparison_says_how_the_runs_differ_as_a_whole() {
    let test = PipelineTest::new(VARIANTS);
    test.typed("run pipeline.yaml --note first").ok();
    test.typed("run pipeline.yaml --set vars.x=5").ok();
    test.typed("diff").ok().prints("UTC, first)").prints("UTC, --set vars.x=5)");
}

#[test]
fn a_stage_that_failed_is_not_shown_as_never_run() {
    let test = PipelineTest::new(
        "
name: failing
stages:
  bad: { command: { run: test -e \"$FLAG\"; echo 1 > bad.txt, outputs: [bad.txt], env: [FLAG] } }
  after: { command: { run: cp in/bad after.txt, inputs: { bad: bad }, outputs: [after.txt] } }
",
    );
    test.run().exits_with(1);
    let run = run_id(&test);
    test.typed("plan").ok().prints("failed").prints(&run).prints("never run before");
    let why = test.typed("why bad --json").ok().json();
    assert_eq!((&why[0]["why"]["reason"], &why[0]["why"]["run"]), (&"failed".into(), &run.into()));
    test.typed("run pipeline.yaml").exits_with(1).reports("failed in run");
    let mut run = test.command(&["run", "pipeline.yaml"]);
    run.env("FLAG", test.path());
    Ran::finish(run).ok();
    test.pipe(&["plan"]).ok().says("env.FLAG");
}

#[test]
fn timings_are_compared_only_on_request() {
    worker_program();
    let test = PipelineTest::new(
        "
name: timed
vars: { epochs: 1 }
stages:
  data: { synthetic: { rows: 200, test_rows: 20, features: 300, labels: 40 } }
  idf: { idf: { data: data } }
  train: { train: { data: data, idf: idf, preset: paper, epochs: \"${vars.epochs}\", net: { hidden: [8] } } }
",
    );
    test.run().ok();
    test.run_with(&["--set", "vars.epochs=2"]).ok();
    let outputs = |args: &[&str]| {
        let difference = test.pipe(&[&["diff", "--json"], args].concat()).ok().json();
        let outputs = difference["changed"][0]["outputs"].as_array().unwrap().clone();
        outputs.iter().map(|output| output["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(outputs(&[]), ["history", "model"]);
    assert_eq!(outputs(&["--volatile"]), ["history", "model", "timings"]);
}
