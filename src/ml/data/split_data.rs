//! A data set that is split into parts: the artifact `dataset`, which every stage after `load` reads.
//!
//! ```text
//! meta.json                 version, sizes, origin
//! transform.json            how the features were transformed, to apply it to new rows: see [`super::transform`]
//! vocabulary.json           if the source has texts
//! label_names.jsonl         one JSON string per label, if the source has names
//! feature_names.jsonl
//! nominal_values.json       the values of nominal attributes, if the source has any: see [`super::attributes`]
//! train/features.csr        or features.dense
//! train/labels.csr
//! validation/...            if there is a validation part
//! test/...
//! ```
//!
//! The features and the labels of a part are separate files and are opened by separate calls, so that code that predicts
//! can be given rows without their labels.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::artifact::dataset::{read_names, write_json, write_names, write_nominal_values};
use super::artifact::layout::{
    DENSE_FEATURES, FEATURE_NAMES, LABEL_NAMES, LABELS, META, SPARSE_FEATURES, open_features, read_meta,
};
use super::artifact::{ArtifactCheck, CsrWriter, DenseWriter, open_csr};
use super::attributes::NominalValues;
use super::csr::{Csr, Features};
use super::duplicates::Duplicates;
use super::error::DataError;
use super::read_report::ReadReport;
use super::weight::Weight;

const VERSION: u32 = 2;

/// The parts of a split data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartName {
    Train,
    Validation,
    Test,
}

impl PartName {
    /// All parts.
    pub const ALL: [Self; 3] = [Self::Train, Self::Validation, Self::Test];

    /// Returns the name, which is also that of the directory.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Test => "test",
        }
    }
}

/// The content of `meta.json`. Contains no path and no machine, so that the same content gives the same bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitDataMeta {
    pub version: u32,
    pub features: u64,
    pub labels: u64,
    pub dense: bool,
    /// The number of rows of each part.
    pub rows: BTreeMap<PartName, u64>,
    /// How the parts were chosen, in words.
    pub split: String,
    /// The number of features before filtering.
    pub features_before: u64,
    /// The number of labels before filtering.
    pub labels_before: u64,
    pub weight: Weight,
    /// Why these weights were chosen, if the user left the choice to `weight: auto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_reason: Option<String>,
    /// The report of the reader.
    pub report: ReadReport,
    /// Rows that occur both in training and in test; absent for dense and for generated features, where it is not counted.
    pub duplicates: Option<Duplicates>,
}

/// An open data set. Matrices are opened on request.
#[derive(Debug, Clone)]
pub struct SplitData {
    directory: PathBuf,
    meta: SplitDataMeta,
    check: ArtifactCheck,
}

/// The largest number of features or labels in a directory that a user names. Memory is taken for each of them.
const MOST_COLUMNS: u64 = 1 << 28;

impl SplitData {
    /// Opens the data set in a directory.
    pub fn open(directory: &Path) -> Result<Self, DataError> {
        let meta = read_meta(directory, VERSION)?;
        Ok(Self { directory: directory.to_owned(), meta, check: ArtifactCheck::Header })
    }

    /// Opens a directory that need not come from the store, such as one that a user names: whatever is read from it is
    /// checked in full first.
    pub fn open_unverified(directory: &Path) -> Result<Self, DataError> {
        let data = Self { check: ArtifactCheck::Deep, ..Self::open(directory)? };
        let SplitDataMeta { features, labels, features_before, .. } = data.meta;
        if features.max(labels).max(features_before) > MOST_COLUMNS {
            let reason = format!("it announces more than {MOST_COLUMNS} features or labels");
            return Err(DataError::artifact(&directory.join(META), reason));
        }
        Ok(data)
    }

    /// Returns the metadata.
    pub fn meta(&self) -> &SplitDataMeta {
        &self.meta
    }

    /// Returns the number of rows of a part; 0 if the part does not exist.
    pub fn rows(&self, part: PartName) -> usize {
        self.meta.rows.get(&part).copied().unwrap_or(0) as usize
    }

    /// Returns whether a part exists.
    pub fn has(&self, part: PartName) -> bool {
        self.meta.rows.contains_key(&part)
    }

    /// Returns whether a part exists and its rows are here. A directory that [`super::transform::copy_description`] wrote has
    /// no rows.
    pub fn has_rows(&self, part: PartName) -> bool {
        self.has(part) && self.directory.join(part.name()).is_dir()
    }

    /// Opens the features of a part.
    pub fn features(&self, part: PartName) -> Result<Features, DataError> {
        let features = open_features(&self.part(part)?, self.meta.dense, self.check)?;
        self.check_size(part, (features.rows(), features.cols()), self.meta.features)?;
        Ok(features)
    }

    /// Opens the labels of a part.
    pub fn labels(&self, part: PartName) -> Result<Csr, DataError> {
        let labels = open_csr(&self.part(part)?.join(LABELS), self.check)?;
        self.check_size(part, (labels.rows(), labels.cols), self.meta.labels)?;
        Ok(labels)
    }

    /// Reads the names of the labels; `None` if the source has no names.
    pub fn label_names(&self) -> Result<Option<Vec<String>>, DataError> {
        read_names(&self.directory.join(LABEL_NAMES), self.meta.labels as usize)
    }

    /// Reads the names of the features; `None` if the source has no names.
    pub fn feature_names(&self) -> Result<Option<Vec<String>>, DataError> {
        read_names(&self.directory.join(FEATURE_NAMES), self.meta.features as usize)
    }

    fn part(&self, part: PartName) -> Result<PathBuf, DataError> {
        let name = part.name();
        if !self.has(part) {
            return Err(DataError::Request(format!(
                "the data set has no {name} part: add `split:` or `validation:` to the stage that makes it"
            )));
        }
        Ok(self.directory.join(name))
    }

    fn check_size(&self, part: PartName, is: (usize, usize), cols: u64) -> Result<(), DataError> {
        if is != (self.rows(part), cols as usize) {
            let path = self.directory.join(part.name());
            return Err(DataError::artifact(&path, "its sizes are not those of meta.json"));
        }
        Ok(())
    }
}

/// A data set that is being written: part by part, then [`SplitDataDir::complete`].
pub(crate) struct SplitDataDir {
    directory: PathBuf,
    rows: BTreeMap<PartName, u64>,
}

/// Metadata that is known once all parts are written.
pub(crate) struct SplitDataOrigin {
    pub split: String,
    pub features: usize,
    pub labels: usize,
    pub dense: bool,
    pub features_before: usize,
    pub labels_before: usize,
    pub weight: Weight,
    pub weight_reason: Option<String>,
    pub report: ReadReport,
    pub duplicates: Option<Duplicates>,
    pub label_names: Option<Vec<String>>,
    pub feature_names: Option<Vec<String>>,
    pub nominal_values: NominalValues,
}

impl SplitDataDir {
    /// Creates the directory.
    pub(crate) fn create(directory: &Path) -> Result<Self, DataError> {
        fs::create_dir_all(directory).map_err(DataError::io("create", directory))?;
        Ok(Self { directory: directory.to_owned(), rows: BTreeMap::new() })
    }

    /// Creates the writer of the sparse features of a part.
    pub(crate) fn sparse_features(&self, part: PartName, valued: bool) -> Result<CsrWriter, DataError> {
        CsrWriter::create(&self.part(part)?.join(SPARSE_FEATURES), valued)
    }

    /// Creates the writer of the dense features of a part.
    pub(crate) fn dense_features(&self, part: PartName, cols: usize) -> Result<DenseWriter, DataError> {
        DenseWriter::create(&self.part(part)?.join(DENSE_FEATURES), cols)
    }

    /// Creates the writer of the labels of a part.
    pub(crate) fn labels(&self, part: PartName) -> Result<CsrWriter, DataError> {
        CsrWriter::create(&self.part(part)?.join(LABELS), false)
    }

    /// Declares a part complete.
    pub(crate) fn finish_part(&mut self, part: PartName, rows: usize) {
        self.rows.insert(part, rows as u64);
    }

    /// Writes the names and, last, `meta.json`.
    pub(crate) fn complete(self, origin: SplitDataOrigin) -> Result<SplitData, DataError> {
        write_names(&self.directory.join(LABEL_NAMES), origin.label_names.as_deref())?;
        write_names(&self.directory.join(FEATURE_NAMES), origin.feature_names.as_deref())?;
        write_nominal_values(&self.directory, &origin.nominal_values)?;
        let meta = SplitDataMeta {
            version: VERSION,
            features: origin.features as u64,
            labels: origin.labels as u64,
            dense: origin.dense,
            rows: self.rows,
            split: origin.split,
            features_before: origin.features_before as u64,
            labels_before: origin.labels_before as u64,
            weight: origin.weight,
            weight_reason: origin.weight_reason,
            report: origin.report,
            duplicates: origin.duplicates,
        };
        write_json(&self.directory.join(META), &meta)?;
        Ok(SplitData { directory: self.directory, meta, check: ArtifactCheck::Header })
    }

    fn part(&self, part: PartName) -> Result<PathBuf, DataError> {
        let directory = self.directory.join(part.name());
        fs::create_dir_all(&directory).map_err(DataError::io("create", &directory))?;
        Ok(directory)
    }
}

#[cfg(test)]
mod tests {
    use super::super::describe::dataset_stats;
    use super::super::synthetic::{Synthetic, generate};
    use super::*;

    fn generated() -> tempfile::TempDir {
        let temp = tempfile::tempdir().unwrap();
        let sizes = (Some(30), Some(10), Some(20), Some(5));
        let (rows, test_rows, features, labels) = sizes;
        let made =
            Synthetic { rows, test_rows, features, labels, features_per_row: 5.0, ..Synthetic::default() };
        generate(&made, &made.curve(), temp.path(), |_, _| {}).unwrap();
        temp
    }

    #[test]
    fn a_directory_with_any_damaged_byte_is_described_or_refused_without_panicking() {
        let temp = generated();
        let expected = dataset_stats(&SplitData::open_unverified(temp.path()).unwrap()).unwrap();
        for file in ["train/labels.csr", "train/features.csr", "test/labels.csr"] {
            let path = temp.path().join(file);
            let good = fs::read(&path).unwrap();
            let mut refused = 0;
            for at in 0..good.len() {
                let mut bad = good.clone();
                bad[at] ^= 0x80;
                fs::write(&path, bad).unwrap();
                refused += usize::from(
                    SplitData::open_unverified(temp.path()).and_then(|data| dataset_stats(&data)).is_err(),
                );
            }
            assert!(refused > 0, "{file}");
            fs::write(&path, good).unwrap();
        }
        assert_eq!(dataset_stats(&SplitData::open_unverified(temp.path()).unwrap()).unwrap(), expected);
    }

    #[test]
    fn sizes_that_nothing_confirms_are_refused_before_anything_is_allocated() {
        let temp = generated();
        let path = temp.path().join(META);
        let mut meta: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        meta["labels"] = (1u64 << 40).into();
        fs::write(&path, meta.to_string()).unwrap();
        let error = SplitData::open_unverified(temp.path()).unwrap_err().to_string();
        assert!(error.contains("more than 268435456 features or labels"), "{error}");
    }
}
