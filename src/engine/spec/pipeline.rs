//! The resolved pipeline: the form that the rest of the program works with after the YAML was read, checked,
//! interpolated and expanded.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::compare::Compare;
use super::diagnostic::SpecLocation;
use super::expect::Expect;
use super::flat_params::FlatParams;
use super::json_text::JsonText;
pub use super::user_files::UserFileReference;
use pipe_core::job::Axes;
use pipe_core::kind::{ArtifactType, OutputDecl, Program};
use pipe_core::packages::Packages;
use pipe_core::reference::selector_value;

/// A pipeline with its instances in the order of the file and, within a stage, of the matrix.
///
/// `F` is how the files that stages read are known: [`UnlocatedFile`] after loading, a path after
/// [`Plan::locate_files`](crate::plan::Plan::locate_files). The runner only accepts paths.
#[derive(Debug, Clone)]
pub struct Pipeline<F = PathBuf> {
    pub name: String,
    /// The path of the pipeline file, as the user wrote it.
    pub file: PathBuf,
    /// The pipeline file and all files that it extends.
    pub files: Vec<PathBuf>,
    pub instances: Vec<Instance<F>>,
    pub placements: Vec<Placement>,
    pub user_files: Vec<UserFileReference>,
    /// A directory with published copies of the placed files, relative to the project directory.
    pub published: Option<PathBuf>,
    /// Variables of the pipeline file itself, not of those that it extends, that nothing refers to.
    pub unused_variables: Vec<(String, SpecLocation)>,
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

/// One instance of a stage with everything that is needed to run it.
#[derive(Debug, Clone)]
pub struct Instance<F = PathBuf> {
    pub id: InstanceId,
    pub kind: &'static str,
    pub version: u32,
    pub program: Program,
    /// The typed parameters in canonical form, without references: the part of the body that belongs to the key.
    pub params: FlatParams,
    /// The parameters after interpolation, with references: what the worker reads.
    pub body: JsonText,
    pub inputs: Vec<Input<F>>,
    pub outputs: Vec<OutputDecl>,
    /// Environment variables that reach the stage, with their values (`None`: not set).
    pub environment: Vec<(String, Option<String>)>,
    /// The packages that a command finds, or a sentence if this machine has no interpreter for them.
    pub packages: Option<Result<Packages, String>>,
    pub resources: Resources,
    pub cluster: ClusterRequest,
    pub retries: u32,
    /// How equal a second computation has to be; not part of the key.
    pub compare: Compare,
    /// Bounds of its metrics; not part of the key.
    pub expect: Expect,
}

/// One input slot of an instance and the artifacts that enter it.
#[derive(Debug, Clone)]
pub struct Input<F = PathBuf> {
    pub slot: String,
    /// True for a fan-in: the axes of each source are part of the key. Those of a single source are not.
    pub many: bool,
    pub sources: Vec<InputSource<F>>,
}

/// Where one artifact of an input comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum InputSource<F = PathBuf> {
    /// An output of another instance.
    Output {
        producer: InstanceIndex,
        output: String,
        artifact: ArtifactType,
        /// The axes of the producer; preceded by `stage` where a fan-in mixes stages.
        axes: Axes,
    },
    /// A file or directory that no stage produces.
    File(F),
}

/// A file that a stage reads, as the pipeline names it.
#[derive(Debug, Clone, PartialEq)]
pub enum UnlocatedFile {
    /// A file or directory of the user, relative to the project directory.
    User(PathBuf),
    /// A file of a registered data set, which has to be found in the data directory or downloaded into it.
    DataSet { dataset: String, file: String },
}

impl<F> Instance<F> {
    /// Returns the packages that a command finds, or a sentence if they cannot be installed on this machine.
    pub(crate) fn packages(&self) -> Result<Option<&Packages>, String> {
        match &self.packages {
            None => Ok(None),
            Some(Ok(packages)) => Ok(Some(packages)),
            Some(Err(problem)) => Err(problem.clone()),
        }
    }

    /// Replaces the files that the instance reads.
    pub(crate) fn map_files<T, E>(self, map: &mut dyn FnMut(F) -> Result<T, E>) -> Result<Instance<T>, E> {
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for Input { slot, many, sources } in self.inputs {
            let mut mapped = Vec::with_capacity(sources.len());
            for source in sources {
                mapped.push(match source {
                    InputSource::Output { producer, output, artifact, axes } => {
                        InputSource::Output { producer, output, artifact, axes }
                    }
                    InputSource::File(file) => InputSource::File(map(file)?),
                });
            }
            inputs.push(Input { slot, many, sources: mapped });
        }
        Ok(Instance {
            id: self.id,
            kind: self.kind,
            version: self.version,
            program: self.program,
            params: self.params,
            body: self.body,
            inputs,
            outputs: self.outputs,
            environment: self.environment,
            packages: self.packages,
            resources: self.resources,
            cluster: self.cluster,
            retries: self.retries,
            compare: self.compare,
            expect: self.expect,
        })
    }
}

/// What an instance occupies while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    pub cpu: usize,
    /// In bytes; 0 if not stated.
    pub mem: u64,
    pub gpu: usize,
}

impl Default for Resources {
    fn default() -> Self {
        Self { cpu: 1, mem: 0, gpu: 0 }
    }
}

/// What an instance asks of a cluster, besides its resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterRequest {
    /// How long it may run.
    pub time: Option<Duration>,
    /// Whether to ask for as much memory as its stage has used before.
    pub auto_mem: bool,
    /// The type of its GPUs, as the cluster names it.
    pub gpu_type: Option<String>,
}

/// An output that is placed outside the cache.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    pub instance: InstanceIndex,
    pub output: String,
    /// Relative to the project directory: `results/bibtex/table1.tex`.
    pub path: PathBuf,
}

/// Prints a reference to exactly this instance: `train[adaptive,seed=1]`. The first axis is printed without its name
/// if its value is not a number; the reference still parses back to this instance.
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
