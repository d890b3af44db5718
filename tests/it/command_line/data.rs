//! `pipe data`, `pipe metrics`, `pipe schema`, `pipe predict` and `pipe explain`.

use super::fits;
use crate::support::PipelineTest;

#[test]
fn data_sets_are_listed_and_described() {
    let test = PipelineTest::empty();
    test.typed("data list").ok().prints("bibtex").prints("medical").reports_nothing();
    test.typed("data info bibtex").ok().prints("bibtex").reports("`pipe data fetch bibtex`");
    test.typed("data path bibtex").refuses("`pipe data fetch bibtex`");
    assert!(!test.file("data").exists(), "looking must not write");
}

#[test]
fn the_data_set_that_was_probably_meant_is_suggested() {
    let test = PipelineTest::empty();
    for command in ["info", "fetch", "path"] {
        test.typed(&format!("data {command} bibtx")).refuses("`bibtex`");
        test.typed(&format!("data {command}")).exits_with(2).reports("<DATASET>");
    }
    test.typed("data").exits_with(2).reports("Usage");
}

#[test]
fn metrics_are_listed_with_their_definitions() {
    let test = PipelineTest::empty();
    test.typed("metrics")
        .ok()
        .prints("macro_f1 (higher is better)")
        .prints("2TP / (2TP + FP + FN)")
        .reports_nothing();
    let one = test.typed("metrics macro_f1").ok();
    assert_eq!(one.stdout.lines().count(), 2, "{}", one.stdout);
    let listed = test.typed("metrics --json").ok().json();
    let bce = listed.as_array().unwrap().iter().find(|metric| metric["name"] == "bce").unwrap();
    assert_eq!(bce["direction"], "lower");
    test.typed("metrics macro_fi").refuses("did you mean `macro_f1`?");
}

#[test]
fn the_schema_knows_every_kind_that_the_help_of_the_language_names() {
    let schema = PipelineTest::empty().typed("schema").ok().reports_nothing().json();
    let text = schema.to_string();
    for kind in ["command", "load", "synthetic", "train", "evaluate", "table", "plot", "report"] {
        assert!(text.contains(&format!("\"{kind}\"")), "{kind}");
    }
}

#[test]
fn predictions_need_a_model_and_rows() {
    let test = fits();
    test.write("rows.svm", "1 1:1\n");
    test.typed("predict").exits_with(2).reports("<MODEL>");
    test.typed("predict table").exits_with(2).reports("<INPUT>");
    test.typed("predict table rows.svm").refuses("model");
    test.typed("predict tabel rows.svm").refuses("table");
    test.typed("predict nowhere/model rows.svm").refuses("nowhere/model");
    test.typed("predict table rows.svm --format xml").refuses("jsonl");
    test.typed("predict table rows.svm --signal x").refuses("train-neighbours");
    test.typed("explain table").exits_with(2).reports("--row");
    test.typed("explain table --row 0").refuses("model");
    test.typed("explain table --row minus").refuses("--row");
}

#[test]
fn a_data_set_in_a_directory_is_described() {
    let test = PipelineTest::new(
        "
name: made
stages:
  data: { synthetic: { rows: 50, test_rows: 10, features: 20, labels: 5, labels_per_row: 1, features_per_row: 2 } }
outputs: { made/: data }
",
    );
    test.run().ok();
    let path = test.files_below("made").into_keys().find(|path| path.ends_with("meta.json")).unwrap();
    let directory = format!("made/{}", path.parent().unwrap().display());
    test.typed(&format!("data info {directory}")).ok().prints("50").reports_nothing();
    let info = test.typed(&format!("data info {directory} --json")).ok().json();
    assert_eq!(info["parts"][0]["rows"], 50, "{info}");
}

#[test]
fn a_damaged_directory_is_refused_with_the_file_and_the_reason() {
    let test = PipelineTest::new(
        "{ name: made, stages: { data: { synthetic: { rows: 50, test_rows: 10, features: 40, labels: 6, labels_per_row: 2, \
         features_per_row: 5 } } }, outputs: { results/made/: data } }",
    );
    test.run().ok();
    let directory = "results/made/dataset";
    test.typed(&format!("data info {directory}")).ok();
    // The last offset but one of the rows: not in the header, which has a checksum of its own.
    let labels = format!("{directory}/train/labels.csr");
    let mut bytes = std::fs::read(test.file(&labels)).unwrap();
    let end = bytes.len();
    bytes[end - 16..end - 8].fill(0x7f);
    test.remove(&labels).write(&labels, bytes);
    test.typed(&format!("data info {directory}")).refuses("labels.csr").reports("offsets");
}
