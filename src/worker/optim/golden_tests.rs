//! Tests of whole steps, from sparse rows to updated parameters, against golden vectors from PyTorch.

use serde_json::Value;

use super::optimiser::CpuOptimiser;
use crate::engine::EngineState;
use crate::loss::terms::{LossTerms, ThresholdTerms};
use crate::net::buffer::Buffer;
use crate::net::features::FeatureMap;
use crate::net::input::{BatchInputs, InputGroups};
use crate::net::network::{BatchLoss, Gradients, Workspace};
use crate::net::weights::Weights;
use pipe_golden::{assert_close, flat, matrix, read, vector};
use pipe_ml::config::loss::{LossConfig, Reduction};
use pipe_ml::config::net::NetConfig;
use pipe_ml::config::optimiser::{OptimiserConfig, OptimiserKind};
use pipe_ml::config::preset::Preset;
use pipe_ml::config::threshold::{GlobalSignal, Squash, ThresholdConfig, Variant};
use pipe_ml::data::csr::Csr;
use pipe_ml::signal::batch::BatchSignals;
use pipe_ml::signal::propagate::propagate;
use pipe_ml::signal::sparse_rows::SparseRows;

const INPUTS: usize = 8;
const HIDDEN: usize = 5;
const LABELS: usize = 9;
const LR: f64 = 1e-2;

fn transposed(values: &[f64], columns: usize) -> Vec<f64> {
    let rows = values.len() / columns;
    (0..values.len()).map(|i| values[i % rows * columns + i / rows]).collect()
}

/// Our name, the name in the golden file, and whether the golden values are transposed.
const PARAMETERS: [(&str, &str, bool); 8] = [
    ("input.weight", "Win", true),
    ("input.bias", "bin", false),
    ("layers.0.weight", "W", false),
    ("layers.0.bias", "c", false),
    ("threshold.alpha", "alpha", false),
    ("threshold.beta", "beta", false),
    ("threshold.bias", "bias", false),
    ("threshold.lambda", "lam", false),
];

fn golden_values(values: &Value, name: &str, transpose: bool) -> Vec<f64> {
    let value = &values[name];
    match value.as_array() {
        None => vec![value.as_f64().unwrap()],
        Some(rows) if rows[0].is_array() && transpose => transposed(&flat(value), INPUTS),
        Some(rows) if rows[0].is_array() => flat(value),
        Some(_) => vector(value),
    }
}

fn inputs(golden: &Value) -> (BatchInputs, Weights) {
    let numbers = |name: &str| vector(&golden[name]);
    let features = Csr {
        cols: INPUTS,
        indptr: numbers("indptr").iter().map(|&n| n as u64).collect::<Vec<_>>().into(),
        indices: numbers("indices").iter().map(|&n| n as u32).collect::<Vec<_>>().into(),
        values: numbers("values").iter().map(|&n| n as f32).collect::<Vec<_>>().into(),
    };
    let batch = BatchInputs::new(&FeatureMap::All { features: INPUTS }, &features, &[0, 1, 2, 3, 4, 5]);
    let mut weights = Weights::zeros(&[INPUTS, HIDDEN, LABELS], 1, 0);
    for (buffer, (_, name, transpose)) in weights.buffers_mut().into_iter().zip(PARAMETERS) {
        let values = golden_values(golden, name, transpose);
        *buffer = Buffer::from_values(values.iter().map(|&value| value as f32));
    }
    (batch, weights)
}

fn check(what: &str, weights: &Weights, golden: &Value, gradient: Option<&[f32]>) {
    for ((name, _, buffer), (ours, theirs, transpose)) in weights.named().into_iter().zip(PARAMETERS) {
        assert_eq!(name, ours);
        if golden[theirs].is_null() {
            continue;
        }
        let buffer: &[f32] = match gradient {
            Some(table) if ours == "input.weight" => table,
            _ => buffer,
        };
        let values: Vec<f64> = buffer.iter().map(|&value| value.into()).collect();
        assert_close(&format!("{what}: {name}"), &values, &golden_values(golden, theirs, transpose), 1e-5);
    }
}

/// Takes the steps of a golden run, and returns the bits of all weights. With `at_once`, the weights of the output layer take
/// their step within the backward pass.
fn run_golden(number: usize, kind: OptimiserKind, at_once: bool) -> Vec<u32> {
    tch::set_num_threads(1);
    let golden = read("train_steps");
    let run = &golden["runs"][number];
    let paper = Preset::Paper.method();
    let released = run["mode"] == "released";
    let threshold = ThresholdConfig {
        global: if released { GlobalSignal::OwnLabels } else { GlobalSignal::Idf },
        squash: if released { Squash::Sigmoid } else { Squash::None },
        ..paper.threshold
    };
    let variant = if run["variant"] == "static" { Variant::Static } else { Variant::Adaptive };
    let loss = LossConfig {
        standardise: run["standardise"].as_bool().unwrap(),
        reduction: if run["reduction"] == "mean" { Reduction::Mean } else { Reduction::SumLabelsMeanBatch },
        ..paper.loss
    };
    let config = OptimiserConfig { kind, lr: LR, weight_decay: 1e-2, ..paper.optimiser };
    let net = NetConfig { hidden: vec![HIDDEN], ..paper.net };

    let (batch, weights) = inputs(&golden["inputs"]);
    let groups = InputGroups::new(&batch);
    let y = SparseRows::from_dense(&matrix(&golden["inputs"]["Y"]));
    let signals = BatchSignals::new(LABELS, &y, &propagate(&y, LABELS, false, 1e-8), 1e-8);
    let terms = LossTerms::new(&loss, &[run["pos_weight"].as_f64().unwrap(); LABELS]);
    let thresholds = ThresholdTerms::new(variant, &threshold, &vector(&golden["inputs"]["IDF"]));
    let mut optimiser = CpuOptimiser::new(config.clone());
    let mut state = EngineState::new(weights, config.kind);
    let mut workspace = Workspace::default();
    let mut gradients = Gradients::new(&state.weights);
    for (t, step) in run["steps"].as_array().unwrap().iter().enumerate() {
        let what = format!("run {number}, step {t}");
        workspace.forward(&net, &state.weights, &batch, None);
        let EngineState { weights, moments, steps } = &mut state;
        let early = optimiser.early_step(LR, *steps, moments.as_deref_mut()).filter(|_| at_once);
        let loss = BatchLoss { terms: &terms, thresholds: &thresholds, signals: &signals, rows: 6 };
        let value = workspace.backward(&net, weights, &groups, loss, &mut gradients, early);
        assert_close(&what, &[value.total], &[step["loss"].as_f64().unwrap()], 1e-5);
        if step["grads"].is_object() && !at_once {
            check(&format!("{what}, gradient"), &gradients.rest, &step["grads"], Some(&gradients.table));
        }
        optimiser.step(LR, &mut state, &gradients, &groups, variant.learns());
        optimiser.settle(&mut state);
        if step["params_after"].is_object() {
            check(&format!("{what}, after"), &state.weights, &step["params_after"], None);
        }
    }
    let weights = state.weights.named();
    weights.iter().flat_map(|(_, _, values)| values.iter().map(|value| value.to_bits())).collect()
}

#[test]
fn three_steps_of_exact_adamw_match_pytorch() {
    for number in 0..4 {
        let weights = run_golden(number, OptimiserKind::Adamw, false);
        assert_eq!(weights, run_golden(number, OptimiserKind::Adamw, true));
    }
}

#[test]
fn if_every_input_occurs_lazy_adamw_equals_exact_adamw() {
    for number in 0..4 {
        run_golden(number, OptimiserKind::LazyAdamw, true);
    }
}
