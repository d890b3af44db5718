//! The resolved pipeline: what the rest of the program works with after the YAML has been read,
//! checked, interpolated and expanded. Nothing in here is text that still needs interpreting.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::compare::Compare;
pub use super::own_file::OwnFile;
use pipe_core::job::Axes;
use pipe_core::kind::{ArtifactType, OutputDecl, Program};
use pipe_core::reference::selector_value;

/// A whole pipeline, its instances in file order and, within a stage, in matrix order.
#[derive(Debug, Clone)]
pub struct Pipeline {
    pub name: String,
    /// The file it came from, as the user named it.
    pub file: PathBuf,
    /// It and all that it extends.
    pub files: Vec<PathBuf>,
    pub instances: Vec<Instance>,
    pub placements: Vec<Placement>,
    pub own_files: Vec<OwnFile>,
}

/// The name of one stage instance: `train[adaptive,seed=1]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InstanceId {
    pub stage: String,
    pub axes: Axes,
}

/// The position of an instance in [`Pipeline::instances`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceIndex(pub usize);

#[derive(Debug, Clone)]
pub struct Instance {
    pub id: InstanceId,
    pub kind: &'static str,
    pub version: u32,
    pub program: Program,
    /// Typed and canonical: the part of the body that belongs to the key.
    pub params: serde_json::Value,
    /// The body after interpolation, references included: what the worker reads.
    pub body: serde_json::Value,
    pub inputs: Vec<Input>,
    pub outputs: Vec<OutputDecl>,
    /// Environment variables that reach the stage, with their values (`None`: not set).
    pub environment: Vec<(String, Option<String>)>,
    pub resources: Resources,
    pub retries: u32,
    /// What is promised about a second computation; not part of the key.
    pub compare: Compare,
}

#[derive(Debug, Clone)]
pub struct Input {
    pub slot: String,
    /// Fan-in: the axes of each source are part of the key. A single source's are not.
    pub many: bool,
    pub sources: Vec<Source>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    Output {
        producer: InstanceIndex,
        output: String,
        artifact: ArtifactType,
        /// Axes of the producer; with `stage` in front where a fan-in mixes stages.
        axes: Axes,
    },
    /// Relative to the project directory.
    Path(PathBuf),
    /// A file of a registered data set. Whoever runs the pipeline puts a path in its place once the
    /// file lies in the data directory.
    DataFile { dataset: String, file: String },
}

/// What an instance occupies while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    pub cpu: usize,
    /// Bytes; 0 = not stated.
    pub mem: u64,
    pub gpu: usize,
}

impl Default for Resources {
    fn default() -> Self {
        Self { cpu: 1, mem: 0, gpu: 0 }
    }
}

/// One generated file that a person wants to find outside the cache.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    pub instance: InstanceIndex,
    pub output: String,
    /// Relative to the project directory: `results/bibtex/table1.tex`.
    pub path: PathBuf,
}

/// Reads back as a reference to exactly this instance: `train[adaptive,seed=1]`. The first axis
/// is left unnamed where its value is a word, because the others are named and so cannot be meant.
impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.stage)?;
        if self.axes.is_empty() {
            return Ok(());
        }
        f.write_str("[")?;
        for (position, (axis, value)) in self.axes.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            if position > 0 || value.parse::<f64>().is_ok() {
                write!(f, "{axis}=")?;
            }
            f.write_str(&selector_value(value))?;
        }
        f.write_str("]")
    }
}
