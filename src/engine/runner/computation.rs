//! Everything that is needed to compute one key, as a value: it can be carried out in this process, or written to a file
//! and carried out by `pipe job` on another machine.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::inspect::{Prepared, ResolvedInput};
use crate::spec::pipeline::{InputSource, Instance};
use crate::store::UserFile;
use pipe_core::job::Axes;
use pipe_core::key::KeyParts;
use pipe_core::kind::{FILE, Program};
use pipe_core::packages::Packages;

/// One computation. `F` is how files of the user are known: hashed, or, in a file, by path and content.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Computation<F = Arc<UserFile>> {
    /// The name of the instance, for messages only.
    pub instance: String,
    pub kind: String,
    pub program: Program,
    pub body: serde_json::Value,
    pub parts: KeyParts,
    pub inputs: Vec<ComputationInput<F>>,
    pub outputs: Vec<ComputationOutput>,
    /// The environment variables of a command, by name; `None` unsets one.
    pub environment: Vec<(String, Option<String>)>,
    /// The packages that a command finds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packages: Option<Packages>,
    pub threads: usize,
    pub retries: u32,
    /// What the user should know about the result.
    pub warnings: Vec<String>,
}

/// One slot and what enters it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ComputationInput<F> {
    pub slot: String,
    /// True for a fan-in.
    pub many: bool,
    pub artifacts: Vec<InputArtifact<F>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InputArtifact<F> {
    pub axes: Axes,
    pub artifact: String,
    pub content: ResolvedInput<F>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ComputationOutput {
    pub name: String,
    pub file_name: String,
    pub volatile: bool,
}

impl Computation {
    /// Combines what the pipeline says about an instance with the content of its inputs.
    pub(super) fn new(
        instance: &Instance,
        name: String,
        prepared: Prepared,
        threads: Option<usize>,
        warnings: Vec<String>,
    ) -> Self {
        let parts = prepared.parts(instance);
        let mut inputs = Vec::with_capacity(instance.inputs.len());
        for (input, contents) in instance.inputs.iter().zip(prepared.inputs) {
            let mut artifacts = Vec::with_capacity(contents.len());
            for (source, content) in input.sources.iter().zip(contents) {
                let (axes, artifact) = match source {
                    InputSource::Output { axes, artifact, .. } => (axes.clone(), *artifact),
                    InputSource::File(_) => (Vec::new(), FILE),
                };
                artifacts.push(InputArtifact { axes, artifact: artifact.to_owned(), content });
            }
            inputs.push(ComputationInput { slot: input.slot.clone(), many: input.many, artifacts });
        }
        let outputs = instance.outputs.iter().map(|output| ComputationOutput {
            name: output.name.clone(),
            file_name: output.file_name.clone(),
            volatile: output.is_volatile(),
        });
        Self {
            instance: name,
            kind: instance.kind.to_owned(),
            program: instance.program,
            body: instance.body.value(),
            parts,
            inputs,
            outputs: outputs.collect(),
            environment: instance.environment.clone(),
            packages: instance.packages().unwrap_or_default().cloned(),
            // What the stage asked for, not what is free in this run: a result must not depend on the number of jobs.
            threads: threads.unwrap_or(instance.resources.cpu),
            retries: instance.retries,
            warnings,
        }
    }
}

impl<F> Computation<F> {
    /// Returns the same computation, with its files known in another way.
    pub(super) fn map_files<T, E>(self, map: &mut dyn FnMut(F) -> Result<T, E>) -> Result<Computation<T>, E> {
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for ComputationInput { slot, many, artifacts } in self.inputs {
            let mut mapped = Vec::with_capacity(artifacts.len());
            for InputArtifact { axes, artifact, content } in artifacts {
                let content = match content {
                    ResolvedInput::Stored(stored) => ResolvedInput::Stored(stored),
                    ResolvedInput::Source(file) => ResolvedInput::Source(map(file)?),
                };
                mapped.push(InputArtifact { axes, artifact, content });
            }
            inputs.push(ComputationInput { slot, many, artifacts: mapped });
        }
        Ok(Computation {
            instance: self.instance,
            kind: self.kind,
            program: self.program,
            body: self.body,
            parts: self.parts,
            inputs,
            outputs: self.outputs,
            environment: self.environment,
            packages: self.packages,
            threads: self.threads,
            retries: self.retries,
            warnings: self.warnings,
        })
    }
}
