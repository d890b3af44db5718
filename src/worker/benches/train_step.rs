//! Measures the milliseconds per training step, as a whole and by part, on synthetic rows with the shape of
//! AmazonCat-13K. `benches/train_step/compare.py` (`make bench-train`) runs it alternately with PyTorch.
//!
//! Usage: `train_step THREADS STEPS`. It prints lines of `name value unit`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its measurements")]

use std::time::Instant;

use pipe_ml::config::method::Method;
use pipe_ml::config::net::Features;
use pipe_ml::config::optimiser::OptimiserKind;
use pipe_ml::config::preset::Preset;
use pipe_ml::data::csr::Csr;
use pipe_ml::data::examples::Examples;
use pipe_ml::data::random::Random;
use pipe_ml::metric::label::LabelCount;
use pipe_ml::signal::batch::BatchSignals;
use pipe_ml::signal::idf::Idf;
use pipe_ml::signal::propagate::propagate;
use pipe_ml::signal::sparse_rows::SparseRows;
use pipe_ml::signal::supply::SignalSupply;
use pipe_worker::engine::cpu::CpuEngine;
use pipe_worker::engine::pool::pool;
use pipe_worker::engine::score::{count, score_with_labels};
use pipe_worker::engine::{Batch, Engine, EngineState};
use pipe_worker::loss::terms::{LossTerms, ThresholdTerms};
use pipe_worker::net::features::FeatureMap;
use pipe_worker::net::input::{BatchInputs, InputGroups};
use pipe_worker::net::network::{BatchLoss, Gradients, Workspace};
use pipe_worker::net::weights::Weights;
use pipe_worker::optim::optimiser::CpuOptimiser;

const ROWS: usize = 128;
const FEATURES: usize = 203_882;
const NONZEROS: usize = 71;
const LABELS: usize = 13_330;
const LABELS_PER_ROW: usize = 5;
const HIDDEN: usize = 128;
const BATCHES: usize = 16;
const WARM_UP: usize = 3;
/// How often the rows are scored as validation does it.
const VALIDATIONS: usize = 5;
/// How many rows are trained on for each row of validation: 36,000 for 4,000.
const TRAINING_SHARE: f64 = 9.0;
const PARTS: [&str; 6] = ["batch", "signals", "catch_up", "forward", "loss_backward", "optimiser"];

fn main() {
    let argument = |number: usize| std::env::args().nth(number).and_then(|text| text.parse().ok());
    let (Some(threads), Some(steps)) = (argument(1), argument(2)) else {
        // `cargo bench` and `cargo test` start every benchmark without arguments.
        eprintln!("usage: train_step THREADS STEPS");
        return;
    };
    println!("libtorch_gemms {:.2} ms", products(threads as i32, steps));
    pool(threads).expect("the threads start").install(|| {
        for (equations, preset) in [("released", Preset::Released), ("paper", Preset::Paper)] {
            for (name, kind) in [("lazy", OptimiserKind::LazyAdamw), ("dense", OptimiserKind::Adamw)] {
                measure(&format!("ours_{equations}_{name}"), &method(preset, kind), steps);
            }
        }
    });
}

/// Returns the median time of the three matrix products of the output layer, by libtorch with all threads.
fn products(threads: i32, steps: usize) -> f64 {
    tch::set_num_threads(threads);
    let random = |rows: usize, columns: usize| {
        tch::Tensor::randn([rows as i64, columns as i64], (tch::Kind::Float, tch::Device::Cpu))
    };
    let (h, w, g) = (random(ROWS, HIDDEN), random(LABELS, HIDDEN), random(ROWS, LABELS));
    let (z, dw, dh) = (random(ROWS, LABELS), random(LABELS, HIDDEN), random(ROWS, HIDDEN));
    let mut times = Vec::new();
    for step in 0..steps + WARM_UP {
        let start = Instant::now();
        let _ = h.mm_out(&z, &w.tr());
        let _ = g.tr().mm_out(&dw, &h);
        let _ = g.mm_out(&dh, &w);
        if step >= WARM_UP {
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    median(times.into_iter())
}

/// Returns the measured method: a preset with one hidden layer and without dropout.
fn method(preset: Preset, kind: OptimiserKind) -> Method {
    let mut method = preset.method();
    method.net.hidden = vec![HIDDEN];
    method.net.dropout = 0.0;
    method.net.features = Features::All;
    method.optimiser.kind = kind;
    method
}

/// Measures a method.
fn measure(name: &str, method: &Method, steps: usize) {
    let (features, labels) = data();
    let rows: Vec<u32> = (0..(ROWS * BATCHES) as u32).collect();
    let examples = Examples { features: &features, labels: &labels, rows: &rows };
    let idf = Idf::of_rows(&labels, &rows, 1.0);
    let state = EngineState::new(Weights::initial(method, FEATURES, LABELS), method.optimiser.kind);
    let state = whole_steps(name, method, examples, &idf, state, steps);
    parts_of_steps(name, method, examples, &idf, state, steps);
}

/// Measures whole steps as training runs them: the next batch is assembled during a step.
fn whole_steps(
    name: &str,
    method: &Method,
    examples: Examples,
    idf: &Idf,
    state: EngineState,
    steps: usize,
) -> EngineState {
    let map = FeatureMap::All { features: FEATURES };
    let supply = SignalSupply::in_training(method, idf, examples);
    let mut engine = CpuEngine::new(method, idf, state);
    let batch = |step: usize| {
        let first = (step % BATCHES * ROWS) as u32;
        let positions: Vec<u32> = (first..first + ROWS as u32).collect();
        Batch::labelled(&map, &supply, examples, &positions).for_a_step()
    };
    let (mut times, mut cpu, mut next) = (Vec::new(), 0.0, batch(0));
    for step in 0..steps + WARM_UP {
        if step == WARM_UP {
            cpu = cpu_seconds();
        }
        let start = Instant::now();
        let work = || engine.step(&next, method.optimiser.lr, step as u64);
        let (loss, following) = rayon::join(work, || batch(step + 1));
        assert!(loss.is_ok() && engine.loss_sum().is_ok_and(|sum| sum.total.is_finite()));
        next = following;
        if step >= WARM_UP {
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    let cpu = (cpu_seconds() - cpu) / steps as f64 * 1e3;
    let step = median(times.into_iter());
    println!("{name} {step:.2} ms");
    println!("{name}_cpu {cpu:.1} ms");
    engine.settle();
    let mut counts = vec![LabelCount::default(); LABELS];
    let mut times = Vec::new();
    for _ in 0..VALIDATIONS {
        let start = Instant::now();
        let scored = score_with_labels(&mut engine, &map, &supply, examples, ROWS, |first, scores| {
            count(&mut counts, scores, examples, first);
        });
        assert!(scored.is_ok());
        times.push(start.elapsed().as_secs_f64() * 1e3 / BATCHES as f64);
    }
    let validation = median(times.into_iter());
    println!("{name}_validation_batch {validation:.2} ms");
    println!("{name}_validation_of_epoch {:.1} %", 100.0 * validation / (TRAINING_SHARE * step));
    Box::new(engine).into_state().expect("the CPU engine always has its state")
}

/// Measures the same work, one part after the other.
fn parts_of_steps(
    name: &str,
    method: &Method,
    examples: Examples,
    idf: &Idf,
    mut state: EngineState,
    steps: usize,
) {
    let map = FeatureMap::All { features: FEATURES };
    let loss = LossTerms::new(&method.loss, &idf.positive_weights(method.loss.pos_weight));
    let thresholds = ThresholdTerms::new(method.variant, &method.threshold, &idf.values);
    let mut optimiser = CpuOptimiser::new(method.optimiser.clone());
    let mut workspace = Workspace::default();
    let mut gradients = Gradients::new(&state.weights);
    let mut times: Vec<[f64; PARTS.len()]> = Vec::new();
    for step in 0..steps + WARM_UP {
        let mut clock = Clock { last: Instant::now(), parts: Vec::new() };
        let rows = &examples.rows[step % BATCHES * ROWS..][..ROWS];
        let inputs = BatchInputs::new(&map, examples.features, rows);
        let groups = InputGroups::new(&inputs);
        let targets = SparseRows::ones(rows.iter().map(|&row| examples.labels.row(row as usize)));
        clock.lap();
        let local = propagate(&targets, LABELS, false, 1e-8);
        let signals = BatchSignals::new(LABELS, &targets, &local, 1e-8);
        clock.lap();
        optimiser.catch_up(&mut state, &groups);
        clock.lap();
        workspace.forward(&method.net, &state.weights, &inputs, None);
        clock.lap();
        let EngineState { weights, moments, steps } = &mut state;
        let early = optimiser.early_step(method.optimiser.lr, *steps, moments.as_deref_mut());
        let loss = BatchLoss { terms: &loss, thresholds: &thresholds, signals: &signals, rows: ROWS };
        workspace.backward(&method.net, weights, &groups, loss, &mut gradients, early);
        clock.lap();
        optimiser.step(method.optimiser.lr, &mut state, &gradients, &groups, true);
        clock.lap();
        if step >= WARM_UP {
            times.push(std::array::from_fn(|part| clock.parts[part]));
        }
    }
    for (part, part_name) in PARTS.iter().enumerate() {
        println!("{name}.{part_name} {:.2} ms", median(times.iter().map(|parts| parts[part])));
    }
}

/// Measures the milliseconds of each part of a step.
struct Clock {
    last: Instant,
    parts: Vec<f64>,
}

impl Clock {
    /// Ends a part.
    fn lap(&mut self) {
        let now = Instant::now();
        self.parts.push((now - self.last).as_secs_f64() * 1e3);
        self.last = now;
    }
}

/// Returns the median.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the user and system time of this process, in steps of a hundredth of a second.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<f64> = after_name.split_whitespace().map(|field| field.parse().unwrap_or(0.0)).collect();
    fields.get(11..13).map_or(0.0, |times| times.iter().sum::<f64>() / 100.0)
}

/// Returns uniform features, the worst case for the lazy optimiser, and labels with a long tail.
fn data() -> (Csr, Csr) {
    let mut random = Random::new("bench", 1);
    let mut draw = |count: usize, of: usize, tail: bool| {
        let mut row: Vec<u32> = Vec::with_capacity(count);
        while row.len() < count {
            let u = random.unit();
            let index = if tail { (of as f64).powf(u) - 1.0 } else { u * of as f64 };
            if !row.contains(&(index as u32)) {
                row.push(index as u32);
            }
        }
        row.sort_unstable();
        row
    };
    let rows = ROWS * BATCHES;
    let features: Vec<Vec<u32>> = (0..rows).map(|_| draw(NONZEROS, FEATURES, false)).collect();
    let labels: Vec<Vec<u32>> = (0..rows).map(|_| draw(LABELS_PER_ROW, LABELS, true)).collect();
    let csr = |lists: Vec<Vec<u32>>, cols: usize, values: Vec<f32>| Csr {
        cols,
        indptr: (0..=lists.len()).map(|row| (row * lists[0].len()) as u64).collect::<Vec<_>>().into(),
        indices: lists.concat().into(),
        values: values.into(),
    };
    (csr(features, FEATURES, vec![0.12; rows * NONZEROS]), csr(labels, LABELS, vec![]))
}
