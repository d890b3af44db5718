//! One linear classifier with the squared hinge loss, fitted by coordinate descent on the dual problem (Hsieh et al. 2008).
//!
//! It minimises |w|^2 / 2 + cost * sum_i max(0, 1 - y_i s_i)^2, where s_i = w x_i + bias and the bias is the weight of a
//! constant feature.

use super::node_rows::NodeRows;

/// The largest number of passes over the rows.
const MAX_PASSES: usize = 20;
/// The descent ends when the projected gradients of a pass differ by at most this much, as in LIBLINEAR.
const TOLERANCE: f32 = 0.1;
/// Smaller gradients change nothing.
const SMALLEST_GRADIENT: f32 = 1e-6;

/// The weights of a classifier.
pub(super) struct Classifier {
    /// The weight of each feature of the node.
    pub weights: Vec<f32>,
    pub bias: f32,
}

impl Classifier {
    /// Fits a classifier that separates the rows at the positions `positives` from the others.
    pub(super) fn fit(rows: &NodeRows, positives: &[u32], cost: f32) -> Self {
        let mut sign = vec![-1f32; rows.len()];
        for &at in positives {
            sign[at as usize] = 1.0;
        }
        let ridge = 0.5 / cost;
        let mut classifier = Self { weights: vec![0.0; rows.features().len()], bias: 0.0 };
        let mut alpha = vec![0f32; rows.len()];
        let mut active: Vec<u32> = (0..rows.len() as u32).collect();
        let mut limit = f32::INFINITY;
        for _ in 0..MAX_PASSES {
            let (mut highest, mut lowest) = (f32::NEG_INFINITY, f32::INFINITY);
            let mut kept = 0;
            for at in 0..active.len() {
                let row = active[at] as usize;
                let gradient = sign[row] * classifier.score(rows, row) - 1.0 + alpha[row] * ridge;
                let mut projected = gradient;
                if alpha[row] == 0.0 {
                    if gradient > limit {
                        continue;
                    }
                    projected = gradient.min(0.0);
                }
                active[kept] = active[at];
                kept += 1;
                highest = highest.max(projected);
                lowest = lowest.min(projected);
                if projected.abs() > SMALLEST_GRADIENT {
                    let before = alpha[row];
                    alpha[row] = (before - gradient / (rows.square(row) + ridge)).max(0.0);
                    classifier.add(rows, row, (alpha[row] - before) * sign[row]);
                }
            }
            active.truncate(kept);
            limit = if highest > 0.0 { highest } else { f32::INFINITY };
            if highest - lowest <= TOLERANCE {
                if active.len() == rows.len() {
                    break;
                }
                // Rows that were set aside are looked at once more.
                active = (0..rows.len() as u32).collect();
                limit = f32::INFINITY;
            }
        }
        classifier
    }

    /// Returns the score of a row, w x + bias.
    fn score(&self, rows: &NodeRows, row: usize) -> f32 {
        rows.entries(row).iter().map(|&(feature, value)| self.weights[feature as usize] * value).sum::<f32>()
            + self.bias
    }

    /// Adds a multiple of a row to the weights.
    fn add(&mut self, rows: &NodeRows, row: usize, step: f32) {
        for &(feature, value) in rows.entries(row) {
            self.weights[feature as usize] += step * value;
        }
        self.bias += step;
    }
}
