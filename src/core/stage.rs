//! The interface of a stage kind: its parameters ([`StageKind`]), and its work ([`RunStage`]).
//!
//! The two traits are separate because `pipe` knows the parameters of every kind but never loads libtorch, so it must
//! not refer to the code of the stages that need it. The stages that need no libtorch implement [`RunStage`] on their
//! parameters; `pipe-worker` implements it on unit structs of its own.

use std::marker::PhantomData;

use anyhow::Context;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::issue::Issue;
use crate::kind::{AxisUses, CheckedBody, InputDecl, Kind, OutputDecl, Program, Requirement, Vocabulary};
use crate::packages::PackageRequest;
use crate::strict_json::StrictJson;
use crate::work::Work;

/// The parameters of one kind of stage.
///
/// Every such struct refuses unknown fields (`#[serde(deny_unknown_fields)]`); a test over the registry in
/// `pipe_stages` checks this for all kinds.
pub trait StageKind: Serialize + DeserializeOwned + JsonSchema + 'static {
    /// The name under which a pipeline uses the kind.
    const NAME: &'static str;
    /// The version of the computation. Increase it whenever the same parameters and inputs give different bytes than before. If only
    /// some parameters are concerned, increase [`StageKind::version`] for them.
    const VERSION: u32;
    /// One line for the list of kinds.
    const SUMMARY: &'static str;
    /// The program that does the work.
    const PROGRAM: Program;
    /// What every result has to meet.
    const REQUIREMENT: Option<Requirement> = None;

    /// Returns the version of the computation with these parameters.
    fn version(&self) -> u32 {
        Self::VERSION
    }

    /// Returns the inputs that these parameters declare.
    fn inputs(&self) -> Vec<InputDecl>;

    /// Returns the outputs that these parameters declare.
    fn outputs(&self) -> Vec<OutputDecl>;

    /// Returns the parameters whose values cannot be used although their types are right.
    fn issues(&self) -> Vec<Issue> {
        Vec::new()
    }

    /// Returns the names of the environment variables that the stage may see.
    fn environment(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the packages that the stage needs.
    fn packages(&self) -> Option<PackageRequest> {
        None
    }

    /// Returns the axes that the parameters mention.
    fn axes(&self) -> AxisUses {
        AxisUses::default()
    }

    /// Returns the names of the metrics that the stage may record, or `None` if only its program knows them. A name with
    /// `*` stands for several: `weight_*`.
    fn metrics(&self) -> Option<Vec<&'static str>> {
        Some(Vec::new())
    }
}

/// The body of a job: the parameters of a stage, or of a job that no pipeline contains, such as that of `pipe predict`.
pub trait JobBody: DeserializeOwned {
    /// The kind that a job file names.
    const KIND: &'static str;
}

impl<T: StageKind> JobBody for T {
    const KIND: &'static str = T::NAME;
}

/// The work of one kind of job, in the program that does it.
pub trait RunStage {
    /// The parameters: `Self` where the crate of the parameters also does the work.
    type Stage: JobBody;

    /// Reads the inputs, computes, and writes all outputs.
    fn run(stage: &Self::Stage, work: &mut Work) -> anyhow::Result<()>;
}

/// The [`Kind`] of a typed struct of parameters.
pub struct KindOf<T>(PhantomData<fn() -> T>);

impl<T> Default for KindOf<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> KindOf<T> {
    /// Returns the kind of the parameters `T`.
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: StageKind> Kind for KindOf<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn summary(&self) -> &'static str {
        T::SUMMARY
    }

    fn program(&self) -> Program {
        T::PROGRAM
    }

    fn requirement(&self) -> Option<Requirement> {
        T::REQUIREMENT
    }

    fn check(&self, body: &Value) -> Result<CheckedBody, serde_path_to_error::Error<serde_json::Error>> {
        // Following the path of every value takes longer than reading it, so that is done only to explain an error.
        let typed = match T::deserialize(StrictJson(body)) {
            Ok(typed) => typed,
            Err(_) => serde_path_to_error::deserialize(StrictJson(body))?,
        };
        let params = serde_json::to_value(&typed).map_err(|e| {
            serde_path_to_error::Error::new(
                serde_path_to_error::Track::new().path(),
                serde::de::Error::custom(e),
            )
        })?;
        Ok(CheckedBody {
            params,
            version: typed.version(),
            inputs: typed.inputs(),
            outputs: typed.outputs(),
            issues: typed.issues(),
            environment: typed.environment(),
            packages: typed.packages(),
            axes: typed.axes(),
            metrics: typed.metrics().map(Vocabulary::of_metrics),
        })
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }
}

/// An entry in a program's list of the kinds that it can run.
#[derive(Debug, Clone, Copy)]
pub struct Runner {
    kind: &'static str,
    run: fn(&mut Work) -> anyhow::Result<()>,
}

impl Runner {
    /// Returns the runner of a kind.
    pub const fn of<T: RunStage>() -> Self {
        Self { kind: T::Stage::KIND, run: run_typed::<T> }
    }

    /// Returns the kind of jobs that it runs.
    pub const fn kind(&self) -> &'static str {
        self.kind
    }

    /// Runs a job of this kind.
    pub fn run(&self, work: &mut Work) -> anyhow::Result<()> {
        (self.run)(work)
    }
}

fn run_typed<T: RunStage>(work: &mut Work) -> anyhow::Result<()> {
    let stage =
        T::Stage::deserialize(&work.job().body).context("the parameters of the job cannot be read")?;
    T::run(&stage, work)
}
