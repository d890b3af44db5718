//! A data set cut into parts: the artifact `dataset`, which every stage after `load` reads.
//!
//! ```text
//! meta.json                 version, sizes, how it was made
//! transform.json            what was done to the features, to be done to new rows: see [`super::transform`]
//! vocabulary.json           where the source has texts
//! label_names.jsonl         one JSON string per label, where the source has names
//! feature_names.jsonl
//! train/features.csr        or features.dense
//! train/labels.csr
//! validation/...            only where one was cut
//! test/...
//! ```
//!
//! Features and labels of a part are files of their own, opened by calls of their own, so that
//! code that predicts can be given rows to judge without their labels.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::artifact::dataset::{read_names, write_json, write_names};
use super::artifact::{Check, CsrWriter, DenseWriter, open_csr, open_dense};
use super::csr::{Csr, Features};
use super::duplicates::Duplicates;
use super::error::DataError;
use super::report::ReadReport;
use super::weight::Weight;

const VERSION: u32 = 2;
const META: &str = "meta.json";
const SPARSE: &str = "features.csr";
const DENSE: &str = "features.dense";
const LABELS: &str = "labels.csr";
const LABEL_NAMES: &str = "label_names.jsonl";
const FEATURE_NAMES: &str = "feature_names.jsonl";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartName {
    Train,
    Validation,
    Test,
}

impl PartName {
    pub const ALL: [Self; 3] = [Self::Train, Self::Validation, Self::Test];

    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Test => "test",
        }
    }
}

/// Names no path and no machine: the same content gives the same bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Meta {
    pub version: u32,
    pub features: u64,
    pub labels: u64,
    pub dense: bool,
    /// Rows of each part.
    pub rows: BTreeMap<PartName, u64>,
    /// How the parts were chosen, in words.
    pub split: String,
    /// Sizes before the filters, which were fitted on the training rows.
    pub features_before: u64,
    pub labels_before: u64,
    pub weight: Weight,
    /// What the reader found and repaired.
    pub report: ReadReport,
    /// Test rows that are training rows too; absent where nobody looked: dense or generated features.
    pub duplicates: Option<Duplicates>,
}

/// An open data set. Matrices are mapped when they are asked for.
#[derive(Debug, Clone)]
pub struct SplitData {
    directory: PathBuf,
    meta: Meta,
}

impl SplitData {
    pub fn open(directory: &Path) -> Result<Self, DataError> {
        let path = directory.join(META);
        let text = fs::read(&path).map_err(DataError::io("read", &path))?;
        let meta: Meta =
            serde_json::from_slice(&text).map_err(|error| DataError::artifact(&path, error.to_string()))?;
        if meta.version != VERSION {
            let reason = format!("it has version {}, this program reads {VERSION}", meta.version);
            return Err(DataError::artifact(&path, reason));
        }
        Ok(Self { directory: directory.to_owned(), meta })
    }

    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// 0 for a part that there is not.
    pub fn rows(&self, part: PartName) -> usize {
        self.meta.rows.get(&part).copied().unwrap_or(0) as usize
    }

    pub fn has(&self, part: PartName) -> bool {
        self.meta.rows.contains_key(&part)
    }

    pub fn features(&self, part: PartName) -> Result<Features, DataError> {
        let directory = self.part(part)?;
        let features = match self.meta.dense {
            true => Features::Dense(open_dense(&directory.join(DENSE), Check::Header)?),
            false => Features::Sparse(open_csr(&directory.join(SPARSE), Check::Header)?),
        };
        self.check_size(part, (features.rows(), features.cols()), self.meta.features)?;
        Ok(features)
    }

    pub fn labels(&self, part: PartName) -> Result<Csr, DataError> {
        let labels = open_csr(&self.part(part)?.join(LABELS), Check::Header)?;
        self.check_size(part, (labels.rows(), labels.cols), self.meta.labels)?;
        Ok(labels)
    }

    pub fn label_names(&self) -> Result<Option<Vec<String>>, DataError> {
        read_names(&self.directory.join(LABEL_NAMES), self.meta.labels as usize)
    }

    pub fn feature_names(&self) -> Result<Option<Vec<String>>, DataError> {
        read_names(&self.directory.join(FEATURE_NAMES), self.meta.features as usize)
    }

    fn part(&self, part: PartName) -> Result<PathBuf, DataError> {
        let name = part.name();
        match self.has(part) {
            true => Ok(self.directory.join(name)),
            false => Err(DataError::Request(format!(
                "the data set has no {name} part: ask for one in the stage that makes it (`split:` or `validation:`)"
            ))),
        }
    }

    fn check_size(&self, part: PartName, is: (usize, usize), cols: u64) -> Result<(), DataError> {
        let path = || self.directory.join(part.name());
        match is == (self.rows(part), cols as usize) {
            true => Ok(()),
            false => Err(DataError::artifact(&path(), "its sizes are not those that meta.json gives")),
        }
    }
}

/// A data set that is being written: part by part, then [`SplitDataDir::complete`].
pub struct SplitDataDir {
    directory: PathBuf,
    rows: BTreeMap<PartName, u64>,
}

/// What is known when all parts are written.
pub struct Origin {
    pub split: String,
    pub features: usize,
    pub labels: usize,
    pub dense: bool,
    pub features_before: usize,
    pub labels_before: usize,
    pub weight: Weight,
    pub report: ReadReport,
    pub duplicates: Option<Duplicates>,
    pub label_names: Option<Vec<String>>,
    pub feature_names: Option<Vec<String>>,
}

impl SplitDataDir {
    pub fn create(directory: &Path) -> Result<Self, DataError> {
        fs::create_dir_all(directory).map_err(DataError::io("create", directory))?;
        Ok(Self { directory: directory.to_owned(), rows: BTreeMap::new() })
    }

    pub fn sparse_features(&self, part: PartName, valued: bool) -> Result<CsrWriter, DataError> {
        CsrWriter::create(&self.part(part)?.join(SPARSE), valued)
    }

    pub fn dense_features(&self, part: PartName, cols: usize) -> Result<DenseWriter, DataError> {
        DenseWriter::create(&self.part(part)?.join(DENSE), cols)
    }

    pub fn labels(&self, part: PartName) -> Result<CsrWriter, DataError> {
        CsrWriter::create(&self.part(part)?.join(LABELS), false)
    }

    /// Declares a part complete.
    pub fn finish_part(&mut self, part: PartName, rows: usize) {
        self.rows.insert(part, rows as u64);
    }

    /// Writes the names and, last, `meta.json`.
    pub fn complete(self, origin: Origin) -> Result<SplitData, DataError> {
        write_names(&self.directory.join(LABEL_NAMES), origin.label_names.as_deref())?;
        write_names(&self.directory.join(FEATURE_NAMES), origin.feature_names.as_deref())?;
        let meta = Meta {
            version: VERSION,
            features: origin.features as u64,
            labels: origin.labels as u64,
            dense: origin.dense,
            rows: self.rows,
            split: origin.split,
            features_before: origin.features_before as u64,
            labels_before: origin.labels_before as u64,
            weight: origin.weight,
            report: origin.report,
            duplicates: origin.duplicates,
        };
        write_json(&self.directory.join(META), &meta)?;
        Ok(SplitData { directory: self.directory, meta })
    }

    fn part(&self, part: PartName) -> Result<PathBuf, DataError> {
        let directory = self.directory.join(part.name());
        fs::create_dir_all(&directory).map_err(DataError::io("create", &directory))?;
        Ok(directory)
    }
}
