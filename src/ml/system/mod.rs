//! Systems: models of any kind behind one trait that turns rows into decisions.
//!
//! The stages that evaluate, audit, predict and explain know the artifact `model` only as a [`System`]. [`open`] opens the
//! models that need no libtorch; `pipe-worker` opens the others as well.

mod composite;
mod composite_explanation;
mod cross_entropy;
pub mod explained_labels;
mod sparse_scores;

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::composite::Composite;
use crate::config::device::Device;
use crate::config::model::ModelConfig;
use crate::config::signal::LocalSignal;
use crate::data::dataset_part::DatasetPart;
use crate::data::examples::{Examples, Unlabelled};
use crate::explanation::Explanation;
use crate::explanation::cut::CutRule;
use crate::metric::block::DecisionBlock;
use crate::scorer::{self, ModelSize, Scorer};
pub use cross_entropy::cross_entropy;

/// Receives blocks in order; an error ends the work.
pub type BlockSink<'a> = &'a mut dyn FnMut(&DecisionBlock) -> Result<()>;

/// Computes the losses of a block from the true labels of its rows.
pub type LossFunction = Box<dyn Fn(&DecisionBlock, &[&[u32]]) -> Losses + Send + Sync>;

/// A model that decides which labels its rows have.
pub trait System: Send {
    /// Returns the number of features that a row may have.
    fn features(&self) -> usize;

    /// Returns the number of labels.
    fn labels(&self) -> usize;

    /// Decides about the rows and passes consecutive blocks to `take`, in order. Labels are not an
    /// input, so that a decision cannot depend on them.
    fn decide(&mut self, rows: Unlabelled, take: BlockSink) -> Result<()>;

    /// Returns whether the decisions about a row depend on the rows that it is decided about together with.
    fn decides_together(&self) -> bool {
        false
    }

    /// Decides by the oracle protocol, the one of the paper: the true labels of the rows enter the thresholds.
    /// The result is not a prediction. Only models made by `train` support it.
    fn decide_by_oracle(&mut self, rows: Examples, take: BlockSink) -> Result<()> {
        let _ = (rows, take);
        bail!(
            "this model has no thresholds that read the true labels, so the oracle protocol does not apply to it: only \
             models made by `train` have such thresholds. Evaluate this model by the honest protocol"
        )
    }

    /// Returns the function that measures the losses of a block against the true labels.
    fn losses(&self) -> LossFunction {
        Box::new(|block, truth| {
            let bce = block.has_probabilities().then(|| cross_entropy(block, truth));
            Losses { bce, training: None }
        })
    }

    /// Explains the decisions about one of the rows: the terms of its scores and thresholds. The decisions are
    /// those of [`Self::decide`].
    fn explain(&mut self, rows: Unlabelled, request: &ExplainRequest) -> Result<Explanation>;

    /// Returns how the model was made, as far as an audit needs to know it.
    fn origin(&self) -> ModelOrigin {
        ModelOrigin::default()
    }
}

/// The losses of a block of decisions.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Losses {
    /// The cross-entropy, summed over the entries of the block; `None` if the model gives no probabilities.
    pub bce: Option<f64>,
    /// The training loss (eq. 3) of this block as one batch.
    pub training: Option<f64>,
}

/// What an audit has to know about how a model was made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelOrigin {
    /// Whether the thresholds, used as in training, read the labels of the rows to be predicted.
    pub thresholds_read_labels: bool,
    /// Whether metrics on the validation rows decided which epoch was kept or when training ended.
    pub epoch_by_validation: bool,
}

/// A request for an explanation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExplainRequest {
    /// The index of the row among the given rows.
    pub row: usize,
    /// The only label to explain; by default, the predicted labels and the best of the others.
    pub label: Option<u32>,
    /// The rule that fitted the cuts, if it is known. Models do not store it.
    pub rule: Option<CutRule>,
}

/// The settings of a system, in addition to the directory of its model.
pub struct SystemSettings {
    pub device: Device,
    /// How many threads to use. The decisions do not depend on it.
    pub threads: usize,
    /// Replaces the model's own local signal; only for models made by `train`.
    pub signal: Option<LocalSignal>,
    /// The training part, for models that look up neighbours in it.
    pub train: Option<DatasetPart>,
}

/// Opens a part of a composite model: its parameters, its directory, and the size that it must have.
pub type LoadPart<'a> = &'a dyn Fn(&ModelConfig, &Path, ModelSize) -> Result<Box<dyn Scorer>>;

/// Opens a model that needs no libtorch.
pub fn open(directory: &Path, settings: SystemSettings) -> Result<Box<dyn System>> {
    open_composite(directory, settings, &|model, directory, size| {
        scorer::load(model, directory, size)?.context(NEEDS_WORKER)
    })
}

/// Opens a composite model whose parts are opened by `load`.
pub fn open_composite(directory: &Path, settings: SystemSettings, load: LoadPart) -> Result<Box<dyn System>> {
    Ok(Box::new(composite::CompositeSystem::open(directory, settings, load)?))
}

/// Returns whether a model needs libtorch, because it is a network or has one among its parts.
pub fn needs_libtorch(directory: &Path) -> Result<bool> {
    Ok(!Composite::is_at(directory)?
        || Composite::load(directory)?.parts.iter().any(|part| part.model.method().is_some()))
}

const NEEDS_WORKER: &str = "the model has a network, which only `pipe-worker` can run";
