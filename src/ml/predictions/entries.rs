//! Predictions as a list of rows and labels, with a score, a decision or both.

use std::path::Path;

use super::{ExpectedPredictions, PredictionSummary};
use crate::data::error::DataError;
use crate::metric::block::DecisionBlock;

/// The columns of a CSV file and the arrays of an npz file.
pub(super) const COLUMNS: [&str; 4] = ["row", "label", "score", "predicted"];

/// The positions of the columns among the names that a file has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    pub row: usize,
    pub label: usize,
    pub score: Option<usize>,
    pub predicted: Option<usize>,
}

impl Columns {
    /// Finds the columns. `noun` is what the names are called in messages. Unknown names are refused, because a misspelt
    /// `score` would turn scores into decisions.
    pub(super) fn find(names: &[&str], noun: &str) -> Result<Self, String> {
        if let Some(unknown) = names.iter().find(|name| !COLUMNS.contains(name)) {
            return Err(format!(
                "the {noun} `{unknown}` is not known, only `row`, `label`, `score` and `predicted` are"
            ));
        }
        if let Some(twice) =
            COLUMNS.iter().find(|name| names.iter().filter(|other| other == name).count() > 1)
        {
            return Err(format!("there are two {noun}s `{twice}`"));
        }
        let find = |wanted: &str| names.iter().position(|name| *name == wanted);
        let need = |wanted: &str| find(wanted).ok_or_else(|| format!("there is no {noun} `{wanted}`"));
        Ok(Self {
            row: need("row")?,
            label: need("label")?,
            score: find("score"),
            predicted: find("predicted"),
        })
    }
}

/// One entry of the list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub row: u32,
    pub label: u32,
    /// 0 if the list has no scores.
    pub score: f32,
    /// True if the list does not say otherwise.
    pub predicted: bool,
}

/// A list of checked entries, in the order of the file.
pub(super) struct ListedPredictions {
    pub scored: bool,
    pub decided: bool,
    pub entries: Vec<Entry>,
}

impl ListedPredictions {
    /// Creates an empty list with these columns. A list without scores is one of decisions.
    pub(super) fn new(
        columns: Columns,
        expected: &ExpectedPredictions,
        path: &Path,
    ) -> Result<Self, DataError> {
        let scored = columns.score.is_some();
        let decided = columns.predicted.is_some() || !scored;
        if decided {
            expected.check_no_threshold(path)?;
        }
        Ok(Self { scored, decided, entries: Vec::new() })
    }

    /// Returns a score that can be used. Scores next to decisions only rank the labels, so they can be any numbers.
    pub(super) fn check_score(&self, expected: &ExpectedPredictions, score: f32) -> Result<f32, String> {
        let cut = if self.decided { super::ScoreCut::At(0.0) } else { expected.cut() };
        cut.check(score)
    }

    /// Passes the entries on in blocks of consecutive rows.
    pub(super) fn pass_on<E: From<DataError>>(
        mut self,
        expected: &ExpectedPredictions,
        path: &Path,
        mut take: impl FnMut(&DecisionBlock) -> Result<(), E>,
    ) -> Result<PredictionSummary, E> {
        self.entries.sort_by_key(|entry| (entry.row, entry.label));
        let key = |entry: &Entry| (entry.row, entry.label);
        if let Some(pair) = self.entries.windows(2).find(|pair| key(&pair[0]) == key(&pair[1])) {
            let (row, label) = (pair[0].row, expected.label_text(pair[0].label));
            return Err(DataError::file(path, format!("row {row} has the label {label} twice")).into());
        }
        let mut is_present = vec![false; expected.rows];
        for entry in &self.entries {
            is_present[entry.row as usize] = true;
        }
        let absent_rows = is_present.iter().filter(|present| !**present).count();
        if let Some(first) = is_present.iter().position(|present| self.scored && !present) {
            let reason = format!(
                "{absent_rows} of {} rows have no score, the first of them is row {first}: write the score of at least \
                 one label for every row",
                expected.rows
            );
            return Err(DataError::file(path, reason).into());
        }
        let mut rest = &self.entries[..];
        for first in (0..expected.rows).step_by(expected.rows_at_once()) {
            let rows = expected.rows_at_once().min(expected.rows - first);
            let count = rest.partition_point(|entry| (entry.row as usize) < first + rows);
            let (block, later) = rest.split_at(count);
            rest = later;
            take(&self.block(expected, first, rows, block))?;
        }
        Ok(PredictionSummary { absent_rows })
    }

    fn block(
        &self,
        expected: &ExpectedPredictions,
        first: usize,
        rows: usize,
        entries: &[Entry],
    ) -> DecisionBlock {
        let labels = expected.labels;
        let mut scores = Vec::new();
        if self.scored {
            scores.resize(rows * labels, f32::NEG_INFINITY);
            for entry in entries {
                scores[(entry.row as usize - first) * labels + entry.label as usize] = entry.score;
            }
        }
        if !self.decided {
            return expected.cut().decide(first, labels, scores);
        }
        let mut predicted = vec![Vec::new(); rows];
        for entry in entries.iter().filter(|entry| entry.predicted) {
            predicted[entry.row as usize - first].push(entry.label);
        }
        DecisionBlock { first, rows, labels, scores, predicted, ..DecisionBlock::default() }
    }
}
