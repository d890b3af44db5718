//! The one place where stage kinds are registered.

use super::audit::AuditStage;
use super::command::Command;
use super::evaluate::Evaluate;
use super::fit::Fit;
use super::fuse::Fuse;
use super::idf::IdfStage;
use super::load::Load;
use super::plot::Plot;
use super::report::Report;
use super::table::TableStage;
use super::threshold::Threshold;
use super::train::Train;
use super::vectorise::Vectorise;
use crate::synthetic::SyntheticStage;
use pipe_core::kind::Kind;
use pipe_core::stage::{KindOf, Runner};

/// Every kind that a pipeline may name.
pub fn kinds() -> &'static [&'static dyn Kind] {
    const {
        &[
            &KindOf::<AuditStage>::new(),
            &KindOf::<Command>::new(),
            &KindOf::<Evaluate>::new(),
            &KindOf::<Fit>::new(),
            &KindOf::<Fuse>::new(),
            &KindOf::<IdfStage>::new(),
            &KindOf::<Load>::new(),
            &KindOf::<Plot>::new(),
            &KindOf::<Report>::new(),
            &KindOf::<SyntheticStage>::new(),
            &KindOf::<TableStage>::new(),
            &KindOf::<Threshold>::new(),
            &KindOf::<Train>::new(),
            &KindOf::<Vectorise>::new(),
        ]
    }
}

/// What `pipe` runs in child processes of its own. The stages that need libtorch are run by
/// `pipe-worker`, which lists them in `worker/src/stages`.
pub fn light_runners() -> &'static [Runner] {
    const {
        &[
            Runner::of::<Fuse>(),
            Runner::of::<IdfStage>(),
            Runner::of::<Load>(),
            Runner::of::<Plot>(),
            Runner::of::<Report>(),
            Runner::of::<SyntheticStage>(),
            Runner::of::<TableStage>(),
            Runner::of::<Threshold>(),
            Runner::of::<Vectorise>(),
        ]
    }
}
