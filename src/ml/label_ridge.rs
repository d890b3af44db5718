//! [`LabelRidge`]: a ridge regression of each label on the probabilities of all labels.
//!
//! Labels that go together correct each other: with p the probabilities that a first fusion gives to the labels of a row, and
//! a = [p, constant], the score is a W with W = (A'A + ridge I)^-1 A'Y. As for [`crate::scorer::linear_ridge`], leaving out a
//! training row has a closed form.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use rayon::prelude::*;

use crate::data::artifact::{ArtifactCheck, DenseWriter, open_dense};
use crate::data::csr::{Csr, DenseMatrix};
use crate::explanation::{Cause, CauseSubject, Evidence};
use crate::multiversion;

const FILE: &str = "weights.dense";
/// The value of the constant feature.
const CONSTANT: f64 = 0.3;
/// Smaller probabilities count as 0. Few labels of a row have larger ones, so that rows are sparse.
const SMALLEST: f32 = 1e-3;
/// The time grows with the third power of the labels, and takes minutes with so many.
pub const MOST_LABELS: usize = 5_000;

/// A fitted regression.
pub struct LabelRidge {
    /// (labels + 1) x labels; the last row belongs to the constant.
    weights: DenseMatrix,
}

/// A regression, and what the leave-one-out scores need.
pub struct FittedLabelRidge {
    pub model: LabelRidge,
    /// The leverage of each row.
    leverage: Vec<f64>,
}

/// The probabilities of a row that are not too small, by label.
pub type Probabilities = Vec<(u32, f32)>;

/// Returns the probabilities from the log-odds of labels.
pub fn probabilities(log_odds: impl Iterator<Item = (u32, f32)>) -> Probabilities {
    let probability = |(label, score): (u32, f32)| (label, 1.0 / (1.0 + (-score).exp()));
    log_odds.map(probability).filter(|&(_, probability)| probability >= SMALLEST).collect()
}

impl FittedLabelRidge {
    /// Fits a regression on the probabilities and the labels of training rows. `None` if the equations cannot be solved.
    pub fn fit(rows: &[Probabilities], labels: &Csr, ridge: f64) -> Option<Self> {
        let size = labels.cols + 1;
        let mut inverse = vec![0f64; size * size];
        for row in rows {
            for (one, value) in extended(row, labels.cols) {
                for (other, other_value) in extended(row, labels.cols) {
                    inverse[one * size + other] += value * other_value;
                }
            }
        }
        for at in 0..size {
            inverse[at * size + at] += ridge;
        }
        invert(&mut inverse, size)?;
        // A'Y by label, so that a column of W needs one row of it.
        let mut products = vec![0f64; labels.cols * size];
        for (number, row) in rows.iter().enumerate() {
            for &label in labels.row(number) {
                for (feature, value) in extended(row, labels.cols) {
                    products[label as usize * size + feature] += value;
                }
            }
        }
        let mut weights = vec![0f32; size * labels.cols];
        weights.par_chunks_mut(labels.cols.max(1)).zip(inverse.par_chunks(size)).for_each(
            |(weights, inverse)| {
                for (weight, products) in weights.iter_mut().zip(products.chunks_exact(size)) {
                    *weight = dot(inverse, products) as f32;
                }
            },
        );
        let leverage = |row: &Probabilities| -> f64 {
            let row: Vec<(usize, f64)> = extended(row, labels.cols).collect();
            let along = |&(one, value): &(usize, f64)| {
                let inverse = &inverse[one * size..(one + 1) * size];
                value * row.iter().map(|&(other, value)| value * inverse[other]).sum::<f64>()
            };
            row.iter().map(along).sum()
        };
        let leverage = rows.par_iter().map(leverage).collect();
        let weights = DenseMatrix { rows: size, cols: labels.cols, values: weights.into() };
        Some(Self { model: LabelRidge { weights }, leverage })
    }

    /// Computes the scores of a training row, with the given probabilities and labels, as if it were not one.
    pub fn score_left_out(&self, row: usize, probabilities: &[(u32, f32)], labels: &[u32], into: &mut [f32]) {
        self.model.score(probabilities, into);
        let leverage = self.leverage[row];
        for &label in labels {
            into[label as usize] -= leverage as f32;
        }
        for score in into.iter_mut() {
            *score = (f64::from(*score) / (1.0 - leverage)) as f32;
        }
    }
}

impl LabelRidge {
    /// Computes the scores of a row for all labels.
    pub fn score(&self, probabilities: &[(u32, f32)], into: &mut [f32]) {
        into.fill(0.0);
        for (feature, value) in extended(probabilities, self.weights.cols) {
            add(into, self.weights.row(feature), value as f32);
        }
    }

    /// Returns the evidence for the score of a label: the probabilities of other labels, and of itself. The score is called `of`, and at most
    /// `most` causes are listed.
    pub fn evidence(&self, of: &str, probabilities: &[(u32, f32)], label: u32, most: usize) -> Evidence {
        let causes: Vec<(usize, f64)> = extended(probabilities, self.weights.cols).collect();
        let weight = |at: usize| f64::from(self.weights.row(causes[at].0)[label as usize]);
        let values: Vec<f64> = (0..causes.len()).map(|at| causes[at].1 * weight(at)).collect();
        let words = "p * weight, over the labels with a probability p of the models above";
        Evidence::new(of, words, &values, most, |at| match probabilities.get(at) {
            Some(&(label, p)) => {
                let what = CauseSubject::Label { label, name: None };
                Cause::new(what, &[("p", p.into()), ("weight", weight(at))], values[at])
            }
            None => Cause::new(CauseSubject::Constant { name: "constant".to_owned() }, &[], values[at]),
        })
    }

    /// Creates a directory and writes the regression into it.
    pub fn save(&self, directory: &Path) -> Result<()> {
        std::fs::create_dir_all(directory)?;
        let mut writer = DenseWriter::create(&directory.join(FILE), self.weights.cols)?;
        writer.append(&self.weights.values)?;
        writer.finish().context("the model has parameters that are not finite")?;
        Ok(())
    }

    /// Opens a saved regression, which must have so many labels.
    pub fn load(directory: &Path, labels: usize) -> Result<Self> {
        let path = directory.join(FILE);
        let weights = open_dense(&path, ArtifactCheck::Deep)?;
        let fits = (weights.rows, weights.cols) == (labels + 1, labels);
        ensure!(fits, "{}: the size is not that of the labels; the model is damaged", path.display());
        Ok(Self { weights })
    }
}

/// Returns the entries of a = [p, constant].
fn extended(probabilities: &[(u32, f32)], labels: usize) -> impl Iterator<Item = (usize, f64)> {
    let entries = probabilities.iter().map(|&(label, value)| (label as usize, f64::from(value)));
    entries.chain([(labels, CONSTANT)])
}

/// Replaces a symmetric positive definite matrix by its inverse (Gauss and Jordan). `None` if it is not positive definite.
fn invert(matrix: &mut [f64], size: usize) -> Option<()> {
    let mut pivot_row = vec![0f64; size];
    for pivot in 0..size {
        let own = &mut matrix[pivot * size..(pivot + 1) * size];
        let value = own[pivot];
        if !(value > 0.0 && value.is_finite()) {
            return None;
        }
        own[pivot] = 1.0;
        for entry in own.iter_mut() {
            *entry /= value;
        }
        pivot_row.copy_from_slice(own);
        matrix.par_chunks_mut(size).enumerate().filter(|(row, _)| *row != pivot).for_each(|(_, row)| {
            let factor = std::mem::take(&mut row[pivot]);
            subtract(row, &pivot_row, factor);
        });
    }
    Some(())
}

multiversion! {
    /// Subtracts a multiple of a row from another one.
    fn subtract(row: &mut [f64], other: &[f64], factor: f64) {
        for (entry, other) in row.iter_mut().zip(other) {
            *entry -= factor * other;
        }
    }
}

multiversion! {
    /// Adds a multiple of a row to another one.
    fn add(row: &mut [f32], other: &[f32], factor: f32) {
        for (entry, other) in row.iter_mut().zip(other) {
            *entry += factor * other;
        }
    }
}

multiversion! {
    /// Returns the product of two rows.
    fn dot(a: &[f64], b: &[f64]) -> f64 {
        // A fixed number of sums, so that all processors add in the same order.
        let mut sums = [0f64; 8];
        let (a_lanes, b_lanes) = (a.chunks_exact(8), b.chunks_exact(8));
        let rest: f64 = a_lanes.remainder().iter().zip(b_lanes.remainder()).map(|(a, b)| a * b).sum();
        for (a, b) in a_lanes.zip(b_lanes) {
            for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
                *sum += a * b;
            }
        }
        sums.iter().sum::<f64>() + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::random::Random;

    const LABELS: usize = 11;

    /// Returns rows of probabilities, and labels: the second label goes with the first one, whose probability is low.
    fn data(rows: usize) -> (Vec<Probabilities>, Csr) {
        let mut random = Random::new("label ridge test", 1);
        let mut labels = Vec::new();
        let mut row = || -> Probabilities {
            let own: Vec<u32> = (0..LABELS as u32).filter(|_| random.unit() < 0.2).collect();
            let log_odds = (0..LABELS as u32).map(|label| {
                let center = if own.contains(&label) { 1.0 } else { -4.0 };
                (label, center + 2.0 * random.normal() as f32)
            });
            let probabilities = probabilities(log_odds.collect::<Vec<_>>().into_iter());
            labels.push(own);
            probabilities
        };
        let probabilities = (0..rows).map(|_| row()).collect();
        (probabilities, Csr::from_rows(LABELS, &labels))
    }

    #[test]
    fn leaving_a_row_out_equals_a_fit_without_it() {
        let (rows, labels) = data(60);
        let fitted = FittedLabelRidge::fit(&rows, &labels, 2.0).unwrap();
        for row in [0, 23, 59] {
            let others: Vec<u32> = (0..60).filter(|&other| other != row).collect();
            let kept: Vec<Probabilities> = others.iter().map(|&other| rows[other as usize].clone()).collect();
            let without = FittedLabelRidge::fit(&kept, &labels.select_rows(&others), 2.0).unwrap();
            let row = row as usize;
            let (mut left_out, mut expected) = ([9.0; LABELS], [9.0; LABELS]);
            fitted.score_left_out(row, &rows[row], labels.row(row), &mut left_out);
            without.model.score(&rows[row], &mut expected);
            for (a, b) in left_out.iter().zip(expected) {
                assert!((a - b).abs() < 1e-5, "{a} {b}");
            }
        }
    }

    #[test]
    fn the_weights_solve_the_equations() {
        let (rows, labels) = data(40);
        let fitted = FittedLabelRidge::fit(&rows, &labels, 0.5).unwrap();
        // A'(A W - Y) + ridge W = 0.
        for label in 0..LABELS {
            let mut gradient: Vec<f64> = (0..=LABELS)
                .map(|feature| 0.5 * f64::from(fitted.model.weights.row(feature)[label]))
                .collect();
            for (number, row) in rows.iter().enumerate() {
                let mut scores = [0.0; LABELS];
                fitted.model.score(row, &mut scores);
                let truth = f64::from(u8::from(labels.row(number).contains(&(label as u32))));
                for (feature, value) in extended(row, LABELS) {
                    gradient[feature] += value * (f64::from(scores[label]) - truth);
                }
            }
            assert!(gradient.iter().all(|part| part.abs() < 1e-4), "{gradient:?}");
        }
    }

    #[test]
    fn small_probabilities_are_left_out_and_the_others_are_the_evidence() {
        let row = probabilities([(3, 0.0), (5, -7.0), (8, 2.0)].into_iter());
        assert_eq!(row.iter().map(|&(label, _)| label).collect::<Vec<_>>(), [3, 8]);
        let (rows, labels) = data(40);
        let model = FittedLabelRidge::fit(&rows, &labels, 2.0).unwrap().model;
        let mut scores = [0.0; LABELS];
        model.score(&row, &mut scores);
        let evidence = model.evidence("r", &row, 2, 10);
        assert!((evidence.total() - f64::from(scores[2])).abs() < 1e-6);
        let subjects: Vec<_> = evidence.causes.iter().map(|cause| &cause.what).collect();
        assert!(subjects.contains(&&CauseSubject::Label { label: 8, name: None }) && subjects.len() == 3);
    }

    #[test]
    fn a_saved_regression_is_opened_as_it_was() {
        let (rows, labels) = data(30);
        let model = FittedLabelRidge::fit(&rows, &labels, 2.0).unwrap().model;
        let temp = tempfile::tempdir().unwrap();
        model.save(temp.path()).unwrap();
        let opened = LabelRidge::load(temp.path(), LABELS).unwrap();
        assert!(opened.weights.values[..] == model.weights.values[..]);
        assert!(LabelRidge::load(temp.path(), LABELS + 1).is_err());
    }

    #[test]
    fn a_matrix_that_is_not_positive_definite_has_no_inverse() {
        let mut matrix = vec![2.0, 1.0, 1.0, 3.0];
        invert(&mut matrix, 2).unwrap();
        let expected = [0.6, -0.2, -0.2, 0.4];
        assert!(matrix.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{matrix:?}");
        assert!(invert(&mut [1.0, 2.0, 2.0, 1.0], 2).is_none());
    }
}
