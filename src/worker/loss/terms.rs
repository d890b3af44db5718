//! What the loss is made of: the resolved constants, and the parameters of the thresholds.

use super::real::Real;
use pipe_ml::config::loss::{LossConfig, Reduction};
use pipe_ml::config::threshold::{GlobalSignal, Squash, ThresholdConfig, Variant};
pub use pipe_ml::history::LossValue;

/// theta where the variant is static, as in the released code.
pub const STATIC_THRESHOLD: f64 = 0.5;

/// The constants of eqs. 2, 3 and 7.
#[derive(Debug, Clone)]
pub struct LossTerms<T> {
    pub standardise: bool,
    pub standardise_eps: f64,
    pub margin_weight: f64,
    pub margin: f64,
    pub reduction: Reduction,
    /// Weight of a positive, per label.
    pub positive_weights: Vec<T>,
}

impl<T: Real> LossTerms<T> {
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

/// How eq. 1 is put together.
#[derive(Debug, Clone)]
pub struct ThresholdTerms<T> {
    pub variant: Variant,
    pub global: GlobalSignal,
    pub squash: Squash,
    pub lambda_sigmoid: bool,
    /// IDF_l; used where the global signal is it.
    pub idf: Vec<T>,
}

impl<T: Real> ThresholdTerms<T> {
    pub fn new(variant: Variant, config: &ThresholdConfig, idf: &[f64]) -> Self {
        Self {
            variant,
            global: config.global,
            squash: config.squash,
            lambda_sigmoid: config.lambda_sigmoid,
            idf: idf.iter().map(|&value| T::of(value)).collect(),
        }
    }

    /// The lambda that eq. 1 sees, and its derivative by the parameter behind it.
    pub fn effective_lambda(&self, raw: T) -> (T, T) {
        if self.lambda_sigmoid {
            let lambda = raw.sigmoid();
            (lambda, lambda * (T::ONE - lambda))
        } else {
            (raw, T::ONE)
        }
    }
}

/// The learnable numbers of eq. 1, or their gradients. `lambda` has one entry, or one per label.
#[derive(Debug, Clone, Copy)]
pub struct Thresholds<'a, T> {
    pub alpha: &'a [T],
    pub beta: &'a [T],
    pub bias: &'a [T],
    pub lambda: &'a [T],
}
