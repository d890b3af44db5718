//! The registered stage kinds. This is the only list of them.

use super::audit::AuditStage;
use super::claim::Claim;
use super::command::Command;
use super::evaluate::Evaluate;
use super::fit::Fit;
use super::fuse::Fuse;
use super::idf::IdfStage;
use super::load::Load;
use super::plot::Plot;
use super::report::Report;
use super::select::Select;
use super::table::TableStage;
use super::threshold::Threshold;
use super::train::Train;
use super::vectorise::Vectorise;
use crate::synthetic::SyntheticStage;
use pipe_core::kind::Kind;
use pipe_core::stage::{KindOf, Runner};

/// Returns every kind that a pipeline can use.
pub fn kinds() -> &'static [&'static dyn Kind] {
    const {
        &[
            &KindOf::<AuditStage>::new(),
            &KindOf::<Claim>::new(),
            &KindOf::<Command>::new(),
            &KindOf::<Evaluate>::new(),
            &KindOf::<Fit>::new(),
            &KindOf::<Fuse>::new(),
            &KindOf::<IdfStage>::new(),
            &KindOf::<Load>::new(),
            &KindOf::<Plot>::new(),
            &KindOf::<Report>::new(),
            &KindOf::<Select>::new(),
            &KindOf::<SyntheticStage>::new(),
            &KindOf::<TableStage>::new(),
            &KindOf::<Threshold>::new(),
            &KindOf::<Train>::new(),
            &KindOf::<Vectorise>::new(),
        ]
    }
}

/// Returns the kinds that only `pipe` runs, in child processes of itself. The kinds that need libtorch are run by
/// `pipe-worker` and listed in `src/worker/stages`; [`crate::judge`] has those that either program can run.
pub fn light_runners() -> &'static [Runner] {
    const {
        &[
            Runner::of::<Claim>(),
            Runner::of::<Fuse>(),
            Runner::of::<IdfStage>(),
            Runner::of::<Load>(),
            Runner::of::<Plot>(),
            Runner::of::<Report>(),
            Runner::of::<Select>(),
            Runner::of::<SyntheticStage>(),
            Runner::of::<TableStage>(),
            Runner::of::<Threshold>(),
            Runner::of::<Vectorise>(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use pipe_core::kind::Program;

    #[test]
    fn every_kind_refuses_unknown_fields() {
        for kind in kinds() {
            // A field that no kind has. It is parsed as YAML, like the fields of a pipeline.
            let body = serde_yaml::from_str("{ no_such_field: 1 }").unwrap();
            let error = kind.check(&body).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains("unknown field `no_such_field`"), "{}: {error:?}", kind.name());
        }
    }

    #[test]
    fn exactly_the_kinds_that_pipe_runs_have_a_light_runner() {
        let declared: BTreeSet<&str> =
            kinds().iter().filter(|kind| kind.program() == Program::Pipe).map(|kind| kind.name()).collect();
        let run: BTreeSet<&str> = light_runners().iter().map(Runner::kind).collect();
        assert_eq!(declared, run);
        assert_eq!(run.len(), light_runners().len(), "a kind is listed twice");
    }

    #[test]
    fn kinds_are_sorted_by_name_and_unique() {
        let names: Vec<&str> = kinds().iter().map(|kind| kind.name()).collect();
        assert!(names.is_sorted() && names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}
