//! Raw text with labels, before words become features.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::artifact::dataset::{PartMeta, read_names, write_json, write_names};
use super::artifact::{Check, Part, open_csr, write_csr};
use super::csr::Csr;
use super::error::DataError;
use super::report::ReadReport;

/// Texts and their labels, all rows in the order of the files.
#[derive(Debug, Clone, PartialEq)]
pub struct RawText {
    pub texts: Vec<String>,
    pub labels: Csr,
    /// In the order of first appearance.
    pub label_names: Vec<String>,
    pub parts: Vec<Part>,
    pub report: ReadReport,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meta {
    version: u32,
    rows: u64,
    parts: Vec<PartMeta>,
    report: ReadReport,
}

const VERSION: u32 = 1;

impl RawText {
    /// Writes a directory: `meta.json`, `texts.jsonl` (one JSON string per row), `labels.csr`,
    /// `label_names.jsonl`.
    pub fn save(&self, directory: &Path) -> Result<(), DataError> {
        fs::create_dir_all(directory).map_err(DataError::io("create", directory))?;
        write_names(&directory.join("texts.jsonl"), Some(&self.texts))?;
        write_names(&directory.join("label_names.jsonl"), Some(&self.label_names))?;
        write_csr(&directory.join("labels.csr"), &self.labels)?;
        let meta = Meta {
            version: VERSION,
            rows: self.texts.len() as u64,
            parts: self.parts.iter().map(Part::compact).collect(),
            report: self.report.clone(),
        };
        write_json(&directory.join("meta.json"), &meta)
    }

    pub fn open(directory: &Path) -> Result<Self, DataError> {
        let path = directory.join("meta.json");
        let bad = |reason: String| DataError::artifact(&path, reason);
        let text = fs::read(&path).map_err(DataError::io("read", &path))?;
        let meta: Meta = serde_json::from_slice(&text).map_err(|e| bad(e.to_string()))?;
        if meta.version != VERSION {
            return Err(bad(format!("it has version {}, this program reads {VERSION}", meta.version)));
        }
        let labels = open_csr(&directory.join("labels.csr"), Check::Deep)?;
        let rows = labels.rows();
        let lines = |name: &str, count: usize| {
            let path = directory.join(name);
            let missing = || DataError::artifact(&path, "it is missing");
            read_names(&path, count)?.ok_or_else(missing)
        };
        let parts = meta.parts.into_iter().map(|part| part.expand(rows as u64));
        Ok(Self {
            texts: lines("texts.jsonl", rows)?,
            label_names: lines("label_names.jsonl", labels.cols)?,
            parts: parts
                .collect::<Option<_>>()
                .ok_or_else(|| bad("a part has rows beyond the end".into()))?,
            report: meta.report,
            labels,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::report::Format;

    #[test]
    fn texts_survive_the_disk() {
        let temp = tempfile::tempdir().unwrap();
        let text = RawText {
            texts: vec!["one\n\"two\"".into(), String::new()],
            labels: Csr::from_rows(2, &[vec![1], vec![]]),
            label_names: vec!["x".into(), "y".into()],
            parts: vec![Part::range("all", 0..2)],
            report: ReadReport::new(Format::Jsonl),
        };
        text.save(temp.path()).unwrap();
        assert_eq!(RawText::open(temp.path()).unwrap(), text);
    }
}
