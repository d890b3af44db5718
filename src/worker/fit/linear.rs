//! Linear ridge regression on a = [x, constant]: W = (A'A + ridge I)^-1 A'Y. With more features than rows the same
//! W comes from the rows: W = A'(AA' + ridge I)^-1 Y. Left out, row i scores (a_i W - h_i y_i) / (1 - h_i) with
//! h_i = a_i (A'A + ridge I)^-1 a_i'.

use std::path::Path;

use anyhow::{Context, Result};
use pipe_ml::data::artifact::{Check, open_dense};
use pipe_ml::data::csr::{Csr, Dense};
use pipe_ml::data::examples::Unlabelled;
use pipe_ml::explanation::{Cause, Evidence, Subject};
use pipe_ml::signal::dot_index::{DotIndex, Product, entries};
use pipe_ml::threshold::scores::by_column;
use rayon::prelude::*;

use super::kernel::write_dense;
use super::tiles::Inverse;
use super::{CAUSES, LeftOut, Lesson, SCORE, Scorer};

const WEIGHTS: &str = "weights.dense";

pub struct Linear {
    constant: f32,
    /// (features + 1) x labels; the last row is the constant's.
    weights: Dense,
    fitted: Option<Fitted>,
}

struct Fitted {
    lesson: Lesson,
    /// h_i of each row.
    leverage: Vec<f64>,
}

/// Which of the two systems is solved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Features x features.
    Primal,
    /// Rows x rows.
    Dual,
}

impl Form {
    /// By the multiplications that each takes: factor, inverse, solutions, and in the primal form the leverages.
    fn cheaper(lesson: &Lesson) -> Self {
        let size = |number: usize| number as f64;
        let (rows, features) = (size(lesson.features.rows()), size(lesson.features.cols + 1));
        let labels = size(lesson.labels.cols);
        let primal = features * features * (features / 3.0 + labels + rows / 2.0);
        let dual = rows * rows * (rows / 3.0 + labels);
        if primal <= dual { Self::Primal } else { Self::Dual }
    }
}

impl Linear {
    pub fn fit(lesson: &Lesson, ridge: f64, constant: f64, device: tch::Device) -> Result<Self> {
        Self::fit_as(Form::cheaper(lesson), lesson, ridge, constant, device)
    }

    fn fit_as(form: Form, lesson: &Lesson, ridge: f64, constant: f64, device: tch::Device) -> Result<Self> {
        let constant = constant as f32;
        let (weights, leverage) = match form {
            Form::Primal => primal(lesson, ridge as f32, constant, device),
            Form::Dual => dual(lesson, ridge, constant, device),
        }
        .context("the system of the ridge regression cannot be solved")?;
        let weights =
            Dense { rows: lesson.features.cols + 1, cols: lesson.labels.cols, values: weights.into() };
        Ok(Self { constant, weights, fitted: Some(Fitted { lesson: lesson.clone(), leverage }) })
    }

    pub fn load(directory: &Path, constant: f64) -> Result<Self> {
        let weights = open_dense(&directory.join(WEIGHTS), Check::Header)?;
        Ok(Self { constant: constant as f32, weights, fitted: None })
    }

    fn score_row(&self, features: &Csr, row: usize, into: &mut [f32]) {
        let last = self.weights.row(self.weights.rows - 1);
        into.iter_mut().zip(last).for_each(|(score, weight)| *score = self.constant * weight);
        for (feature, value) in entries(features, row) {
            let weights = self.weights.row(feature as usize);
            into.iter_mut().zip(weights).for_each(|(score, weight)| *score += value * weight);
        }
    }
}

/// The features of a row and the constant.
fn extended(features: &Csr, row: usize, constant: f32) -> impl Iterator<Item = (u32, f32)> {
    entries(features, row).chain([(features.cols as u32, constant)])
}

fn primal(
    lesson: &Lesson,
    ridge: f32,
    constant: f32,
    device: tch::Device,
) -> Result<(Vec<f32>, Vec<f64>), tch::TchError> {
    let (features, labels) = (&lesson.features, &lesson.labels);
    let (size, rows) = (features.cols + 1, features.rows());
    let columns = by_column(features);
    let inverse = Inverse::of(size, device, |feature, values| {
        let mut add = |row: usize, value: f32| {
            extended(features, row, constant)
                .for_each(|(other, with)| values[other as usize] += value * with);
        };
        if feature < features.cols {
            entries(&columns, feature).for_each(|(row, value)| add(row as usize, value));
        } else {
            (0..rows).for_each(|row| add(row, constant));
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
                        extended(features, row, constant).for_each(|(feature, value)| {
                            right[feature as usize * chosen.len() + at] += value
                        });
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
            extended(features, row, constant)
                .for_each(|(feature, value)| right[feature as usize * chosen.len() + at] = value);
        }
    })?;
    Ok((weights, leverage))
}

fn dual(
    lesson: &Lesson,
    ridge: f64,
    constant: f32,
    device: tch::Device,
) -> Result<(Vec<f32>, Vec<f64>), tch::TchError> {
    let (features, labels) = (&lesson.features, &lesson.labels);
    let (rows, width) = (features.rows(), labels.cols);
    let all: Vec<u32> = (0..rows as u32).collect();
    let index = DotIndex::new(features, &all, Product::Dot);
    let inverse = Inverse::of(rows, device, |row, values| {
        index.add_products(features, row, values);
        values.iter_mut().for_each(|value| *value += constant * constant);
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
                let mut add = |row: usize, value: f32| {
                    let part = &solution[row * wide..(row + 1) * wide];
                    weights.iter_mut().zip(part).for_each(|(weight, part)| *weight += value * part);
                };
                if feature < columns.rows() {
                    entries(&columns, feature).for_each(|(row, value)| add(row as usize, value));
                } else {
                    (0..rows).for_each(|row| add(row, constant));
                }
            });
        },
    )?;
    // The hat matrix is I - ridge M^-1.
    let leverage = inverse.diagonal()?.into_iter().map(|inverse| 1.0 - ridge * inverse).collect();
    Ok((weights, leverage))
}

impl Scorer for Linear {
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
            let what = match (feature as usize) < features.cols {
                true => Subject::Feature { feature, name: None },
                false => Subject::Constant { name: "constant".to_owned() },
            };
            Cause::new(what, &[("x", x.into()), ("weight", weight(feature).into())], values[at])
        })
    }

    fn left_out(&self) -> Option<&dyn LeftOut> {
        self.fitted.as_ref().map(|_| self as &dyn LeftOut)
    }

    fn save(&self, directory: &Path) -> Result<()> {
        std::fs::create_dir_all(directory)?;
        write_dense(&directory.join(WEIGHTS), &self.weights)
    }
}

impl LeftOut for Linear {
    fn scores(&self, row: usize, into: &mut [f32]) {
        into.fill(0.0);
        let Some(Fitted { lesson, leverage }) = &self.fitted else { return };
        self.score_row(&lesson.features, row, into);
        let leverage = leverage[row];
        lesson.labels.row(row).iter().for_each(|&label| into[label as usize] -= leverage as f32);
        let rest = 1.0 - leverage;
        into.iter_mut().for_each(|score| *score = (f64::from(*score) / rest) as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::lesson;
    use super::*;

    #[test]
    fn both_forms_give_the_same_weights_and_leverages() {
        for (rows, features) in [(40, 12), (15, 30)] {
            let lesson = lesson(rows, features, 5);
            let fit = |form| Linear::fit_as(form, &lesson, 0.7, 0.3, tch::Device::Cpu).unwrap();
            let (primal, dual) = (fit(Form::Primal), fit(Form::Dual));
            let (a, b) = (&primal.weights.values, &dual.weights.values);
            assert!(a.iter().zip(b.iter()).all(|(a, b)| (a - b).abs() < 1e-4));
            let leverages = [&primal, &dual].map(|model| &model.fitted.as_ref().unwrap().leverage);
            assert!(leverages[0].iter().zip(leverages[1]).all(|(a, b)| (a - b).abs() < 1e-5));
        }
    }
}
