//! Tests of trained models as systems, compared with the engine and the reference loss.

use pipe_ml::config::device::Device;
use pipe_ml::config::method::Method;
use pipe_ml::config::preset::Preset;
use pipe_ml::config::signal::LocalSignal;
use pipe_ml::config::threshold::{GlobalSignal, Variant};
use pipe_ml::data::csr::Csr;
use pipe_ml::data::dataset_part::DatasetPart;
use pipe_ml::data::examples::Examples;
use pipe_ml::data::random::Random;
use pipe_ml::metric::block::{DecisionBlock, Thresholds};
use pipe_ml::signal::idf::Idf;
use pipe_ml::system::{BlockSink, ExplainRequest, cross_entropy};
use tch::{Kind, Tensor};

use super::*;
use crate::loss::reference;
use crate::model::Model;
use crate::model::predict::Predictor;
use crate::net::features::FeatureMap;
use crate::net::weights::Weights;

const FEATURES: usize = 12;
const LABELS: usize = 70;
const ROWS: usize = 45;

fn matrix(purpose: &str, cols: usize, per_row: usize) -> Csr {
    let mut random = Random::new(purpose, 3);
    let rows: Vec<Vec<u32>> =
        (0..ROWS).map(|_| (0..per_row).map(|_| random.below(cols) as u32).collect()).collect();
    Csr::from_rows(cols, &rows)
}

fn part() -> DatasetPart {
    let (features, labels) = (matrix("features", FEATURES, 4), matrix("labels", LABELS, 3));
    DatasetPart { features, labels, rows: (0..ROWS as u32).collect() }
}

fn model(preset: Preset, variant: Variant) -> Model {
    let base = preset.method();
    let mut method = Method { variant, batch: 20, device: Device::Cpu, ..base };
    method.net.hidden = vec![8];
    let part = part();
    let idf = Idf::of_rows(&part.labels, &part.rows, 1.0);
    let map = FeatureMap::new(&method.net, &part.features, &part.rows);
    let weights = Weights::initial(&method, map.inputs(), LABELS);
    Model { method, map, idf, full_density: None, weights }
}

fn system(model: &Model, signal: Option<LocalSignal>) -> Box<dyn System> {
    let directory = tempfile::tempdir().unwrap();
    model.save(directory.path()).unwrap();
    let settings = SystemSettings { device: Device::Cpu, threads: 2, signal, train: Some(part()) };
    open(directory.path(), settings).unwrap()
}

fn blocks(run: impl FnOnce(BlockSink) -> Result<()>) -> Vec<DecisionBlock> {
    let mut blocks = Vec::new();
    run(&mut |block| {
        blocks.push(block.clone());
        Ok(())
    })
    .unwrap();
    blocks
}

#[test]
fn decisions_are_those_of_the_engine_to_the_bit() {
    for (preset, signal) in [
        (Preset::Honest, LocalSignal::TrainNeighbours),
        (Preset::Paper, LocalSignal::Predicted),
        (Preset::Released, LocalSignal::None),
    ] {
        let (model, part) = (model(preset, Variant::Adaptive), part());
        let rows = part.examples().unlabelled();
        let ours = blocks(|take| system(&model, Some(signal)).decide(rows, take));
        assert_eq!(
            ours.iter().map(|block| (block.first, block.rows)).collect::<Vec<_>>(),
            [(0, 20), (20, 20), (40, 5)]
        );
        let mut predictor = Predictor::new(model, Device::Cpu, 1).unwrap();
        let mut compared = 0;
        let compare = |first: usize, scores: &crate::engine::BatchScores| {
            let block = &ours[first / 20];
            assert_eq!(block.predicted, scores.predicted());
            for row in 0..block.rows {
                for (label, margin) in block.margins(row).unwrap().enumerate() {
                    assert_eq!(margin.to_bits(), scores.score(row, label).to_bits(), "{preset:?}");
                    compared += 1;
                }
            }
        };
        predictor.predict(rows, signal, Some(part.examples()), compare).unwrap();
        assert_eq!(compared, ROWS * LABELS);
    }
}

#[test]
fn losses_agree_with_the_reference_expression() {
    for preset in [Preset::Paper, Preset::Released, Preset::Honest] {
        let (model, part) = (model(preset, Variant::Adaptive), part());
        let mut system = system(&model, None);
        let weights = Tensor::from_slice(&model.idf.positive_weights(model.method.loss.pos_weight));
        for block in blocks(|take| system.decide_by_oracle(part.examples(), take)) {
            let truth: Vec<&[u32]> = (0..block.rows).map(|row| part.labels.row(block.first + row)).collect();
            let size = [block.rows as i64, LABELS as i64];
            let table = |values: &[f32]| Tensor::from_slice(values).to_kind(Kind::Double).reshape(size);
            let Thresholds::PerEntry(thresholds) = &block.thresholds else { panic!("no thresholds") };
            let mut dense = vec![0f32; block.rows * LABELS];
            for (row, labels) in truth.iter().enumerate() {
                for &label in *labels {
                    dense[row * LABELS + label as usize] = 1.0;
                }
            }
            let (z, theta, y) = (table(&block.scores), table(thresholds), table(&dense));
            let theirs = reference::loss(&z, &theta, &y, &weights, &model.method.loss).unwrap();
            let ours = system.losses()(&block, &truth);
            let close = |ours: f64, theirs: f64| {
                assert!((ours - theirs).abs() < 1e-9 * theirs.abs(), "{ours} {theirs}");
            };
            close(ours.training.unwrap(), theirs.total.double_value(&[]));
            let unweighted =
                (z - theta).binary_cross_entropy_with_logits::<Tensor>(&y, None, None, tch::Reduction::Sum);
            close(ours.bce.unwrap(), unweighted.double_value(&[]));
            // The loss that a system without margins computes from the same probabilities.
            assert!((cross_entropy(&block, &truth) / ours.bce.unwrap() - 1.0).abs() < 1e-3);
        }
    }
}

#[test]
fn losses_have_the_same_bits_for_any_number_of_threads() {
    let (model, part) = (model(Preset::Paper, Variant::Adaptive), part());
    let mut system = system(&model, None);
    let losses = system.losses();
    for block in blocks(|take| system.decide_by_oracle(part.examples(), take)) {
        let truth: Vec<&[u32]> = (0..block.rows).map(|row| part.labels.row(block.first + row)).collect();
        let on_threads = |threads: usize| {
            let measure = || (losses(&block, &truth), cross_entropy(&block, &truth));
            crate::engine::pool::pool(threads).unwrap().install(measure)
        };
        assert_eq!(on_threads(1), on_threads(3));
        // Row by row, in order.
        let rows = |row: usize| {
            let probabilities = block.row_probabilities(row).to_vec();
            let row_block =
                DecisionBlock { rows: 1, labels: block.labels, probabilities, ..DecisionBlock::default() };
            cross_entropy(&row_block, &truth[row..=row])
        };
        assert_eq!(on_threads(3).1, (0..block.rows).map(rows).sum::<f64>());
    }
}

#[test]
fn only_the_oracle_depends_on_labels_and_only_if_a_signal_reads_them() {
    let part = part();
    let reversed: Vec<&[u32]> = (0..ROWS).map(|row| part.labels.row(ROWS - 1 - row)).collect();
    let reversed = Csr::from_rows(LABELS, &reversed);
    let examples = part.examples();
    let changed = Examples { labels: &reversed, ..examples };
    for preset in [Preset::Paper, Preset::Released] {
        for variant in [Variant::Adaptive, Variant::KnnOnly, Variant::IdfOnly, Variant::Static] {
            let mut system = system(&model(preset, variant), None);
            let before = blocks(|take| system.decide_by_oracle(examples, take));
            let after = blocks(|take| system.decide_by_oracle(changed, take));
            let reads_own_labels = preset == Preset::Released && variant.uses_global();
            assert_eq!(before != after, variant.uses_local() || reads_own_labels, "{preset:?} {variant:?}");
        }
    }
}

#[test]
fn a_model_that_needs_labels_or_training_rows_reports_it() {
    let model = model(Preset::Paper, Variant::Adaptive);
    let part = part();
    let mut own_choice = system(&model, None);
    let error = own_choice.decide(part.examples().unlabelled(), &mut |_| Ok(())).unwrap_err().to_string();
    assert!(error.contains("oracle protocol"), "{error}");
    let directory = tempfile::tempdir().unwrap();
    model.save(directory.path()).unwrap();
    let signal = Some(LocalSignal::TrainNeighbours);
    let settings = SystemSettings { device: Device::Cpu, threads: 1, signal, train: None };
    let mut alone = open(directory.path(), settings).unwrap();
    let error = alone.decide(part.examples().unlabelled(), &mut |_| Ok(())).unwrap_err().to_string();
    assert!(error.contains("training rows"), "{error}");
}

#[test]
fn the_error_about_an_unknown_kind_of_model_names_the_kind() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("model.json"), r#"{ "kind": "oracle-of-delphi" }"#).unwrap();
    let settings = SystemSettings { device: Device::Cpu, threads: 1, signal: None, train: None };
    let error = open(directory.path(), settings).err().unwrap().to_string();
    assert!(error.contains("oracle-of-delphi"), "{error}");
}

/// Returns a model whose thresholds use the salience of labels and fall back.
fn future_model() -> Model {
    let mut model = model(Preset::Honest, Variant::Adaptive);
    model.method.threshold.global = GlobalSignal::Salience;
    model.method.threshold.fallback = true;
    model.full_density = Some(0.9);
    model.weights.alpha.fill(0.7);
    model.weights.beta.fill(-0.4);
    model
}

#[test]
fn a_model_that_falls_back_keeps_its_local_signal() {
    let model = future_model();
    let part = part();
    let mut own = system(&model, None);
    let decided = blocks(|take| own.decide(part.examples().unlabelled(), take));
    let by_oracle = blocks(|take| own.decide_by_oracle(part.examples(), take));
    assert!(decided == by_oracle, "the labels of the rows do not matter");
    let directory = tempfile::tempdir().unwrap();
    model.save(directory.path()).unwrap();
    let settings = SystemSettings {
        device: Device::Cpu,
        threads: 1,
        signal: Some(LocalSignal::None),
        train: Some(part),
    };
    let error = open(directory.path(), settings).err().unwrap().to_string();
    assert!(error.contains("`signal`") && error.contains("leave it out"), "{error}");
}

#[test]
fn the_terms_of_an_explanation_add_up_to_the_decision() {
    let mut learned = future_model();
    (learned.method.threshold.fallback, learned.full_density) = (false, None);
    let signal = &mut learned.method.signal;
    (signal.train, signal.predict, signal.prototypes) = (LocalSignal::Prototypes, LocalSignal::Prototypes, 3);
    learned.weights = Weights::initial(&learned.method, FEATURES, LABELS);
    learned.weights.beta.fill(-0.4);
    let mut cases = vec![(future_model(), LocalSignal::TrainNeighbours), (learned, LocalSignal::Prototypes)];
    for (preset, signal) in [
        (Preset::Honest, LocalSignal::TrainNeighbours),
        (Preset::Paper, LocalSignal::Predicted),
        (Preset::Released, LocalSignal::None),
    ] {
        let all = [Variant::Adaptive, Variant::KnnOnly, Variant::IdfOnly, Variant::Static];
        cases.extend(all.map(|variant| (model(preset, variant), signal)));
    }
    for (model, signal) in cases {
        let (variant, part) = (model.method.variant, part());
        let mut system = system(&model, Some(signal));
        let rows = part.examples().unlabelled();
        let decided = blocks(|take| system.decide(rows, take));
        for row in [0, 27, 44] {
            let explanation =
                system.explain(rows, &ExplainRequest { row, ..ExplainRequest::default() }).unwrap();
            let block = &decided[row / 20];
            let predicted: Vec<_> = explanation.labels.iter().filter(|label| label.predicted).collect();
            assert_eq!(predicted.len(), block.predicted[row % 20].len());
            for label in &explanation.labels {
                let sum = |terms: &[pipe_ml::explanation::ExplanationTerm]| {
                    terms.iter().map(|term| term.value).sum::<f64>()
                };
                let at = label.label as usize;
                assert_eq!(label.score, f64::from(block.row_scores(row % 20)[at]));
                let close = |a: f64, b: f64| {
                    assert!((a - b).abs() < 1e-4 * (1.0 + b.abs()), "{a} {b} {:?}", model.method);
                };
                close(sum(&label.score_terms), label.score);
                close(sum(&label.threshold_terms), label.threshold.unwrap());
                let local = label.threshold_terms.iter().find_map(|term| term.evidence.as_ref());
                let near = signal == LocalSignal::TrainNeighbours && variant.uses_local();
                assert_eq!(local.is_some(), near);
                for term in label.threshold_terms.iter().filter(|term| term.evidence.is_some()) {
                    let knn = term.inputs.iter().find(|input| input.name == "KNN").unwrap().value;
                    close(term.evidence.as_ref().unwrap().total(), knn);
                }
            }
        }
    }
}
