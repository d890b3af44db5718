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
fn a_pipeline_is_named_in_the_same_ways_everywhere() {
    let test = PipelineTest::new(TWO);
    test.pipe(&["run"]).exits_with(2).says("which pipeline?");
    test.pipe(&["run", "-f", "pipeline.yaml", "fit[static]"]).ok();
    test.pipe(&["run", "table"]).ok();
    for words in
        [&["plan"][..], &["status"], &["graph"], &["why", "table"], &["show", "table"], &["logs", "table"]]
    {
        test.pipe(words).ok();
        let behind: Vec<&str> = words.iter().copied().chain(["-f", "pipeline.yaml"]).collect();
        test.pipe(&behind).ok();
        let before: Vec<&str> = [&words[..1], &["pipeline.yaml"], &words[1..]].concat();
        test.pipe(&before).ok();
        let twice: Vec<&str> = before.into_iter().chain(["-f", "other.yaml"]).collect();
        test.pipe(&twice).exits_with(2).says("named twice");
    }
    for words in
        [&["lock"][..], &["verify"], &["export", "-o", "x.tar.zst"], &["provenance", "--ro-crate", "x"]]
    {
        let behind: Vec<&str> = words.iter().copied().chain(["-f", "pipeline.yaml"]).collect();
        test.pipe(&behind).ok();
    }
    test.pipe(&["plan", "tabel"]).exits_with(2).says("did you mean `table`?");
    test.pipe(&["status", "table"]).exits_with(2).says("no file `table`").says("pipe show table");
    test.pipe(&["why", "pipeline.yaml"]).exits_with(2).says("name the stage");
    test.pipe(&["table", "table"]).exits_with(2).says("the pipeline has no `table` stage");
}

#[test]
fn a_reference_to_the_wrong_stage_says_which_ones_are_right() {
    let yaml = "
name: wrong
stages:
  data: { synthetic: { rows: 50, test_rows: 10, features: 20, labels: 5, labels_per_row: 1, features_per_row: 2 } }
  linear: { fit: { data: data, model: { kind: ridge } } }
  idf: { idf: { data: data } }
  train: { matrix: { variant: [adaptiv, static] }, train: { data: data, idf: idf, variant: \"${matrix.variant}\" } }
  cut: { threshold: { data: data, model: data } }
  judged: { evaluate: { data: data, model: \"train[adaptive]\" } }
  t: { table: { from: judged, rows: stage, columns: macro_f1, digits_of: { macro_f9: 2 } } }
";
    let said = PipelineTest::new(yaml).pipe(&["plan", "pipeline.yaml"]).exits_with(2);
    let said = said
        .says("`data` produces `dataset`, but `cut.model` needs `model` and `scores`")
        .says("pipeline.yaml:8:42")
        .says("stages that produce it: `linear`")
        .says("`variant` cannot be `adaptiv`")
        .says("macro_f9: 2 } } }\n   |")
        .stderr;
    assert_eq!(said.matches("error:").count(), 3, "{said}");
    let caret = said.lines().skip_while(|line| !line.contains("digits_of: {")).nth(1).unwrap();
    assert!(caret.trim_end().ends_with("^^^^^^^^"), "{said}");
}

#[test]
fn what_is_no_bundle_is_said_to_be_none() {
    let test = PipelineTest::new(TWO);
    test.write("notes.txt", "no archive at all");
    test.pipe(&["import", "notes.txt"]).exits_with(2).says("notes.txt: it is no bundle of `pipe export`");
}

#[test]
fn the_environment_does_not_show_in_usage_lines() {
    let test = PipelineTest::new(TWO);
    let output = test.command(&["why"]).env("PIPE_DATA_DIR", "elsewhere").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("Usage: pipe why") && !said.contains("--data-dir"), "{said}");
    let output =
        test.command(&["data", "path", "bibtex"]).env("PIPE_DATA_DIR", "elsewhere").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("is not in elsewhere"), "{said}");
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
