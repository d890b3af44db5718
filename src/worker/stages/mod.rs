//! The stages and jobs that only the worker can run.
//!
//! Their parameters are in `pipe_stages`, which does not depend on libtorch. Each module has a unit struct that
//! implements [`RunStage`](pipe_core::stage::RunStage) for them.

mod audit;
mod evaluate;
mod explain;
mod fit;
mod judged_model;
mod predict;
mod train;

use pipe_core::stage::Runner;

/// The stages that need libtorch.
pub const STAGES: &[Runner] = &[
    Runner::of::<audit::RunAudit>(),
    Runner::of::<evaluate::RunEvaluate>(),
    Runner::of::<fit::RunFit>(),
    Runner::of::<train::RunTrain>(),
];

/// The jobs of commands, which no pipeline contains.
pub const JOBS: &[Runner] = &[Runner::of::<explain::RunExplain>(), Runner::of::<predict::RunPredict>()];

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
        // Predictions are evaluated by `pipe`, and models by the worker.
        let light: BTreeSet<_> = kinds_of(Program::Pipe).into_iter().chain(["evaluate"]).collect();
        assert_eq!(light, names(light_runners()));
        assert_eq!(kinds_of(Program::Worker), names(STAGES));
        assert_eq!(kinds_of(Program::Command), BTreeSet::from(["command"]));
    }

    #[test]
    fn no_job_of_a_command_has_the_name_of_a_stage_kind() {
        let registered: BTreeSet<_> = kinds().iter().map(|kind| kind.name()).collect();
        assert_eq!(names(JOBS).intersection(&registered).next(), None);
    }
}
