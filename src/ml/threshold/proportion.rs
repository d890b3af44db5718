//! PCut: every label is predicted in proportion to its frequency in training, times a factor.

use super::cuts::{Cuts, cut_at};
use super::error::ThresholdError;
use super::rule::Objective;
use super::sample::Sample;
use crate::metric::label::{LabelCount, Tally};

/// Returns the factors that are tried: from 1/8 to 8, with four steps per doubling.
fn factors() -> impl Iterator<Item = f64> {
    (-12..=12).map(|step| 2f64.powf(f64::from(step) / 4.0))
}

/// Fits the share of rows that get each label.
pub(super) fn fit(
    sample: &Sample,
    objective: Objective,
    factor: Option<f64>,
) -> Result<Cuts, ThresholdError> {
    let factor = match factor {
        Some(factor) => factor,
        None => best_factor(sample, objective)?,
    };
    let rows = sample.labels.rows().max(1) as f64;
    let share = |label| (factor * sample.positives(label).len() as f64 / rows).min(1.0);
    Ok(Cuts::shares((0..sample.labels.cols).map(share).collect()))
}

/// Returns the factor with the best objective; of equally good ones the smallest.
fn best_factor(sample: &Sample, objective: Objective) -> Result<f64, ThresholdError> {
    let counts = sample.map_seen(|label, column| {
        let positives = sample.positives(label);
        let count = |factor: f64| {
            let cut = cut_at(column, (factor * positives.len() as f64).round() as usize);
            let above = |score: f32| cut.is_some_and(|cut| score > cut);
            LabelCount {
                tp: positives.iter().filter(|&&row| above(column[row as usize])).count() as u32,
                predicted: column.iter().filter(|&&score| above(score)).count() as u32,
                actual: positives.len() as u32,
            }
        };
        factors().map(count).collect::<Vec<_>>()
    })?;
    let (mut best, mut best_value) = (1.0, 0.0);
    for (at, factor) in factors().enumerate() {
        let tally = Tally::over(counts.iter().flatten().map(|counts| counts[at]));
        let value = match objective {
            Objective::Macro => tally.macro_f1(),
            Objective::Micro => tally.micro_f1(),
            _ => return Err(ThresholdError::Objective),
        };
        if value > best_value {
            (best, best_value) = (factor, value);
        }
    }
    Ok(best)
}
