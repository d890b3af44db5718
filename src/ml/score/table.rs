//! [`ScoreTable`], the artifact `scores`, a directory.
//!
//! ```text
//! scores.json     what the scores are, and how they were made
//! scores.dense    every score, row by row
//! scores.csr      or only the best labels of each row; the others have the score `rest`
//! ```

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::candidates::{Candidates, keep_best};
use super::{ScoreOrigin, ScoreScale};
use crate::data::artifact::dataset::write_json;
use crate::data::artifact::{ArtifactCheck, CsrWriter, DenseWriter, open_csr, open_dense};
use crate::data::csr::{Csr, DenseMatrix};
use crate::data::error::DataError;
use crate::threshold::scores::{CandidateScores, DenseScores, ScoreLayout, Scores};

/// The version of the format. Increase it whenever an older program could not read, or would misread, a table.
const FORMAT: u32 = 1;
const INFO: &str = "scores.json";
const DENSE: &str = "scores.dense";
const SPARSE: &str = "scores.csr";

/// The content of `scores.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreTableInfo {
    format: u32,
    /// Equal to the mark of the model that made the scores.
    pub mark: String,
    pub rows: usize,
    pub labels: usize,
    pub scale: ScoreScale,
    pub made: ScoreOrigin,
    /// The number of labels kept per row, if not all are.
    pub keep: Option<usize>,
    /// The score of labels that were not kept: 0, or the mean of the log-odds that were left out.
    pub rest: f32,
    /// The number of scores that were left out.
    pub left_out: u64,
}

/// An open table of scores.
pub struct ScoreTable {
    card: ScoreTableInfo,
    store: ScoreStore,
}

/// The open file of scores.
enum ScoreStore {
    Dense(DenseMatrix),
    Sparse(Csr),
}

impl ScoreTable {
    /// Opens a stored table.
    pub fn open(directory: &Path) -> Result<Self, DataError> {
        let path = directory.join(INFO);
        let text = fs::read(&path).map_err(DataError::io("read", &path))?;
        let card: ScoreTableInfo =
            serde_json::from_slice(&text).map_err(|error| DataError::artifact(&path, error.to_string()))?;
        if card.format != FORMAT {
            let reason = format!("it has format {}, this program reads {FORMAT}", card.format);
            return Err(DataError::artifact(&path, reason));
        }
        let store = match card.keep {
            None => ScoreStore::Dense(open_dense(&directory.join(DENSE), ArtifactCheck::Header)?),
            Some(_) => ScoreStore::Sparse(open_csr(&directory.join(SPARSE), ArtifactCheck::Header)?),
        };
        let size = match &store {
            ScoreStore::Dense(dense) => (dense.rows, dense.cols),
            ScoreStore::Sparse(csr) => (csr.rows(), csr.cols),
        };
        if size != (card.rows, card.labels) {
            return Err(DataError::artifact(&path, "its sizes are not those of the file of scores"));
        }
        Ok(Self { card, store })
    }

    /// Returns the content of `scores.json`.
    pub fn card(&self) -> &ScoreTableInfo {
        &self.card
    }

    /// Returns whether only some labels of each row are kept.
    pub fn is_sparse(&self) -> bool {
        matches!(self.store, ScoreStore::Sparse(_))
    }

    /// Returns the kept labels of a row, ascending; `None` if all are kept.
    pub fn kept(&self, row: usize) -> Option<&[u32]> {
        match &self.store {
            ScoreStore::Dense(_) => None,
            ScoreStore::Sparse(csr) => Some(csr.row(row)),
        }
    }

    /// Returns one score.
    pub fn score(&self, row: usize, label: u32) -> f32 {
        match &self.store {
            ScoreStore::Dense(dense) => dense.row(row)[label as usize],
            ScoreStore::Sparse(csr) => match csr.row(row).binary_search(&label) {
                Ok(at) => csr.row_values(row)[at],
                Err(_) => self.card.rest,
            },
        }
    }

    /// Gives back the memory of some rows, which are read from the file again when they are needed.
    pub fn release(&self, rows: Range<usize>) {
        match &self.store {
            ScoreStore::Dense(dense) => dense.values.release(rows.start * dense.cols..rows.end * dense.cols),
            ScoreStore::Sparse(csr) => csr.release(rows),
        }
    }

    /// Reads all scores of a row.
    pub fn read_row(&self, row: usize, into: &mut [f32]) {
        match &self.store {
            ScoreStore::Dense(dense) => into.copy_from_slice(dense.row(row)),
            ScoreStore::Sparse(csr) => {
                into.fill(self.card.rest);
                for (&label, &score) in csr.row(row).iter().zip(csr.row_values(row)) {
                    into[label as usize] = score;
                }
            }
        }
    }

    /// Returns the labels of a row with the highest scores, ascending; of a sparse table, only labels that are kept.
    pub fn best(&self, row: usize, most: usize) -> Vec<u32> {
        let mut best: Vec<(u32, f32)> = match &self.store {
            ScoreStore::Dense(dense) => (0..).zip(dense.row(row).iter().copied()).collect(),
            ScoreStore::Sparse(csr) => {
                csr.row(row).iter().copied().zip(csr.row_values(row).iter().copied()).collect()
            }
        };
        keep_best(&mut best, most);
        best.into_iter().map(|(label, _)| label).collect()
    }

    /// Returns the scores for threshold rules. Labels that were not kept have the score minus infinity, so
    /// that they are never predicted.
    pub fn for_rules(&self) -> Result<Box<dyn Scores>, DataError> {
        Ok(match &self.store {
            ScoreStore::Sparse(csr) => Box::new(CandidateScores::new(csr.clone())),
            ScoreStore::Dense(dense) => {
                let values = dense.values.clone();
                let scores = DenseScores::new(dense.rows, dense.cols, ScoreLayout::RowMajor, values);
                Box::new(
                    scores
                        .ok_or_else(|| DataError::Request("the file of scores is incomplete".to_owned()))?,
                )
            }
        })
    }
}

/// Writes a table row by row.
pub struct ScoreWriter {
    directory: PathBuf,
    card: ScoreTableInfo,
    store: ScoreStoreWriter,
    chosen: Vec<u32>,
    /// The sum of the log-odds that were left out.
    sum: f64,
}

/// The file of scores that is being written.
enum ScoreStoreWriter {
    Dense(DenseWriter),
    Sparse(CsrWriter),
}

/// What a new table will contain.
#[derive(Debug, Clone)]
pub struct ScoreTableSpec {
    pub mark: String,
    pub labels: usize,
    pub scale: ScoreScale,
    pub made: ScoreOrigin,
    /// The number of labels to keep per row; `None` for all.
    pub keep: Option<usize>,
}

impl ScoreWriter {
    /// Creates the files in a directory.
    pub fn create(directory: &Path, purpose: ScoreTableSpec) -> Result<Self, DataError> {
        fs::create_dir_all(directory).map_err(DataError::io("create", directory))?;
        let ScoreTableSpec { mark, labels, scale, made, keep } = purpose;
        let store = match keep {
            None => ScoreStoreWriter::Dense(DenseWriter::create(&directory.join(DENSE), labels)?),
            Some(_) => ScoreStoreWriter::Sparse(CsrWriter::create(&directory.join(SPARSE), true)?),
        };
        let card = ScoreTableInfo {
            format: FORMAT,
            mark,
            rows: 0,
            labels,
            scale,
            made,
            keep,
            rest: 0.0,
            left_out: 0,
        };
        let directory = directory.to_owned();
        Ok(Self { directory, card, store, chosen: Vec::new(), sum: 0.0 })
    }

    /// Adds a row with the scores of all labels; only those to keep are written.
    pub fn push(&mut self, scores: &[f32]) -> Result<(), DataError> {
        let Some(keep) = self.card.keep else { return self.push_kept(&[], scores) };
        let mut chosen = std::mem::take(&mut self.chosen);
        Candidates { keep, scale: self.card.scale }.of(scores, &mut chosen);
        let values: Vec<f32> = chosen.iter().map(|&label| scores[label as usize]).collect();
        if self.card.scale == ScoreScale::LogOdds {
            let total: f64 = scores.iter().copied().map(f64::from).sum();
            self.sum += total - values.iter().copied().map(f64::from).sum::<f64>();
        }
        self.card.left_out += (scores.len() - chosen.len()) as u64;
        let pushed = self.push_kept(&chosen, &values);
        self.chosen = chosen;
        pushed
    }

    /// Adds a row with the labels that a model found, ascending, and their scores above 0; all others have the score 0.
    pub fn push_found(&mut self, mut found: Vec<(u32, f32)>) -> Result<(), DataError> {
        let Some(keep) = self.card.keep else {
            let mut scores = vec![0.0; self.card.labels];
            for (label, score) in found {
                scores[label as usize] = score;
            }
            return self.push_kept(&[], &scores);
        };
        keep_best(&mut found, keep);
        self.card.left_out += (self.card.labels - found.len()) as u64;
        let (labels, scores): (Vec<u32>, Vec<f32>) = found.into_iter().unzip();
        self.push_kept(&labels, &scores)
    }

    /// Adds a row with the scores of the labels to keep. If all are kept, `labels` is ignored.
    pub fn push_kept(&mut self, labels: &[u32], scores: &[f32]) -> Result<(), DataError> {
        if let Some(at) = scores.iter().position(|score| !score.is_finite()) {
            let row = self.card.rows;
            return Err(DataError::Request(format!(
                "the model gives row {row} the score {}, which is not a finite number: the model has diverged",
                scores[at]
            )));
        }
        self.card.rows += 1;
        match &mut self.store {
            ScoreStoreWriter::Dense(writer) => writer.append(scores),
            ScoreStoreWriter::Sparse(writer) => writer.push(labels, scores),
        }
    }

    /// Copies a row of another table that keeps as many labels.
    pub fn copy(&mut self, table: &ScoreTable, row: usize) -> Result<(), DataError> {
        match &table.store {
            ScoreStore::Dense(dense) => self.push_kept(&[], dense.row(row)),
            ScoreStore::Sparse(csr) => self.push_kept(csr.row(row), csr.row_values(row)),
        }
    }

    /// Includes the scores that another table has left out in the mean `rest`.
    pub fn left_out_elsewhere(&mut self, other: &ScoreTableInfo) {
        self.card.left_out += other.left_out;
        self.sum += f64::from(other.rest) * other.left_out as f64;
    }

    /// Completes the files and opens them.
    pub fn finish(mut self) -> Result<ScoreTable, DataError> {
        if self.card.scale == ScoreScale::LogOdds && self.card.left_out > 0 {
            self.card.rest = (self.sum / self.card.left_out as f64) as f32;
        }
        match self.store {
            ScoreStoreWriter::Dense(writer) => drop(writer.finish()?),
            ScoreStoreWriter::Sparse(writer) => writer.close(self.card.labels)?,
        }
        write_json(&self.directory.join(INFO), &self.card)?;
        ScoreTable::open(&self.directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn purpose(scale: ScoreScale, keep: Option<usize>) -> ScoreTableSpec {
        ScoreTableSpec { mark: "m".into(), labels: 3, scale, made: ScoreOrigin::LeaveOneOut {}, keep }
    }

    fn written(scale: ScoreScale, keep: Option<usize>) -> (tempfile::TempDir, ScoreTable) {
        let temp = tempfile::tempdir().unwrap();
        let mut writer = ScoreWriter::create(temp.path(), purpose(scale, keep)).unwrap();
        for row in [[0.5, -0.5, 0.25], [-1.0, -2.0, -3.0]] {
            writer.push(&row).unwrap();
        }
        let table = writer.finish().unwrap();
        (temp, table)
    }

    #[test]
    fn a_row_of_found_labels_is_stored_like_the_whole_row() {
        for keep in [None, Some(1), Some(2)] {
            let temp = tempfile::tempdir().unwrap();
            let mut writer =
                ScoreWriter::create(temp.path(), purpose(ScoreScale::Probability, keep)).unwrap();
            writer.push(&[0.5, 0.0, 0.25]).unwrap();
            writer.push_found(vec![(0, 0.5), (2, 0.25)]).unwrap();
            let [whole, found] = rows(&writer.finish().unwrap());
            assert_eq!(whole, found, "{keep:?}");
        }
    }

    fn rows(table: &ScoreTable) -> [[f32; 3]; 2] {
        let mut rows = [[9.0; 3]; 2];
        for (at, row) in rows.iter_mut().enumerate() {
            table.read_row(at, row);
        }
        rows
    }

    #[test]
    fn a_whole_table_is_read_back_unchanged() {
        let (_temp, table) = written(ScoreScale::Response, None);
        assert_eq!(rows(&table), [[0.5, -0.5, 0.25], [-1.0, -2.0, -3.0]]);
        assert_eq!((table.score(0, 2), table.kept(0), table.card().rest), (0.25, None, 0.0));
    }

    #[test]
    fn scores_that_were_left_out_count_as_zero_or_as_their_mean() {
        let (_temp, responses) = written(ScoreScale::Response, Some(1));
        assert_eq!(rows(&responses), [[0.5, 0.0, 0.0], [0.0; 3]]);
        let (_temp, odds) = written(ScoreScale::LogOdds, Some(1));
        let rest = (-0.5 + 0.25 - 2.0 - 3.0) / 4.0;
        assert_eq!(rows(&odds), [[0.5, rest, rest], [-1.0, rest, rest]]);
        assert_eq!((odds.kept(1), odds.score(1, 2)), (Some(&[0][..]), rest));
    }

    #[test]
    fn labels_that_were_not_kept_are_minus_infinity_for_rules() {
        let (_temp, table) = written(ScoreScale::LogOdds, Some(2));
        let mut row = [0.0; 3];
        table.for_rules().unwrap().read_rows(1..2, &mut row);
        assert_eq!(row, [-1.0, -2.0, f32::NEG_INFINITY]);
    }

    #[test]
    fn a_damaged_table_is_an_error_with_a_reason() {
        let (temp, _) = written(ScoreScale::Response, None);
        let card = fs::read_to_string(temp.path().join(INFO)).unwrap();
        let error = |text: String| {
            fs::write(temp.path().join(INFO), text).unwrap();
            ScoreTable::open(temp.path()).err().unwrap().to_string()
        };
        assert!(error(card.replace("\"rows\":2", "\"rows\":3")).contains("sizes"));
        assert!(error(card.replace("\"format\":1", "\"format\":7")).contains("format 7"));
        assert!(error("{".into()).contains("not a readable artifact"));
    }

    #[test]
    fn a_score_that_is_not_finite_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let mut writer = ScoreWriter::create(temp.path(), purpose(ScoreScale::LogOdds, None)).unwrap();
        assert!(writer.push(&[0.0, f32::NAN, 0.0]).unwrap_err().to_string().contains("diverged"));
    }
}
