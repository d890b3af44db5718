//! The commands beside `run`, and the exit codes that scripts rely on.

use serde_json::Value;

use crate::support::{PipelineTest, Ran};

const TWO: &str = "
name: two
vars: { lr: 0.0001 }
stages:
  fit:
    matrix: { variant: [adaptive, static] }
    command: { run: \"echo ${matrix.variant} ${vars.lr} > model.txt; echo fitted; echo careful >&2\", outputs: [model.txt] }
  table: { command: { run: cat in/models/* > table.txt, inputs: { models: [\"fit[*]\"] }, outputs: [table.txt] } }
outputs: [table]
";

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stdout))
}

#[test]
fn plan_says_what_would_run_and_check_turns_it_into_an_exit_code() {
    let test = PipelineTest::new(TWO);
    test.pipe(&["plan", "pipeline.yaml"]).ok().says("never run before");
    test.pipe(&["plan", "pipeline.yaml", "--check"]).exits_with(10);
    assert!(!test.file("cache").exists(), "looking must not write");
    test.run().ok();
    test.pipe(&["plan", "pipeline.yaml", "--check"]).ok();
    test.pipe(&["plan", "--check", "pipeline.yaml", "--set", "vars.lr=3e-4"]).exits_with(10);
}

#[test]
fn why_names_the_old_and_the_new_value() {
    let test = PipelineTest::new(TWO);
    test.run().ok();
    test.write("pipeline.yaml", TWO.replace("0.0001", "3e-4"));
    let why = test.pipe(&["why", "fit[static]"]).ok();
    let why = why.says("params.run").says("0.0001").says("0.0003");
    drop(why);
    let why = json(&test.pipe(&["why", "fit[static]", "--json"]).ok());
    assert!(why.to_string().contains("\"params.run\""), "{why}");
    test.pipe(&["why", "table"]).ok().says("fit[adaptive]");
}

#[test]
fn a_fresh_stage_has_no_reason_to_run() {
    let test = PipelineTest::new(TWO);
    test.run().ok();
    test.pipe(&["why", "table"]).ok().says("fresh");
    test.pipe(&["status"]).ok().says("fit[adaptive]").says("fresh");
}

#[test]
fn show_prints_parameters_inputs_outputs_and_logs_print_what_was_written() {
    let test = PipelineTest::new(TWO);
    test.run().ok();
    test.pipe(&["show", "fit[adaptive]"]).ok().says("echo adaptive 0.0001").says("model.txt");
    let shown = json(&test.pipe(&["show", "table", "--json"]).ok());
    assert!(shown.to_string().contains("fit[static]"), "{shown}");
    test.pipe(&["logs", "fit[static]"]).ok().says("fitted").says("careful");
    let only_errors = test.pipe(&["logs", "fit[static]", "--stderr"]).ok();
    assert_eq!(only_errors.stdout, "careful\n");
}

#[test]
fn logs_of_a_failed_stage_are_kept() {
    let test = PipelineTest::new(
        "
name: failing
stages:
  bad: { command: { run: \"echo before; echo the reason >&2; exit 7\", outputs: [x] } }
",
    );
    let failed = test.pipe(&["run", "pipeline.yaml"]).exits_with(1);
    failed.says("the reason").says("7");
    test.pipe(&["logs", "bad"]).ok().says("before").says("the reason");
}

#[test]
fn graph_draws_stages_and_instances() {
    let test = PipelineTest::new(TWO);
    test.pipe(&["graph", "pipeline.yaml"]).ok().says("fit ×2").says("└─ table");
    test.pipe(&["graph", "pipeline.yaml", "--instances"]).ok().says("fit[adaptive]");
    test.pipe(&["graph", "pipeline.yaml", "--format", "mermaid"]).ok().says("flowchart");
    test.pipe(&["graph", "pipeline.yaml", "--format", "dot"]).ok().says("digraph");
}

#[test]
fn keep_going_runs_what_does_not_depend_on_the_failure() {
    let test = PipelineTest::new(
        "
name: partly
stages:
  bad: { command: { run: exit 1, outputs: [x] } }
  after: { command: { run: cp in/x y, inputs: { x: bad }, outputs: [y] } }
  good: { command: { run: sleep 0.3; echo 1 > z, outputs: [z] } }
  more: { command: { run: cp in/z w, inputs: { z: good }, outputs: [w] } }
",
    );
    let ran = test.run_with(&["--keep-going"]).exits_with(1);
    assert_eq!(ran.computed(), ["good", "more"]);
    assert_eq!(ran.instances("skipped"), ["after"]);
    assert_eq!(ran.instances("failed"), ["bad"]);
}

#[test]
fn a_stage_that_asks_for_retries_gets_them() {
    let test = PipelineTest::new(
        "
name: flaky
stages:
  flaky:
    retries: 2
    command:
      run: echo x >> \"$TRIES\"; test $(wc -l < \"$TRIES\") -ge 3; echo ok > ok.txt
      outputs: [ok.txt]
      env: [TRIES]
",
    );
    let tries = test.file("tries.txt");
    let output = test.command(&["run", "pipeline.yaml"]).env("TRIES", &tries).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(test.read("tries.txt").lines().count(), 3);
}

#[test]
fn a_command_sees_a_clean_environment_and_leaves_nothing_undeclared_behind_unreported() {
    let test = PipelineTest::new(
        "
name: clean
stages:
  env: { command: { run: \"env | sort > env.txt; touch stray.txt\", outputs: [env.txt] } }
  lazy: { command: { run: touch something-else.txt, outputs: [promised.txt] } }
outputs: [env]
",
    );
    let mut run = test.command(&["run", "pipeline.yaml", "--keep-going"]);
    let output = run.env("SECRET", "42").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(!test.read("results/clean/env.txt").contains("SECRET"));
    assert!(stderr.contains("stray.txt"), "{stderr}");
    assert!(stderr.contains("promised.txt") && stderr.contains("something-else.txt"), "{stderr}");
}

#[test]
fn all_problems_of_a_file_are_reported_at_once_with_their_places() {
    let test = PipelineTest::new(
        "
name: wrong
stages:
  one: { comand: { run: x, outputs: [x] } }
  two: { command: { run: x, outputs: [x], shel: bash } }
  three: { command: { run: x, outputs: [x], inputs: { a: tow } } }
  three: { command: { run: x, outputs: [x] } }
",
    );
    let refused = test.pipe(&["run", "pipeline.yaml"]).exits_with(2);
    let refused =
        refused.says("did you mean `command`?").says("did you mean `shell`?").says("did you mean `two`?");
    refused.says("pipeline.yaml:4:").says("pipeline.yaml:7:").says("^");
    assert!(!test.file("cache").exists());
}

#[test]
fn a_cycle_names_its_members() {
    let test = PipelineTest::new(
        "
name: round
stages:
  a: { command: { run: x, outputs: [x], inputs: { i: c } } }
  b: { command: { run: x, outputs: [x], inputs: { i: a } } }
  c: { command: { run: x, outputs: [x], inputs: { i: b } } }
",
    );
    test.pipe(&["run", "pipeline.yaml"]).exits_with(2).says("a -> c -> b -> a");
}

#[test]
fn init_writes_a_pipeline_that_runs_and_never_overwrites() {
    let test = PipelineTest::new(TWO);
    test.pipe(&["init"]).ok();
    test.pipe(&["run", "pipelines/example.yaml"]).ok();
    test.pipe(&["init"]).exits_with(2).says("exists");
}

#[test]
fn the_schema_is_json_and_knows_every_kind() {
    let test = PipelineTest::new(TWO);
    let schema = json(&test.pipe(&["schema"]).ok());
    assert!(schema.to_string().contains("\"command\""));
}

#[test]
fn bad_arguments_exit_with_2_and_help_with_0() {
    let test = PipelineTest::new(TWO);
    test.pipe(&["run"]).exits_with(2);
    test.pipe(&["run", "missing.yaml"]).exits_with(2).says("missing.yaml");
    test.pipe(&["run", "pipeline.yaml", "--jobs", "0"]).exits_with(2);
    test.pipe(&["run", "pipeline.yaml", "fitt"]).exits_with(2).says("did you mean `fit`?");
    test.pipe(&["run", "pipeline.yaml", "--set", "vars.lrr=1"]).exits_with(2).says("did you mean");
    test.pipe(&["--help"]).ok();
    test.pipe(&["completions", "bash"]).ok().says("pipe");
}

#[test]
fn the_cache_is_described_and_collected() {
    let test = PipelineTest::new(TWO);
    test.run().ok();
    test.pipe(&["cache", "du"]).ok().says("blobs");
    let listed = json(&test.pipe(&["cache", "ls", "--json"]).ok());
    assert_eq!(listed.as_array().map(Vec::len), Some(3));
    test.pipe(&["cache", "gc"]).ok();
    assert_eq!(test.run().ok().computed(), [""; 0]);
}

#[test]
fn version_names_both_programs() {
    let test = PipelineTest::new(TWO);
    test.pipe(&["--version"]).ok().says("pipe 0.").says("pipe-worker").says("libtorch 2.13");
}
