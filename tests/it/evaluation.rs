//! Evaluating, auditing, predicting and explaining with trained models.

use std::fmt::Write as _;

use pipe_ml::metric::decisions::Decisions;
use serde_json::Value;

use crate::fake_worker::FakeWorker;
use crate::support::{PipelineTest, Ran, worker_program};

/// Both protocols: a model whose thresholds read labels, and an honest model.
const BOTH_PROTOCOLS: &str = "
name: judged
stages:
  data:
    synthetic: { rows: 600, test_rows: 200, features: 300, labels: 40, labels_per_row: 3, features_per_row: 20, seed: 1 }
  idf: { idf: { data: data } }
  paper: { train: { data: data, idf: idf, preset: paper, epochs: 12, net: { hidden: [16] }, optimiser: { lr: 0.02 } } }
  honest: { train: { data: data, idf: idf, preset: honest, epochs: 30, batch: 16, net: { hidden: [16] } } }
  eval: { evaluate: { data: data, model: honest, bootstrap: { replicates: 50 } } }
  oracle: { evaluate: { data: data, model: paper, protocol: oracle, bootstrap: { replicates: 50 } } }
  leak: { audit: { data: data, model: paper, history: paper, protocol: oracle } }
  ceiling: { evaluate: { data: data, model: honest, ceiling: macro, bootstrap: { replicates: 50 } } }
  ceiling-micro: { evaluate: { data: data, model: honest, ceiling: micro, bootstrap: { replicates: 50 } } }
  clean: { audit: { data: data, model: honest, history: honest } }
  strict: { audit: { data: data, model: paper, protocol: oracle, require: pass } }
outputs:
  results/judged/eval/: eval
  results/judged/oracle/: oracle
  results/judged/leak/: leak
  results/judged/clean/: clean
";

fn json(test: &PipelineTest, path: &str) -> Value {
    serde_json::from_str(&test.read(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn a_run_loads_libtorch_once() {
    let test = PipelineTest::new(BOTH_PROTOCOLS);
    let worker = FakeWorker::noting(&test);
    Ran::finish(worker.command(&test, &["run", "pipeline.yaml", "eval", "oracle"])).ok();
    assert_eq!(test.read("started"), "--serve\n");
}

#[test]
fn an_audit_finds_the_oracle_and_passes_the_honest_model() {
    worker_program();
    let test = PipelineTest::new(BOTH_PROTOCOLS);
    let wanted = ["eval", "oracle", "leak", "clean"];
    test.run_with(&["oracle"]).ok();
    test.run_with(&wanted).ok();

    let runs = test.typed("runs --metric macro_f1 --sort --json").ok().json();
    let values = runs.as_array().unwrap().iter().map(|run| &run["metrics"]["macro_f1"]["protocol"]);
    assert_eq!(values.collect::<Vec<_>>(), ["honest", "oracle"], "an oracle value is never the best: {runs}");

    let leak = json(&test, "results/judged/leak/audit.json");
    assert_eq!(
        (leak["passed"].as_bool(), leak["protocol"].as_str()),
        (Some(false), Some("oracle")),
        "{leak}"
    );
    assert!(leak["trials"][0]["changed_decisions"].as_u64().unwrap() > 0, "{leak}");
    let page = test.read("results/judged/leak/audit.md");
    assert!(page.contains("the predictions read the labels"), "{page}");

    let clean = json(&test, "results/judged/clean/audit.json");
    assert_eq!(clean["passed"], true, "{clean}");
    for trial in [0, 1] {
        assert_eq!(clean["trials"][trial]["changed_decisions"], 0, "{clean}");
    }
    assert!(clean["trials"][2]["changed_decisions"].as_u64().unwrap() > 0, "features do matter: {clean}");

    let metric = |stage: &str| -> Value {
        let shown: Value = serde_json::from_str(&test.pipe(&["show", stage, "--json"]).ok().stdout).unwrap();
        shown[0]["manifest"]["metrics"]["macro_f1"].clone()
    };
    assert_eq!(
        (&metric("oracle")["protocol"], &metric("eval")["protocol"]),
        (&"oracle".into(), &"honest".into())
    );
    let shown = test.pipe(&["show", "oracle"]).ok().stdout;
    assert!(
        shown.lines().any(|line| line.starts_with("  macro_f1: ") && line.ends_with(" (oracle)")),
        "{shown}"
    );
    test.pipe(&["show", "eval"]).ok().says("  macro_f1: ");

    // The value in the record is the one that follows from the decisions.
    let record = json(&test, "results/judged/eval/evaluation.json");
    let decisions = Decisions::open(&test.file("results/judged/eval/decisions")).unwrap();
    let counts = pipe_ml::metric::counts::Counts::of(&decisions.truth, &decisions.predicted).unwrap();
    let macro_f1 = pipe_ml::metric::label::Tally::over(counts.iter()).macro_f1();
    assert_eq!(record["evaluation"]["values"]["macro_f1"].as_f64(), Some(macro_f1));
    assert_eq!(test.read("results/judged/eval/labels.jsonl").lines().count(), 40);

    assert_eq!(test.run_with(&wanted).ok().computed(), [""; 0]);
    let strict = test.run_with(&["strict"]).exits_with(1);
    strict.says("require: pass").says("the predictions read the labels");
}

#[test]
fn a_ceiling_is_the_highest_value_of_its_metric_and_is_marked_as_an_oracle() {
    worker_program();
    let test = PipelineTest::new(BOTH_PROTOCOLS);
    test.run_with(&["eval", "ceiling", "ceiling-micro"]).ok().says("no deployed model");
    let value = |stage: &str, metric: &str| {
        let shown = test.pipe(&["show", stage, "--json"]).ok().json();
        let metrics = &shown[0]["manifest"]["metrics"];
        assert_eq!(metrics["bce"].is_null(), stage != "eval", "a ceiling has no loss: {metrics}");
        let protocol = if stage == "eval" { "honest" } else { "oracle" };
        assert_eq!(metrics[metric]["protocol"], protocol);
        metrics[metric]["value"].as_f64().unwrap()
    };
    assert!(value("ceiling", "macro_f1") > value("eval", "macro_f1"));
    assert!(value("ceiling", "macro_f1") >= value("ceiling-micro", "macro_f1"));
    assert!(value("ceiling-micro", "micro_f1") > value("eval", "micro_f1"));
    assert!(value("ceiling-micro", "micro_f1") >= value("ceiling", "micro_f1"));
    test.pipe(&["show", "ceiling"]).ok().says(" (oracle)");
    let runs = test.typed("runs --metric macro_f1 --json").ok().json();
    assert_eq!(runs[0]["metrics"]["macro_f1"]["protocol"], "honest", "a ceiling is never the best: {runs}");
}

#[test]
fn a_signal_that_reads_labels_is_refused_by_the_honest_protocol() {
    let test = PipelineTest::new(
        &BOTH_PROTOCOLS.replace("protocol: oracle, bootstrap", "signal: batch-labels, bootstrap"),
    );
    test.run().exits_with(2).says("only the oracle protocol reads them");
}

/// Returns rows in which feature `l` comes with label `l`, as LIBSVM text counted from 1.
fn rows(from: usize, count: usize) -> String {
    let mut text = String::new();
    for row in from..from + count {
        let (a, b) = (row % 7, 7 + row * 5 % 6);
        let noise = 14 + row * 11 % 30;
        let _ = writeln!(text, "{a},{b} {}:{} {}:1 {noise}:2", a + 1, 1 + row % 3, b + 1);
    }
    text
}

const TRAINED: &str = "
name: trained
stages:
  data:
    load:
      files: { train: train.svm, test: test.svm }
      weight: { tf_idf: true, l2: true }
      filter: { max_features: 30 }
  idf: { idf: { data: data } }
  train:
    matrix: { seed: [0, 1] }
    train: { data: data, idf: idf, preset: honest, seed: \"${matrix.seed}\", epochs: 40, batch: 16, net: { hidden: [16] } }
  eval: { evaluate: { data: data, model: \"train[seed=0]\", bootstrap: { replicates: 10 } } }
outputs: { decisions/: eval.decisions }
";

#[test]
fn predictions_for_a_file_are_the_decisions_of_its_evaluation() {
    worker_program();
    let test = PipelineTest::new(TRAINED);
    test.write("train.svm", rows(0, 300)).write("test.svm", rows(300, 90));
    test.run().ok();
    let decisions = Decisions::open(&test.file("decisions/decisions")).unwrap();

    // Predictions do not depend on the labels in the file.
    let blank: String = test.read("test.svm").lines().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, " {}", line.split_once(' ').unwrap().1);
        text
    });
    test.write("blank.svm", blank);
    let predicted = test.pipe(&["predict", "train[seed=0]", "blank.svm"]).ok().stdout;
    assert_eq!(predicted, test.pipe(&["predict", "train[seed=0]", "test.svm"]).ok().stdout);
    let lines: Vec<Value> = predicted.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 90);
    let mut found = 0;
    for (row, line) in lines.iter().enumerate() {
        let labels: Vec<u64> =
            line["labels"].as_array().unwrap().iter().map(|label| label["label"].as_u64().unwrap()).collect();
        let theirs: Vec<u64> = decisions.predicted.row(row).iter().map(|&label| label.into()).collect();
        assert_eq!(labels, theirs, "row {row}");
        found += labels.len();
    }
    assert!(found > 0, "the model must predict something for this test to mean anything");

    let csv = test.pipe(&[
        "predict",
        "train[seed=0]",
        "test.svm",
        "--format",
        "csv",
        "--top",
        "2",
        "-o",
        "out.csv",
    ]);
    csv.ok();
    assert_eq!(test.read("out.csv").lines().count(), 1 + 2 * 90);

    let explained = test.pipe(&["explain", "train[seed=0]", "--row", "3", "--json"]).ok().stdout;
    let explained: Value = serde_json::from_str(&explained).unwrap();
    let predicted = explained["labels"].as_array().unwrap().iter().filter(|label| label["predicted"] == true);
    assert_eq!(predicted.count(), decisions.predicted.row(3).len());
    let terms = explained["labels"][0]["threshold_terms"].as_array().unwrap();
    let local = terms.iter().find(|term| !term["evidence"].is_null()).unwrap();
    assert_eq!(local["evidence"]["causes"][0]["what"]["kind"], "training_row", "{local}");
    test.pipe(&["explain", "train[seed=0]", "--row", "3", "--input", "test.svm", "--label", "2"])
        .ok()
        .says("(1 - lambda) * beta * local")
        .says("label 2");

    test.pipe(&["predict", "train", "test.svm"]).exits_with(2).says("selects 2 models").says("train[seed=1]");
    test.pipe(&["predict", "idf", "test.svm"]).exits_with(2).says("does not train a model");
    test.pipe(&["predict", "train[seed=0]", "missing.svm"]).exits_with(2).says("missing.svm");
    test.pipe(&["predict", "train[seed=0]", "test.svm", "--signal", "x"])
        .exits_with(2)
        .says("train-neighbours");
    test.pipe(&["explain", "train[seed=0]", "--row", "90"])
        .exits_with(2)
        .says("the rows are numbered from 0 to 89");
    test.pipe(&["explain", "train[seed=0]", "--row", "0", "--label", "x"])
        .exits_with(2)
        .says("`x` is not the number of a label");
    test.write("texts.csv", "text,labels\nhello,a\n");
    test.pipe(&["predict", "train[seed=0]", "texts.csv"]).exits_with(2).says("the model needs numbers");
}

/// The recipe of the quickstart, on rows that can be predicted again.
const RECIPE: &str = "
name: recipe
stages:
  data: { load: { files: { train: train.svm, test: test.svm }, weight: { tf_idf: true, l2: true } } }
  linear: { fit: { data: data, model: { kind: ridge } } }
  neighbours: { fit: { data: data, model: { kind: neighbours } } }
  fused: { fuse: { data: data, models: [linear, neighbours] } }
  recipe: { threshold: { data: data, model: fused, rule: { kind: soft } } }
outputs: { recipe/: recipe.model, data/: data }
";

#[test]
fn an_explanation_of_the_recipe_adds_up_to_its_prediction() {
    worker_program();
    let test = PipelineTest::new(RECIPE);
    test.write("train.svm", rows(0, 300)).write("test.svm", rows(300, 30));
    test.run().ok();
    let lines = test.pipe(&["predict", "recipe", "test.svm", "--top", "13"]).ok().stdout;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |line: &Value| line["labels"].as_array().unwrap().clone();
    let positives = |labels: &[Value]| labels.iter().filter(|label| label["predicted"] == true).count();
    for row in ["0", "23"] {
        let explained = test.pipe(&["explain", "recipe", "--row", row, "--json"]).ok().stdout;
        let explained: Value = serde_json::from_str(&explained).unwrap();
        assert_eq!(explained["protocol"], "honest");
        let (ours, theirs) = (of(&explained), of(&lines[row.parse::<usize>().unwrap()]));
        assert_eq!(positives(&ours), positives(&theirs));
        assert!(positives(&ours) > 0 && positives(&ours) < ours.len(), "{explained}");
        for label in &ours {
            let predicted = theirs.iter().find(|other| other["label"] == label["label"]).unwrap();
            let terms = label["score_terms"].as_array().unwrap();
            let sum: f64 = terms.iter().map(|term| term["value"].as_f64().unwrap()).sum();
            assert!((sum - predicted["score"].as_f64().unwrap()).abs() < 1e-4, "{sum} {predicted}");
            assert_eq!(label["predicted"], predicted["predicted"]);
        }
    }
    let text = test.pipe(&["explain", "recipe", "--row", "0"]).ok();
    assert!(text.stdout.lines().all(|line| line.chars().count() <= 100), "{}", text.stdout);
    text.says("model: ridge, neighbours, fused; soft cuts, prior 50, for macro-F1")
        .says("in the paper's form: z")
        .says("has it  (cosine")
        .says("x * weight, over the features of the row");
    // The directory of a model has the cuts, but not the rule that they were fitted with.
    test.pipe(&["explain", "recipe/model", "--data", "data/dataset", "--row", "0"])
        .ok()
        .says("does not keep");
}

#[test]
fn texts_are_predicted_with_the_vocabulary_of_the_training_rows() {
    worker_program();
    let test = PipelineTest::new(
        "
name: texts
stages:
  data: { vectorise: { files: { train: train.csv, test: test.csv } } }
  idf: { idf: { data: data } }
  train: { train: { data: data, idf: idf, preset: honest, epochs: 60, batch: 16, net: { hidden: [16] }, optimiser: { lr: 0.01 } } }
  eval: { evaluate: { data: data, model: train, bootstrap: { replicates: 10 } } }
outputs: { decisions/: eval.decisions }
",
    );
    let texts = |count: usize| {
        (0..count).fold("text,labels\n".to_owned(), |mut text, row| {
            let (word, label) =
                [("heart lungs", "chest"), ("knee ankle", "leg"), ("elbow wrist", "arm")][row % 3];
            let _ = writeln!(text, "the {word} of patient p{row},{label}");
            text
        })
    };
    test.write("train.csv", texts(90)).write("test.csv", texts(12));
    test.run().ok();
    let bare: String =
        texts(12).lines().map(|line| format!("{}\n", line.split(',').next().unwrap())).collect();
    test.write("bare.csv", bare);
    let predicted = test.pipe(&["predict", "train", "bare.csv"]).ok().stdout;
    let decisions = Decisions::open(&test.file("decisions/decisions")).unwrap();
    for (row, line) in predicted.lines().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        let labels = line["labels"].as_array().unwrap();
        assert_eq!(labels.len(), decisions.predicted.row(row).len(), "row {row}");
        let expected = ["chest", "leg", "arm"][row % 3];
        assert!(labels.iter().any(|label| label["name"] == expected), "row {row}: {line}");
    }

    // A copy elsewhere predicts the same, says if nobody knows it, and is refused if one of its bits is flipped.
    test.pipe(&["get", "train.model", "--to", "copy/"]).ok();
    test.pipe(&["get", "train.model", "--to", "copy/"]).ok();
    test.pipe(&["get", "data.dataset", "--to", "copy/data"]).ok();
    let from_copy = ["predict", "copy/model", "bare.csv", "--data", "copy/data", "--cache-dir", "no-cache"];
    let copied = test.pipe(&from_copy).ok();
    assert_eq!(copied.stdout, predicted);
    assert!(!copied.stderr.contains("undamaged"), "{}", copied.stderr);
    let weights = test.file("copy/model/model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&weights, bytes).unwrap();
    test.pipe(&from_copy).exits_with(2).says("`model.safetensors` is damaged");
    test.pipe(&["get", "train.model", "--to", "copy/"]).exits_with(2).says("--overwrite");
    std::fs::remove_file(test.file("copy/model/B3SUMS")).unwrap();
    test.pipe(&from_copy).says("nothing shows whether `copy/model` is complete and undamaged");
}
