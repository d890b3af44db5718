//! What a stage kind is: a typed parameter struct that says what it reads and writes
//! ([`StageKind`]), and, in the program that does its work, how to run it ([`RunStage`]).
//!
//! The two traits are apart so that `pipe`, which must know every kind's parameters but never
//! loads libtorch, does not refer to the code of the stages that need it.

use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::work::Work;
use crate::issue::Issue;
use crate::kind::{AxisUses, CheckedBody, InputDecl, Kind, OutputDecl, Program};
use crate::strict_json::StrictJson;

/// The parameters of one kind of stage. `deny_unknown_fields` on the struct is part of the
/// contract; a test over the registry holds every kind to it.
pub trait StageKind: Serialize + DeserializeOwned + JsonSchema + 'static {
    const NAME: &'static str;
    /// Bump whenever the same parameters and inputs give other bytes than before.
    const VERSION: u32;
    const SUMMARY: &'static str;
    const PROGRAM: Program;

    fn inputs(&self) -> Vec<InputDecl>;
    fn outputs(&self) -> Vec<OutputDecl>;

    /// Returns the parameters whose values cannot be used although their types are right.
    fn issues(&self) -> Vec<Issue> {
        Vec::new()
    }

    /// Environment variables that the stage may see.
    fn environment(&self) -> Vec<String> {
        Vec::new()
    }

    /// The axes that the parameters speak of.
    fn axes(&self) -> AxisUses {
        AxisUses::default()
    }
}

/// A kind whose work is done by a built-in program.
pub trait RunStage: StageKind {
    fn run(&self, work: &mut Work) -> anyhow::Result<()>;
}

/// The object behind [`crate::kind::Kind`] for one typed struct.
pub struct KindOf<T>(PhantomData<fn() -> T>);

impl<T> Default for KindOf<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> KindOf<T> {
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: StageKind> Kind for KindOf<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn version(&self) -> u32 {
        T::VERSION
    }

    fn summary(&self) -> &'static str {
        T::SUMMARY
    }

    fn program(&self) -> Program {
        T::PROGRAM
    }

    fn check(&self, body: Value) -> Result<CheckedBody, serde_path_to_error::Error<serde_json::Error>> {
        let typed: T = serde_path_to_error::deserialize(StrictJson(body))?;
        let params = serde_json::to_value(&typed).map_err(|e| {
            serde_path_to_error::Error::new(
                serde_path_to_error::Track::new().path(),
                serde::de::Error::custom(e),
            )
        })?;
        Ok(CheckedBody {
            params,
            inputs: typed.inputs(),
            outputs: typed.outputs(),
            issues: typed.issues(),
            environment: typed.environment(),
            axes: typed.axes(),
        })
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }
}

/// How a built-in program runs one kind: reads the typed body out of the job, then runs it.
pub struct Runner {
    pub kind: &'static str,
    pub run: fn(&mut Work) -> anyhow::Result<()>,
}

impl Runner {
    pub const fn of<T: RunStage>() -> Self {
        Self { kind: T::NAME, run: run_typed::<T> }
    }
}

fn run_typed<T: RunStage>(work: &mut Work) -> anyhow::Result<()> {
    let stage: T = serde_json::from_value(work.job().body.clone())?;
    stage.run(work)
}
