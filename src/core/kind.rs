//! What the pipeline language has to know of a stage kind. `stage/` implements it; the command
//! line hands the registered kinds in, so that this layer knows no stage by name.

use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use super::issue::Issue;
use super::reference::StageRef;

/// Where a stage's work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// A child process of `pipe` itself, which starts in a millisecond.
    Pipe,
    /// `pipe-worker`, which has libtorch.
    Worker,
    /// The user's own program, started by the runner.
    Command,
}

/// The name of a type of artifact, checked where one stage's output meets another's input.
pub type ArtifactType = &'static str;

/// Any artifact fits.
pub const ANY: ArtifactType = "any";
/// A file or directory without further meaning to `pipe`.
pub const FILE: ArtifactType = "file";
/// What a run measured of itself, seconds above all: never the same twice, so it is not compared.
pub const TIMINGS: ArtifactType = "timings";

/// One input of a stage, as its parameters declare it.
#[derive(Debug, Clone, PartialEq)]
pub struct InputDecl {
    /// The name in keys, in `pipe why` and in the job file. `data`, `from`, ...
    pub slot: String,
    pub source: SourceDecl,
    pub accepts: ArtifactType,
    /// The parameter that names the source, where it is not called as the slot is.
    written_in: Option<&'static str>,
}

impl InputDecl {
    pub fn new(slot: impl Into<String>, source: SourceDecl, accepts: ArtifactType) -> Self {
        Self { slot: slot.into(), source, accepts, written_in: None }
    }

    pub fn one(slot: &str, from: &StageRef, accepts: ArtifactType) -> Self {
        Self::new(slot, SourceDecl::One(from.clone()), accepts)
    }

    pub fn many(slot: &str, from: Vec<StageRef>, accepts: ArtifactType) -> Self {
        Self::new(slot, SourceDecl::Many(from), accepts)
    }

    /// One parameter may fill several slots: a model comes with its scores.
    pub fn written_in(self, parameter: &'static str) -> Self {
        Self { written_in: Some(parameter), ..self }
    }

    pub fn parameter(&self) -> &str {
        self.written_in.unwrap_or(&self.slot)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum SourceDecl {
    /// Exactly one artifact.
    One(StageRef),
    /// As many as the references match, but at least one.
    Many(Vec<StageRef>),
    /// Every output of the accepted type of all that the references match; of a stage that has none
    /// of that type, its only plain file, into which the reader will look.
    All(Vec<StageRef>),
    /// A file or directory of the user's, relative to the project directory.
    Path(String),
    /// A file of a registered data set: found in the data directory, or fetched into it, before
    /// the stage's key is computed from its content.
    DataFile { dataset: String, file: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputDecl {
    pub name: String,
    pub artifact: ArtifactType,
    /// The file name it gets where a person meets it: `table1.tex`.
    pub file_name: String,
}

impl OutputDecl {
    pub fn new(name: &str, artifact: ArtifactType, file_name: &str) -> Self {
        Self { name: name.to_owned(), artifact, file_name: file_name.to_owned() }
    }

    /// Whether equal inputs may give other bytes, by the nature of the thing.
    pub fn is_volatile(&self) -> bool {
        self.artifact == TIMINGS
    }
}

/// The axes that a stage's parameters speak of. Those of what flows in are known before anything runs,
/// so that a word that means none of them is found then.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AxisUses {
    /// The inputs whose artifacts have them; it is enough if one of these inputs does.
    pub slots: Vec<&'static str>,
    /// What every such artifact has beside the axes of its stage, with the values that there are.
    pub given: Vec<(&'static str, Vec<&'static str>)>,
    /// What else may stand where an axis may, if the [`AxisUse`] says so.
    pub others: Option<Vocabulary>,
    pub uses: Vec<AxisUse>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AxisUse {
    /// The parameter that it is written in.
    pub field: &'static str,
    pub axis: String,
    /// A value that the axis is to have.
    pub value: Option<String>,
    /// It might be one of [`AxisUses::others`], misspelt.
    pub or_other: bool,
}

/// Words of one sort: metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vocabulary {
    pub noun: &'static str,
    pub words: Vec<&'static str>,
}

/// A stage body after its types were checked.
#[derive(Debug, Clone)]
pub struct CheckedBody {
    /// The typed parameters, defaults filled in, references left out (they serialise as null):
    /// equal parameters give equal bytes whatever the YAML looked like.
    pub params: Value,
    pub inputs: Vec<InputDecl>,
    pub outputs: Vec<OutputDecl>,
    pub issues: Vec<Issue>,
    /// Names of environment variables whose values reach the stage and so belong to its key.
    pub environment: Vec<String>,
    pub axes: AxisUses,
}

/// One registered stage kind.
pub trait Kind: Sync {
    fn name(&self) -> &'static str;
    /// Bumped whenever the same parameters and inputs would give other bytes.
    fn version(&self) -> u32;
    fn summary(&self) -> &'static str;
    fn program(&self) -> Program;
    /// Deserializes the parameters into the typed struct of the kind. The error carries the path to the wrong field.
    fn check(&self, body: Value) -> Result<CheckedBody, serde_path_to_error::Error<serde_json::Error>>;
    fn schema(&self, generator: &mut SchemaGenerator) -> Schema;
}

/// The registered kinds.
pub type Kinds<'a> = &'a [&'a dyn Kind];
