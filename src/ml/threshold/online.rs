//! Online F-measure optimisation (Busa-Fekete et al., NeurIPS 2015): the cut is half of the F1 reached
//! so far.

use super::error::ThresholdError;
use super::rule::{Objective, Scale};
use super::sample::Sample;
use super::scores::normalise_zeros;

/// The running state: tau = a / b is half of the F1 so far; a counts hits, b counts predictions and positives.
#[derive(Debug, Clone, Copy)]
pub(super) struct OnlineF1 {
    pub a: f64,
    pub b: f64,
}

impl OnlineF1 {
    fn tau(self) -> f64 {
        self.a / self.b
    }

    /// Adds one decision.
    fn add(&mut self, truth: bool, predicted: bool) {
        self.a += f64::from(u8::from(truth && predicted));
        self.b += f64::from(u8::from(truth)) + f64::from(u8::from(predicted));
    }
}

/// Fits the cuts. The rows are visited in their order, `epochs` times. The macro objective has one running F1
/// per label, the micro objective one for all labels.
pub(super) fn fit(
    sample: &Sample,
    objective: Objective,
    start: OnlineF1,
    epochs: u32,
    scale: Scale,
) -> Result<Vec<Option<f32>>, ThresholdError> {
    scale.check(sample.scores)?;
    match objective {
        Objective::Macro => {
            let own = sample.map_seen(|label, column| {
                let mut running = start;
                for _ in 0..epochs {
                    let mut positives = sample.positives(label).iter().map(|&row| row as usize).peekable();
                    for (row, &score) in column.iter().enumerate() {
                        let truth = positives.next_if_eq(&row).is_some();
                        running.add(truth, scale.probability(score) > running.tau());
                    }
                }
                scale.score_of(running.tau())
            })?;
            Ok(own.into_iter().map(Option::flatten).collect())
        }
        Objective::Micro => {
            let running = pooled(sample, start, epochs, scale)?;
            let cut = scale.score_of(running.tau());
            Ok((0..sample.labels.cols).map(|label| cut.filter(|_| sample.is_seen(label))).collect())
        }
        _ => Err(ThresholdError::Objective),
    }
}

/// Computes the running F1 of all labels together. The order of the rows matters, so this uses one thread.
fn pooled(sample: &Sample, start: OnlineF1, epochs: u32, scale: Scale) -> Result<OnlineF1, ThresholdError> {
    let mut running = start;
    let mut scores = vec![0.0; sample.labels.cols];
    for _ in 0..epochs {
        for row in 0..sample.labels.rows() {
            sample.scores.read_rows(row..row + 1, &mut scores);
            normalise_zeros(&mut scores).map_err(|label| ThresholdError::NotANumber { row, label })?;
            let tau = running.tau();
            let mut truth = sample.labels.row(row).iter().map(|&label| label as usize).peekable();
            for (label, &score) in scores.iter().enumerate() {
                let truth = truth.next_if_eq(&label).is_some();
                running.add(truth, sample.is_seen(label) && scale.probability(score) > tau);
            }
        }
    }
    Ok(running)
}
