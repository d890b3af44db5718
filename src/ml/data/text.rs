//! Raw text with labels, before it is vectorised.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::artifact::dataset::{StoredPart, read_names, write_json, write_names};
use super::artifact::layout::{LABEL_NAMES, LABELS, META, TEXTS, read_meta};
use super::artifact::{ArtifactCheck, DataSetPart, open_csr, write_csr};
use super::csr::Csr;
use super::error::DataError;
use super::read_report::ReadReport;

/// Texts and their labels. Rows are in the order of the files.
#[derive(Debug, Clone, PartialEq)]
pub struct RawText {
    pub texts: Vec<String>,
    pub labels: Csr,
    /// In the order of their first appearance.
    pub label_names: Vec<String>,
    pub parts: Vec<DataSetPart>,
    pub report: ReadReport,
}

/// The content of `meta.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTextMeta {
    version: u32,
    rows: u64,
    parts: Vec<StoredPart>,
    report: ReadReport,
}

const VERSION: u32 = 1;

impl RawText {
    /// Writes the texts to a directory: `meta.json`, `texts.jsonl` (one JSON string per row), `labels.csr` and
    /// `label_names.jsonl`.
    pub fn save(&self, directory: &Path) -> Result<(), DataError> {
        fs::create_dir_all(directory).map_err(DataError::io("create", directory))?;
        write_names(&directory.join(TEXTS), Some(&self.texts))?;
        write_names(&directory.join(LABEL_NAMES), Some(&self.label_names))?;
        write_csr(&directory.join(LABELS), &self.labels)?;
        let meta = RawTextMeta {
            version: VERSION,
            rows: self.texts.len() as u64,
            parts: self.parts.iter().map(DataSetPart::compact).collect(),
            report: self.report.clone(),
        };
        write_json(&directory.join(META), &meta)
    }

    /// Opens what [`RawText::save`] wrote.
    pub fn open(directory: &Path) -> Result<Self, DataError> {
        let meta: RawTextMeta = read_meta(directory, VERSION)?;
        let labels = open_csr(&directory.join(LABELS), ArtifactCheck::Deep)?;
        let rows = labels.rows();
        let lines = |name: &str, count: usize| {
            let path = directory.join(name);
            let missing = || DataError::artifact(&path, "it is missing");
            read_names(&path, count)?.ok_or_else(missing)
        };
        let parts = meta.parts.into_iter().map(|part| part.expand(rows as u64));
        Ok(Self {
            texts: lines(TEXTS, rows)?,
            label_names: lines(LABEL_NAMES, labels.cols)?,
            parts: parts.collect::<Option<_>>().ok_or_else(|| {
                DataError::artifact(&directory.join(META), "a part has rows beyond the end of the data set")
            })?,
            report: meta.report,
            labels,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::format::Format;

    #[test]
    fn saved_texts_are_read_back() {
        let temp = tempfile::tempdir().unwrap();
        let text = RawText {
            texts: vec!["one\n\"two\"".into(), String::new()],
            labels: Csr::from_rows(2, &[vec![1], vec![]]),
            label_names: vec!["x".into(), "y".into()],
            parts: vec![DataSetPart::range("all", 0..2)],
            report: ReadReport::new(Format::Jsonl),
        };
        text.save(temp.path()).unwrap();
        assert_eq!(RawText::open(temp.path()).unwrap(), text);
    }
}
