//! Linear ridge regression on a = [x, constant]: the scores are a W.

use std::path::Path;

use anyhow::{Result, ensure};
use rayon::prelude::*;

use super::{CAUSES, ModelSize, SCORE, Scorer, write_dense};
use crate::data::artifact::{ArtifactCheck, open_dense};
use crate::data::csr::{Csr, DenseMatrix};
use crate::data::examples::Unlabelled;
use crate::explanation::{Cause, CauseSubject, Evidence};
use crate::signal::dot_index::entries;

const WEIGHTS: &str = "weights.dense";

/// A fitted linear ridge regression.
pub struct LinearRidge {
    pub constant: f32,
    /// W, (features + 1) x labels; the last row belongs to the constant.
    pub weights: DenseMatrix,
}

impl LinearRidge {
    /// Opens a saved model.
    pub fn load(directory: &Path, size: ModelSize, constant: f64) -> Result<Self> {
        let weights = open_dense(&directory.join(WEIGHTS), ArtifactCheck::Deep)?;
        ensure!(weights.rows > 0, "{}: the model has no weights", directory.display());
        size.check(directory, weights.rows - 1, weights.cols)?;
        Ok(Self { constant: constant as f32, weights })
    }

    /// Creates a directory and writes everything that [`Self::load`] needs into it.
    pub fn save(&self, directory: &Path) -> Result<()> {
        std::fs::create_dir_all(directory)?;
        write_dense(&directory.join(WEIGHTS), &self.weights)
    }

    /// Computes the scores a W of a row.
    pub fn score_row(&self, features: &Csr, row: usize, into: &mut [f32]) {
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
pub fn extended(features: &Csr, row: usize, constant: f32) -> impl Iterator<Item = (u32, f32)> {
    entries(features, row).chain([(features.cols as u32, constant)])
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
}
