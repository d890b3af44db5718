//! `audit`: tests whether a model's decisions depend on the labels that they are judged by. These are its parameters;
//! [`crate::judge`] runs it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::evaluate::{EvaluatedPart, JudgedFields, signal_issue};
use super::file_source::StageOrFile;
use pipe_core::artifact::PlainFile;
use pipe_core::issue::Issue;
use pipe_core::kind::{InputDecl, OutputDecl, Program};
use pipe_core::reference::StageRef;
use pipe_core::slot::{Out, Slot};
use pipe_core::stage::StageKind;
use pipe_ml::artifacts::ModelDirectory;
use pipe_ml::config::device::Device;
use pipe_ml::config::signal::LocalSignal;
use pipe_ml::data::split_data::SplitData;
use pipe_ml::history::History;
use pipe_ml::metric::audit::Audit;
use pipe_ml::metric::marked::Protocol;

/// The parameters of `audit`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditStage {
    pub data: StageRef,
    /// The model that is audited.
    pub model: Option<StageRef>,
    /// In place of a model: decisions or scores that any program wrote about the rows, as in `evaluate`. What needs the
    /// model is then not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predictions: Option<StageOrFile>,
    /// What a score of `predictions` must exceed for its label to be predicted, as in `evaluate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// The `train` stage whose history shows how the epoch was chosen; usually the one that made the model.
    pub history: Option<StageRef>,
    #[serde(default)]
    pub protocol: Protocol,
    #[serde(default)]
    pub part: EvaluatedPart,
    /// The local signal, as in `evaluate`.
    pub signal: Option<LocalSignal>,
    /// The seed of the permutations of labels.
    #[serde(default)]
    pub seed: u64,
    #[serde(default)]
    pub device: Device,
    /// With `pass`, the stage fails if the audit fails. By default a failed audit is only reported.
    #[serde(default)]
    pub require: Require,
}

/// What the stage requires of the audit in order to succeed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Require {
    #[default]
    Nothing,
    Pass,
}

impl AuditStage {
    /// The data set of the audited rows.
    pub const DATA: Slot<SplitData> = Slot::new("data");
    /// The audited model.
    pub const MODEL: Slot<ModelDirectory> = Slot::new("model");
    /// The predictions that are audited in place of a model.
    pub const PREDICTIONS: Slot<PlainFile> = Slot::new("predictions");
    /// The history of the training, if one is given.
    pub const HISTORY: Slot<History> = Slot::new("history");
    /// The findings.
    pub const AUDIT: Out<Audit> = Out::new("audit", "audit.json");
    /// The findings as Markdown.
    pub const TEXT: Out<PlainFile> = Out::new("text", "audit.md");
}

impl StageKind for AuditStage {
    const NAME: &'static str = "audit";
    const VERSION: u32 = 4;
    const SUMMARY: &'static str = "Tests whether a model's decisions depend on the labels they are judged by";
    const PROGRAM: Program = Program::Either;

    /// In version 4, labels of predictions are found as in version 3 of `evaluate`.
    fn version(&self) -> u32 {
        if self.predictions.is_some() { 4 } else { Self::VERSION }
    }

    fn inputs(&self) -> Vec<InputDecl> {
        let model = self.model.as_ref().map(|model| Self::MODEL.one(model));
        let predictions = self.predictions.as_ref().map(|source| Self::PREDICTIONS.from(source.declare()));
        let history = self.history.as_ref().map(|history| Self::HISTORY.one(history));
        [Some(Self::DATA.one(&self.data)), model, predictions, history].into_iter().flatten().collect()
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![Self::AUDIT.decl(), Self::TEXT.decl()]
    }

    fn issues(&self) -> Vec<Issue> {
        let only_for_models = [
            ("signal", self.signal.is_some()),
            ("device", self.device != Device::default()),
            ("history", self.history.is_some()),
            ("seed", self.seed != 0),
        ];
        let mut issues: Vec<Issue> = signal_issue(self.protocol, self.signal).into_iter().collect();
        let judged = JudgedFields {
            model: self.model.is_some(),
            predictions: self.predictions.is_some(),
            threshold: self.threshold,
            only_for_models: &only_for_models,
        };
        issues.extend(judged.issues());
        if self.predictions.is_some() && self.require == Require::Pass {
            let message = "only a model can pass: whether `predictions` depend on the labels of the evaluated rows cannot be \
                           tested";
            issues.push(Issue::new("require", message));
        }
        issues
    }

    fn metrics(&self) -> Option<Vec<&'static str>> {
        Some(vec!["passed", "macro_f1", "macro_f1_*", "changed_by_*"])
    }
}
