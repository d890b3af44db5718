//! Milliseconds per training step at the shape of AmazonCat-13K, by part, on synthetic rows.
//! `compare.py` runs it beside PyTorch. Usage: `train THREADS STEPS`; prints `name value unit`.

use std::time::Instant;

use pipe::ml::config::loss::LossConfig;
use pipe::ml::config::method::Method;
use pipe::ml::config::net::Features;
use pipe::ml::config::optimiser::OptimiserKind;
use pipe::ml::config::preset::Preset;
use pipe::ml::data::csr::Csr;
use pipe::ml::engine::State;
use pipe::ml::loss::fused::Pass;
use pipe::ml::loss::terms::{LossTerms, ThresholdTerms, Thresholds};
use pipe::ml::net::features::FeatureMap;
use pipe::ml::net::input::BatchInputs;
use pipe::ml::net::network::{Gradients, Workspace};
use pipe::ml::net::random::Random;
use pipe::ml::net::weights::Weights;
use pipe::ml::optim::optimiser::Optimiser;
use pipe::ml::signal::batch::BatchSignals;
use pipe::ml::signal::idf::Idf;
use pipe::ml::signal::propagate::propagate;
use pipe::ml::signal::sparse_rows::SparseRows;

const ROWS: usize = 128;
const FEATURES: usize = 203_882;
const NONZEROS: usize = 71;
const LABELS: usize = 13_330;
const LABELS_PER_ROW: usize = 5;
const HIDDEN: usize = 128;
const BATCHES: usize = 16;
const PARTS: [&str; 5] = ["batch", "forward", "signals", "loss_backward", "optimiser"];

fn main() {
    let argument = |place: usize| std::env::args().nth(place).and_then(|text| text.parse().ok());
    let (Some(threads), Some(steps)) = (argument(1), argument(2)) else {
        // `cargo bench` and `cargo test` start every bench without them.
        eprintln!("usage: train THREADS STEPS");
        return;
    };
    tch::set_num_threads(1);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    pool.install(|| {
        for (equations, preset) in [("released", Preset::Released), ("paper", Preset::Paper)] {
            for (name, kind) in [("lazy", OptimiserKind::LazyAdamw), ("dense", OptimiserKind::Adamw)] {
                measure(&format!("ours_{equations}_{name}"), &method(preset, kind), steps);
            }
        }
    });
}

fn method(preset: Preset, kind: OptimiserKind) -> Method {
    let mut method = preset.method();
    method.net.hidden = vec![HIDDEN];
    method.net.dropout = 0.0;
    method.net.features = Features::All;
    method.optimiser.kind = kind;
    method
}

fn measure(name: &str, method: &Method, steps: usize) {
    let (features, labels) = data();
    let map = FeatureMap::All { features: FEATURES };
    let idf = Idf::of_rows(&labels, &(0..(ROWS * BATCHES) as u32).collect::<Vec<_>>(), 1.0);
    let loss_config: &LossConfig = &method.loss;
    let loss = LossTerms::new(loss_config, &idf.positive_weights(loss_config.pos_weight));
    let thresholds = ThresholdTerms::new(method.variant, &method.threshold, &idf.values);
    let mut state = State::new(Weights::initial(method, FEATURES, LABELS), method.optimiser.kind);
    let optimiser = Optimiser::new(method.optimiser.clone());
    let mut workspace = Workspace::default();
    let mut gradients = Gradients::new(&state.weights);
    let mut times: Vec<[f64; PARTS.len()]> = Vec::new();
    let mut cpu = 0.0;
    for step in 0..steps + 3 {
        if step == 3 {
            cpu = cpu_seconds();
        }
        let mut clock = Clock { last: Instant::now(), parts: Vec::new() };
        let first = (step % BATCHES * ROWS) as u32;
        let rows: Vec<u32> = (first..first + ROWS as u32).collect();
        let mut inputs = BatchInputs::new(&map, &features, &rows);
        inputs.group_by_input();
        let targets = SparseRows::ones(rows.iter().map(|&row| labels.row(row as usize)));
        clock.lap();
        workspace.forward(&method.net, &state.weights, &inputs, None);
        clock.lap();
        let local = propagate(&targets, LABELS, false, 1e-8);
        let signals = BatchSignals::new(LABELS, &targets, &local, 1e-8);
        clock.lap();
        let weights = &state.weights;
        let parameters = Thresholds {
            alpha: &weights.alpha,
            beta: &weights.beta,
            bias: &weights.bias,
            lambda: &weights.lambda,
        };
        let pass = Pass::new(&loss, &thresholds, parameters, &signals, ROWS);
        let value = workspace.backward(&method.net, weights, &inputs, &pass, &mut gradients);
        drop(pass);
        assert!(value.total.is_finite());
        clock.lap();
        optimiser.step(method.optimiser.lr, &mut state, &gradients, &inputs, true);
        clock.lap();
        if step >= 3 {
            times.push(std::array::from_fn(|part| clock.parts[part]));
        }
    }
    let cpu = (cpu_seconds() - cpu) / steps as f64 * 1e3;
    println!("{name} {:.2} ms", median(times.iter().map(|parts| parts.iter().sum::<f64>())));
    println!("{name}_cpu {cpu:.1} ms");
    for (part, part_name) in PARTS.iter().enumerate() {
        println!("{name}.{part_name} {:.2} ms", median(times.iter().map(|parts| parts[part])));
    }
}

struct Clock {
    last: Instant,
    parts: Vec<f64>,
}

impl Clock {
    fn lap(&mut self) {
        let now = Instant::now();
        self.parts.push((now - self.last).as_secs_f64() * 1e3);
        self.last = now;
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// User and system time of this process, in steps of a hundredth of a second.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<f64> = after_name.split_whitespace().map(|field| field.parse().unwrap_or(0.0)).collect();
    fields.get(11..13).map_or(0.0, |times| times.iter().sum::<f64>() / 100.0)
}

/// Uniform features, the worst case for the lazy optimiser; labels with a long tail.
fn data() -> (Csr, Csr) {
    let mut random = Random::new(1, "bench", 0);
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
