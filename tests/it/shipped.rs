//! Every pipeline that ships runs.

use std::path::Path;

use crate::support::PipelineTest;

fn quickstart() -> PipelineTest {
    crate::support::worker_program();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines/quickstart.yaml");
    PipelineTest::new(&std::fs::read_to_string(file).unwrap())
}

#[test]
fn quickstart_trains_the_four_variants_and_a_second_run_computes_nothing() {
    let test = quickstart();
    let short = ["--set", "vars.epochs=2"];
    let first = test.run_with(&short).ok();
    let trained = first.computed().into_iter().filter(|name| name.starts_with("train[")).count();
    assert_eq!(trained, 4);
    assert_eq!(test.run_with(&short).ok().computed(), [""; 0]);
    let histories = test.files_below("results/quickstart/history");
    assert_eq!(histories.len(), 4, "{:?}", histories.keys());
    for history in histories.values() {
        let history: serde_json::Value = serde_json::from_slice(history).unwrap();
        assert_eq!(history["epochs"].as_array().map(Vec::len), Some(2));
    }
}

#[test]
fn the_same_training_gives_the_same_bytes_whatever_the_number_of_jobs() {
    let run = |jobs: &str| {
        let test = quickstart();
        test.run_with(&["--set", "vars.epochs=2", "--jobs", jobs, "train[adaptive]"]).ok();
        test.files_below("results/quickstart/history")
    };
    assert_eq!(run("1"), run("2"));
}

/// What needs no files of the paper audit: the data in the shape of AmazonCat-13K.
const GENERATED: &str = "
extends: paper-audit.yaml
name: paper-audit
vars: { scale: 0.003, hidden: [32], amazoncat_epochs: 8 }
stages: { data: null, idf: null, train: null, eval: null, audit: null, blind: null, blind-eval: null, blind-audit: null }
outputs:
  results/paper-audit/audits/: null
  results/paper-audit/blind-audits/: null
  results/paper-audit/evaluations/: null
";

#[test]
fn the_paper_audit_plans_and_its_generated_part_finds_the_leak() {
    crate::support::worker_program();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines/paper-audit.yaml");
    let test = PipelineTest::new(GENERATED);
    test.write("paper-audit.yaml", std::fs::read_to_string(file).unwrap());
    test.pipe(&["plan", "paper-audit.yaml"]).ok().says("blind-audit");
    test.run_with(&["amazoncat-audit[paper,adaptive]"]).ok();
    let pages = test.files_below("results/paper-audit/amazoncat-audits");
    let page = String::from_utf8_lossy(pages.values().next().unwrap()).into_owned();
    assert!(
        page.starts_with("# Audit: FAILED") && page.contains("the predictions read the labels"),
        "{page}"
    );
}

#[test]
fn the_committed_schema_is_the_one_that_pipe_prints() {
    let test = PipelineTest::new("");
    let printed = test.pipe(&["schema"]).ok().stdout;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pipeline.schema.json");
    let committed = std::fs::read_to_string(file).unwrap_or_default();
    assert!(printed == committed, "run: target/release/pipe schema > docs/pipeline.schema.json");
}
