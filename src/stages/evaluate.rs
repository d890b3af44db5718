//! `evaluate`: measures a model's decisions on rows that it was not trained on. These are its parameters;
//! [`crate::judge`] runs it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pipe_core::issue::Issue;
use pipe_core::kind::{InputDecl, OutputDecl, Program};
use pipe_core::reference::StageRef;
use pipe_core::slot::{Out, Slot};
use pipe_core::stage::StageKind;
use pipe_ml::artifacts::{LabelRecords, ModelDirectory};
use pipe_ml::config::device::Device;
use pipe_ml::config::signal::LocalSignal;
use pipe_ml::data::split_data::SplitData;
use pipe_ml::metric::bootstrap::Bootstrap;
use pipe_ml::metric::curves::Curves;
use pipe_ml::metric::decisions::Decisions;
use pipe_ml::metric::marked::Protocol;
use pipe_ml::metric::propensity::Propensity;
use pipe_ml::metric::record::EvaluationRecord;

/// The parameters of `evaluate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evaluate {
    pub data: StageRef,
    pub model: StageRef,
    #[serde(default)]
    pub protocol: Protocol,
    /// The part of the data set that is evaluated.
    #[serde(default)]
    pub part: EvaluatedPart,
    /// The local signal that a trained model uses here; the default is the model's own choice. Under the oracle
    /// protocol only `batch-labels` is possible.
    pub signal: Option<LocalSignal>,
    #[serde(default)]
    pub bootstrap: Bootstrap,
    #[serde(default)]
    pub propensity: Propensity,
    #[serde(default)]
    pub device: Device,
}

/// The part of the data set whose rows are evaluated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EvaluatedPart {
    #[default]
    Test,
    Validation,
}

impl Evaluate {
    /// The data set of the evaluated rows.
    pub const DATA: Slot<SplitData> = Slot::new("data");
    /// The model that is evaluated.
    pub const MODEL: Slot<ModelDirectory> = Slot::new("model");
    /// The metrics, with their intervals.
    pub const EVALUATION: Out<EvaluationRecord> = Out::new("evaluation", "evaluation.json");
    /// The counts and metrics of every label.
    pub const LABELS: Out<LabelRecords> = Out::new("labels", "labels.jsonl");
    /// The decisions, with the truth.
    pub const DECISIONS: Out<Decisions> = Out::new("decisions", "decisions");
    /// The data of the figures.
    pub const CURVES: Out<Curves> = Out::new("curves", "curves.json");
}

impl StageKind for Evaluate {
    const NAME: &'static str = "evaluate";
    const VERSION: u32 = 2;
    const SUMMARY: &'static str = "Measures a model's decisions on rows that it has not seen";
    const PROGRAM: Program = Program::Either;

    fn inputs(&self) -> Vec<InputDecl> {
        vec![Self::DATA.one(&self.data), Self::MODEL.one(&self.model)]
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![Self::EVALUATION.decl(), Self::LABELS.decl(), Self::DECISIONS.decl(), Self::CURVES.decl()]
    }

    fn issues(&self) -> Vec<Issue> {
        let bootstrap = self.bootstrap.issues().into_iter().map(|issue| issue.within("bootstrap"));
        bootstrap.chain(signal_issue(self.protocol, self.signal)).collect()
    }
}

/// Returns the issue of a local signal under a protocol. `batch-labels` is allowed under the oracle protocol,
/// which uses it anyway, so that one matrix can contain both protocols.
pub(super) fn signal_issue(protocol: Protocol, signal: Option<LocalSignal>) -> Option<Issue> {
    let message = match (protocol, signal?) {
        (Protocol::Oracle, LocalSignal::BatchLabels) => return None,
        (Protocol::Oracle, _) => {
            "the local signal of the oracle protocol is the true labels: leave `signal` out"
        }
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
    fn only_the_oracle_protocol_may_read_the_labels_of_the_batch() {
        let is_allowed = |protocol, signal| signal_issue(protocol, signal).is_none();
        assert!(
            is_allowed(Protocol::Oracle, None)
                && is_allowed(Protocol::Oracle, Some(LocalSignal::BatchLabels))
        );
        assert!(is_allowed(Protocol::Honest, None) && is_allowed(Protocol::Honest, Some(LocalSignal::None)));
        assert!(!is_allowed(Protocol::Oracle, Some(LocalSignal::None)));
        assert!(!is_allowed(Protocol::Honest, Some(LocalSignal::BatchLabels)));
    }
}
