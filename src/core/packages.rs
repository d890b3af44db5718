//! The packages that a command finds: which tool installs them, from which files, for which interpreter.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A tool that installs packages into an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PackageTool {
    /// `uv sync`, from `uv.lock` and `pyproject.toml`.
    Uv,
    /// `python3 -m venv` and `pip install`, from a file of requirements.
    Venv,
    /// `conda`, `mamba` or `micromamba`, from `environment.yml` or an explicit list.
    Conda,
}

impl PackageTool {
    /// Returns the name in a pipeline.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uv => "uv",
            Self::Venv => "venv",
            Self::Conda => "conda",
        }
    }
}

/// The packages that a pipeline asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageRequest {
    pub tool: PackageTool,
    pub files: Vec<PackageFile>,
    /// The interpreter that the user names.
    pub python: Option<String>,
    /// The directory of the files, relative to the project directory.
    pub directory: PathBuf,
}

/// A file that packages are installed from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageFile {
    /// The slot of the stage that the file enters.
    pub slot: String,
    /// The name that the tool expects.
    pub name: String,
}

/// A request for packages, with the interpreter that was found on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Packages {
    pub request: PackageRequest,
    /// `None` if the files decide about the interpreter, and not the machine.
    pub interpreter: Option<Interpreter>,
}

/// A Python interpreter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interpreter {
    pub program: PathBuf,
    /// The implementation and its version: `CPython 3.12.3`.
    pub version: String,
}
