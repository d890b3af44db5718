//! The stages that only the worker can run.

mod train;

use pipe::stage::kind::{Runner, StageKind};
use pipe::stage::train::Train;

/// Each kind's parameters are in `pipe`, under `src/stage`; what it does is here.
pub const RUNNERS: &[Runner] = &[Runner { kind: Train::NAME, run: train::run }];
