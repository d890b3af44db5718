//! Weighted logistic regression on a few columns, by Newton's method.
//!
//! Columns are standardised first. Sums run over blocks of pairs that do not depend on the number of threads,
//! so that the weights do not either.

use crate::softplus::softplus;
use rayon::prelude::*;

/// The pairs of a regression.
pub(super) struct PairSample {
    pub columns: usize,
    /// The columns of each pair, row-major.
    pub x: Vec<f64>,
    /// The number of true pairs, which come first.
    pub positives: usize,
    /// The number of pairs that count once. They come first: the true pairs, then the others that were not drawn.
    pub certain: usize,
    /// The weight of each of the others.
    pub drawn_weight: f64,
}

const BLOCK: usize = 1 << 13;
const ROUNDS: usize = 100;
/// Keeps the weights finite if columns are collinear or separate the pairs perfectly.
const RIDGE: f64 = 1e-2;

impl PairSample {
    /// Sums what `add` computes from (columns, is true, weight) of each pair, block by block.
    fn sum(&self, size: usize, add: impl Fn(&mut [f64], &[f64], bool, f64) + Sync) -> Vec<f64> {
        let blocks = self.x.par_chunks(BLOCK * self.columns).enumerate().map(|(block, x)| {
            let mut sums = vec![0.0; size];
            for (at, x) in x.chunks_exact(self.columns).enumerate() {
                let at = block * BLOCK + at;
                let weight = if at < self.certain { 1.0 } else { self.drawn_weight };
                add(&mut sums, x, at < self.positives, weight);
            }
            sums
        });
        blocks.collect::<Vec<_>>().into_iter().fold(vec![0.0; size], |mut sum, block| {
            for (sum, part) in sum.iter_mut().zip(block) {
                *sum += part;
            }
            sum
        })
    }
}

/// Returns the weights of the columns, then the constant. `None` if some number is not finite.
pub(super) fn fit(sample: &PairSample) -> Option<Vec<f64>> {
    let columns = sample.columns;
    let (means, deviations) = moments(sample);
    let standard = |x: f64, column: usize| {
        if deviations[column] > 0.0 { (x - means[column]) / deviations[column] } else { 0.0 }
    };
    // The last of the standardised weights is the constant.
    let size = columns + 1;
    let value = |weights: &[f64], x: &[f64]| {
        let sum = x.iter().enumerate().map(|(column, &x)| weights[column] * standard(x, column));
        sum.sum::<f64>() + weights[columns]
    };
    let loss = |weights: &[f64]| {
        let sum = sample.sum(1, |sum, x, is_true, weight| {
            let s = value(weights, x);
            sum[0] += weight * softplus(if is_true { -s } else { s });
        });
        sum[0] + 0.5 * RIDGE * weights[..columns].iter().map(|w| w * w).sum::<f64>()
    };
    let mut weights = vec![0.0; size];
    let mut reached = loss(&weights);
    for _ in 0..ROUNDS {
        let step = newton_step(sample, &weights, &value, &standard)?;
        let mut share = 1.0;
        let (next, next_loss) = loop {
            let next: Vec<f64> = weights.iter().zip(&step).map(|(w, step)| w - share * step).collect();
            let next_loss = loss(&next);
            if next_loss <= reached || share < 1e-6 {
                break (next, next_loss);
            }
            share /= 2.0;
        };
        if !next_loss.is_finite() {
            return None;
        }
        let settled = reached - next_loss <= 1e-12 * reached.abs();
        if next_loss <= reached {
            (weights, reached) = (next, next_loss);
        }
        if settled {
            break;
        }
    }
    let mut constant = weights[columns];
    let mut plain = Vec::with_capacity(size);
    for column in 0..columns {
        let weight = if deviations[column] > 0.0 { weights[column] / deviations[column] } else { 0.0 };
        constant -= weight * means[column];
        plain.push(weight);
    }
    plain.push(constant);
    plain.iter().all(|weight| weight.is_finite()).then_some(plain)
}

/// Returns mean and standard deviation of each column; a deviation of 0 marks a constant column.
fn moments(sample: &PairSample) -> (Vec<f64>, Vec<f64>) {
    let columns = sample.columns;
    let sums = sample.sum(columns + 1, |sums, x, _, weight| {
        for (x, sum) in x.iter().zip(&mut *sums) {
            *sum += weight * x;
        }
        sums[columns] += weight;
    });
    let total = sums[columns];
    let means: Vec<f64> = sums[..columns].iter().map(|sum| sum / total).collect();
    let squares = sample.sum(columns, |sums, x, _, weight| {
        for ((x, mean), sum) in x.iter().zip(&means).zip(sums) {
            *sum += weight * (x - mean).powi(2);
        }
    });
    let deviation = |(square, mean): (&f64, &f64)| {
        let deviation = (square / total).sqrt();
        // A column of equal values, up to rounding, carries no information.
        if deviation > 1e-9 * mean.abs().max(1.0) { deviation } else { 0.0 }
    };
    let deviations = squares.iter().zip(&means).map(deviation).collect();
    (means, deviations)
}

/// Returns the step that Newton's method subtracts from the weights.
fn newton_step(
    sample: &PairSample,
    weights: &[f64],
    value: &(impl Fn(&[f64], &[f64]) -> f64 + Sync),
    standard: &(impl Fn(f64, usize) -> f64 + Sync),
) -> Option<Vec<f64>> {
    let columns = sample.columns;
    let size = columns + 1;
    let sums = sample.sum(size + size * size, |sums, x, is_true, weight| {
        let p = 1.0 / (1.0 + (-value(weights, x)).exp());
        let (slope, curve) = (weight * (p - f64::from(u8::from(is_true))), weight * p * (1.0 - p));
        let z = |column: usize| if column < columns { standard(x[column], column) } else { 1.0 };
        let (gradient, hessian) = sums.split_at_mut(size);
        for row in 0..size {
            gradient[row] += slope * z(row);
            for column in 0..=row {
                hessian[row * size + column] += curve * z(row) * z(column);
            }
        }
    });
    let (gradient, hessian) = sums.split_at(size);
    let mut gradient = gradient.to_vec();
    let mut hessian = hessian.to_vec();
    for column in 0..columns {
        gradient[column] += RIDGE * weights[column];
    }
    for at in 0..size {
        hessian[at * size + at] += RIDGE;
    }
    solve(hessian, gradient)
}

/// Solves a symmetric positive definite system, given by its lower triangle, by Cholesky decomposition.
///
/// Written by hand: the system has as many unknowns as there are models plus two, which does not pay for a
/// linear algebra crate.
fn solve(mut a: Vec<f64>, mut b: Vec<f64>) -> Option<Vec<f64>> {
    let n = b.len();
    for row in 0..n {
        for column in 0..=row {
            let inner: f64 = (0..column).map(|k| a[row * n + k] * a[column * n + k]).sum();
            let rest = a[row * n + column] - inner;
            if row == column {
                if rest.is_nan() || rest <= 0.0 {
                    return None;
                }
                a[row * n + row] = rest.sqrt();
            } else {
                a[row * n + column] = rest / a[column * n + column];
            }
        }
    }
    for row in 0..n {
        let inner: f64 = (0..row).map(|k| a[row * n + k] * b[k]).sum();
        b[row] = (b[row] - inner) / a[row * n + row];
    }
    for row in (0..n).rev() {
        let inner: f64 = (row + 1..n).map(|k| a[k * n + row] * b[k]).sum();
        b[row] = (b[row] - inner) / a[row * n + row];
    }
    b.iter().all(|value| value.is_finite()).then_some(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_linear_system_is_solved() {
        // The upper triangle is not read.
        let solution = solve(vec![4.0, f64::NAN, 2.0, 3.0], vec![10.0, 8.0]).unwrap();
        assert!((solution[0] - 1.75).abs() < 1e-12 && (solution[1] - 1.5).abs() < 1e-12, "{solution:?}");
        assert_eq!(solve(vec![0.0], vec![1.0]), None);
    }

    #[test]
    fn without_informative_columns_the_constant_is_the_log_odds() {
        let sample = PairSample { columns: 1, x: vec![7.0; 5], positives: 2, certain: 2, drawn_weight: 3.0 };
        let weights = fit(&sample).unwrap();
        assert!(weights[0] == 0.0 && (weights[1] - (2.0f64 / 9.0).ln()).abs() < 1e-2, "{weights:?}");
    }

    #[test]
    fn collinear_columns_that_separate_all_pairs_have_finite_weights() {
        let x = [1.0, 2.0, 3.0, -1.0, -2.0, -3.0].iter().flat_map(|&x| [x, x]).collect();
        let weights =
            fit(&PairSample { columns: 2, x, positives: 3, certain: 6, drawn_weight: 1.0 }).unwrap();
        assert!((weights[0] - weights[1]).abs() < 1e-6 && weights[0] > 0.0, "{weights:?}");
    }
}
