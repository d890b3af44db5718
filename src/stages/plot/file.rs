//! The entries of `files`: results that come from a CSV file or from the lock of another pipeline.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::file_source::{FileOrStage, StageOrFile};
use crate::one_or_many::OneOrMany;
use pipe_core::issue::Issue;
use pipe_report::figure::source::{OWN_SOURCE, SourceFile};

/// A file with results: `{ file: runs.csv }`, or `{ file: pipelines/other.lock, stages: eval, axes: variant }`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResultFile {
    /// A CSV file with one result per row, or the lock of another pipeline.
    pub file: FileOrStage,
    /// The value of the axis `source`; the default is the name of the file without its ending.
    pub name: Option<String>,
    /// For a CSV file, columns of numbers that are axes although no figure names them. For a lock, the axes of the values that its
    /// records have without one: `variant` for `eval[adaptive,seed=0]`.
    #[serde(default)]
    pub axes: OneOrMany<String>,
    /// For a lock, the `evaluate` stages to take; the default is all of them.
    #[serde(default)]
    pub stages: OneOrMany<String>,
}

/// The parts that belong to the key. The content of the file does too, as an input; its path does not.
#[derive(Serialize)]
struct KeyedFile<'a> {
    name: &'a str,
    axes: &'a OneOrMany<String>,
    stages: &'a OneOrMany<String>,
}

impl Serialize for ResultFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        KeyedFile { name: self.name(), axes: &self.axes, stages: &self.stages }.serialize(serializer)
    }
}

impl ResultFile {
    /// Returns the value of the axis `source`.
    pub(super) fn name(&self) -> &str {
        let stem = || match &self.file.0 {
            StageOrFile::Stage(reference) => reference.stage(),
            StageOrFile::File(path) => {
                Path::new(path).file_stem().and_then(|stem| stem.to_str()).unwrap_or(path)
            }
        };
        self.name.as_deref().unwrap_or_else(stem)
    }

    /// Returns how the file is to be read.
    pub(super) fn source(&self) -> SourceFile<'_> {
        let path = match &self.file.0 {
            StageOrFile::Stage(reference) => reference.text(),
            StageOrFile::File(path) => path,
        };
        SourceFile { path, name: self.name(), axes: &self.axes.0, stages: &self.stages.0 }
    }

    /// Returns the fields that cannot be used.
    pub(super) fn issues(&self) -> Vec<Issue> {
        let mut issues = Vec::new();
        if let StageOrFile::File(path) = &self.file.0
            && let Some(stem) = path.strip_suffix(".yaml").or_else(|| path.strip_suffix(".yml"))
        {
            let hint = format!("write `{stem}.lock`");
            issues.push(
                Issue::new("file", "results are in the lock of a pipeline, not in the pipeline").hint(hint),
            );
        }
        if self.name() == OWN_SOURCE {
            let message =
                format!("`{OWN_SOURCE}` stands for the evaluations of this pipeline; choose another name");
            issues.push(Issue::new("name", message));
        }
        issues
    }
}
