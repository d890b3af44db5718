//! Which files make up a data set, and what the user says about them.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::artifact::DataSet;
use super::format::Format;
use super::text::RawText;

/// The files of a data set. Rows are those of the parts, one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    pub parts: Vec<SourcePart>,
    /// The Mulan XML that says which attributes of an ARFF file are labels.
    pub label_xml: Option<PathBuf>,
    /// One name per line.
    pub label_names: Option<PathBuf>,
    pub feature_names: Option<PathBuf>,
    /// Split-index files of the XMC repository: name and file, for a source of one part.
    pub splits: Vec<(String, PathBuf)>,
}

/// One file of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePart {
    /// `train`, `test`, or `all`.
    pub name: String,
    pub data: PathBuf,
    /// The labels, where they are in a file of their own.
    pub labels: Option<PathBuf>,
}

impl Source {
    /// One file with all rows.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::parts([("all", path.into())])
    }

    /// Files with named parts, such as `train` and `test`.
    pub fn parts<N: Into<String>, P: Into<PathBuf>>(parts: impl IntoIterator<Item = (N, P)>) -> Self {
        let part = |(name, data): (N, P)| SourcePart { name: name.into(), data: data.into(), labels: None };
        Self { parts: parts.into_iter().map(part).collect(), ..Self::default() }
    }
}

/// What is not to be guessed. Everything left out is found in the files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReadOptions {
    pub format: Option<Format>,
    /// 0 or 1: the number of the first label in LIBSVM text.
    pub label_base: Option<u32>,
    /// 0 or 1: the number of the first feature in LIBSVM text.
    pub feature_base: Option<u32>,
    /// How many labels there are; an index beyond is then an error.
    pub labels: Option<u32>,
    /// How many features there are; an index beyond is then an error.
    pub features: Option<u32>,
    /// The column (CSV), field (JSON lines) or tensor (safetensors) of the input:
    /// `text` or `features` unless told.
    pub input_column: Option<String>,
    /// The column, field or tensor of the labels: `labels` unless told.
    pub label_column: Option<String>,
    /// What parts the labels inside a CSV column: `;` unless told.
    pub label_separator: Option<String>,
    /// There need be no labels: for rows that are to be predicted. No file says this, only `pipe` does.
    #[serde(skip)]
    pub unlabelled: bool,
}

/// What a reader gives.
#[derive(Debug)]
pub enum Raw {
    /// Numbers, already in the directory of a data set.
    Set(DataSet),
    /// Text that is still to be vectorised.
    Text(RawText),
}
