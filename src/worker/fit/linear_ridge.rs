//! The fit of a linear ridge regression on a = [x, constant].
//!
//! The weights are W = (A'A + ridge I)^-1 A'Y, or, if it is cheaper because there are more features than rows, the
//! equal W = A'(AA' + ridge I)^-1 Y. The leave-one-out scores of row i are (a_i W - h_i y_i) / (1 - h_i) with the
//! leverage h_i = a_i (A'A + ridge I)^-1 a_i'.

use std::path::Path;

use anyhow::{Context, Result};
use pipe_ml::data::csr::DenseMatrix;
use pipe_ml::scorer::Scorer;
use pipe_ml::scorer::linear_ridge::{LinearRidge, extended};
use pipe_ml::signal::dot_index::{DotIndex, Product, entries};
use pipe_ml::threshold::scores::by_column;
use rayon::prelude::*;

use super::tiled_inverse::InverseFactor;
use super::{FittedModel, LeaveOneOut, TrainingData};

/// A linear ridge regression with the data for leave-one-out scores.
pub struct FittedRidge {
    model: LinearRidge,
    data: TrainingData,
    /// The leverage h_i of each row.
    leverage: Vec<f64>,
}

/// The system of equations that is solved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RidgeForm {
    /// Features x features.
    Primal,
    /// Rows x rows.
    Dual,
}

impl RidgeForm {
    /// Returns the form with fewer multiplications: factorisation, inverse, solutions, and in the primal form the
    /// leverages.
    pub(super) fn cheaper(data: &TrainingData) -> Self {
        let size = |number: usize| number as f64;
        let (rows, features) = (size(data.features.rows()), size(data.features.cols + 1));
        let labels = size(data.labels.cols);
        let primal = features * features * (features / 3.0 + labels + rows / 2.0);
        let dual = rows * rows * (rows / 3.0 + labels);
        if primal <= dual { Self::Primal } else { Self::Dual }
    }
}

impl FittedRidge {
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
        Ok(Self { model: LinearRidge { constant, weights }, data: data.clone(), leverage })
    }
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

impl FittedModel for FittedRidge {
    fn scorer(&mut self) -> &mut dyn Scorer {
        &mut self.model
    }

    fn left_out(&self) -> Option<&dyn LeaveOneOut> {
        Some(self)
    }

    fn save(&self, directory: &Path) -> Result<()> {
        self.model.save(directory)
    }
}

impl LeaveOneOut for FittedRidge {
    fn scores(&self, row: usize, into: &mut [f32]) {
        self.model.score_row(&self.data.features, row, into);
        let leverage = self.leverage[row];
        for &label in self.data.labels.row(row) {
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
            let fit = |form| FittedRidge::fit_as(form, &data, 0.7, 0.3, tch::Device::Cpu).unwrap();
            let (primal, dual) = (fit(RidgeForm::Primal), fit(RidgeForm::Dual));
            let (a, b) = (&primal.model.weights.values, &dual.model.weights.values);
            assert!(a.iter().zip(b.iter()).all(|(a, b)| (a - b).abs() < 1e-4));
            let leverages = [&primal, &dual].map(|fitted| &fitted.leverage);
            assert!(leverages[0].iter().zip(leverages[1]).all(|(a, b)| (a - b).abs() < 1e-5));
        }
    }
}
