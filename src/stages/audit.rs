//! `audit`: whether a model's decisions can have known the answers. `pipe-worker` runs it; these are its
//! parameters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::dataset::DATASET;
use super::evaluate::{EvaluatedPart, signal_issue};
use super::train::{HISTORY, MODEL};
use pipe_core::issue::Issue;
use pipe_core::kind::{ArtifactType, FILE, InputDecl, OutputDecl, Program};
use pipe_core::reference::StageRef;
use pipe_core::stage::StageKind;
use pipe_ml::config::device::Device;
use pipe_ml::config::signal::LocalSignal;
use pipe_ml::metric::marked::Protocol;

/// The artifact: a [`pipe_ml::metric::audit::Audit`] as JSON.
pub const AUDIT: ArtifactType = "audit";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditStage {
    pub data: StageRef,
    pub model: StageRef,
    /// The `train` stage whose history says how the epoch was chosen; usually the model's.
    pub history: Option<StageRef>,
    #[serde(default)]
    pub protocol: Protocol,
    #[serde(default)]
    pub part: EvaluatedPart,
    /// As in `evaluate`.
    pub signal: Option<LocalSignal>,
    /// Decides which row gets whose labels.
    #[serde(default)]
    pub seed: u64,
    #[serde(default)]
    pub device: Device,
    /// `pass` makes a failed audit a failed stage; otherwise it is a finding.
    #[serde(default)]
    pub require: Require,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Require {
    #[default]
    Nothing,
    Pass,
}

impl StageKind for AuditStage {
    const NAME: &'static str = "audit";
    const VERSION: u32 = 2;
    const SUMMARY: &'static str = "Tests whether a model's decisions depend on the labels they are judged by";
    const PROGRAM: Program = Program::Worker;

    fn inputs(&self) -> Vec<InputDecl> {
        let mut inputs =
            vec![InputDecl::one("data", &self.data, DATASET), InputDecl::one("model", &self.model, MODEL)];
        inputs.extend(self.history.as_ref().map(|from| InputDecl::one("history", from, HISTORY)));
        inputs
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![OutputDecl::new("audit", AUDIT, "audit.json"), OutputDecl::new("text", FILE, "audit.md")]
    }

    fn issues(&self) -> Vec<Issue> {
        signal_issue(self.protocol, self.signal).into_iter().collect()
    }
}
