//! The stages that only the worker can run.

mod audit;
mod evaluate;
mod subject;
mod train;

use pipe::stage::audit::AuditStage;
use pipe::stage::evaluate::Evaluate;
use pipe::stage::kind::{Runner, StageKind};
use pipe::stage::train::Train;

/// Each kind's parameters are in `pipe`, under `src/stage`; what it does is here.
pub const RUNNERS: &[Runner] = &[
    Runner { kind: AuditStage::NAME, run: audit::run },
    Runner { kind: Evaluate::NAME, run: evaluate::run },
    Runner { kind: Train::NAME, run: train::run },
];
