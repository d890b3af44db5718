//! Data sets that are small or unusual: every generated pipeline runs, and no label is predicted for every row.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::support::{PipelineTest, worker_program};

/// Returns a CSV file with the given texts and labels.
fn csv(rows: impl Iterator<Item = (String, String)>) -> String {
    let mut text = "text,labels\n".to_owned();
    for (words, labels) in rows {
        let _ = writeln!(text, "{words},{labels}");
    }
    text
}

/// Lets `pipe init` write a pipeline for `rows.csv`, and runs it.
#[track_caller]
fn run(test: &PipelineTest) -> crate::support::Ran {
    test.typed("init --data rows.csv").ok();
    test.typed("run pipelines/rows.yaml").ok()
}

/// Predicts the labels of `rows.csv`, and checks that no label is predicted for most rows. Returns how often each is.
#[track_caller]
fn predicted(test: &PipelineTest) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for model in ["recipe[macro]", "recipe[micro]", "final[macro]", "final[micro]"] {
        let rows = test.pipe(&["predict", model, "rows.csv"]).ok().events();
        let mut own: HashMap<String, usize> = HashMap::new();
        for label in rows.iter().flat_map(|row| row["labels"].as_array().unwrap()) {
            *own.entry(label["name"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        for (name, count) in own {
            assert!(2 * count < rows.len(), "{model} predicts `{name}` for {count} of {} rows", rows.len());
            *counts.entry(name).or_default() += count;
        }
    }
    counts
}

fn macro_f1(test: &PipelineTest) -> f64 {
    test.typed("show eval[macro] --json").ok().json()[0]["manifest"]["metrics"]["macro_f1"]["value"]
        .as_f64()
        .unwrap()
}

#[test]
fn three_labels_and_three_hundred_rows_with_and_without_features() {
    worker_program();
    let test = PipelineTest::empty();
    let words = ["cat dog", "oak rose", "slate basalt"];
    let rows = (0..300).map(|row| match row % 10 {
        // No words, no labels, or words that say nothing.
        9 => (String::new(), ["animal", "plant", ""][row % 3].to_owned()),
        8 => (format!("other{row}"), "animal".to_owned()),
        _ => (
            format!("{} number{}", words[row % 3], row % 17),
            ["animal", "plant", "stone"][row % 3].to_owned(),
        ),
    });
    test.write("rows.csv", csv(rows));
    let ran = run(&test);
    ran.says("training rows have no features");
    let counts = predicted(&test);
    assert!(["animal", "plant", "stone"].iter().all(|name| counts[*name] > 100), "{counts:?}");
    assert!(macro_f1(&test) > 0.8, "{}", macro_f1(&test));
}

#[test]
fn labels_with_no_or_one_training_row_are_noted_and_rarely_predicted() {
    worker_program();
    let test = PipelineTest::empty();
    let words = ["cat dog", "oak rose", "slate basalt"];
    let row = |row: usize, extra: &str| {
        let label = ["animal", "plant", "stone"][row % 3];
        (format!("{} number{}", words[row % 3], row % 13), format!("{label}{extra}"))
    };
    // One label only in training rows, once each, and one only in test rows.
    test.write(
        "rows-train.csv",
        csv((0..120).map(|at| row(at, &if at < 5 { format!(";once{at}") } else { String::new() }))),
    );
    test.write("rows-test.csv", csv((0..40).map(|at| row(at, if at < 9 { ";new" } else { "" }))));
    test.typed("init pipelines/rows.yaml --data rows-train.csv rows-test.csv").ok();
    let text = test.read("pipelines/rows.yaml");
    let filter = text.lines().find(|line| line.contains("min_label_count")).unwrap().to_owned();
    test.write("pipelines/rows.yaml", text.replace(&filter, ""));
    test.typed("run pipelines/rows.yaml")
        .ok()
        .says("1 of 9 labels have no training row, so that they are never predicted")
        .says("5 of 9 labels have one training row")
        .says("most labels have at most one training row");
    test.write("rows.csv", test.read("rows-test.csv"));
    let counts = predicted(&test);
    assert!(!counts.contains_key("new"), "{counts:?}");
    assert!(counts.keys().all(|name| !name.starts_with("once")), "{counts:?}");
    assert!(["animal", "plant", "stone"].iter().all(|name| counts[*name] > 20), "{counts:?}");
}

#[test]
fn a_thousand_labels_with_one_row_each() {
    worker_program();
    let test = PipelineTest::empty();
    let rows = (0..1000).map(|row| (format!("word{row} term{} common", row % 30), format!("label{row}")));
    test.write("rows.csv", csv(rows));
    run(&test)
        .says("of 1000 labels have no training row")
        .says("most labels have at most one training row")
        .says("no label is ever predicted, because the scores of the training rows say nothing about their labels");
    assert_eq!(predicted(&test), HashMap::new());
}

#[test]
fn numbers_of_any_scale_are_standardised_and_the_choice_is_reported() {
    worker_program();
    let test = PipelineTest::empty();
    let rows = (0..300).map(|row| {
        let class = row % 3;
        let noise = |at: usize| ((row * 7919 + at * 104_729) % 1000) as f64 / 1000.0;
        let height = 1000.0 + 50.0 * class as f64 + 40.0 * noise(1);
        let weight = 0.001 * (if class == 1 { 3.0 } else { 1.0 } + noise(2));
        let third = if row % 5 == 0 { String::new() } else { format!(" 3:{}", 1e6 * noise(3)) };
        format!("{class}{} 1:{height} 2:{weight}{third}\n", if row % 2 == 0 { ",3" } else { "" })
    });
    test.write("rows.svm", rows.collect::<String>());
    test.typed("init --data rows.svm").ok();
    assert!(test.read("pipelines/rows.yaml").contains("weight: auto"));
    test.typed("run pipelines/rows.yaml").ok();
    test.typed("show data").ok().prints("weight: standardise, clip 3, because the features are numbers");
    test.typed("show kernel").ok().prints("distance: euclidean, because the features are standardised");
    assert!(macro_f1(&test) > 0.75, "{}", macro_f1(&test));
    assert!(test.read("results/rows/report.html").contains("standardise, clip 3, because"));
    test.typed("model export recipe[macro] model").ok();
    assert!(test.read("model/README.md").contains("chosen by `weight: auto`: standardise, clip 3"));
    test.typed("explain model --row 0 --input rows.svm").ok().prints("squared distance");
    let expected = test.typed("predict model rows.svm").ok().stdout;
    let (model, rows) = (test.file("model"), test.file("rows.svm"));
    crate::own_data::the_python_reader_decides_like(
        &expected,
        &model.to_string_lossy(),
        &rows.to_string_lossy(),
    );
}
