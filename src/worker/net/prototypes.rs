//! The learned neighbourhood of a row: soft assignment to prototypes in the last hidden layer.
//!
//! With the outputs h of the last hidden layer, the prototypes p_m and the log-odds q_lm, the local signal is
//! KNN_l = sum over m of softmax_m(h · p_m) · sigmoid(q_lm).

use super::buffer::Buffer;
use super::gemm::{MatrixView, multiply};
use super::weights::Weights;
use crate::loss::real::Real;
use pipe_ml::signal::sparse_rows::SparseRows;

/// The values of a batch that the backward pass needs. All are stored by unit, `stride` values each.
#[derive(Default)]
pub struct Neighbourhoods {
    /// The assignment of each row to each prototype.
    assignment: Buffer,
    /// sigmoid(q), labels x prototypes.
    shares: Buffer,
}

/// The sizes of the prototypes of a model.
struct Sizes {
    prototypes: usize,
    inputs: usize,
    labels: usize,
}

impl Sizes {
    fn of(weights: &Weights) -> Self {
        Self { prototypes: weights.prototypes(), inputs: weights.last_hidden(), labels: weights.labels() }
    }
}

impl Neighbourhoods {
    /// Computes the local signal of `rows` rows from the outputs `h` of the last hidden layer.
    pub fn forward(&mut self, weights: &Weights, h: &[f32], stride: usize, rows: usize) -> SparseRows {
        let Sizes { prototypes, inputs, labels } = Sizes::of(weights);
        self.assignment.resize(prototypes * stride);
        let centres = MatrixView::new(&weights.centres, prototypes, inputs);
        multiply(centres, MatrixView::new(h, inputs, stride), &mut self.assignment, false);
        for row in 0..stride {
            let places = (0..prototypes).map(|number| number * stride + row);
            let largest = places.clone().map(|at| self.assignment[at]).fold(f32::NEG_INFINITY, f32::max);
            let mut total = 0.0;
            for at in places.clone() {
                let power = (self.assignment[at] - largest).exp_of_negative();
                self.assignment[at] = power;
                total += power;
            }
            for at in places {
                self.assignment[at] /= total;
            }
        }
        self.shares.resize(labels * prototypes);
        for (share, &log_odds) in self.shares.iter_mut().zip(weights.shares.iter()) {
            *share = log_odds.sigmoid();
        }
        let mut signal = Buffer::zeros(labels * stride);
        let shares = MatrixView::new(&self.shares, labels, prototypes);
        multiply(shares, MatrixView::new(&self.assignment, prototypes, stride), &mut signal, false);
        let mut local = SparseRows::default();
        for row in 0..rows {
            local.push((0..labels).map(|label| (label as u32, signal[label * stride + row].into())));
        }
        local
    }

    /// Computes the gradients by the prototypes and adds the gradient by `h`. `factors` are the factors of the local signal
    /// in the threshold of each label, and `g` is the gradient by the logits, which is minus that by the thresholds.
    pub fn backward(
        &self,
        weights: &Weights,
        h: &[f32],
        g: &[f32],
        factors: &[f32],
        gradients: &mut Weights,
        h_gradient: &mut [f32],
    ) {
        let Sizes { prototypes, inputs, labels } = Sizes::of(weights);
        let stride = h.len() / inputs;
        let mut by_signal = Buffer::zeros(g.len());
        let runs = by_signal.chunks_exact_mut(stride).zip(g.chunks_exact(stride)).zip(factors);
        for ((by_signal, g), factor) in runs {
            for (by_signal, g) in by_signal.iter_mut().zip(g) {
                *by_signal = -factor * g;
            }
        }
        let by_signal = MatrixView::new(&by_signal, labels, stride);
        let assignment = MatrixView::new(&self.assignment, prototypes, stride);
        multiply(by_signal, assignment.transpose(), &mut gradients.shares, false);
        for (gradient, share) in gradients.shares.iter_mut().zip(self.shares.iter()) {
            *gradient *= share * (1.0 - share);
        }
        let mut by_product = Buffer::zeros(prototypes * stride);
        let shares = MatrixView::new(&self.shares, labels, prototypes);
        multiply(shares.transpose(), by_signal, &mut by_product, false);
        for row in 0..stride {
            let places = (0..prototypes).map(|number| number * stride + row);
            let mean: f32 = places.clone().map(|at| by_product[at] * self.assignment[at]).sum();
            for at in places {
                by_product[at] = self.assignment[at] * (by_product[at] - mean);
            }
        }
        let by_product = MatrixView::new(&by_product, prototypes, stride);
        let h = MatrixView::new(h, inputs, stride);
        multiply(by_product, h.transpose(), &mut gradients.centres, false);
        let centres = MatrixView::new(&weights.centres, prototypes, inputs);
        multiply(centres.transpose(), by_product, h_gradient, true);
    }
}
