//! What a data set keeps of its training rows for people: their ids and the beginnings of their texts. Models do not read it.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use pipe_core::artifact::{read_json_lines, write_json_lines};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::dataset_part::FittedRows;
use super::split_data::{PartName, SplitData};

/// One JSON object per training row; with [`FittedRows::All`], those of the other parts follow. It is outside of the directory of the training part, so that a description of a data set
/// without its rows can have it.
const TRAINING_ROWS: &str = "training_rows.jsonl";

/// How many characters of a text are kept.
const EXCERPT: usize = 200;

/// What is kept of the training rows, so that explanations can show them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KeptOfRows {
    /// The column (CSV) or field (JSON lines) that identifies a row.
    pub id_column: Option<String>,
    /// Keep the first 200 characters of each text.
    pub texts: bool,
    /// The rows of which this is kept. `all` is for a final model that is fitted on all rows.
    #[serde(skip_serializing_if = "FittedRows::is_train")]
    pub part: FittedRows,
}

/// What is kept of one training row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingRow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The beginning of the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl TrainingRow {
    /// Returns a row with the beginning of its text.
    pub fn new(id: Option<&str>, text: Option<&str>) -> Self {
        let excerpt = |text: &str| match text.char_indices().nth(EXCERPT) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_owned(),
        };
        Self { id: id.map(str::to_owned), text: text.map(excerpt) }
    }
}

/// Writes the kept training rows into the directory of a data set.
pub fn write_training_rows(dataset: &Path, rows: &[TrainingRow]) -> Result<()> {
    write_json_lines(&dataset.join(TRAINING_ROWS), rows)
}

/// Reads the kept rows of a data set, of the training part or of all parts; `None` if it keeps none.
pub fn read_training_rows(dataset: &Path, data: &SplitData) -> Result<Option<Vec<TrainingRow>>> {
    let all = PartName::ALL.into_iter().filter(|&part| data.has(part)).map(|part| data.rows(part)).sum();
    read_kept(dataset, data.rows(PartName::Train), all)
}

fn read_kept(dataset: &Path, training: usize, all: usize) -> Result<Option<Vec<TrainingRow>>> {
    let path = dataset.join(TRAINING_ROWS);
    if !path.is_file() {
        return Ok(None);
    }
    let rows = read_json_lines(&path)?;
    ensure!(
        [training, all].contains(&rows.len()),
        "{} has {} lines, but {training} are expected for the training rows, or {all} for all rows",
        path.display(),
        rows.len()
    );
    Ok(Some(rows))
}

/// Copies the kept training rows of a data set. Returns whether it keeps any.
pub fn copy_training_rows(dataset: &Path, to: &Path) -> Result<bool> {
    let path = dataset.join(TRAINING_ROWS);
    if !path.is_file() {
        return Ok(false);
    }
    std::fs::copy(&path, to.join(TRAINING_ROWS))
        .with_context(|| format!("cannot copy {}", path.display()))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_rows_are_read_back_and_have_only_the_beginning_of_a_long_text() {
        let temp = tempfile::tempdir().unwrap();
        assert_eq!(read_kept(temp.path(), 2, 3).unwrap(), None);
        let long = "ä".repeat(300);
        let rows = [TrainingRow::new(Some("a\n"), Some(&long)), TrainingRow::new(None, None)];
        write_training_rows(temp.path(), &rows).unwrap();
        for (training, all) in [(2, 3), (1, 2)] {
            assert_eq!(read_kept(temp.path(), training, all).unwrap().unwrap(), rows);
        }
        assert_eq!(rows[0].text.as_ref().unwrap().chars().count(), EXCERPT + 1);
        let error = read_kept(temp.path(), 3, 4).unwrap_err().to_string();
        assert!(error.contains("has 2 lines, but 3 are expected"), "{error}");
    }
}
