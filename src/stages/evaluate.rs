//! `evaluate`: a model's decisions on rows that it was not trained on, and what they are worth.
//! `pipe-worker` runs it; these are its parameters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::dataset::DATASET;
use super::train::MODEL;
use pipe_core::issue::Issue;
use pipe_core::kind::{ArtifactType, InputDecl, OutputDecl, Program};
use pipe_core::reference::StageRef;
use pipe_core::stage::StageKind;
use pipe_ml::config::device::Device;
use pipe_ml::config::signal::LocalSignal;
use pipe_ml::metric::bootstrap::Bootstrap;
use pipe_ml::metric::marked::Protocol;
use pipe_ml::metric::propensity::Propensity;

/// The artifact: a [`pipe_ml::metric::record::Record`] as JSON.
pub const EVALUATION: ArtifactType = "evaluation";
/// The artifact: one [`pipe_ml::metric::label::LabelRecord`] per line, as JSON.
pub const LABELS: ArtifactType = "labels";
/// The artifact: [`pipe_ml::metric::decisions::Decisions`], a directory.
pub const DECISIONS: ArtifactType = "decisions";
/// The artifact: [`pipe_ml::metric::curves::Curves`] as JSON.
pub const CURVES: ArtifactType = "curves";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evaluate {
    pub data: StageRef,
    pub model: StageRef,
    #[serde(default)]
    pub protocol: Protocol,
    /// The rows to judge.
    #[serde(default)]
    pub part: EvaluatedPart,
    /// What takes the place of the true labels in the local signal of a trained model; its own
    /// choice unless stated. The oracle protocol knows only `batch-labels`.
    pub signal: Option<LocalSignal>,
    #[serde(default)]
    pub bootstrap: Bootstrap,
    #[serde(default)]
    pub propensity: Propensity,
    #[serde(default)]
    pub device: Device,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EvaluatedPart {
    #[default]
    Test,
    Validation,
}

impl StageKind for Evaluate {
    const NAME: &'static str = "evaluate";
    const VERSION: u32 = 1;
    const SUMMARY: &'static str = "Measures a model's decisions on rows that it has not seen";
    const PROGRAM: Program = Program::Worker;

    fn inputs(&self) -> Vec<InputDecl> {
        vec![InputDecl::one("data", &self.data, DATASET), InputDecl::one("model", &self.model, MODEL)]
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![
            OutputDecl::new("evaluation", EVALUATION, "evaluation.json"),
            OutputDecl::new("labels", LABELS, "labels.jsonl"),
            OutputDecl::new("decisions", DECISIONS, "decisions"),
            OutputDecl::new("curves", CURVES, "curves.json"),
        ]
    }

    fn issues(&self) -> Vec<Issue> {
        let bootstrap = self.bootstrap.issues().into_iter().map(|issue| issue.within("bootstrap"));
        bootstrap.chain(signal_issue(self.protocol, self.signal)).collect()
    }
}

/// Returns the issue of a local signal that the protocol does not allow. Naming the signal that the oracle protocol uses
/// anyway is allowed, so that one matrix can have rows of both protocols.
pub(super) fn signal_issue(protocol: Protocol, signal: Option<LocalSignal>) -> Option<Issue> {
    let message = match (protocol, signal?) {
        (Protocol::Oracle, LocalSignal::BatchLabels) => return None,
        (Protocol::Oracle, _) => "the oracle protocol's local signal is the true labels: leave it out",
        (Protocol::Honest, LocalSignal::BatchLabels) => {
            "`batch-labels` are the true labels of the evaluated rows: only the oracle protocol reads them"
        }
        (Protocol::Honest, _) => return None,
    };
    Some(Issue::new("signal", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_oracle_may_read_the_labels_of_the_batch() {
        let fine = |protocol, signal| signal_issue(protocol, signal).is_none();
        assert!(fine(Protocol::Oracle, None) && fine(Protocol::Oracle, Some(LocalSignal::BatchLabels)));
        assert!(fine(Protocol::Honest, None) && fine(Protocol::Honest, Some(LocalSignal::None)));
        assert!(!fine(Protocol::Oracle, Some(LocalSignal::None)));
        assert!(!fine(Protocol::Honest, Some(LocalSignal::BatchLabels)));
    }
}
