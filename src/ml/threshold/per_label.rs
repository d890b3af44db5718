//! Rules with one cut per label: SCut, SCutFBR, soft cuts, and SCut shrunk to the global cut.

use super::error::ThresholdError;
use super::global;
use super::rule::{Objective, PoorLabel, Scale};
use super::sample::Sample;
use super::scores::LabelScores;
use super::sweep::{BestCut, CutObjective, best_cut};

/// Returns the `(score, target)` pairs of a label, from which its cut is chosen.
type Targets<'a> = &'a (dyn Fn(usize, &LabelScores) -> Vec<(f32, f64)> + Sync);

/// Fits SCut: the cut with the best F1 of each label; for the micro objective, the cuts with the best pooled F1.
pub(super) fn scut(sample: &Sample, objective: Objective) -> Result<Vec<Option<BestCut>>, ThresholdError> {
    fit(sample, objective, &|label, scores| hard_targets(sample.positives(label), scores))
}

/// Returns the pairs of SCut: only the scores from the lowest positive upwards and the next one below, because no cut
/// below these can be best.
fn hard_targets(positives: &[u32], scores: &LabelScores) -> Vec<(f32, f64)> {
    let lowest = positives.iter().map(|&row| scores.of(row));
    let lowest = lowest.filter(|&score| score > f32::NEG_INFINITY).fold(f32::INFINITY, f32::min);
    let mut pairs = Vec::new();
    let mut next_below = f32::NEG_INFINITY;
    for (is_positive, score) in scores.with(positives) {
        if score >= lowest {
            pairs.push((score, f64::from(u8::from(is_positive))));
        } else {
            next_below = next_below.max(score);
        }
    }
    pairs.extend((next_below > f32::NEG_INFINITY).then_some((next_below, 0.0)));
    pairs
}

/// Fits soft cuts. With p = sigmoid(s), c = f / sum p and rho = prior / (prior + f), the target of a row is
/// (1 - rho) y + rho min(1, c p): the rarer the label, the more the probabilities count and the less its few labels.
pub(super) fn soft(
    sample: &Sample,
    objective: Objective,
    prior: f64,
    scale: Scale,
) -> Result<Vec<Option<BestCut>>, ThresholdError> {
    scale.check(sample.scores)?;
    fit(sample, objective, &|label, scores| {
        let positives = sample.positives(label);
        let rho = prior / (prior + positives.len() as f64);
        let sum: f64 = scores.iter().map(|score| scale.probability(score)).sum();
        let c = if sum > 0.0 { positives.len() as f64 / sum } else { 0.0 };
        let mut pairs = Vec::new();
        for (is_positive, score) in scores.with(positives) {
            if score > f32::NEG_INFINITY {
                let y = f64::from(u8::from(is_positive));
                let expected = (c * scale.probability(score)).min(1.0);
                pairs.push((score, (1.0 - rho) * y + rho * expected));
            }
        }
        pairs
    })
}

/// Chooses the best cut of every label.
fn fit(
    sample: &Sample,
    objective: Objective,
    targets: Targets,
) -> Result<Vec<Option<BestCut>>, ThresholdError> {
    let best_cuts = |cut_objective| {
        sample.map_stored(|label, scores| {
            best_cut(&mut targets(label, &scores), sample.positives(label).len(), cut_objective)
        })
    };
    match objective {
        Objective::Macro => best_cuts(CutObjective::F1),
        Objective::Precision(least) => best_cuts(CutObjective::Precision(least)),
        Objective::Recall(least) => best_cuts(CutObjective::Recall(least)),
        Objective::Cost(costs) => best_cuts(CutObjective::Cost(costs)),
        Objective::Micro => {
            // Each pass is optimal for the pooled F1 of the last one. When the pooled F1 does not rise any
            // more, the cuts are optimal.
            let mut reached = 0.0;
            loop {
                let best = best_cuts(CutObjective::Pooled(reached))?;
                let pooled = best.iter().flatten().fold(BestCut::default(), |sum, best| BestCut {
                    cut: None,
                    hits: sum.hits + best.hits,
                    predicted: sum.predicted + best.predicted,
                });
                let f1 = pooled.f1(sample.entries());
                if f1 <= reached {
                    return Ok(best);
                }
                reached = f1;
            }
        }
        Objective::Samples | Objective::OverallPrecision(_) | Objective::OverallRecall(_) => {
            Err(ThresholdError::Objective)
        }
    }
}

/// Fits SCutFBR: SCut, but a label whose best F1 on the fitting rows is below `fbr` is treated as `poor` says.
pub(super) fn scut_fbr(
    sample: &Sample,
    objective: Objective,
    fbr: f64,
    poor: PoorLabel,
) -> Result<Vec<Option<f32>>, ThresholdError> {
    let best = scut(sample, objective)?;
    let highest = match poor {
        PoorLabel::Never => vec![None; best.len()],
        PoorLabel::AboveHighest => {
            sample.map_stored(|_, scores| scores.iter().fold(f32::NEG_INFINITY, f32::max))?
        }
    };
    let cut = |(label, best): (usize, Option<BestCut>)| {
        let best = best?;
        if best.f1(sample.positives(label).len()) >= fbr {
            return best.cut;
        }
        highest[label].filter(|cut| cut.is_finite())
    };
    Ok(best.into_iter().enumerate().map(cut).collect())
}

/// Fits SCut shrunk to the global cut: (f cut + kappa global) / (f + kappa) for a label with f positives.
pub(super) fn shrunk(
    sample: &Sample,
    objective: Objective,
    kappa: f64,
) -> Result<Vec<Option<f32>>, ThresholdError> {
    let Some(global) = global::fit(sample, objective)? else {
        return Ok(vec![None; sample.labels.cols]);
    };
    let cut = |(label, best): (usize, Option<BestCut>)| {
        let f = sample.positives(label).len() as f64;
        let own = f64::from(best?.cut?);
        Some(((f * own + kappa * f64::from(global)) / (f + kappa)) as f32)
    };
    Ok(scut(sample, objective)?.into_iter().enumerate().map(cut).collect())
}
