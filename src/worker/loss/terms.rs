//! The constants of the loss, and the parameters of the thresholds.

use super::real::Real;
use pipe_ml::config::loss::{LossConfig, Reduction};
use pipe_ml::config::threshold::{GlobalSignal, Squash, ThresholdConfig, Variant};
pub use pipe_ml::history::LossValue;

/// The threshold of the variant `static`, as in the released code.
pub const STATIC_THRESHOLD: f64 = 0.5;

/// The constants of eqs. 2, 3 and 7.
#[derive(Debug, Clone)]
pub struct LossTerms<T> {
    pub standardise: bool,
    /// epsilon of eq. 2.
    pub standardise_eps: f64,
    /// lambda_m of eq. 3.
    pub margin_weight: f64,
    /// Delta of eq. 7.
    pub margin: f64,
    pub reduction: Reduction,
    /// The weight of a positive in the cross-entropy, per label.
    pub positive_weights: Vec<T>,
}

impl<T: Real> LossTerms<T> {
    /// Resolves a configuration.
    pub fn new(config: &LossConfig, positive_weights: &[f64]) -> Self {
        Self {
            standardise: config.standardise,
            standardise_eps: config.standardise_eps,
            margin_weight: config.margin_weight,
            margin: config.margin,
            reduction: config.reduction,
            positive_weights: positive_weights.iter().map(|&weight| T::of(weight)).collect(),
        }
    }
}

/// The form of eq. 1, and its IDF.
#[derive(Debug, Clone)]
pub struct ThresholdTerms<T> {
    pub variant: Variant,
    pub global: GlobalSignal,
    pub squash: Squash,
    pub lambda_sigmoid: bool,
    /// IDF_l (eq. 8), used if it is the global signal.
    pub idf: Vec<T>,
}

impl<T: Real> ThresholdTerms<T> {
    /// Resolves a configuration.
    pub fn new(variant: Variant, config: &ThresholdConfig, idf: &[f64]) -> Self {
        Self {
            variant,
            global: config.global,
            squash: config.squash,
            lambda_sigmoid: config.lambda_sigmoid,
            idf: idf.iter().map(|&value| T::of(value)).collect(),
        }
    }

    /// Returns the lambda of eq. 1, and its derivative by the parameter behind it.
    pub fn effective_lambda(&self, raw: T) -> (T, T) {
        if self.lambda_sigmoid {
            let lambda = raw.sigmoid();
            (lambda, lambda * (T::ONE - lambda))
        } else {
            (raw, T::ONE)
        }
    }
}

/// The parameters of eq. 1. `lambda` has one entry, or one per label.
#[derive(Debug, Clone, Copy)]
pub struct ThresholdParameters<'a, T> {
    pub alpha: &'a [T],
    pub beta: &'a [T],
    pub bias: &'a [T],
    pub lambda: &'a [T],
}
