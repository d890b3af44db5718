//! Tests of all models: the scores of a row never depend on its own labels, and closed forms agree with refitting.

use std::path::Path;

use pipe_ml::config::device::Device;
use pipe_ml::config::model::{ModelBody, ModelConfig};
use pipe_ml::data::examples::Unlabelled;
use pipe_ml::data::random::Random;
use pipe_ml::explanation::CauseSubject;
use pipe_ml::score::ScoreOrigin;
use pipe_ml::score::table::{ScoreTable, ScoreTableSpec};

use super::cross_fit::{cross_fit, folds};
use super::*;
use crate::train::host::SilentHost;

/// Returns random rows, and labels that partly depend on their features.
pub fn training_data(rows: usize, features: usize, labels: usize) -> TrainingData {
    let mut random = Random::new("fit test", 11);
    let (mut indptr, mut indices, mut values, mut targets) = (vec![0u64], vec![], vec![], vec![]);
    for _ in 0..rows {
        let mut row = Vec::new();
        for feature in 0..features {
            if random.unit() < 0.4 {
                indices.push(feature as u32);
                values.push(random.unit() as f32 + 0.1);
                row.push((feature % labels) as u32);
            }
        }
        row.retain(|_| random.unit() < 0.4);
        indptr.push(indices.len() as u64);
        targets.push(row);
    }
    let features =
        Csr { cols: features, indptr: indptr.into(), indices: indices.into(), values: values.into() };
    TrainingData { features, labels: Csr::from_rows(labels, &targets) }
}

fn model(yaml: &str) -> ModelConfig {
    let json: serde_json::Value = serde_json::from_str(yaml).unwrap();
    serde_json::from_value::<ModelBody>(json).unwrap().resolve(0, Device::Cpu).unwrap()
}

fn fitted(model: &ModelConfig, data: TrainingData) -> Box<dyn FittedModel> {
    // The model keeps a directory of its own there for as long as it lives.
    let (mut host, scratch) = (SilentHost, std::env::temp_dir());
    let mut context = FitContext {
        seed: 4,
        device: tch::Device::Cpu,
        threads: 1,
        checkpoints: None,
        scratch: &scratch,
        host: &mut host,
    };
    crate::engine::pool::pool(1).unwrap().install(|| fit(model, data, &mut context).unwrap())
}

fn left_out(model: &ModelConfig, data: &TrainingData, row: usize) -> Vec<f32> {
    let mut scores = vec![9.0; data.labels.cols];
    fitted(model, data.clone()).left_out().unwrap().scores(row, &mut scores);
    scores
}

fn scores(scorer: &mut dyn Scorer, features: &Csr, rows: &[u32]) -> Vec<f32> {
    let mut scores = vec![9.0; rows.len() * scorer.labels()];
    scorer.score(Unlabelled { features, rows }, &mut scores).unwrap();
    scores
}

fn close(a: &[f32], b: &[f32], within: f32) {
    let worst = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(a.len() == b.len() && worst < within, "{worst}");
}

const CLOSED: [&str; 4] = [
    r#"{"kind": "ridge", "ridge": 0.5}"#,
    r#"{"kind": "kernel_ridge"}"#,
    r#"{"kind": "block_kernel_ridge", "rows_per_block": 1000}"#,
    r#"{"kind": "neighbours", "neighbours": 5}"#,
];

/// Trees that score each training row without its labels, but not in closed form.
const EXTRA: &str = r#"{"kind": "extra_trees", "trees": 20}"#;

/// A tree with three levels for six labels.
const TREE: &str = r#"{"kind": "label_tree", "largest_leaf": 2, "beam": 2}"#;

/// A network whose thresholds look at the labels of neighbours.
const ADAPTIVE: &str = r#"{"kind": "mlp", "variant": "adaptive", "epochs": 2, "net": {"hidden": [3]}, "signal": {"neighbours": 4}, "threshold": {"beta_init": 2}}"#;

#[test]
fn variants_of_the_thresholds_score_each_row_alone_and_after_loading() {
    let data = training_data(40, 8, 4);
    let all: Vec<u32> = (0..40).collect();
    let with = |change: &str| ADAPTIVE.replace(r#""threshold": {"#, &format!(r#""threshold": {{{change}, "#));
    let learned = r#""signal": {"train": "prototypes", "predict": "prototypes", "prototypes": 2"#;
    let learned = ADAPTIVE.replace(r#""signal": {"neighbours": 4"#, learned);
    for yaml in [with(r#""fallback": true"#), with(r#""global": "salience", "alpha_init": 2"#), learned] {
        let chosen = model(&yaml);
        let mut fitted_model = fitted(&chosen, data.clone());
        let together = scores(fitted_model.scorer(), &data.features, &all);
        let plain = scores(fitted(&model(ADAPTIVE), data.clone()).scorer(), &data.features, &all);
        assert_ne!(together, plain, "{yaml}");
        let temp = tempfile::tempdir().unwrap();
        fitted_model.save(temp.path()).unwrap();
        let size = ModelSize { features: 8, labels: 4 };
        let mut loaded = load(&chosen, temp.path(), size, Device::Cpu, 1).unwrap();
        let alone: Vec<f32> =
            all.iter().flat_map(|&row| scores(&mut *loaded, &data.features, &[row])).collect();
        assert_eq!(together, alone, "{yaml}");
    }
}

#[test]
fn the_thresholds_of_a_network_use_the_neighbours_among_the_training_rows_of_each_row_alone() {
    let data = training_data(40, 8, 4);
    let all: Vec<u32> = (0..40).collect();
    let (adaptive, plain) = (model(ADAPTIVE), model(&ADAPTIVE.replace("adaptive", "idf-only")));
    let mut fitted_model = fitted(&adaptive, data.clone());
    let together = scores(fitted_model.scorer(), &data.features, &all);
    let alone = |row: u32| scores(fitted_model.scorer(), &data.features, &[row]);
    let alone: Vec<f32> = all.iter().copied().flat_map(alone).collect();
    assert_eq!(together, alone);
    // The same network, with neighbours that have no labels.
    let temp = tempfile::tempdir().unwrap();
    fitted_model.save(temp.path()).unwrap();
    let unlabelled = Csr::from_rows(4, &vec![Vec::<u32>::new(); 40]);
    pipe_ml::data::artifact::write_csr(&temp.path().join("labels.csr"), &unlabelled).unwrap();
    let size = ModelSize { features: 8, labels: 4 };
    let mut without = load(&adaptive, temp.path(), size, Device::Cpu, 1).unwrap();
    assert_ne!(together, scores(&mut *without, &data.features, &all), "the neighbours count");
    let other = tempfile::tempdir().unwrap();
    fitted(&plain, data).save(other.path()).unwrap();
    assert!(!other.path().join("labels.csr").exists(), "without a local signal no rows are kept");
}

#[test]
fn leave_one_out_scores_in_closed_form_agree_with_refitting_without_the_row() {
    for (rows, features) in [(40, 9), (20, 30)] {
        let data = training_data(rows, features, 6);
        for yaml in CLOSED {
            let model = model(yaml);
            for row in [0, 7, rows - 1] {
                let others: Vec<u32> = (0..rows as u32).filter(|&other| other != row as u32).collect();
                let without = TrainingData {
                    features: data.features.select_rows(&others),
                    labels: data.labels.select_rows(&others),
                };
                let expected = scores(fitted(&model, without).scorer(), &data.features, &[row as u32]);
                close(&left_out(&model, &data, row), &expected, 2e-5);
            }
        }
    }
}

/// Returns the same rows, with the labels of one row inverted.
fn relabelled(data: &TrainingData, row: usize) -> TrainingData {
    let labels = data.labels.cols as u32;
    let row_labels = |at: usize| -> Vec<u32> {
        let own = data.labels.row(at);
        if at == row { (0..labels).filter(|label| !own.contains(label)).collect() } else { own.to_vec() }
    };
    let rows: Vec<_> = (0..data.labels.rows()).map(row_labels).collect();
    TrainingData { features: data.features.clone(), labels: Csr::from_rows(labels as usize, &rows) }
}

#[test]
fn leave_one_out_scores_do_not_depend_on_the_labels_of_the_row() {
    let data = training_data(60, 12, 5);
    let several = r#"{"kind": "block_kernel_ridge", "rows_per_block": 20, "largest_block": 30}"#;
    for yaml in CLOSED.into_iter().chain([several, EXTRA]) {
        let model = model(yaml);
        let other = relabelled(&data, 13);
        close(&left_out(&model, &data, 13), &left_out(&model, &other, 13), 2e-5);
        let moved = (0..60).any(|row| left_out(&model, &data, row) != left_out(&model, &other, row));
        assert!(moved, "{yaml}: no row learns from row 13");
    }
}

fn crossed(model: &ModelConfig, data: &TrainingData, keep: &Path, output: &Path) -> ScoreTable {
    let (mut host, scratch) = (SilentHost, tempfile::tempdir().unwrap());
    let mut context = FitContext {
        seed: 4,
        device: tch::Device::Cpu,
        threads: 1,
        checkpoints: None,
        scratch: scratch.path(),
        host: &mut host,
    };
    let purpose = ScoreTableSpec {
        mark: "m".into(),
        labels: data.labels.cols,
        scale: model.scale(),
        made: ScoreOrigin::OutOfFold { folds: 3 },
        keep: None,
    };
    let pool = crate::engine::pool::pool(1).unwrap();
    pool.install(|| cross_fit(model, data, 3, &purpose, keep, output, &mut context).unwrap())
}

fn table_row(table: &ScoreTable, row: usize) -> Vec<f32> {
    let mut scores = vec![0.0; table.card().labels];
    table.read_row(row, &mut scores);
    scores
}

#[test]
fn out_of_fold_scores_of_all_models_do_not_depend_on_the_labels_of_the_row() {
    let data = training_data(30, 8, 4);
    let other = relabelled(&data, 13);
    let network = r#"{"kind": "mlp", "epochs": 2, "net": {"hidden": [3]}}"#;
    let logistic = r#"{"kind": "logistic", "epochs": 2}"#;
    for yaml in CLOSED.into_iter().chain([logistic, network, ADAPTIVE, TREE, EXTRA]) {
        let model = model(yaml);
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        let before = crossed(&model, &data, &at("a"), &at("b"));
        let after = crossed(&model, &other, &at("c"), &at("d"));
        let fold_of = folds(30, 3, 4);
        for row in 0..30 {
            let same = table_row(&before, row) == table_row(&after, row);
            assert!(same || fold_of[row] != fold_of[13], "{yaml}: row {row} saw the label of row 13");
        }
        let moved = (0..30).any(|row| table_row(&before, row) != table_row(&after, row));
        assert!(moved, "{yaml}: no row learns from row 13");
    }
}

#[test]
fn finished_folds_are_not_fitted_again() {
    let data = training_data(30, 8, 4);
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join(name);
    let model = model(CLOSED[0]);
    let whole = crossed(&model, &data, &at("kept"), &at("first"));
    // A run that died after two folds and continues with other labels: only the third fold is fitted on them.
    std::fs::remove_dir_all(at("kept/fold-2")).unwrap();
    let rows = vec![Vec::<u32>::new(); 30];
    let blank = TrainingData { features: data.features.clone(), labels: Csr::from_rows(4, &rows) };
    let resumed = crossed(&model, &blank, &at("kept"), &at("second"));
    let fold_of = folds(30, 3, 4);
    for (row, fold) in fold_of.into_iter().enumerate() {
        let same = table_row(&whole, row) == table_row(&resumed, row);
        assert_eq!(same, fold != 2, "row {row} of fold {fold}");
    }
}

#[test]
fn a_single_block_equals_the_exact_kernel() {
    let data = training_data(50, 10, 4);
    let all: Vec<u32> = (0..50).collect();
    let exact = scores(fitted(&model(CLOSED[1]), data.clone()).scorer(), &data.features, &all);
    let block = scores(fitted(&model(CLOSED[2]), data.clone()).scorer(), &data.features, &all);
    assert_eq!(exact, block);
}

#[test]
fn a_loaded_model_gives_the_same_scores_as_the_fitted_one() {
    let data = training_data(50, 10, 4);
    let all: Vec<u32> = (0..50).collect();
    let several = r#"{"kind": "block_kernel_ridge", "rows_per_block": 15, "largest_block": 20}"#;
    let logistic = r#"{"kind": "logistic", "epochs": 1}"#;
    for yaml in CLOSED.into_iter().chain([several, logistic, ADAPTIVE, TREE, EXTRA]) {
        let model = model(yaml);
        let temp = tempfile::tempdir().unwrap();
        let mut before = fitted(&model, data.clone());
        before.save(temp.path()).unwrap();
        let size = ModelSize { features: 10, labels: 4 };
        let mut after = load(&model, temp.path(), size, Device::Cpu, 1).unwrap();
        assert_eq!((after.features(), after.labels()), (10, 4));
        let both = [before.scorer(), &mut *after].map(|scorer| scores(scorer, &data.features, &all));
        // The scores of a kernel model that was just fitted come from libtorch.
        if yaml.contains("kernel") {
            close(&both[0], &both[1], 1e-5);
        } else {
            assert_eq!(both[0], both[1], "{yaml}");
        }
    }
}

#[test]
fn blocks_contain_every_row_once_and_none_is_too_large() {
    let data = training_data(100, 10, 4);
    let plan = row_blocks::BlockPlan { rows_per_block: 20, largest: 25, rounds: 3, seed: 0 };
    let blocks = row_blocks::RowBlocks::by_similarity(&data.features, plan);
    let mut all: Vec<u32> = blocks.rows.concat();
    all.sort_unstable();
    assert_eq!(all, (0..100).collect::<Vec<u32>>());
    assert!(blocks.rows.len() > 1 && blocks.rows.iter().all(|rows| rows.len() <= 25), "{:?}", blocks.rows);
}

#[test]
fn the_error_about_a_damaged_file_names_the_file() {
    let data = training_data(20, 6, 3);
    let temp = tempfile::tempdir().unwrap();
    let model = model(CLOSED[1]);
    fitted(&model, data).save(temp.path()).unwrap();
    let path = temp.path().join("dual-0.dense");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 8]).unwrap();
    let size = ModelSize { features: 6, labels: 3 };
    let error = load(&model, temp.path(), size, Device::Cpu, 1).err().unwrap().to_string();
    assert!(error.contains("dual-0.dense"), "{error}");
}

#[test]
fn the_evidence_of_a_score_adds_up_to_the_score() {
    let data = training_data(60, 12, 5);
    let others = [
        r#"{"kind": "block_kernel_ridge", "rows_per_block": 20, "largest_block": 30}"#,
        r#"{"kind": "logistic", "epochs": 2}"#,
        EXTRA,
    ];
    for yaml in CLOSED.into_iter().chain(others) {
        let mut fitted = fitted(&model(yaml), data.clone());
        let scorer = fitted.scorer();
        for row in [0, 31] {
            let scores = scores(scorer, &data.features, &[row]);
            for (label, &score) in scores.iter().enumerate() {
                let evidence = scorer.evidence(&data.features, row as usize, label as u32);
                let total = evidence.total();
                assert!((total - f64::from(score)).abs() < 1e-5, "{yaml} {label}: {total} {score}");
                assert!(!evidence.causes.is_empty(), "{yaml}");
            }
        }
    }
}

#[test]
fn a_row_that_every_tree_has_drawn_gets_the_shares_of_the_other_rows() {
    let data = training_data(30, 8, 4);
    let one = model(r#"{"kind": "extra_trees", "trees": 1}"#);
    let shares = |row: usize| -> Vec<f32> {
        let mut shares = [0.0; 4];
        for other in (0..30).filter(|&other| other != row) {
            for &label in data.labels.row(other) {
                shares[label as usize] += 1.0 / 29.0;
            }
        }
        shares.to_vec()
    };
    let close_to_shares = |&row: &usize| {
        let scores = left_out(&one, &data, row);
        scores.iter().zip(shares(row)).all(|(score, share)| (score - share).abs() < 1e-5)
    };
    let count = (0..30).filter(close_to_shares).count();
    assert!((12..26).contains(&count), "{count} of 30 rows, about 19 of which are drawn");
}

#[test]
fn the_evidence_of_a_network_with_hidden_layers_says_that_there_is_no_sum() {
    let data = training_data(20, 6, 3);
    let network = model(r#"{"kind": "mlp", "epochs": 1, "net": {"hidden": [4]}}"#);
    let mut fitted = fitted(&network, data.clone());
    let scorer = fitted.scorer();
    let evidence = scorer.evidence(&data.features, 0, 1);
    assert!(evidence.causes.is_empty() && evidence.words.contains("hidden layers"), "{evidence:?}");
}

#[test]
fn a_search_finds_the_labels_that_the_scores_of_all_labels_show() {
    let data = training_data(50, 12, 6);
    let all: Vec<u32> = (0..50).collect();
    for kind in [TREE, r#"{"kind": "neighbours", "neighbours": 3}"#] {
        let mut fitted = fitted(&model(kind), data.clone());
        let scorer = fitted.scorer();
        let rows = Unlabelled { features: &data.features, rows: &all };
        let found = scorer.search().unwrap().found(rows);
        let dense = scores(scorer, &data.features, &all);
        for (row, found) in dense.chunks_exact(6).zip(found) {
            let above: Vec<(u32, f32)> =
                (0..).zip(row.iter().copied()).filter(|label| label.1 > 0.0).collect();
            assert_eq!(above, found);
            assert!(row.contains(&0.0) || found.len() == 6);
        }
    }
}

#[test]
fn the_evidence_of_a_label_tree_names_the_features_on_the_path() {
    let data = training_data(50, 12, 6);
    let mut fitted = fitted(&model(TREE), data.clone());
    let scorer = fitted.scorer();
    let evidence = scorer.evidence(&data.features, 0, 1);
    assert!(evidence.words.contains("classifiers on the path to the label in tree"), "{}", evidence.words);
    let features = data.features.row(0);
    for cause in &evidence.causes {
        let levels = cause.inputs.iter().filter(|input| input.name.starts_with("level"));
        let sum: f64 = levels.map(|level| level.value).sum();
        assert!((sum - cause.value).abs() < 1e-9, "{cause:?}");
        if let CauseSubject::Feature { feature, .. } = cause.what {
            assert!(features.contains(&feature));
        }
    }
}
