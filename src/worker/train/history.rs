//! The record of an epoch in the history.

use crate::loss::real::Real;
use crate::loss::terms::STATIC_THRESHOLD;
use crate::net::weights::Weights;
use pipe_ml::config::method::Method;
use pipe_ml::config::threshold::{GlobalSignal, Squash};
use pipe_ml::history::{Epoch, EpochMetrics, LabelSpread, LossValue};
use pipe_ml::signal::idf::Idf;

/// Returns the record of one epoch: loss, validation metrics, and the spread of the threshold parameters.
pub fn epoch_record(
    epoch: u64,
    loss: LossValue,
    validation: Option<EpochMetrics>,
    method: &Method,
    weights: &Weights,
    idf: &Idf,
    lr: f64,
) -> Epoch {
    let spread = |values: &[f32]| LabelSpread::of(&values.iter().map(|&v| v.into()).collect::<Vec<f64>>());
    let lambda = effective_lambda(method, weights);
    Epoch {
        epoch,
        loss,
        validation,
        alpha: spread(&weights.alpha),
        beta: spread(&weights.beta),
        theta: LabelSpread::of(&base_thresholds(method, weights, idf)),
        lambda: LabelSpread::of(&lambda),
        lr,
    }
}

/// Returns the lambdas of eq. 1, one or one per label.
fn effective_lambda(method: &Method, weights: &Weights) -> Vec<f64> {
    let effective = |&raw: &f32| {
        let raw = f64::from(raw);
        if method.threshold.lambda_sigmoid { raw.sigmoid() } else { raw }
    };
    weights.lambda.iter().map(effective).collect()
}

/// Returns the threshold of each label (eq. 1) for a row without neighbours, salient labels and labels of its own.
pub fn base_thresholds(method: &Method, weights: &Weights, idf: &Idf) -> Vec<f64> {
    if !method.variant.learns() {
        return vec![STATIC_THRESHOLD; weights.labels()];
    }
    let lambda = effective_lambda(method, weights);
    let global = method.variant.uses_global() && method.threshold.global == GlobalSignal::Idf;
    let base_threshold = |label: usize| {
        let lambda = lambda[if lambda.len() == 1 { 0 } else { label }];
        let lambda = if method.threshold.fallback { 1.0 } else { lambda };
        let signal = if global { idf.values[label] } else { 0.0 };
        let inside = lambda * f64::from(weights.alpha[label]) * signal + f64::from(weights.bias[label]);
        match method.threshold.squash {
            Squash::None => inside,
            Squash::Sigmoid => inside.sigmoid(),
        }
    };
    (0..weights.labels()).map(base_threshold).collect()
}
