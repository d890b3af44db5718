//! The work of the stages `evaluate` and `audit` and of the commands `pipe predict` and `pipe explain`, which open a model
//! of any kind.
//!
//! `pipe` itself runs them if the model needs no libtorch, and `pipe-worker` otherwise: see [`needs_worker`]. Both
//! programs compute the same bytes.

mod audit;
mod audit_predictions;
mod data_names;
mod evaluate;
mod explain;
mod judged_model;
mod predict;
mod ready_model;

use std::path::Path;

use anyhow::Result;
use pipe_core::artifact::Artifact;
use pipe_core::job::Job;
use pipe_core::stage::Runner;
use pipe_ml::artifacts::ModelDirectory;
use pipe_ml::system::{self, System, SystemSettings};

pub use ready_model::{ReadyModel, ReadySettings, RowsToPredict};

/// Opens the models that a program can run.
pub trait OpenSystem: 'static {
    /// Opens the model in a directory.
    fn open(directory: &Path, settings: SystemSettings) -> Result<Box<dyn System>>;
}

/// Opens the models that need no libtorch.
pub struct WithoutNetworks;

impl OpenSystem for WithoutNetworks {
    fn open(directory: &Path, settings: SystemSettings) -> Result<Box<dyn System>> {
        system::open(directory, settings)
    }
}

/// Returns the runners of the stages that open a model.
pub const fn stage_runners<O: OpenSystem>() -> [Runner; 2] {
    [Runner::of::<audit::RunAudit<O>>(), Runner::of::<evaluate::RunEvaluate<O>>()]
}

/// Returns the runners of the jobs of commands that open a model. No pipeline contains these jobs.
pub const fn job_runners<O: OpenSystem>() -> [Runner; 2] {
    [Runner::of::<explain::RunExplain<O>>(), Runner::of::<predict::RunPredict<O>>()]
}

/// Returns whether a job opens a model that needs libtorch. A model that cannot be read needs none to say so.
pub fn needs_worker(job: &Job) -> bool {
    let models = job.inputs.values().flatten().filter(|input| input.artifact == ModelDirectory::TYPE);
    models.into_iter().any(|model| system::needs_libtorch(&model.path).unwrap_or(false))
}
