//! The loss as a libtorch expression: it runs on CUDA, and the fused pass is tested against it.
//!
//! Autograd computes the gradients. Nothing here reads host memory, so that the device is never waited for.

use tch::{Kind, Reduction as TchReduction, TchError, Tensor};

use super::terms::STATIC_THRESHOLD;
use pipe_ml::config::loss::{LossConfig, Reduction};
use pipe_ml::config::threshold::{GlobalSignal, Squash, ThresholdConfig, Variant};

/// The parameters of eq. 1 as tensors. `lambda` has one entry, or one per label.
pub struct ThresholdTensors {
    pub alpha: Tensor,
    pub beta: Tensor,
    pub bias: Tensor,
    pub lambda: Tensor,
}

/// The signals of a batch as dense tensors on the device.
pub struct SignalTensors {
    pub idf: Tensor,
    /// The global signal of the released code.
    pub own: Option<Tensor>,
    /// The salience of the labels for the rows, times their IDF.
    pub salience: Option<Tensor>,
    pub local: Option<Tensor>,
    /// c(x) of the rows, B x 1, if the thresholds fall back.
    pub density: Option<Tensor>,
}

/// The loss and its two terms, attached to the autograd graph.
pub struct LossTensors {
    pub bce: Tensor,
    pub margin: Tensor,
    pub total: Tensor,
}

/// Computes eqs. 4-6 over dense labels, or over probabilities instead of labels.
pub fn propagate(y: &Tensor, leave_self_out: bool, eps: f64) -> Result<Tensor, TchError> {
    let mut shared = y.f_matmul(&y.f_tr()?)?;
    if leave_self_out {
        shared = &shared - shared.f_diag(0)?.f_diag(0)?;
    }
    let totals = y.f_sum_dim_intlist(Some([1].as_slice()), true, None::<Kind>)?;
    shared.f_div(&(totals + eps))?.f_matmul(y)
}

/// Computes the global signal of the released code: each label of a row, divided by the number of its labels.
pub fn own_label_share(y: &Tensor, eps: f64) -> Result<Tensor, TchError> {
    let totals = y.f_sum_dim_intlist(Some([1].as_slice()), true, None::<Kind>)?;
    y.f_div(&(totals + eps))
}

/// Computes the thresholds (eq. 1). The result broadcasts over the B x L logits.
pub fn thresholds(
    variant: Variant,
    config: &ThresholdConfig,
    parameters: &ThresholdTensors,
    signals: &SignalTensors,
) -> Result<Tensor, TchError> {
    if !variant.learns() {
        return parameters.bias.f_full_like(STATIC_THRESHOLD);
    }
    let mut lambda = if config.lambda_sigmoid {
        parameters.lambda.f_sigmoid()?
    } else {
        parameters.lambda.shallow_clone()
    };
    if let Some(density) = &signals.density {
        lambda = (lambda - 1.0).f_mul(density)? + 1.0;
    }
    let global = match config.global {
        GlobalSignal::Idf => Some(&signals.idf),
        GlobalSignal::Salience => signals.salience.as_ref(),
        GlobalSignal::OwnLabels => signals.own.as_ref(),
    };
    let mut inside = parameters.bias.shallow_clone();
    if let (true, Some(global)) = (variant.uses_global(), global) {
        inside = inside.f_add(&lambda.f_mul(&parameters.alpha)?.f_mul(global)?)?;
    }
    if let (true, Some(local)) = (variant.uses_local(), &signals.local) {
        inside = inside.f_add(&(lambda.f_neg()? + 1.0).f_mul(&parameters.beta)?.f_mul(local)?)?;
    }
    match config.squash {
        Squash::None => Ok(inside),
        Squash::Sigmoid => inside.f_sigmoid(),
    }
}

/// Returns the standardised logits (eq. 2), or the logits themselves if the method does not standardise.
pub fn standardised(z: &Tensor, config: &LossConfig) -> Result<Tensor, TchError> {
    if !config.standardise {
        return Ok(z.shallow_clone());
    }
    let mean = z.f_mean_dim(Some([1].as_slice()), true, None::<Kind>)?;
    let deviation = z.f_std_dim(Some([1].as_slice()), true, true)?;
    z.f_sub(&mean)?.f_div(&(deviation + config.standardise_eps))
}

/// Computes the loss of eqs. 3 and 7 from standardised logits, thresholds and dense labels.
pub fn loss(
    z: &Tensor,
    theta: &Tensor,
    y: &Tensor,
    positive_weights: &Tensor,
    config: &LossConfig,
) -> Result<LossTensors, TchError> {
    let adjusted = z.f_sub(theta)?;
    let elements = adjusted.f_binary_cross_entropy_with_logits(
        y,
        None::<&Tensor>,
        Some(positive_weights),
        TchReduction::None,
    )?;
    let sign = y * -2.0 + 1.0;
    let hinges = (sign.f_mul(&adjusted)? + config.margin).f_clamp_min(0.0)?;
    let bce = reduced(&elements, config.reduction)?;
    let margin = reduced(&hinges, config.reduction)?;
    let total = &bce + config.margin_weight * &margin;
    Ok(LossTensors { bce, margin, total })
}

/// Sums the elements and applies the factor of the reduction.
fn reduced(elements: &Tensor, reduction: Reduction) -> Result<Tensor, TchError> {
    let (rows, labels) = elements.size2()?;
    Ok(elements.f_sum(None::<Kind>)? * reduction.factor(rows as usize, labels as usize))
}
