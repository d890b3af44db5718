//! Anything that turns rows into decisions: the artifact `model`, whatever kind it is of.
//!
//! What evaluates, audits, predicts and explains knows models only as a [`System`]. A new kind of model is
//! a file in here and an arm in [`open`].

mod composite;
mod composite_explanation;
#[cfg(test)]
mod composite_tests;
mod telling;
mod trained;

use std::path::Path;

use anyhow::{Context, Result, bail};
use pipe_ml::config::device::Device;
use pipe_ml::config::signal::LocalSignal;
use pipe_ml::data::examples::{Examples, Unlabelled};
use pipe_ml::explanation::Explanation;
use pipe_ml::explanation::cut::CutRule;
pub use pipe_ml::metric::block::{Block, Thresholds};
use serde::Deserialize;

use crate::part::Part;

/// Takes blocks as they come; an error ends the work.
pub type Take<'a> = &'a mut dyn FnMut(&Block) -> Result<()>;

/// From a block and the true labels of its rows to their cost.
pub type LossFunction = Box<dyn Fn(&Block, &[&[u32]]) -> Losses + Send + Sync>;

pub trait System: Send {
    fn features(&self) -> usize;

    fn labels(&self) -> usize;

    /// Hands over consecutive blocks of rows, in order. There is no way to pass labels in.
    fn decide(&mut self, rows: Unlabelled, take: Take) -> Result<()>;

    /// The paper's protocol: the true labels of the rows reach the thresholds. What comes out is no
    /// prediction. Only models that `train` makes have it.
    fn decide_by_oracle(&mut self, rows: Examples, take: Take) -> Result<()> {
        let _ = (rows, take);
        bail!(
            "this model has no thresholds that could read the true labels: the oracle protocol is the paper's, for \
             models that `train` makes; evaluate this one by the honest protocol"
        )
    }

    /// What a block of decisions costs against the truth: for measuring only.
    fn losses(&self) -> LossFunction {
        Box::new(|block, truth| {
            let bce = (!block.probabilities.is_empty()).then(|| cross_entropy(block, truth));
            Losses { bce, training: None }
        })
    }

    /// Breaks the decisions about one of the rows down into what led to them. They are those of [`Self::decide`].
    fn explain(&mut self, rows: Unlabelled, asked: &Asked) -> Result<Explanation>;

    /// What a model says of the way it was made that an audit should know.
    fn origin(&self) -> Origin {
        Origin::default()
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Losses {
    /// Sum over the entries of the block.
    pub bce: Option<f64>,
    /// What training minimises, of this block as a batch.
    pub training: Option<f64>,
}

/// How a model was made, as far as an audit can ask.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Origin {
    /// The thresholds as the model was trained to be used read the labels of the rows to be predicted.
    pub thresholds_read_labels: bool,
    /// Which epoch was kept, or when training ended, was decided by figures on validation rows.
    pub epoch_by_validation: bool,
}

/// What is to be explained: a row by its place, and perhaps one label only.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Asked {
    pub row: usize,
    pub label: Option<u32>,
    /// What made the cuts, where that is known: a model does not keep it.
    pub rule: Option<CutRule>,
}

/// What a model needs beside its own directory.
pub struct Settings {
    pub device: Device,
    /// The decisions do not depend on it.
    pub threads: usize,
    /// In place of the model's own choice; for models that `train` makes.
    pub signal: Option<LocalSignal>,
    /// The training part, for models that look up neighbours in it.
    pub train: Option<Part>,
}

/// The part of `model.json` that all kinds of models have in common.
#[derive(Deserialize)]
struct Card {
    /// Absent where `train` made the model.
    kind: Option<String>,
}

/// Opens a model of any kind.
pub fn open(directory: &Path, settings: Settings) -> Result<Box<dyn System>> {
    let path = directory.join("model.json");
    let text = std::fs::read(&path).with_context(|| format!("{}: no model", path.display()))?;
    let card: Card = serde_json::from_slice(&text).with_context(|| path.display().to_string())?;
    match card.kind.as_deref() {
        None => Ok(Box::new(trained::Trained::open(directory, settings)?)),
        Some("composite") => Ok(Box::new(composite::Fused::open(directory, settings)?)),
        Some(kind) => bail!("{}: this program knows no model of the kind `{kind}`", path.display()),
    }
}

/// The sum of -ln of the probability that the truth was given. Probabilities are kept one f32 step from
/// 0 and 1, which is where they were rounded to.
fn cross_entropy(block: &Block, truth: &[&[u32]]) -> f64 {
    let bounded = |p: f32| f64::from(p.clamp(f32::EPSILON, 1.0 - f32::EPSILON));
    let row = |row: usize| {
        let probabilities = block.row_probabilities(row);
        let none: f64 = probabilities.iter().map(|&p| -(-bounded(p)).ln_1p()).sum();
        let odds = |&label: &u32| {
            let p = bounded(probabilities[label as usize]);
            (-p).ln_1p() - p.ln()
        };
        none + truth[row].iter().map(odds).sum::<f64>()
    };
    (0..block.rows).map(row).sum()
}

#[cfg(test)]
mod tests;
