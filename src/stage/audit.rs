//! `audit`: whether a model's decisions can have known the answers. `pipe-worker` runs it; these are its
//! parameters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::dataset::{DATASET, complaint};
use super::evaluate::EvaluatedPart;
use super::kind::StageKind;
use super::train::{HISTORY, MODEL};
use crate::ml::config::device::Device;
use crate::ml::config::signal::LocalSignal;
use crate::ml::metric::marked::Protocol;
use crate::spec::kind::{ArtifactType, Complaint, FILE, InputDecl, OutputDecl, Program, SourceDecl};
use crate::spec::reference::StageRef;

/// The artifact: a [`crate::ml::metric::audit::Audit`] as JSON.
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
    const VERSION: u32 = 1;
    const SUMMARY: &'static str = "Tests whether a model's decisions depend on the labels they are judged by";
    const PROGRAM: Program = Program::Worker;

    fn inputs(&self) -> Vec<InputDecl> {
        let one = |slot: &str, from: &StageRef, accepts| InputDecl {
            slot: slot.to_owned(),
            source: SourceDecl::One(from.clone()),
            accepts,
        };
        let mut inputs = vec![one("data", &self.data, DATASET), one("model", &self.model, MODEL)];
        inputs.extend(self.history.as_ref().map(|from| one("history", from, HISTORY)));
        inputs
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        let output = |name: &str, artifact, file_name: &str| OutputDecl {
            name: name.to_owned(),
            artifact,
            file_name: file_name.to_owned(),
        };
        vec![output("audit", AUDIT, "audit.json"), output("text", FILE, "audit.md")]
    }

    fn complaints(&self) -> Vec<Complaint> {
        let both = self.protocol == Protocol::Oracle && self.signal.is_some();
        let message = "the oracle protocol's local signal is the true labels: leave it out";
        if both { vec![complaint("signal", message)] } else { Vec::new() }
    }
}
