//! The stages that only the worker can run.

mod audit;
mod evaluate;
mod explain;
mod fit;
mod predict;
mod subject;
mod train;

use pipe::stage::audit::AuditStage;
use pipe::stage::evaluate::Evaluate;
use pipe::stage::fit::Fit;
use pipe::stage::kind::{Runner, StageKind};
use pipe::stage::predict::{EXPLAIN, PREDICT};
use pipe::stage::train::Train;

/// Each kind's parameters are in `pipe`, under `src/stage`; what it does is here.
pub const RUNNERS: &[Runner] = &[
    Runner { kind: AuditStage::NAME, run: audit::run },
    Runner { kind: Evaluate::NAME, run: evaluate::run },
    Runner { kind: EXPLAIN, run: explain::run },
    Runner { kind: Fit::NAME, run: fit::run },
    Runner { kind: PREDICT, run: predict::run },
    Runner { kind: Train::NAME, run: train::run },
];
