//! Figures of results that other pipelines and other programs computed.

use crate::support::PipelineTest;

const OTHER: &str = "
name: other
stages:
  data:
    synthetic: { rows: 300, test_rows: 100, features: 60, labels: 12, labels_per_row: 2, features_per_row: 8, seed: 1 }
  eval:
    matrix: { variant: [one, all] }
    evaluate: { data: data, predictions: { file: \"${matrix.variant}.csv\" }, bootstrap: { replicates: 20 } }
";

const PIPELINE: &str = "
name: figures
stages:
  across:
    plot:
      files:
        - { file: other.lock, axes: variant }
        - { file: theirs.csv, name: Theirs }
      figures:
        - { kind: bar, name: bars, x: variant, y: [macro_f1, micro_f1], group: source, interval: confidence }
outputs: [across]
";

/// A pipeline that predicts every label of all rows, or only one, with its lock; and one that draws its results.
fn project() -> PipelineTest {
    let test = PipelineTest::new(PIPELINE);
    test.write("other.yaml", OTHER);
    for (file, labels) in [("all.csv", 12), ("one.csv", 1)] {
        let lines = (0..100).flat_map(|row| (0..labels).map(move |label| format!("{row},{label}\n")));
        test.write(file, format!("row,label\n{}", lines.collect::<String>()));
    }
    test.write("theirs.csv", "variant,seed,macro_f1,micro_f1\nsvm,0,0.25,0.5\nsvm,1,0.75,0.5\n");
    test.typed("run other.yaml").ok();
    test.typed("lock other.yaml").ok();
    test
}

#[test]
fn a_figure_shows_the_evaluations_in_the_lock_of_another_pipeline_and_a_csv_file() {
    let test = project();
    test.run().ok();
    let csv = test.read("results/figures/bars.csv");
    assert!(csv.contains("honest,macro_f1,,Theirs,svm,0.5,0.3535533905932738,"), "{csv}");
    let lock = test.read("other.lock");
    let record = lock.split("stage eval[all]").nth(1).unwrap();
    let value = record.lines().find_map(|line| line.strip_prefix("metric macro_f1 ")).unwrap();
    let value: f64 = value.split(' ').next().unwrap().parse().unwrap();
    assert!(csv.contains(&format!("honest,macro_f1,,other,all,{value},,")), "{value}: {csv}");

    assert_eq!(test.run().ok().computed(), [""; 0]);
    test.edit("theirs.csv", "0.75", "0.5");
    test.typed("why pipeline.yaml across").ok().prints("inputs.file_2 changed");
    assert_eq!(test.run().ok().computed(), ["across"]);
}

#[test]
fn a_file_that_cannot_be_read_is_reported_with_its_line_and_column() {
    let test = project();
    test.edit("theirs.csv", "0.75", "a lot");
    let ran = test.typed("run pipeline.yaml").exits_with(1);
    ran.reports("`theirs.csv`, line 3, column 3: `a lot` is not a number");
    test.edit("theirs.csv", "a lot", "0.75").edit("pipeline.yaml", "axes: variant", "axes: []");
    test.typed("run pipeline.yaml").exits_with(1).reports("`eval[all]` does not say on which axis `all` is");
    test.edit("pipeline.yaml", "axes: []", "axes: variant").edit("pipeline.yaml", "micro_f1]", "mikro_f1]");
    test.typed("run pipeline.yaml")
        .exits_with(1)
        .reports("no result has the value `mikro_f1` (did you mean `micro_f1`?)");
    test.edit("pipeline.yaml", "mikro_f1]", "micro_f1]").edit("pipeline.yaml", "other.lock", "other.yaml");
    test.typed("plan pipeline.yaml").exits_with(2).reports("write `other.lock`");
}

#[test]
fn a_table_with_a_row_for_each_stage_may_have_one_row() {
    let test = project();
    test.write(
        "pipeline.yaml",
        format!(
            "{}  one: {{ table: {{ from: \"eval[all]\", rows: stage, columns: [macro_f1, micro_f1] }} }}\noutputs: [one]\n",
            OTHER.replace("name: other", "name: figures")
        ),
    );
    test.run().ok();
    let table = test.read("results/figures/table.md");
    assert!(
        table.contains("| Stage | Macro F1 ↑ | Micro F1 ↑ |") && table.contains("| eval | 0."),
        "{table}"
    );
}
