//! Linear ridge regression on a = [x, constant].
//!
//! The weights are W = (A'A + ridge I)^-1 A'Y, or, if it is cheaper because there are more features than rows, the
//! equal W = A'(AA' + ridge I)^-1 Y. The leave-one-out scores of row i are (a_i W - h_i y_i) / (1 - h_i) with the
//! leverage h_i = a_i (A'A + ridge I)^-1 a_i'.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use pipe_ml::data::artifact::{ArtifactCheck, open_dense};
use pipe_ml::data::csr::{Csr, DenseMatrix};
use pipe_ml::data::examples::Unlabelled;
use pipe_ml::explanation::{Cause, CauseSubject, Evidence};
use pipe_ml::signal::dot_index::{DotIndex, Product, entries};
use pipe_ml::threshold::scores::by_column;
use rayon::prelude::*;

use super::kernel_ridge::write_dense;
use super::tiled_inverse::InverseFactor;
use super::{CAUSES, LeaveOneOut, ModelSize, SCORE, Scorer, TrainingData};

const WEIGHTS: &str = "weights.dense";

/// A fitted linear ridge regression.
pub struct LinearRidge {
    constant: f32,
    /// W, (features + 1) x labels; the last row belongs to the constant.
    weights: DenseMatrix,
    /// The data for leave-one-out scores; `None` in a loaded model.
    fitted: Option<RidgeTrainingRows>,
}

/// The data for leave-one-out scores of the training rows.
struct RidgeTrainingRows {
    data: TrainingData,
    /// The leverage h_i of each row.
    leverage: Vec<f64>,
}

/// The system of equations that is solved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RidgeForm {
    /// Features x features.
    Primal,
    /// Rows x rows.
    Dual,
}

impl RidgeForm {
    /// Returns the form with fewer multiplications: factorisation, inverse, solutions, and in the primal form the
    /// leverages.
    fn cheaper(data: &TrainingData) -> Self {
        let size = |number: usize| number as f64;
        let (rows, features) = (size(data.features.rows()), size(data.features.cols + 1));
        let labels = size(data.labels.cols);
        let primal = features * features * (features / 3.0 + labels + rows / 2.0);
        let dual = rows * rows * (rows / 3.0 + labels);
        if primal <= dual { Self::Primal } else { Self::Dual }
    }
}

impl LinearRidge {
    /// Fits a regression by the cheaper form.
    pub fn fit(data: &TrainingData, ridge: f64, constant: f64, device: tch::Device) -> Result<Self> {
        Self::fit_as(RidgeForm::cheaper(data), data, ridge, constant, device)
    }

    /// Fits a regression by the given form.
    fn fit_as(
        form: RidgeForm,
        data: &TrainingData,
        ridge: f64,
        constant: f64,
        device: tch::Device,
    ) -> Result<Self> {
        let constant = constant as f32;
        let (weights, leverage) = match form {
            RidgeForm::Primal => primal(data, ridge as f32, constant, device),
            RidgeForm::Dual => dual(data, ridge, constant, device),
        }
        .context("cannot solve the equations of the ridge regression")?;
        let weights =
            DenseMatrix { rows: data.features.cols + 1, cols: data.labels.cols, values: weights.into() };
        Ok(Self { constant, weights, fitted: Some(RidgeTrainingRows { data: data.clone(), leverage }) })
    }

    /// Opens a saved model.
    pub fn load(directory: &Path, size: ModelSize, constant: f64) -> Result<Self> {
        let weights = open_dense(&directory.join(WEIGHTS), ArtifactCheck::Deep)?;
        ensure!(weights.rows > 0, "{}: the model has no weights", directory.display());
        size.check(directory, weights.rows - 1, weights.cols)?;
        Ok(Self { constant: constant as f32, weights, fitted: None })
    }

    /// Computes the scores a W of a row.
    fn score_row(&self, features: &Csr, row: usize, into: &mut [f32]) {
        let last = self.weights.row(self.weights.rows - 1);
        for (score, weight) in into.iter_mut().zip(last) {
            *score = self.constant * weight;
        }
        for (feature, value) in entries(features, row) {
            let weights = self.weights.row(feature as usize);
            for (score, weight) in into.iter_mut().zip(weights) {
                *score += value * weight;
            }
        }
    }
}

/// Returns the features of a row, followed by the constant: a of the module documentation.
fn extended(features: &Csr, row: usize, constant: f32) -> impl Iterator<Item = (u32, f32)> {
    entries(features, row).chain([(features.cols as u32, constant)])
}

/// Solves the primal form. Returns weights and leverages.
fn primal(
    data: &TrainingData,
    ridge: f32,
    constant: f32,
    device: tch::Device,
) -> Result<(Vec<f32>, Vec<f64>), tch::TchError> {
    let (features, labels) = (&data.features, &data.labels);
    let (size, rows) = (features.cols + 1, features.rows());
    let columns = by_column(features);
    let inverse = InverseFactor::of(size, device, |feature, values| {
        let mut add_row = |row: usize, value: f32| {
            for (other, other_value) in extended(features, row, constant) {
                values[other as usize] += value * other_value;
            }
        };
        if feature < features.cols {
            for (row, value) in entries(&columns, feature) {
                add_row(row as usize, value);
            }
        } else {
            for row in 0..rows {
                add_row(row, constant);
            }
        }
        values[feature] += ridge;
    })?;
    let mut weights = vec![0f32; size * labels.cols];
    inverse.solve(
        labels.cols,
        |chosen, right| {
            for row in 0..rows {
                for label in labels.row(row).iter().map(|&label| label as usize) {
                    if chosen.contains(&label) {
                        let at = label - chosen.start;
                        for (feature, value) in extended(features, row, constant) {
                            right[feature as usize * chosen.len() + at] += value;
                        }
                    }
                }
            }
        },
        |chosen, solution| {
            for (feature, part) in solution.chunks_exact(chosen.len()).enumerate() {
                weights[feature * labels.cols..][chosen.clone()].copy_from_slice(part);
            }
        },
    )?;
    let leverage = inverse.quadratic(rows, |chosen, right| {
        for (at, row) in chosen.clone().enumerate() {
            for (feature, value) in extended(features, row, constant) {
                right[feature as usize * chosen.len() + at] = value;
            }
        }
    })?;
    Ok((weights, leverage))
}

/// Solves the dual form. Returns weights and leverages.
fn dual(
    data: &TrainingData,
    ridge: f64,
    constant: f32,
    device: tch::Device,
) -> Result<(Vec<f32>, Vec<f64>), tch::TchError> {
    let (features, labels) = (&data.features, &data.labels);
    let (rows, width) = (features.rows(), labels.cols);
    let all: Vec<u32> = (0..rows as u32).collect();
    let index = DotIndex::new(features, &all, Product::Dot);
    let inverse = InverseFactor::of(rows, device, |row, values| {
        index.add_products(features, row, values);
        for value in values.iter_mut() {
            *value += constant * constant;
        }
        values[row] += ridge as f32;
    })?;
    let columns = by_column(features);
    let mut weights = vec![0f32; (features.cols + 1) * width];
    inverse.solve(
        width,
        |chosen, right| {
            for row in 0..rows {
                for label in labels.row(row).iter().map(|&label| label as usize) {
                    if chosen.contains(&label) {
                        right[row * chosen.len() + label - chosen.start] = 1.0;
                    }
                }
            }
        },
        |chosen, solution| {
            let wide = chosen.len();
            weights.par_chunks_mut(width).enumerate().for_each(|(feature, weights)| {
                let weights = &mut weights[chosen.clone()];
                let mut add_row = |row: usize, value: f32| {
                    let part = &solution[row * wide..(row + 1) * wide];
                    for (weight, part) in weights.iter_mut().zip(part) {
                        *weight += value * part;
                    }
                };
                if feature < columns.rows() {
                    for (row, value) in entries(&columns, feature) {
                        add_row(row as usize, value);
                    }
                } else {
                    for row in 0..rows {
                        add_row(row, constant);
                    }
                }
            });
        },
    )?;
    // The hat matrix is I - ridge M^-1.
    let leverage = inverse.diagonal()?.into_iter().map(|inverse| 1.0 - ridge * inverse).collect();
    Ok((weights, leverage))
}

impl Scorer for LinearRidge {
    fn features(&self) -> usize {
        self.weights.rows - 1
    }

    fn labels(&self) -> usize {
        self.weights.cols
    }

    fn score(&mut self, rows: Unlabelled, into: &mut [f32]) -> Result<()> {
        let (this, width) = (&*self, self.labels());
        let scored = into.par_chunks_mut(width).zip(rows.rows);
        scored.for_each(|(into, &row)| this.score_row(rows.features, row as usize, into));
        Ok(())
    }

    fn evidence(&self, features: &Csr, row: usize, label: u32) -> Evidence {
        let entries: Vec<(u32, f32)> = extended(features, row, self.constant).collect();
        let weight = |feature: u32| self.weights.row(feature as usize)[label as usize];
        let value = |&(feature, x): &(u32, f32)| f64::from(x) * f64::from(weight(feature));
        let values: Vec<f64> = entries.iter().map(value).collect();
        Evidence::new(SCORE, "x * weight, over the features of the row", &values, CAUSES, |at| {
            let (feature, x) = entries[at];
            let what = if (feature as usize) < features.cols {
                CauseSubject::Feature { feature, name: None }
            } else {
                CauseSubject::Constant { name: "constant".to_owned() }
            };
            Cause::new(what, &[("x", x.into()), ("weight", weight(feature).into())], values[at])
        })
    }

    fn left_out(&self) -> Option<&dyn LeaveOneOut> {
        self.fitted.as_ref().map(|_| self as &dyn LeaveOneOut)
    }

    fn save(&self, directory: &Path) -> Result<()> {
        std::fs::create_dir_all(directory)?;
        write_dense(&directory.join(WEIGHTS), &self.weights)
    }
}

impl LeaveOneOut for LinearRidge {
    fn scores(&self, row: usize, into: &mut [f32]) {
        into.fill(0.0);
        let Some(RidgeTrainingRows { data, leverage }) = &self.fitted else { return };
        self.score_row(&data.features, row, into);
        let leverage = leverage[row];
        for &label in data.labels.row(row) {
            into[label as usize] -= leverage as f32;
        }
        let rest = 1.0 - leverage;
        for score in into.iter_mut() {
            *score = (f64::from(*score) / rest) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::training_data;
    use super::*;

    #[test]
    fn both_forms_give_the_same_weights_and_leverages() {
        for (rows, features) in [(40, 12), (15, 30)] {
            let data = training_data(rows, features, 5);
            let fit = |form| LinearRidge::fit_as(form, &data, 0.7, 0.3, tch::Device::Cpu).unwrap();
            let (primal, dual) = (fit(RidgeForm::Primal), fit(RidgeForm::Dual));
            let (a, b) = (&primal.weights.values, &dual.weights.values);
            assert!(a.iter().zip(b.iter()).all(|(a, b)| (a - b).abs() < 1e-4));
            let leverages = [&primal, &dual].map(|model| &model.fitted.as_ref().unwrap().leverage);
            assert!(leverages[0].iter().zip(leverages[1]).all(|(a, b)| (a - b).abs() < 1e-5));
        }
    }
}
