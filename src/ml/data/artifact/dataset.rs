//! A data set on disk: a directory with
//!
//! ```text
//! meta.json              version, sizes, parts (as ranges of rows), report of the reader
//! features.csr           sparse features, or
//! features.dense         dense features
//! labels.csr             a matrix of ones
//! label_names.jsonl      one JSON string per label, if the format has names
//! feature_names.jsonl    one JSON string per feature, if the format has names
//! nominal_values.json    the values of nominal attributes, if there are any
//! ```

use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::csr_file::{CsrWriter, open_csr};
use super::dense_file::DenseWriter;
use super::layout::{
    DENSE_FEATURES, FEATURE_NAMES, LABEL_NAMES, LABELS, META, NOMINAL_VALUES, SPARSE_FEATURES, open_features,
    read_meta,
};
use super::{ArtifactCheck, DataError};
use crate::data::attributes::{NominalValues, read_nominal_values};
use crate::data::csr::{Csr, Features};
use crate::data::read_report::ReadReport;

/// All rows of a data set, in the order of its files.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSet {
    pub features: Features,
    pub labels: Csr,
    pub label_names: Option<Vec<String>>,
    pub feature_names: Option<Vec<String>>,
    pub nominal_values: NominalValues,
    /// Named sets of rows: `train` and `test` if the source has them.
    pub parts: Vec<DataSetPart>,
    pub report: ReadReport,
}

/// A named set of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataSetPart {
    pub name: String,
    pub rows: Vec<u32>,
}

/// The content of `meta.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DataSetMeta {
    version: u32,
    rows: u64,
    features: u64,
    labels: u64,
    dense: bool,
    parts: Vec<StoredPart>,
    report: ReadReport,
}

/// A part as it is stored: runs of consecutive rows, `[from, to)`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredPart {
    name: String,
    rows: Vec<(u32, u32)>,
}

const VERSION: u32 = 1;

impl DataSet {
    /// Opens the data set in a directory.
    pub fn open(directory: &Path, check: ArtifactCheck) -> Result<Self, DataError> {
        let meta: DataSetMeta = read_meta(directory, VERSION)?;
        let invalid = |reason: &str| DataError::artifact(&directory.join(META), reason);
        let features = open_features(directory, meta.dense, check)?;
        let labels = open_csr(&directory.join(LABELS), check)?;
        let sizes = (features.rows() as u64, features.cols() as u64, labels.cols as u64);
        if sizes != (meta.rows, meta.features, meta.labels) || features.rows() != labels.rows() {
            return Err(invalid("its sizes are not those of the matrices"));
        }
        let parts = meta.parts.into_iter().map(|part| part.expand(meta.rows));
        Ok(Self {
            parts: parts
                .collect::<Option<_>>()
                .ok_or_else(|| invalid("a part has rows beyond the end of the data set"))?,
            label_names: read_names(&directory.join(LABEL_NAMES), labels.cols)?,
            feature_names: read_names(&directory.join(FEATURE_NAMES), features.cols())?,
            nominal_values: read_nominal_values(directory)?,
            report: meta.report,
            features,
            labels,
        })
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.labels.rows()
    }

    /// Returns the part with a name.
    pub fn part(&self, name: &str) -> Option<&DataSetPart> {
        self.parts.iter().find(|part| part.name == name)
    }
}

impl DataSetPart {
    /// Creates a part of consecutive rows.
    pub fn range(name: impl Into<String>, rows: std::ops::Range<usize>) -> Self {
        Self { name: name.into(), rows: (rows.start as u32..rows.end as u32).collect() }
    }

    /// Returns the part as it is stored.
    pub(crate) fn compact(&self) -> StoredPart {
        let mut rows: Vec<(u32, u32)> = Vec::new();
        for &row in &self.rows {
            match rows.last_mut() {
                Some((_, end)) if *end == row => *end += 1,
                _ => rows.push((row, row + 1)),
            }
        }
        StoredPart { name: self.name.clone(), rows }
    }
}

impl StoredPart {
    /// Returns the part with all row numbers; `None` if a run or all runs together exceed the number of rows.
    pub(crate) fn expand(self, rows: u64) -> Option<DataSetPart> {
        let mut all = Vec::new();
        for (from, to) in self.rows {
            let fits = from < to && u64::from(to) <= rows && all.len() as u64 + u64::from(to - from) <= rows;
            if !fits {
                return None;
            }
            all.extend(from..to);
        }
        Some(DataSetPart { name: self.name, rows: all })
    }
}

/// Metadata that is known once all rows are written.
#[derive(Debug, Clone)]
pub struct DataSetSummary {
    pub label_names: Option<Vec<String>>,
    pub feature_names: Option<Vec<String>>,
    pub nominal_values: NominalValues,
    pub parts: Vec<DataSetPart>,
    pub report: ReadReport,
}

/// The directory of a data set that is being written. The matrices have their own writers; [`DataSetDir::complete`]
/// writes the rest.
///
/// ```text
/// let directory = DataSetDir::create(path)?;
/// let (mut features, mut labels) = (directory.sparse_features()?, directory.labels()?);
/// ... features.push(..)?; labels.push(.., &[])?; ...
/// directory.complete(Features::Sparse(features.finish(d)?), labels.finish(l)?, summary)?
/// ```
#[derive(Debug)]
pub struct DataSetDir(PathBuf);

impl DataSetDir {
    /// Creates the directory.
    pub fn create(directory: &Path) -> Result<Self, DataError> {
        fs::create_dir_all(directory).map_err(DataError::io("create", directory))?;
        Ok(Self(directory.to_owned()))
    }

    /// Creates the writer of sparse features.
    pub fn sparse_features(&self) -> Result<CsrWriter, DataError> {
        CsrWriter::create(&self.0.join(SPARSE_FEATURES), true)
    }

    /// Creates the writer of dense features.
    pub fn dense_features(&self, cols: usize) -> Result<DenseWriter, DataError> {
        DenseWriter::create(&self.0.join(DENSE_FEATURES), cols)
    }

    /// Creates the writer of labels.
    pub fn labels(&self) -> Result<CsrWriter, DataError> {
        CsrWriter::create(&self.0.join(LABELS), false)
    }

    /// Writes the names and, last, `meta.json`. Counts the rows without labels and without features.
    pub fn complete(
        self,
        features: Features,
        labels: Csr,
        summary: DataSetSummary,
    ) -> Result<DataSet, DataError> {
        let DataSetSummary { label_names, feature_names, nominal_values, parts, mut report } = summary;
        if features.rows() != labels.rows() {
            let (f, l) = (features.rows(), labels.rows());
            return Err(DataError::Request(format!(
                "there are {f} rows of features, but {l} rows of labels"
            )));
        }
        for (what, names, count) in
            [("label", &label_names, labels.cols), ("feature", &feature_names, features.cols())]
        {
            if let Some(names) = names
                && names.len() != count
            {
                let message = format!("there are {} {what} names for {count} {what}s", names.len());
                return Err(DataError::Request(message));
            }
        }
        report.rows_without_labels = empty_rows(&labels);
        report.rows_without_features = match &features {
            Features::Sparse(csr) => empty_rows(csr),
            Features::Dense(_) => 0,
        };
        write_names(&self.0.join(LABEL_NAMES), label_names.as_deref())?;
        write_names(&self.0.join(FEATURE_NAMES), feature_names.as_deref())?;
        write_nominal_values(&self.0, &nominal_values)?;
        let meta = DataSetMeta {
            version: VERSION,
            rows: labels.rows() as u64,
            features: features.cols() as u64,
            labels: labels.cols as u64,
            dense: matches!(features, Features::Dense(_)),
            parts: parts.iter().map(DataSetPart::compact).collect(),
            report: report.clone(),
        };
        write_json(&self.0.join(META), &meta)?;
        Ok(DataSet { features, labels, label_names, feature_names, nominal_values, parts, report })
    }
}

fn empty_rows(csr: &Csr) -> u64 {
    csr.indptr.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64
}

/// Writes a value as one line of JSON.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), DataError> {
    let mut text = serde_json::to_vec(value).map_err(|e| DataError::artifact(path, e.to_string()))?;
    text.push(b'\n');
    fs::write(path, text).map_err(DataError::io("write", path))
}

/// Writes the nominal values of attributes; nothing if there are none.
pub(crate) fn write_nominal_values(directory: &Path, values: &NominalValues) -> Result<(), DataError> {
    if values.is_empty() { Ok(()) } else { write_json(&directory.join(NOMINAL_VALUES), values) }
}

/// Writes one JSON string per line; nothing for `None`.
pub(crate) fn write_names(path: &Path, names: Option<&[String]>) -> Result<(), DataError> {
    let Some(names) = names else { return Ok(()) };
    let write = || {
        let mut file = BufWriter::new(File::create(path)?);
        for name in names {
            serde_json::to_writer(&mut file, name)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    };
    write().map_err(DataError::io("write", path))
}

/// Reads what [`write_names`] wrote, which must be `expected` names; `None` if the file does not exist.
pub(crate) fn read_names(path: &Path, expected: usize) -> Result<Option<Vec<String>>, DataError> {
    let file = match File::open(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(DataError::io("open", path))?,
    };
    let mut names = Vec::new();
    for line in BufReader::new(file).lines() {
        let line = line.map_err(DataError::io("read", path))?;
        names.push(serde_json::from_str(&line).map_err(|e| DataError::artifact(path, e.to_string()))?);
    }
    if names.len() != expected {
        let reason = format!("it has {} lines, but {expected} are expected", names.len());
        return Err(DataError::artifact(path, reason));
    }
    Ok(Some(names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::artifact::{open_csr, write_csr};
    use crate::data::format::Format;

    fn small(directory: &Path) -> DataSet {
        let target = DataSetDir::create(directory).unwrap();
        let mut features = target.sparse_features().unwrap();
        features.push(&[0, 3], &[0.5, -1.5]).unwrap();
        features.push(&[], &[]).unwrap();
        features.push(&[4], &[2.0]).unwrap();
        let mut labels = target.labels().unwrap();
        labels.push(&[1], &[]).unwrap();
        labels.push(&[0, 1], &[]).unwrap();
        labels.push(&[], &[]).unwrap();
        let summary = DataSetSummary {
            label_names: Some(vec!["a\nb".into(), "ü\\\"".into()]),
            feature_names: None,
            nominal_values: NominalValues::new(),
            parts: vec![
                DataSetPart { name: "train".into(), rows: vec![2, 0] },
                DataSetPart::range("test", 1..2),
            ],
            report: ReadReport::new(Format::Generated),
        };
        let features = Features::Sparse(features.finish(5).unwrap());
        target.complete(features, labels.finish(2).unwrap(), summary).unwrap()
    }

    #[test]
    fn a_written_data_set_is_read_back() {
        let temp = tempfile::tempdir().unwrap();
        let written = small(temp.path());
        assert_eq!(written.report.rows_without_labels, 1);
        assert_eq!(written.report.rows_without_features, 1);
        assert_eq!(DataSet::open(temp.path(), ArtifactCheck::Deep).unwrap(), written);
    }

    #[test]
    fn equal_content_gives_equal_bytes() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        small(one.path());
        small(two.path());
        let mut names: Vec<_> = fs::read_dir(one.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["features.csr", "label_names.jsonl", "labels.csr", "meta.json"]);
        for name in names {
            let read = |dir: &Path| fs::read(dir.join(&name)).unwrap();
            assert_eq!(read(one.path()), read(two.path()), "{name:?}");
        }
    }

    #[test]
    fn every_flipped_bit_of_a_header_and_every_truncation_is_detected() {
        let temp = tempfile::tempdir().unwrap();
        small(temp.path());
        let good = fs::read(temp.path().join(SPARSE_FEATURES)).unwrap();
        let path = temp.path().join("x.csr");
        for bit in 0..128 * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &bad).unwrap();
            assert!(open_csr(&path, ArtifactCheck::Header).is_err(), "bit {bit}");
        }
        for length in 0..good.len() {
            fs::write(&path, &good[..length]).unwrap();
            assert!(open_csr(&path, ArtifactCheck::Header).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn a_part_with_rows_beyond_the_end_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        small(temp.path());
        let meta = fs::read_to_string(temp.path().join(META)).unwrap();
        for (from, to) in [("[1,2]", "[1,9]"), ("[1,2]", "[0,4294967295]"), ("[1,2]", "[2,1]")] {
            fs::write(temp.path().join(META), meta.replace(from, to)).unwrap();
            assert!(DataSet::open(temp.path(), ArtifactCheck::Header).is_err(), "{to}");
        }
    }

    #[test]
    fn indices_counted_from_one_are_shifted_at_the_end() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("x.csr");
        let mut writer = CsrWriter::create(&path, false).unwrap();
        writer.push(&[u32::MAX, 3], &[]).unwrap();
        let csr = writer.finish_shifted(5, 1).unwrap();
        assert_eq!(csr.row(0), [0, 4]);
        assert_eq!(write_csr(&temp.path().join("y.csr"), &csr).unwrap(), csr);
    }
}
