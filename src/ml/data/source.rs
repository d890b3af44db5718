//! The files of a data set and the options for reading them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::artifact::DataSet;
use super::format::Format;
use super::text::RawText;

/// The files of a data set. Its rows are those of the parts, one part after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DataSource {
    pub parts: Vec<SourcePart>,
    /// The Mulan XML file that says which attributes of an ARFF file are labels.
    pub label_xml: Option<PathBuf>,
    /// A file with the name of one label per line.
    pub label_names: Option<PathBuf>,
    /// A file with the name of one feature per line.
    pub feature_names: Option<PathBuf>,
    /// Split-index files of the XMC repository, as (name of the part, file). Only for a source with one part.
    pub splits: Vec<(String, PathBuf)>,
}

/// A file of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePart {
    /// `train`, `test`, or `all`.
    pub name: String,
    pub data: PathBuf,
    /// The file of labels, if they are not in `data`.
    pub labels: Option<PathBuf>,
}

impl DataSource {
    /// Creates a source of one file with all rows.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::parts([("all", path.into())])
    }

    /// Creates a source of one file per part, such as `train` and `test`.
    pub fn parts<N: Into<String>, P: Into<PathBuf>>(parts: impl IntoIterator<Item = (N, P)>) -> Self {
        let parts = parts.into_iter().map(|(name, data)| SourcePart {
            name: name.into(),
            data: data.into(),
            labels: None,
        });
        Self { parts: parts.collect(), ..Self::default() }
    }
}

/// Options for reading. What is not given is determined from the files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReadOptions {
    pub format: Option<Format>,
    /// The number of the first label in LIBSVM text: 0 or 1.
    pub label_base: Option<u32>,
    /// The number of the first feature in LIBSVM text: 0 or 1.
    pub feature_base: Option<u32>,
    /// The number of labels. A larger label index is then an error.
    pub labels: Option<u32>,
    /// The number of features. A larger feature index is then an error.
    pub features: Option<u32>,
    /// The column (CSV), field (JSON lines) or tensor (safetensors) of the input. The default is `text` or `features`.
    pub input_column: Option<String>,
    /// The column, field or tensor of the labels. The default is `labels`.
    pub label_column: Option<String>,
    /// What separates the labels inside a CSV column. The default is `;`.
    pub label_separator: Option<String>,
    /// For texts in one CSV file and their labels in another, one per row, such as the notes and diagnoses of MIMIC: the
    /// column of both files that says which labels belong to which texts. Texts with the same value become one row, and
    /// texts without labels are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join_column: Option<String>,
    /// With `join_column`: leave out rows that have other values in these columns, in the files that have them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub only: BTreeMap<String, String>,
    /// The column or field that identifies a row, for texts. Set by `vectorise`, whose users write it in `keep`.
    #[serde(skip)]
    pub id_column: Option<String>,
    /// True if the rows need no labels because they are to be predicted. Set by `pipe`, not by users.
    #[serde(skip)]
    pub unlabelled: bool,
    /// How ARFF attributes with more than two nominal values become features. There is no default, because a list of
    /// names has no order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominal: Option<NominalEncoding>,
}

/// What separates the labels inside a CSV column, unless `label_separator` is given.
pub const DEFAULT_LABEL_SEPARATOR: &str = ";";

/// How a nominal attribute becomes features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NominalEncoding {
    /// One feature for each value, which is 1 in the rows that have the value.
    OneHot,
    /// One feature: the numbers that the values spell, or else their positions in the list.
    Ordinal,
}

/// What a reader returns.
#[derive(Debug)]
pub enum RawData {
    /// Numbers, already written to the directory of a data set.
    Set(DataSet),
    /// Text that has to be vectorised.
    Text(RawText),
}
