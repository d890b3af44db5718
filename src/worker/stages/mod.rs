//! The stages that only the worker can run.

mod audit;
mod evaluate;
mod explain;
mod fit;
mod predict;
mod subject;
mod train;

use pipe_core::stage::{Runner, StageKind};
use pipe_stages::audit::AuditStage;
use pipe_stages::evaluate::Evaluate;
use pipe_stages::fit::Fit;
use pipe_stages::predict::{EXPLAIN, PREDICT};
use pipe_stages::train::Train;

/// Each kind's parameters are in `pipe`, under `src/stage`; what it does is here.
pub const RUNNERS: &[Runner] = &[
    Runner { kind: AuditStage::NAME, run: audit::run },
    Runner { kind: Evaluate::NAME, run: evaluate::run },
    Runner { kind: EXPLAIN, run: explain::run },
    Runner { kind: Fit::NAME, run: fit::run },
    Runner { kind: PREDICT, run: predict::run },
    Runner { kind: Train::NAME, run: train::run },
];
