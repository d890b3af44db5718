//! Files of the user that stages read, and files that the pipeline places.

use crate::support::PipelineTest;

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
fn a_missing_file_is_reported_at_its_place_before_anything_runs() {
    let test = PipelineTest::new(READS_FILES);
    for command in ["run", "plan"] {
        let refused = test.pipe(&[command, "pipeline.yaml"]).exits_with(2);
        let refused =
            refused.says("`data/rows.csv`").says("`data`").says("pipeline.yaml:7:31").says("^^^^^^^^^^^^^");
        assert!(!refused.stderr.contains("start"), "{}", refused.stderr);
    }
    assert!(!test.file("cache").exists());
    test.write("data/other.csv", "");
    test.pipe(&["run", "pipeline.yaml"]).exits_with(2).says("`data/rows.csv`");
    test.pipe(&["status", "pipeline.yaml"]).ok().says("cannot run");
    assert_eq!(
        test.run_with(&["other"]).ok().computed(),
        ["other"],
        "only the files of selected stages are needed"
    );
    test.pipe(&["plan", "pipeline.yaml", "other"]).ok();
    test.write("data/rows.csv", "1\n");
    assert_eq!(test.run().ok().computed(), ["count"]);
}

#[test]
fn a_pipe_is_refused_before_it_is_read() {
    let test = PipelineTest::new(READS_FILES);
    std::fs::create_dir(test.file("data")).unwrap();
    std::process::Command::new("mkfifo").arg(test.file("data/rows.csv")).status().unwrap();
    test.pipe(&["run", "pipeline.yaml"])
        .exits_with(2)
        .says("is a pipe, which can be read only once")
        .says("pipeline.yaml:7");
}

#[test]
fn a_missing_published_table_is_reported_at_its_place() {
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
    refused.says("`paper/figures.yaml`").says("pipeline.yaml:13:26");
}

#[test]
fn a_file_that_the_pipeline_places_may_be_missing_at_first() {
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
