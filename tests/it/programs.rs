//! Other programs as members of a pipeline: commands that prepare data, predict, or report metrics.

use serde_json::Value;

use crate::support::PipelineTest;

/// Predictions of a command and of a file, values that a command reports, and everything that can be made of them.
const PREDICTED: &str = r#"
name: predicted
stages:
  data: { load: { files: { train: train.svm, test: test.svm, label_names: names.txt } } }
  good: { command: { run: "cp in/file good.csv", inputs: { file: { file: good.csv } }, outputs: [good.csv] } }
  reported: { command: { run: "cp in/file values.json", inputs: { file: { file: values.json } }, outputs: [values.json] } }
  good_eval: { evaluate: { data: data, predictions: good } }
  poor_eval: { evaluate: { data: data, predictions: { file: poor.csv }, threshold: 0 } }
  table:
    table:
      from: [good_eval, poor_eval, reported]
      rows: stage
      columns: [macro_f1, micro_f1]
      names: { good_eval: Good, poor_eval: Poor, reported: Reported }
      significance: { bootstrap: { replicates: 200 } }
  audit: { audit: { data: data, predictions: good } }
  figure: { plot: { eval: [good_eval, poor_eval], figures: [f1-by-frequency] } }
  page: { report: { title: Predicted, evaluations: [good_eval, poor_eval], tables: [table], audits: [audit] } }
outputs: [good_eval, table, audit, figure, page]
"#;

fn predicted() -> PipelineTest {
    let test = PipelineTest::new(PREDICTED);
    let row = |row: usize| format!("{} {}:1\n", row % 3, row % 7);
    test.write("train.svm", (0..30).map(row).collect::<String>());
    test.write("test.svm", (0..60).map(row).collect::<String>());
    test.write("names.txt", "cat\ndog\nfish\n");
    let right = |row: usize| format!("{row},{}\n", ["cat", "dog", "fish"][row % 3]);
    test.write("good.csv", "row,label\n".to_owned() + &(0..60).map(right).collect::<String>());
    let poor =
        |row: usize| format!("{row},{},{}\n", (row / 2) % 3, if row.is_multiple_of(5) { -1 } else { 1 });
    test.write("poor.csv", "row,label,score\n".to_owned() + &(0..60).map(poor).collect::<String>());
    test.write("values.json", r#"{"macro_f1": 0.9999, "micro_f1": 0.25}"#);
    test
}

#[test]
fn predictions_of_programs_become_rows_of_a_table_with_significance() {
    let test = predicted();
    test.run().ok();
    let table = test.read("results/predicted/table.md");
    let line = |name: &str| table.lines().find(|line| line.starts_with(&format!("| {name} |"))).unwrap();
    assert!(line("Good").contains("**1.0000**"), "{table}");
    assert!(line("Poor").contains("\\*"), "{table}");
    // A value that a program reports is marked, and is neither the best nor tested.
    assert!(line("Reported").contains("0.9999‡") && line("Reported").contains("0.2500‡"), "{table}");
    assert!(table.contains("‡ External: reported by a program"), "{table}");
    let tex = test.read("results/predicted/table.tex");
    assert!(tex.contains("0.9999\\rlap{$^{\\ddagger}$}"), "{tex}");
    let csv = test.read("results/predicted/table.csv");
    assert!(csv.lines().any(|line| line.starts_with("reported,macro_f1,honest,external,1,0.9999,")), "{csv}");
    let page = test.read("results/predicted/report.html");
    assert!(page.contains("0.9999‡") && page.contains(">not checked for leaks</span>"), "{page}");
    assert!(test.read("results/predicted/audit.md").contains("Not checked: whether decisions"));
    test.typed("lock pipeline.yaml").ok();
    test.typed("verify pipeline.yaml").ok();
    assert!(!test.read("results/predicted/f1-by-frequency.svg").is_empty());
    let labels = test.typed("labels good_eval").ok().stdout;
    assert!(labels.contains("fish"), "{labels}");
}

#[test]
fn a_table_that_names_outputs_finds_the_decisions_beside_them() {
    let test = predicted();
    test.run().ok();
    let table = test.read("results/predicted/table.md");
    test.edit(
        "pipeline.yaml",
        "cp in/file values.json\", ",
        "cp in/file evaluation.json; echo noise > log.txt\", ",
    );
    test.edit("pipeline.yaml", "outputs: [values.json]", "outputs: [evaluation.json, log.txt]");
    let named = "from: [good_eval.evaluation, poor_eval, reported.evaluation]";
    test.edit("pipeline.yaml", "from: [good_eval, poor_eval, reported]", named);
    test.run().ok();
    assert_eq!(test.read("results/predicted/table.md"), table);
}

#[test]
fn other_predictions_are_evaluated_again_and_compared_with_the_former_ones() {
    let test = predicted();
    test.run().ok();
    test.edit("good.csv", "0,cat\n", "0,dog\n");
    let computed = test.run().ok().computed();
    assert_eq!(computed, ["audit", "figure", "good", "good_eval", "page", "table"], "{computed:?}");
    let record: Value = serde_json::from_str(&test.read("results/predicted/evaluation.json")).unwrap();
    assert!(record["evaluation"]["values"]["macro_f1"].as_f64().unwrap() < 1.0, "{record}");
    test.typed("diff").ok().prints("macro_f1");
}

#[test]
fn predictions_that_cannot_be_judged_fail_the_stage_with_their_line() {
    let test = predicted();
    test.edit("good.csv", "7,dog\n", "7,dgo\n");
    let failed = test.pipe(&["run", "pipeline.yaml", "good_eval"]);
    failed.exits_with(1).says("line 9: no label is called `dgo`: did you mean `dog`?");
    test.edit("values.json", "micro_f1", "micro_f2");
    test.edit("good.csv", "7,dgo\n", "7,dog\n");
    test.pipe(&["run", "pipeline.yaml", "table"])
        .exits_with(1)
        .says("the values of the command [stage=reported]");
}

#[test]
fn reported_values_are_neither_a_baseline_nor_part_of_a_mean() {
    let test = predicted();
    test.edit("pipeline.yaml", "significance: { ", "significance: { baseline: reported, ");
    let table = || test.pipe(&["run", "pipeline.yaml", "table"]);
    table().exits_with(1).says("`reported`, which `significance.baseline` names, reports its values itself");
    test.edit("pipeline.yaml", "baseline: reported, ", "");
    test.edit("pipeline.yaml", "rows: stage", "rows: protocol\n      mean_over: [stage, part]");
    test.edit("pipeline.yaml", "      names: { good_eval: Good, poor_eval: Poor, reported: Reported }\n", "");
    table().exits_with(1).says("values that a command reported cannot be averaged");
}

/// Dense features and labels that a command writes, as an embedding would be.
const EMBEDDED: &str = r#"
name: embedded
stages:
  embed:
    command:
      run: "cp in/features features.npy; cp in/labels labels.txt"
      inputs: { features: { file: features.npy }, labels: { file: labels.txt } }
      outputs: [features.npy, labels.txt]
  data:
    load:
      files: { rows: { stage: embed.features }, labels: { stage: embed.labels } }
      split: { holdout: 0.5, seed: 0 }
  texts:
    command: { run: "cp in/file texts.csv", inputs: { file: { file: texts.csv } }, outputs: [texts.csv] }
  words:
    vectorise: { files: { rows: { stage: texts } }, split: { holdout: 0.5, seed: 0 } }
"#;

#[test]
fn data_that_a_command_prepares_is_loaded_in_the_same_pipeline() {
    let test = PipelineTest::new(EMBEDDED);
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2), }\n";
    let mut features =
        [&b"\x93NUMPY\x01\x00"[..], &(header.len() as u16).to_le_bytes(), header.as_bytes()].concat();
    features.extend((0..8u8).flat_map(|value| f32::from(value).to_le_bytes()));
    test.write("features.npy", features);
    test.write("labels.txt", "0\n1\n0 1\n1\n");
    test.write(
        "texts.csv",
        "text,labels\nred apple,fruit\nblue sky,weather\ngreen tea,drink\nold tree,plant\n",
    );
    test.run().ok();
    let shown = test.typed("show data").ok().stdout;
    assert!(shown.contains("labels: 2") && shown.contains("features: 2"), "{shown}");
    assert_eq!(test.run().ok().computed(), [""; 0]);
    test.write("labels.txt", "0\n1\n0 1\n2\n");
    assert_eq!(test.run().ok().computed(), ["data", "embed"]);

    test.edit("pipeline.yaml", "{ stage: embed.labels }", "embed.labels");
    test.typed("plan pipeline.yaml").exits_with(2).says("write `{ stage: embed.labels }`");
    test.edit("pipeline.yaml", "labels: embed.labels", "labels: { stage: embed.labels }");
    test.edit("pipeline.yaml", "embed.labels", "embed.lables");
    let wrong = test.typed("plan pipeline.yaml");
    wrong.exits_with(2).says("labels");
}
