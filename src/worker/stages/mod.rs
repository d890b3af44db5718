//! The stages and jobs that the worker runs.
//!
//! Their parameters are in `pipe_stages`, which does not depend on libtorch. Each module has a unit struct that
//! implements [`RunStage`](pipe_core::stage::RunStage) for a stage that only the worker can run.

mod fit;
mod train;

use std::path::Path;

use anyhow::Result;
use pipe_core::stage::Runner;
use pipe_ml::system::{System, SystemSettings};
use pipe_stages::judge::{self, OpenSystem};

/// The stages that need libtorch.
pub const STAGES: &[Runner] = &[Runner::of::<fit::RunFit>(), Runner::of::<train::RunTrain>()];

/// The stages that need libtorch if their model has a network.
pub const JUDGING_STAGES: &[Runner] = &judge::stage_runners::<EveryModel>();

/// The jobs of commands, which no pipeline contains.
pub const JOBS: &[Runner] = &judge::job_runners::<EveryModel>();

/// Opens models of every kind.
struct EveryModel;

impl OpenSystem for EveryModel {
    fn open(directory: &Path, settings: SystemSettings) -> Result<Box<dyn System>> {
        crate::system::open(directory, settings)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pipe_core::kind::Program;
    use pipe_stages::registry::{kinds, light_runners};

    use super::*;

    fn names(runners: &[Runner]) -> BTreeSet<&'static str> {
        let names: BTreeSet<_> = runners.iter().map(Runner::kind).collect();
        assert_eq!(names.len(), runners.len(), "a kind is listed twice: {names:?}");
        names
    }

    fn kinds_of(program: Program) -> BTreeSet<&'static str> {
        kinds().iter().filter(|kind| kind.program() == program).map(|kind| kind.name()).collect()
    }

    #[test]
    fn every_registered_kind_has_a_runner_in_the_program_that_it_declares() {
        assert_eq!(kinds_of(Program::Pipe), names(light_runners()));
        assert_eq!(kinds_of(Program::Worker), names(STAGES));
        assert_eq!(kinds_of(Program::Either), names(JUDGING_STAGES));
        assert_eq!(kinds_of(Program::Command), BTreeSet::from(["command"]));
    }

    #[test]
    fn no_job_of_a_command_has_the_name_of_a_stage_kind() {
        let registered: BTreeSet<_> = kinds().iter().map(|kind| kind.name()).collect();
        assert_eq!(names(JOBS).intersection(&registered).next(), None);
    }
}
