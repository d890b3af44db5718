//! What commands say about runs that were: with which settings, and what of it lies in `results/`.

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
fn the_list_of_runs_says_what_was_set() {
    let test = PipelineTest::new(VARIANTS);
    test.run_with(&["--set", "vars.x=a b"]).ok();
    test.pipe(&["runs"]).ok().says("--set 'vars.x=a b'");
    test.pipe(&["runs", "show"]).ok().says("--set 'vars.x=a b'");
    assert_eq!(json(&test.pipe(&["runs", "--json"]).ok())[0]["set"][0], "vars.x=a b");
}

const READS_FILES: &str = "
name: files
stages:
  count:
    command:
      run: wc -l < in/rows > count.txt
      inputs: { rows: { file: data/rows.csv } }
      outputs: [count.txt]
  other: { command: { run: echo 1 > other.txt, outputs: [other.txt] } }
";

#[test]
fn a_file_of_the_users_that_is_not_here_is_told_at_its_place_before_anything_runs() {
    let test = PipelineTest::new(READS_FILES);
    for command in ["run", "plan"] {
        let refused = test.pipe(&[command, "pipeline.yaml"]).exits_with(2);
        let refused = refused
            .says("there is no `data/rows.csv`: the directory `data` is missing")
            .says("pipeline.yaml:7:31")
            .says("^^^^^^^^^^^^^");
        assert!(!refused.stderr.contains("start"), "{}", refused.stderr);
    }
    assert!(!test.file("cache").exists());
    test.write("data/other.csv", "");
    test.pipe(&["run", "pipeline.yaml"]).exits_with(2).says("error: there is no `data/rows.csv`\n");
    test.pipe(&["status", "pipeline.yaml"]).ok().says("cannot run");
    assert_eq!(test.run_with(&["other"]).ok().computed(), ["other"], "only what is asked for has to be here");
    test.pipe(&["plan", "pipeline.yaml", "other"]).ok();
    test.write("data/rows.csv", "1\n");
    assert_eq!(test.run().ok().computed(), ["count"]);
}

#[test]
fn a_published_table_that_is_not_here_is_told_at_its_place() {
    let test = PipelineTest::new(
        "
name: tables
vars: { published: paper/figures.yaml }
stages:
  data: { synthetic: { rows: 200, test_rows: 20, features: 300, labels: 40 } }
  ridge: { fit: { data: data, model: { kind: ridge } } }
  score: { evaluate: { data: data, model: ridge } }
  table:
    table:
      from: score
      rows: protocol
      columns: macro_f1
      reference: { file: \"${vars.published}\" }
",
    );
    let refused = test.pipe(&["plan", "pipeline.yaml"]).exits_with(2);
    refused.says("there is no `paper/figures.yaml`").says("pipeline.yaml:13:26");
}

#[test]
fn a_file_that_the_pipeline_itself_places_may_come_later() {
    let test = PipelineTest::new(
        "
name: round
stages:
  first: { command: { run: echo 1 > first.txt, outputs: [first.txt] } }
  second: { command: { run: cp in/first second.txt, inputs: { first: { file: ./results/round/first.txt } }, outputs: [second.txt] } }
outputs: [first]
",
    );
    test.run_with(&["--keep-going"]).exits_with(1);
    assert_eq!(test.run().ok().computed(), ["second"]);
}

#[test]
fn data_sets_of_stages_that_are_not_asked_for_are_left_alone() {
    let test = PipelineTest::new(
        "
name: two
stages:
  data: { load: { dataset: bibtex } }
  small: { command: { run: echo 1 > small.txt, outputs: [small.txt] } }
",
    );
    assert_eq!(test.run_with(&["--offline", "small"]).ok().computed(), ["small"]);
    test.run_with(&["--offline"]).exits_with(2).says("bibtex");
}

/// A project whose lock is up to date.
fn locked() -> PipelineTest {
    let test = PipelineTest::new(VARIANTS);
    test.run().ok();
    test.pipe(&["lock", "pipeline.yaml"]).ok();
    test
}

#[test]
fn a_lock_that_cannot_be_read_stops_a_run_before_it_starts() {
    let test = locked();
    let good = test.read("pipeline.lock");
    for (content, flaw) in
        [("", "it is empty"), ("garbage\n", "line 1: it is no lock"), (&good[..200], "cut short")]
    {
        test.write("pipeline.lock", content);
        let refused = test.run().exits_with(2).says(flaw).says("Nothing was run");
        assert_eq!(refused.stderr.matches("pipeline.lock").count(), 1, "{}", refused.stderr);
        assert_eq!(test.read("pipeline.lock"), content);
        let verified = test.pipe(&["verify", "pipeline.yaml"]).exits_with(2).says(flaw);
        assert_eq!(verified.stdout.matches("pipeline.lock").count(), 1, "{}", verified.stdout);
    }
    test.run_with(&["value"]).ok();
    std::fs::remove_file(test.file("pipeline.lock")).unwrap();
    test.run().ok();
}

#[test]
fn a_lock_that_was_edited_is_replaced_with_a_warning_and_kept_beside() {
    let test = locked();
    let good = test.read("pipeline.lock");
    let edited = good.replace("echo 1", "echo 7");
    assert_ne!(edited, good);
    test.write("pipeline.lock", &edited);
    test.run()
        .ok()
        .says("warning: in pipeline.lock, what is recorded of `value` was edited")
        .says("pipeline.lock.bad");
    assert_eq!(test.read("pipeline.lock"), good);
    assert_eq!(test.read("pipeline.lock.bad"), edited);
}

#[test]
fn a_kept_edit_is_told_at_the_end_and_fails_a_locked_run() {
    let test = locked();
    test.write("results/paper/table.tex", "my own\n");
    let ran = test.pipe(&["run", "pipeline.yaml"]).ok();
    let last = ran.stderr.lines().last().unwrap();
    assert!(last.contains("not replaced: results/paper/table.tex"), "{}", ran.stderr);
    test.pipe(&["run", "pipeline.yaml", "--locked"])
        .exits_with(1)
        .says("not replaced: results/paper/table.tex");
    assert_eq!(test.read("results/paper/table.tex"), "my own\n");
    test.pipe(&["run", "pipeline.yaml", "--locked", "--overwrite"]).ok();
}

#[test]
fn a_stage_that_failed_is_not_said_to_have_never_run() {
    let test = PipelineTest::new(
        "
name: failing
stages:
  bad: { command: { run: test -e \"$FLAG\"; echo 1 > bad.txt, outputs: [bad.txt], env: [FLAG] } }
  after: { command: { run: cp in/bad after.txt, inputs: { bad: bad }, outputs: [after.txt] } }
",
    );
    test.run().exits_with(1);
    let sentence = format!("it failed in run {}, and nothing is cached for it", run_id(&test));
    test.pipe(&["plan"]).ok().says(&sentence).says("never run before");
    let why = json(&test.pipe(&["why", "bad", "--json"]).ok());
    assert_eq!((&why[0]["why"]["reason"], &why[0]["why"]["run"]), (&"failed".into(), &run_id(&test).into()));
    test.pipe(&["run", "pipeline.yaml"]).exits_with(1).says(&sentence);
    let output = test.command(&["run", "pipeline.yaml"]).env("FLAG", test.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    test.pipe(&["plan"]).ok().says("env.FLAG");
}

#[test]
fn damage_in_the_cache_is_told_once() {
    let test = PipelineTest::new(VARIANTS);
    test.run().ok();
    for (name, content) in test.files_below("cache/v2/blobs") {
        let path = test.file("cache/v2/blobs").join(name);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, [b"x", content.as_slice()].concat()).unwrap();
    }
    for command in ["plan", "run"] {
        let ran = test.pipe(&[command, "pipeline.yaml"]).ok().says("its result in the cache is damaged");
        assert_eq!(ran.stderr.matches("the result of value").count(), 1, "{}", ran.stderr);
        assert!(!ran.stdout.contains("blob"), "{}", ran.stdout);
    }
    assert_eq!(test.read("results/paper/table.tex"), "1\n");
}

#[test]
fn every_failure_is_one_json_object_for_who_asks_for_json() {
    let test =
        PipelineTest::new("name: wrong\nstages:\n  one: { command: { run: x, outputs: [x], shel: bash } }\n");
    for command in ["run", "plan", "status"] {
        let error = json(
            &test.pipe(&[command, "pipeline.yaml", "--json"]).exits_with(2).says("did you mean `shell`?"),
        );
        assert_eq!((&error["event"], &error["code"]), (&"error".into(), &2.into()), "{error}");
        assert_eq!((&error["file"], &error["line"]), (&"pipeline.yaml".into(), &3.into()), "{error}");
        assert_eq!((&error["column"], &error["problems"][0]["column"]), (&43.into(), &43.into()), "{error}");
        assert_eq!(error["hint"], "did you mean `shell`?");
        assert_eq!(error["message"], "`command` has no parameter `shel`");
    }
    for words in [&["diff", "--json"][..], &["runs", "show", "--json"], &["plan", "none.yaml", "--json"]] {
        let error = json(&test.pipe(words).exits_with(2));
        assert!(error["message"].is_string() && error["line"].is_null(), "{error}");
        let problems = error["problems"].as_array().unwrap();
        assert!(problems.iter().all(|problem| problem["line"].is_null()), "{error}");
    }
    let error = json(&test.pipe(&["run", "pipeline.yaml", "--json", "--jobs", "0"]).exits_with(2));
    assert!(error["message"].as_str().unwrap().contains("--jobs"), "{error}");
    assert_eq!(test.pipe(&["status", "pipeline.yaml"]).exits_with(2).stdout, "");
}

#[test]
fn who_has_no_pipeline_yet_is_told_how_to_get_one() {
    let test = PipelineTest::new("");
    std::fs::remove_file(test.file("pipeline.yaml")).unwrap();
    for words in [&["plan"][..], &["run"], &["run", "pipelines/x.yaml"], &["graph"]] {
        test.pipe(words).exits_with(2).says("`pipe init`");
    }
}

#[test]
fn every_placed_file_is_listed() {
    let names: Vec<String> = (0..14).map(|n| format!("f{n}.txt")).collect();
    let list = names.join(", ");
    let run = names.iter().map(|name| format!("echo > {name}")).collect::<Vec<_>>().join("; ");
    let yaml = format!(
        "name: many\nstages:\n  all: {{ command: {{ run: \"{run}\", outputs: [{list}] }} }}\noutputs: [all]\n"
    );
    let test = PipelineTest::new(&yaml);
    assert_eq!(test.pipe(&["run", "pipeline.yaml"]).ok().stdout.lines().count(), names.len());
}

#[test]
fn timings_are_no_difference_between_runs_unless_asked_for() {
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
        let difference = json(&test.pipe(&[&["diff", "--json"], args].concat()).ok());
        let outputs = difference["changed"][0]["outputs"].as_array().unwrap().clone();
        outputs.iter().map(|output| output["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(outputs(&[]), ["history", "model"]);
    assert_eq!(outputs(&["--volatile"]), ["history", "model", "timings"]);
}

const GIVES: &str = "
name: gives
vars: { word: hello }
stages:
  one:
    matrix: { n: [1, 2] }
    command: { run: \"echo ${vars.word} ${matrix.n} > one.txt\", outputs: [one.txt] }
  two: { command: { run: \"mkdir tree; echo a > tree/a; printf '\\\\0b' > raw.bin\", outputs: [tree, raw.bin] } }
";

#[test]
fn get_prints_a_file_and_copies_anything() {
    let test = PipelineTest::new(GIVES);
    test.pipe(&["get", "pipeline.yaml", "one[n=1]"]).exits_with(1).says("pipe run pipeline.yaml 'one[n=1]'");
    test.run().ok();
    assert_eq!(test.pipe(&["get", "pipeline.yaml", "one[n=2]"]).ok().stdout, "hello 2\n");
    assert_eq!(test.pipe(&["get", "pipeline.yaml", "one[n=1].one", "--to", "-"]).ok().stdout, "hello 1\n");
    assert_eq!(test.pipe(&["get", "pipeline.yaml", "two.raw"]).ok().stdout, "\0b");
    let copied = test.pipe(&["get", "pipeline.yaml", "two.tree", "--to", "copies/"]).ok();
    assert_eq!(copied.stdout, "copies/tree\n");
    assert_eq!(test.read("copies/tree/a"), "a\n");
    test.pipe(&["get", "pipeline.yaml", "two.raw", "--to", "copies"]).ok();
    assert_eq!(test.read("copies/raw.bin"), "\0b");
    test.pipe(&["get", "pipeline.yaml", "one[n=1]", "--set", "vars.word=bye"]).exits_with(1);
}

#[test]
fn get_asks_which_and_never_overwrites_unasked() {
    let test = PipelineTest::new(GIVES);
    test.run().ok();
    test.pipe(&["get", "pipeline.yaml", "one"]).exits_with(2).says("one[n=1], one[n=2]");
    test.pipe(&["get", "pipeline.yaml", "two"]).exits_with(2).says("`raw`, `tree`");
    test.pipe(&["get", "pipeline.yaml", "two.treee"]).exits_with(2).says("`raw`, `tree`");
    test.pipe(&["get", "pipeline.yaml", "two.tree"]).exits_with(2).says("--to PATH");
    test.write("mine.txt", "mine\n");
    test.pipe(&["get", "pipeline.yaml", "one[n=1]", "--to", "mine.txt"]).exits_with(2).says("--overwrite");
    assert_eq!(test.read("mine.txt"), "mine\n");
    test.pipe(&["get", "pipeline.yaml", "one[n=1]", "--to", "mine.txt", "--overwrite"]).ok();
    assert_eq!(test.read("mine.txt"), "hello 1\n");
}
