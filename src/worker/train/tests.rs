//! Tests of small, complete training runs, and of the engines against each other.

use std::sync::atomic::{AtomicBool, Ordering};

use super::host::{SilentHost, TrainingHost, TrainingProgress};
use super::trainer::{TrainError, TrainingResult, TrainingRun, train};
use crate::engine::cpu::CpuEngine;
use crate::engine::score::{count, score_with_labels};
use crate::engine::torch::TorchEngine;
use crate::engine::{Batch, BatchScores, Engine, EngineState};
use crate::model::Model;
use crate::model::predict::{PredictError, Predictor};
use crate::net::features::FeatureMap;
use crate::net::weights::Weights;
use pipe_ml::config::device::{Device, Precision};
use pipe_ml::config::method::Method;
use pipe_ml::config::net::{Activation, Features};
use pipe_ml::config::number_or_word::{Init, Limit, PosWeight};
use pipe_ml::config::optimiser::OptimiserKind;
use pipe_ml::config::preset::Preset;
use pipe_ml::config::schedule::ScheduleKind;
use pipe_ml::config::signal::LocalSignal;
use pipe_ml::config::threshold::{GlobalSignal, Squash, Variant};
use pipe_ml::data::csr::Csr;
use pipe_ml::data::examples::{Examples, Unlabelled};
use pipe_ml::data::random::Random;
use pipe_ml::history::{EpochMetrics, History, LossValue};
use pipe_ml::metric::counts::Counts;
use pipe_ml::metric::label::LabelCount;
use pipe_ml::signal::idf::Idf;
use pipe_ml::signal::source::SignalSource;
use pipe_ml::signal::supply::{LocalSupply, SignalSupply};

const LABELS: usize = 12;
const FEATURES: usize = 40;

/// Rows whose labels are determined by their features.
struct TestData {
    features: Csr,
    labels: Csr,
    train: Vec<u32>,
    validation: Vec<u32>,
}

fn csr(rows: &[Vec<(u32, f32)>], cols: usize, ones: bool) -> Csr {
    let mut indptr = vec![0u64];
    indptr.extend(rows.iter().scan(0, |end, row| {
        *end += row.len() as u64;
        Some(*end)
    }));
    let entries = rows.concat();
    let values = if ones { vec![] } else { entries.iter().map(|entry| entry.1).collect::<Vec<_>>() };
    let indices = entries.iter().map(|entry| entry.0).collect::<Vec<_>>();
    Csr { cols, indptr: indptr.into(), indices: indices.into(), values: values.into() }
}

fn data() -> TestData {
    let mut random = Random::new("test data", 11);
    let (mut features, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..300 {
        let mut own: Vec<u32> = (0..random.below(4)).map(|_| random.below(LABELS) as u32).collect();
        own.sort_unstable();
        own.dedup();
        let mut row: Vec<(u32, f32)> = own.iter().map(|&label| (label * 3, 1.0)).collect();
        row.push((36 + random.below(4) as u32, random.unit() as f32));
        features.push(row);
        labels.push(own.iter().map(|&label| (label, 1.0)).collect());
    }
    TestData {
        features: csr(&features, FEATURES, false),
        labels: csr(&labels, LABELS, true),
        train: (0..240).collect(),
        validation: (240..300).collect(),
    }
}

impl TestData {
    fn train(&self) -> Examples<'_> {
        Examples { features: &self.features, labels: &self.labels, rows: &self.train }
    }

    fn validation(&self) -> Examples<'_> {
        Examples { features: &self.features, labels: &self.labels, rows: &self.validation }
    }

    fn idf(&self) -> Idf {
        Idf::of_rows(&self.labels, &self.train, 1.0)
    }
}

fn small(preset: Preset) -> Method {
    let mut method = preset.method();
    method.device = Device::Cpu;
    method.net.hidden = vec![16];
    method.epochs = 6;
    method.batch = 32;
    method.optimiser.lr = 0.01;
    method.signal.neighbours = 5;
    method.signal.predicted_labels = 4;
    method
}

fn run<'a>(data: &'a TestData, idf: &'a Idf, method: &'a Method) -> TrainingRun<'a> {
    let (train, validation) = (data.train(), Some(data.validation()));
    TrainingRun { method, train, validation, idf, checkpoints: None, threads: 2 }
}

fn bits(weights: &Weights) -> Vec<u32> {
    weights
        .named()
        .into_iter()
        .flat_map(|part| part.2.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
        .collect()
}

/// Returns the variants of the thresholds that the paper leaves to future work.
fn future_variants() -> Vec<Method> {
    let mut fallback = small(Preset::Honest);
    fallback.threshold.fallback = true;
    let mut salience = small(Preset::Honest);
    salience.threshold.global = GlobalSignal::Salience;
    let mut both = fallback.clone();
    both.threshold.global = GlobalSignal::Salience;
    both.threshold.squash = Squash::Sigmoid;
    both.threshold.lambda_per_label = true;
    let mut prototypes = small(Preset::Honest);
    (prototypes.signal.train, prototypes.signal.predict) = (LocalSignal::Prototypes, LocalSignal::Prototypes);
    prototypes.signal.prototypes = 3;
    let mut salient = prototypes.clone();
    salient.threshold.global = GlobalSignal::Salience;
    salient.threshold.lambda_per_label = true;
    salient.net.hidden = vec![24, 16];
    salient.net.activation = Activation::Gelu;
    salient.optimiser.clip = Limit::At(0.5);
    let mut all = vec![fallback, salience, both, prototypes, salient];
    for method in &mut all {
        assert_eq!(method.issues(), []);
        // So that the signals count from the first step on.
        method.threshold.alpha_init = Init::Constant(0.3);
        method.threshold.beta_init = Init::Constant(-0.5);
    }
    all
}

fn trained(method: &Method) -> TrainingResult {
    let data = data();
    train(run(&data, &data.idf(), method), &mut SilentHost).unwrap()
}

#[test]
fn every_preset_and_variant_learns() {
    for preset in [Preset::Paper, Preset::Released, Preset::Honest] {
        for variant in [Variant::Adaptive, Variant::KnnOnly, Variant::IdfOnly, Variant::Static] {
            let done = trained(&Method { variant, ..small(preset) });
            let losses: Vec<f64> = done.history.epochs.iter().map(|epoch| epoch.loss.total).collect();
            assert!(losses[losses.len() - 1] < losses[0], "{preset:?} {variant:?}: {losses:?}");
        }
    }
}

#[test]
fn variants_of_the_thresholds_learn_and_their_loaded_models_decide_the_same_for_each_row_alone() {
    let data = data();
    for method in future_variants() {
        let done = trained(&method);
        let losses: Vec<f64> = done.history.epochs.iter().map(|epoch| epoch.loss.total).collect();
        assert!(losses[losses.len() - 1] < losses[0], "{method:?}: {losses:?}");
        let directory = tempfile::tempdir().unwrap();
        done.model.save(directory.path()).unwrap();
        let model = Model::load(directory.path()).unwrap();
        let local = method.local_in_prediction();
        let source = SignalSource::new(&method, local, Some(data.train().into())).unwrap();
        let scores = |model: Model, rows: &[u32]| {
            let mut predictor = Predictor::new(model, Device::Cpu, 1).unwrap();
            let mut all = Vec::new();
            let rows = Unlabelled { features: &data.features, rows };
            let take = |_: usize, scores: &BatchScores| {
                all.extend((0..scores.rows).map(|row| {
                    (0..LABELS).map(|label| scores.score(row, label).to_bits()).collect::<Vec<_>>()
                }));
            };
            predictor.predict_from(&source, rows, take).unwrap();
            all
        };
        let together = scores(done.model, &data.validation);
        let alone: Vec<_> = data.validation.iter().flat_map(|&row| scores(model.clone(), &[row])).collect();
        assert_eq!(together, alone, "{method:?}");
    }
}

#[test]
fn the_honest_preset_finds_labels_that_the_features_determine() {
    let done = trained(&Method { epochs: 40, ..small(Preset::Honest) });
    let best = done.history.best(&done.model.method.stopping).unwrap();
    assert!(best.1 > 0.9, "{best:?}");
    assert!(!done.history.oracle);
    assert_eq!(done.history.kept, best.0);
}

#[test]
fn the_papers_validation_is_marked_as_an_oracle() {
    assert!(trained(&small(Preset::Paper)).history.oracle);
    assert!(trained(&small(Preset::Released)).history.oracle);
}

#[test]
fn weights_have_the_same_bits_for_any_number_of_threads() {
    let data = data();
    let idf = data.idf();
    let presets = [Preset::Released, Preset::Honest].map(small);
    for method in presets.into_iter().chain(future_variants()) {
        let with = |threads| {
            let done = train(TrainingRun { threads, ..run(&data, &idf, &method) }, &mut SilentHost).unwrap();
            (bits(&done.model.weights), done.history)
        };
        assert_eq!(with(1), with(3));
    }
}

/// A host that stops after a number of batches and fails on warnings.
struct StopAfter(u64);

impl TrainingHost for StopAfter {
    fn progress(&mut self, _: TrainingProgress) {}

    fn info(&mut self, _: String) {}

    fn warn(&mut self, message: String) {
        panic!("{message}");
    }

    fn should_stop(&mut self) -> bool {
        self.0 -= 1;
        self.0 == 0
    }
}

#[test]
fn a_run_that_is_stopped_repeatedly_ends_with_the_same_bits() {
    let data = data();
    let idf = data.idf();
    for kind in [OptimiserKind::Adamw, OptimiserKind::LazyAdamw, OptimiserKind::Sgd] {
        let mut method = small(Preset::Released);
        method.optimiser.kind = kind;
        let whole = train(run(&data, &idf, &method), &mut SilentHost).unwrap();

        let directory = tempfile::tempdir().unwrap();
        let resumable = TrainingRun { checkpoints: Some(directory.path()), ..run(&data, &idf, &method) };
        let mut stops = 0;
        let resumed = loop {
            match train(resumable, &mut StopAfter(7)) {
                Ok(done) => break done,
                Err(TrainError::Stopped { saved: true, .. }) => stops += 1,
                Err(error) => panic!("{error}"),
            }
        };
        assert!(stops > 5, "{stops}");
        assert_eq!(resumed.history, whole.history);
        assert_eq!(bits(&resumed.model.weights), bits(&whole.model.weights));
        assert_eq!(resumed.seconds.len(), whole.seconds.len());
    }
}

/// A host that collects warnings and notes.
#[derive(Default)]
struct Warned(Vec<String>);

impl TrainingHost for Warned {
    fn progress(&mut self, _: TrainingProgress) {}

    fn info(&mut self, message: String) {
        self.0.push(message);
    }

    fn warn(&mut self, message: String) {
        self.0.push(message);
    }

    fn should_stop(&mut self) -> bool {
        false
    }
}

#[test]
fn a_damaged_checkpoint_is_detected_and_training_starts_from_the_beginning() {
    let data = data();
    let idf = data.idf();
    let method = small(Preset::Paper);
    let whole = train(run(&data, &idf, &method), &mut SilentHost).unwrap();
    let is_state = |name: &str| name.starts_with("state-");
    for damages_state in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let resumable = TrainingRun { checkpoints: Some(directory.path()), ..run(&data, &idf, &method) };
        train(resumable, &mut StopAfter(20)).err().unwrap();
        for entry in std::fs::read_dir(directory.path()).unwrap().flatten() {
            if is_state(&entry.file_name().to_string_lossy()) == damages_state {
                let mut bytes = std::fs::read(entry.path()).unwrap();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                std::fs::write(entry.path(), bytes).unwrap();
            }
        }
        let mut host = Warned::default();
        let again = train(resumable, &mut host).unwrap();
        assert_eq!(host.0.len(), 1, "{:?}", host.0);
        assert_eq!(bits(&again.model.weights), bits(&whole.model.weights));
    }
}

#[test]
fn a_checkpoint_of_another_method_is_not_used() {
    let data = data();
    let idf = data.idf();
    let directory = tempfile::tempdir().unwrap();
    let (one, other) = (small(Preset::Paper), Method { seed: 1, ..small(Preset::Paper) });
    let at = |method| TrainingRun { checkpoints: Some(directory.path()), ..run(&data, &idf, method) };
    train(at(&one), &mut StopAfter(9)).err().unwrap();
    let mut host = Warned::default();
    train(at(&other), &mut host).unwrap();
    assert!(host.0[0].contains("another run"), "{:?}", host.0);
}

#[test]
fn a_resumed_training_says_from_which_epoch_it_continues() {
    let data = data();
    let idf = data.idf();
    let directory = tempfile::tempdir().unwrap();
    let method = small(Preset::Paper);
    let resumable = TrainingRun { checkpoints: Some(directory.path()), ..run(&data, &idf, &method) };
    let Err(TrainError::Stopped { epoch, batch, .. }) = train(resumable, &mut StopAfter(20)) else {
        panic!("it was not stopped")
    };
    let mut host = Warned::default();
    train(resumable, &mut host).unwrap();
    assert_eq!(
        host.0,
        [format!("continues from the checkpoint in epoch {epoch}, after {batch} of its batches")]
    );
}

#[test]
fn a_checkpoint_of_another_libtorch_is_not_used() {
    let data = data();
    let idf = data.idf();
    let directory = tempfile::tempdir().unwrap();
    let method = small(Preset::Paper);
    let resumable = TrainingRun { checkpoints: Some(directory.path()), ..run(&data, &idf, &method) };
    train(resumable, &mut StopAfter(9)).err().unwrap();
    let path = directory.path().join("checkpoint");
    let text = std::fs::read_to_string(&path).unwrap();
    let json = text.split_once('\n').unwrap().1;
    let json = json.replace("\"computed_by\":\"cpu, libtorch ", "\"computed_by\":\"cpu, libtorch 0.");
    std::fs::write(&path, format!("{}\n{json}", blake3::hash(json.as_bytes()).to_hex())).unwrap();
    let mut host = Warned::default();
    train(resumable, &mut host).unwrap();
    assert!(host.0[0].contains("was computed by cpu, libtorch 0."), "{:?}", host.0);
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_reported_and_training_goes_on() {
    let data = data();
    let idf = data.idf();
    let mut method = small(Preset::Paper);
    method.checkpoint.epochs = Limit::At(1.0);
    let whole = train(run(&data, &idf, &method), &mut SilentHost).unwrap();
    let directory = tempfile::tempdir().unwrap();
    // A file in the place of the directory, so that nothing can be written there, not even by root.
    let occupied = directory.path().join("occupied");
    std::fs::write(&occupied, "").unwrap();
    let below = occupied.join("checkpoints");
    let resumable = TrainingRun { checkpoints: Some(&below), ..run(&data, &idf, &method) };
    let mut host = Warned::default();
    let done = train(resumable, &mut host).unwrap();
    assert_eq!(bits(&done.model.weights), bits(&whole.model.weights));
    let reported = host.0.iter().filter(|message| message.contains("cannot write")).count();
    assert_eq!(reported, 1, "{:?}", host.0);
    let stopped = train(resumable, &mut StopQuietlyAfter(9)).err().unwrap();
    assert!(matches!(stopped, TrainError::Stopped { saved: false, .. }), "{stopped}");
}

/// A host that stops after a number of batches and ignores warnings.
struct StopQuietlyAfter(u64);

impl TrainingHost for StopQuietlyAfter {
    fn progress(&mut self, _: TrainingProgress) {}

    fn info(&mut self, _: String) {}

    fn warn(&mut self, _: String) {}

    fn should_stop(&mut self) -> bool {
        self.0 -= 1;
        self.0 == 0
    }
}

#[test]
fn training_stops_early_and_returns_the_weights_of_the_best_epoch() {
    let mut method = Method { epochs: 60, ..small(Preset::Honest) };
    // A cosine schedule would depend on the number of epochs.
    method.schedule.kind = ScheduleKind::Constant;
    method.stopping.patience = Limit::At(3.0);
    let early = trained(&method);
    let kept = early.history.kept;
    assert!(early.history.epochs.len() as u64 == kept + 3 && kept < 57, "{kept}");
    method.epochs = kept;
    method.stopping.patience = Limit::None;
    assert!(bits(&trained(&method).model.weights) == bits(&early.model.weights));
}

#[test]
fn the_error_about_a_loss_that_is_not_finite_names_epoch_batch_and_cause() {
    let mut method = small(Preset::Paper);
    method.optimiser.kind = OptimiserKind::Sgd;
    method.optimiser.lr = 1e30;
    let data = data();
    let error = train(run(&data, &data.idf(), &method), &mut SilentHost).err().unwrap().to_string();
    for part in ["epoch 1", "batch", "learning rate 1e30", "optimiser.clip"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn the_error_about_a_feature_that_is_nan_names_the_row() {
    let mut data = data();
    let mut values = data.features.values.to_vec();
    let row = data.features.indptr[5] as usize;
    values[row] = f32::NAN;
    data.features.values = values.into();
    let error =
        train(run(&data, &data.idf(), &small(Preset::Paper)), &mut SilentHost).err().unwrap().to_string();
    assert!(error.contains("row 5") && error.contains("NaN"), "{error}");
}

#[test]
fn clipping_limits_the_length_of_a_step() {
    let mut method = Method { epochs: 1, batch: 240, ..small(Preset::Paper) };
    method.optimiser.kind = OptimiserKind::Sgd;
    method.optimiser.lr = 1.0;
    method.optimiser.weight_decay = 0.0;
    method.optimiser.clip = Limit::At(0.01);
    let start = Weights::initial(&method, FEATURES, LABELS);
    let end = trained(&method).model.weights;
    let mut square = 0.0;
    for (a, b) in start.named().iter().zip(end.named()) {
        square += a.2.iter().zip(b.2.iter()).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
    }
    assert!((square.sqrt() - 0.01).abs() < 1e-4, "{}", square.sqrt());
}

/// Returns one batch for both engines.
fn batch(data: &TestData, map: &FeatureMap, supply: &SignalSupply, positions: &[u32]) -> Batch {
    let rows: Vec<u32> = (0..300).collect();
    let examples = Examples { features: &data.features, labels: &data.labels, rows: &rows };
    Batch::labelled(map, supply, examples, positions)
}

#[test]
fn the_cpu_engine_and_the_libtorch_engine_take_the_same_steps() {
    tch::set_num_threads(1);
    let data = data();
    let idf = data.idf();
    let mut methods = Vec::new();
    for preset in [Preset::Paper, Preset::Released, Preset::Honest] {
        methods.push(small(preset));
        let mut other = small(preset);
        other.net.hidden = vec![24, 16];
        other.net.activation = Activation::Gelu;
        other.net.dropout = 0.25;
        other.net.features = Features::Hash;
        other.net.feature_count = 20;
        other.optimiser.kind = OptimiserKind::LazyAdamw;
        other.optimiser.clip = Limit::At(0.5);
        other.signal.train = LocalSignal::Predicted;
        other.loss.pos_weight = PosWeight::Log;
        methods.push(other);
        let mut linear = small(preset);
        linear.net.hidden = vec![];
        linear.optimiser.kind = OptimiserKind::Sgd;
        linear.threshold.lambda_per_label = true;
        methods.push(linear);
    }
    methods.extend(future_variants());
    for method in methods {
        let map = FeatureMap::new(&method.net, &data.features, &data.train);
        let supply = SignalSupply::in_training(&method, &idf, data.train());
        let start = EngineState::new(Weights::initial(&method, FEATURES, LABELS), method.optimiser.kind);
        let mut ours = CpuEngine::new(&method, &idf, start.clone());
        let mut theirs = TorchEngine::new(&method, &idf, start, tch::Device::Cpu).unwrap();
        for step in 0..4 {
            let positions: Vec<u32> = (0..31).map(|i| (i * 7 + step as u32 * 50) % 240).collect();
            let batch = batch(&data, &map, &supply, &positions);
            let a = loss_of_step(&mut ours, &batch, step);
            let b = loss_of_step(&mut theirs, &batch, step);
            assert!((a.total - b.total).abs() < 1e-4 * b.total.abs(), "{method:?}: {a:?} {b:?}");
        }
        let (a, b) = (ours.state().unwrap(), theirs.state().unwrap());
        for (ours, theirs) in a.weights.named().iter().zip(b.weights.named()) {
            for (a, b) in ours.2.iter().zip(theirs.2.iter()) {
                assert!((a - b).abs() < 2e-3 * (0.1 + b.abs()), "{}: {a} {b} in {method:?}", ours.0);
            }
        }
        let batch = batch(&data, &map, &supply, &[3, 100, 239]);
        let (mut a, mut b) = (BatchScores::default(), BatchScores::default());
        ours.scores(&batch, &mut a).unwrap();
        theirs.scores(&batch, &mut b).unwrap();
        for (row, label) in (0..3).flat_map(|row| (0..LABELS).map(move |label| (row, label))) {
            let (a, b) = (a.score(row, label), b.score(row, label));
            assert!((a - b).abs() < 2e-3 * (1.0 + b.abs()), "{a} {b}");
        }
    }
}

/// Returns the loss of a batch and its gradients by all parameters, from a step of plain gradient descent.
fn loss_and_gradients(engine: &mut dyn Engine, batch: &Batch, start: &EngineState) -> (f64, Weights) {
    engine.restore(start.clone()).unwrap();
    engine.set_loss_sum(LossValue::default()).unwrap();
    engine.step(batch, 1.0, 0).unwrap();
    let mut gradients = start.weights.clone();
    let state = engine.state().unwrap();
    for (gradient, (_, _, after)) in gradients.buffers_mut().into_iter().zip(state.weights.named()) {
        gradient.iter_mut().zip(after.iter()).for_each(|(before, after)| *before -= after);
    }
    (engine.loss_sum().unwrap().total / batch.inputs.rows() as f64, gradients)
}

#[test]
fn the_gradients_of_the_variants_are_the_slopes_of_the_loss_in_both_engines() {
    tch::set_num_threads(1);
    let data = data();
    let idf = data.idf();
    for mut method in future_variants() {
        method.optimiser.kind = OptimiserKind::Sgd;
        method.optimiser.weight_decay = 0.0;
        method.optimiser.clip = Limit::None;
        method.net.dropout = 0.0;
        // Without kinks.
        method.net.activation = Activation::Gelu;
        let map = FeatureMap::new(&method.net, &data.features, &data.train);
        let supply = SignalSupply::in_training(&method, &idf, data.train());
        let batch = batch(&data, &map, &supply, &(0..31).map(|i| i * 7).collect::<Vec<_>>());
        let start = EngineState::new(Weights::initial(&method, FEATURES, LABELS), OptimiserKind::Sgd);
        let mut ours = CpuEngine::new(&method, &idf, start.clone());
        let theirs = TorchEngine::of_kind(&method, &idf, start.clone(), tch::Device::Cpu, tch::Kind::Double);
        let mut theirs = theirs.unwrap();
        let (_, by_ours) = loss_and_gradients(&mut ours, &batch, &start);
        let (_, by_theirs) = loss_and_gradients(&mut theirs, &batch, &start);
        for (number, (name, _, gradient)) in by_theirs.named().into_iter().enumerate() {
            let scale = gradient.iter().fold(0f32, |largest, value| largest.max(value.abs()));
            assert!(scale > 0.0, "{name} has no gradient: {method:?}");
            for (a, b) in by_ours.named()[number].2.iter().zip(gradient.iter()) {
                assert!((a - b).abs() < 1e-3 * scale + 1e-6, "{name}: {a} {b} in {method:?}");
            }
            for at in [0, gradient.len() / 2, gradient.len() - 1] {
                let mut at_step = |step: f32| {
                    let mut moved = start.clone();
                    let parameter = &mut moved.weights.buffers_mut()[number][at];
                    *parameter += step;
                    (f64::from(*parameter), loss_and_gradients(&mut theirs, &batch, &moved).0)
                };
                let ((high, above), (low, below)) = (at_step(2e-3), at_step(-2e-3));
                let (slope, found) = ((above - below) / (high - low), f64::from(gradient[at]));
                let close = 1e-3 * f64::from(scale) + 1e-5;
                assert!((slope - found).abs() < close, "{name}[{at}]: {found} {slope} in {method:?}");
            }
        }
    }
}

/// Takes a step and returns the loss of its batch, times the number of rows.
fn loss_of_step(engine: &mut dyn Engine, batch: &Batch, step: u64) -> LossValue {
    engine.set_loss_sum(LossValue::default()).unwrap();
    engine.step(batch, 0.01, step).unwrap();
    engine.loss_sum().unwrap()
}

#[test]
fn the_host_reads_nothing_during_the_steps_of_a_device() {
    let data = data();
    let idf = data.idf();
    for kind in [OptimiserKind::Adamw, OptimiserKind::LazyAdamw, OptimiserKind::Sgd] {
        let mut method = small(Preset::Paper);
        method.optimiser.kind = kind;
        method.optimiser.clip = Limit::At(1.0);
        method.net.dropout = 0.25;
        let map = FeatureMap::new(&method.net, &data.features, &data.train);
        let supply = SignalSupply::in_training(&method, &idf, data.train());
        let start = EngineState::new(Weights::initial(&method, FEATURES, LABELS), kind);
        let mut engine = TorchEngine::new(&method, &data.idf(), start, tch::Device::Cpu).unwrap();
        engine.hold(&map, &data.features);
        let mut sum = LossValue::default();
        for step in 0..20 {
            let positions: Vec<u32> = (0..31).map(|i| (i * 7 + step as u32 * 50) % 240).collect();
            engine.step(&Batch::of_held(&supply, data.train(), &positions), 0.01, step).unwrap();
            if step == 9 {
                sum = engine.loss_sum().unwrap();
            }
        }
        assert_eq!(engine.host_reads(), 1);
        assert!(engine.loss_sum().unwrap().total > sum.total && sum.total > 0.0);
        assert_eq!(engine.host_reads(), 2);
    }
    // These operations wait for the device to learn the size of their result, or return a number to the host.
    let sources = [include_str!("../engine/torch.rs"), include_str!("../engine/feature_bags.rs")];
    let sources = sources
        .into_iter()
        .chain([include_str!("../engine/device_rows.rs"), include_str!("../loss/reference.rs")]);
    for source in sources {
        for waits in [
            "unique",
            "nonzero",
            "masked_select",
            "double_value",
            "int64_value",
            "f_to_device",
            "f_copy_data",
        ] {
            assert!(!source.contains(waits), "{waits}");
        }
    }
}

#[test]
fn batches_without_features_do_not_stop_a_device() {
    let (data, method) = (data(), small(Preset::Paper));
    let idf = data.idf();
    let map = FeatureMap::new(&method.net, &data.features, &data.train);
    let supply = SignalSupply::in_training(&method, &idf, data.train());
    let start = EngineState::new(Weights::initial(&method, FEATURES, LABELS), method.optimiser.kind);
    let mut engine = TorchEngine::new(&method, &idf, start, tch::Device::Cpu).unwrap();
    let empty = csr(&vec![vec![]; data.features.rows()], FEATURES, false);
    let examples = Examples { features: &empty, ..data.train() };
    let batch = Batch::labelled(&map, &supply, examples, &[0, 1, 2]);
    assert!(loss_of_step(&mut engine, &batch, 0).total.is_finite());
}

#[test]
fn rows_gathered_on_the_device_give_the_same_steps_as_rows_copied_there() {
    let data = data();
    let idf = Idf::of_rows(&data.labels, &data.train, 1.0);
    for features in [Features::All, Features::Hash, Features::Cut] {
        let mut method = small(Preset::Paper);
        method.net.features = features;
        method.net.feature_count = 20;
        let map = FeatureMap::new(&method.net, &data.features, &data.train);
        let supply = SignalSupply::in_training(&method, &idf, data.train());
        let start = EngineState::new(Weights::initial(&method, FEATURES, LABELS), method.optimiser.kind);
        let mut sent = TorchEngine::new(&method, &idf, start.clone(), tch::Device::Cpu).unwrap();
        let mut held = TorchEngine::new(&method, &idf, start, tch::Device::Cpu).unwrap();
        assert!(held.hold(&map, &data.features));
        for step in 0..3 {
            let positions: Vec<u32> = (0..31).map(|i| (i * 7 + step as u32 * 50) % 240).collect();
            let whole = loss_of_step(&mut sent, &batch(&data, &map, &supply, &positions), step);
            let listed = loss_of_step(&mut held, &Batch::of_held(&supply, data.train(), &positions), step);
            assert_eq!(whole, listed);
        }
        let (sent, held) = (sent.state().unwrap(), held.state().unwrap());
        for (sent, held) in sent.weights.named().iter().zip(held.weights.named()) {
            assert_eq!(sent.2[..], held.2[..], "{}", sent.0);
        }
    }
}

#[test]
fn bf16_products_change_a_step_by_no_more_than_their_rounding() {
    let data = data();
    let idf = Idf::of_rows(&data.labels, &data.train, 1.0);
    let full = small(Preset::Paper);
    let mut half = full.clone();
    half.precision = Precision::Bf16;
    let [full, half] = [full, half].map(|method| {
        let map = FeatureMap::new(&method.net, &data.features, &data.train);
        let supply = SignalSupply::in_training(&method, &idf, data.train());
        let start = EngineState::new(Weights::initial(&method, FEATURES, LABELS), method.optimiser.kind);
        let mut engine = TorchEngine::new(&method, &idf, start, tch::Device::Cpu).unwrap();
        let positions: Vec<u32> = (0..32).collect();
        loss_of_step(&mut engine, &batch(&data, &map, &supply, &positions), 0).total
    });
    assert!(full != half && (full - half).abs() < 0.01 * full.abs(), "{full} {half}");
}

#[test]
fn progress_is_reported_at_the_end_of_every_epoch() {
    static HEARD: AtomicBool = AtomicBool::new(false);
    struct ProgressListener;
    impl TrainingHost for ProgressListener {
        fn progress(&mut self, progress: TrainingProgress) {
            let last = progress.epoch == 6 && progress.macro_f1.is_some() && progress.loss.is_finite();
            HEARD.fetch_or(last, Ordering::Relaxed);
        }

        fn info(&mut self, _: String) {}

        fn warn(&mut self, _: String) {}

        fn should_stop(&mut self) -> bool {
            false
        }
    }
    let (data, method) = (data(), small(Preset::Paper));
    let history: History = train(run(&data, &data.idf(), &method), &mut ProgressListener).unwrap().history;
    assert!(HEARD.load(Ordering::Relaxed));
    assert_eq!(history.epochs.len(), 6);
}

/// Returns the predicted labels of the validation rows.
fn predicted(
    done: &TrainingResult,
    data: &TestData,
    signal: LocalSignal,
) -> Result<Vec<Vec<u32>>, PredictError> {
    let mut predictor = Predictor::new(done.model.clone(), Device::Cpu, 2)?;
    let mut all = Vec::new();
    predictor.predict(data.validation().unlabelled(), signal, Some(data.train()), |first, scores| {
        assert_eq!(first, all.len());
        all.extend(scores.predicted());
    })?;
    Ok(all)
}

#[test]
fn a_loaded_model_has_the_validation_metrics_of_its_training() {
    let data = data();
    let done = trained(&Method { epochs: 10, ..small(Preset::Honest) });
    let directory = tempfile::tempdir().unwrap();
    done.model.save(directory.path()).unwrap();
    let loaded = TrainingResult { model: Model::load(directory.path()).unwrap(), ..done };
    let mut counts = Counts::new(LABELS);
    for (row, labels) in predicted(&loaded, &data, LocalSignal::TrainNeighbours).unwrap().iter().enumerate() {
        counts.add(data.labels.row(data.validation[row] as usize), labels);
    }
    let kept = &loaded.history.epochs[loaded.history.kept as usize - 1];
    let labels: Vec<LabelCount> = counts.iter().collect();
    assert_eq!(Some(EpochMetrics::of(data.validation.len(), &labels)), kept.validation);
}

#[test]
fn only_the_oracle_protocol_uses_the_labels_of_the_rows_being_predicted() {
    let data = data();
    let done = trained(&small(Preset::Released));
    let refused = predicted(&done, &data, LocalSignal::BatchLabels).unwrap_err().to_string();
    assert!(refused.contains("true labels") && refused.contains("oracle"), "{refused}");

    let mut predictor = Predictor::new(done.model.clone(), Device::Cpu, 1).unwrap();
    let mut counts = [LabelCount::default(); LABELS];
    let Predictor { method, map, engine, pool, .. } = &mut predictor;
    let supply = LocalSupply::BatchLabels(method.signal.clone()).into();
    pool.install(|| {
        score_with_labels(&mut **engine, map, &supply, data.validation(), method.batch, |first, scores| {
            count(&mut counts, scores, data.validation(), first);
        })
    })
    .unwrap();
    let kept = &done.history.epochs[done.history.kept as usize - 1];
    assert_eq!(Some(EpochMetrics::of(data.validation.len(), &counts)), kept.validation);
}

#[test]
fn rows_of_another_data_set_are_refused() {
    let done = trained(&Method { epochs: 1, ..small(Preset::Honest) });
    let other = csr(&[vec![(0, 1.0)]], FEATURES + 1, false);
    let rows = Unlabelled { features: &other, rows: &[0] };
    let mut predictor = Predictor::new(done.model, Device::Cpu, 1).unwrap();
    let error = predictor.predict(rows, LocalSignal::None, None, |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("40 features") && error.contains("41"), "{error}");
}

const WIDE: usize = 3000;

/// Returns rows with a few labels out of many, which a network can memorise.
fn wide() -> TestData {
    let mut random = Random::new("wide", 2);
    let (mut features, mut labels) = (Vec::new(), Vec::new());
    for row in 0..64u32 {
        features.push(vec![(row, 1.0)]);
        let mut own = [random.below(WIDE) as u32, random.below(WIDE) as u32];
        own.sort_unstable();
        labels.push(if own[0] == own[1] { vec![(own[0], 1.0)] } else { own.map(|l| (l, 1.0)).to_vec() });
    }
    TestData {
        features: csr(&features, 64, false),
        labels: csr(&labels, WIDE, true),
        train: (0..64).collect(),
        validation: vec![],
    }
}

#[test]
fn with_many_labels_the_cross_entropy_tends_to_the_softplus_of_minus_the_mean_threshold() {
    let data = wide();
    let idf = data.idf();
    for variant in [Variant::Adaptive, Variant::KnnOnly, Variant::IdfOnly, Variant::Static] {
        let mut method = Method { variant, epochs: 400, batch: 64, ..small(Preset::Released) };
        method.net.hidden = vec![64];
        method.net.dropout = 0.0;
        method.optimiser.lr = 0.02;
        let run = TrainingRun { validation: None, ..run(&data, &idf, &method) };
        let history = train(run, &mut SilentHost).unwrap().history;
        let last = &history.epochs[history.epochs.len() - 1];
        let floor = (-last.theta.mean).exp().ln_1p();
        assert!((last.loss.bce - floor).abs() < 0.03 * floor, "{variant:?}: {} {floor}", last.loss.bce);
        let saturated = if variant == Variant::Static { 0.5 } else { 1.0 };
        assert!((last.theta.mean - saturated).abs() < 0.05, "{variant:?}: {:?}", last.theta);
    }
}
