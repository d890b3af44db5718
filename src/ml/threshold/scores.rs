//! Scores of rows for labels, read in blocks so that they need not fit in memory.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use rayon::prelude::*;

use super::error::ThresholdError;
use crate::data::csr::{Csr, Numbers};

/// A table of scores.
pub trait Scores: Sync {
    /// Returns the number of rows.
    fn rows(&self) -> usize;
    /// Returns the number of labels.
    fn labels(&self) -> usize;
    /// Reads the scores of all rows for some labels, label after label.
    fn read_labels(&self, labels: Range<usize>, into: &mut [f32]);
    /// Reads the scores of all labels for some rows, row after row.
    fn read_rows(&self, rows: Range<usize>, into: &mut [f32]);
    /// Returns the stored scores, if all others are minus infinity.
    fn candidates(&self) -> Option<&CandidateScores> {
        None
    }
}

/// The scores of one label.
pub struct LabelScores<'a> {
    /// The rows of the scores, ascending; `None` if there is a score for each row. Other rows have minus infinity.
    rows: Option<&'a [u32]>,
    scores: &'a [f32],
}

impl LabelScores<'_> {
    /// Iterates over the scores, in the order of the rows, and over whether their rows are among some ascending ones.
    pub fn with(&self, positives: &[u32]) -> impl Iterator<Item = (bool, f32)> {
        let mut positives = positives.iter().copied().peekable();
        self.scores.iter().enumerate().map(move |(at, &score)| {
            let row = self.rows.map_or(at as u32, |rows| rows[at]);
            while positives.next_if(|&positive| positive < row).is_some() {}
            (positives.next_if_eq(&row).is_some(), score)
        })
    }

    /// Iterates over the scores, in the order of the rows.
    pub fn iter(&self) -> impl Iterator<Item = f32> {
        self.scores.iter().copied()
    }

    /// Returns the score of a row.
    pub fn of(&self, row: u32) -> f32 {
        match self.rows {
            None => self.scores[row as usize],
            Some(rows) => rows.binary_search(&row).map_or(f32::NEG_INFINITY, |at| self.scores[at]),
        }
    }
}

/// A full table, in memory or mapped from a file that may be larger than memory.
pub struct DenseScores {
    rows: usize,
    labels: usize,
    layout: ScoreLayout,
    values: Numbers<f32>,
}

/// The order of the scores of a [`DenseScores`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoreLayout {
    /// All labels of the first row, then of the second, as models write them.
    RowMajor,
    /// All rows for the first label, then for the second: the fastest order for rules that go label by label.
    LabelMajor,
}

impl DenseScores {
    /// Creates a table; `None` if there are not `rows * labels` values.
    pub fn new(rows: usize, labels: usize, layout: ScoreLayout, values: Numbers<f32>) -> Option<Self> {
        (rows.checked_mul(labels) == Some(values.len())).then_some(Self { rows, labels, layout, values })
    }
}

/// Copies some columns of a row-major matrix, column after column.
fn read_columns(values: &[f32], width: usize, columns: Range<usize>, into: &mut [f32]) {
    if width == 0 {
        return;
    }
    let rows = values.len() / width;
    for (row, values) in values.chunks_exact(width).enumerate() {
        for (at, &value) in values[columns.clone()].iter().enumerate() {
            into[at * rows + row] = value;
        }
    }
}

impl Scores for DenseScores {
    fn rows(&self) -> usize {
        self.rows
    }

    fn labels(&self) -> usize {
        self.labels
    }

    fn read_labels(&self, labels: Range<usize>, into: &mut [f32]) {
        match self.layout {
            ScoreLayout::RowMajor => read_columns(&self.values, self.labels, labels, into),
            ScoreLayout::LabelMajor => {
                into.copy_from_slice(&self.values[labels.start * self.rows..labels.end * self.rows]);
            }
        }
    }

    fn read_rows(&self, rows: Range<usize>, into: &mut [f32]) {
        match self.layout {
            ScoreLayout::RowMajor => {
                into.copy_from_slice(&self.values[rows.start * self.labels..rows.end * self.labels]);
            }
            ScoreLayout::LabelMajor => read_columns(&self.values, self.rows, rows, into),
        }
    }
}

/// The number of stored scores that are arranged by label at a time: 8 bytes each.
const ARRANGED_AT_ONCE: usize = 1 << 26;

/// Scores of a few candidate labels per row, for tables that would be too large otherwise. Every other label
/// has the score minus infinity, so that it is never predicted.
pub struct CandidateScores {
    by_row: Csr,
    arranged_at_once: usize,
    /// All scores by label, once they have been needed together.
    by_label: OnceLock<Csr>,
}

impl CandidateScores {
    /// Creates a table from a sparse matrix of scores.
    pub fn new(candidates: Csr) -> Self {
        Self { by_row: candidates, arranged_at_once: ARRANGED_AT_ONCE, by_label: OnceLock::new() }
    }

    /// Arranges at most `count` scores by label at a time, but at least those of one label.
    #[cfg(test)]
    pub(super) fn arranging(self, count: usize) -> Self {
        Self { arranged_at_once: count, ..self }
    }

    /// Returns all scores, arranged by label.
    fn by_label(&self) -> &Csr {
        self.by_label.get_or_init(|| by_column(&self.by_row))
    }

    /// Divides the labels into ranges whose scores are arranged by label at a time.
    fn ranges(&self) -> Vec<Range<usize>> {
        let labels = self.by_row.cols;
        if self.by_row.entries() <= self.arranged_at_once {
            return std::iter::once(0..labels).collect();
        }
        let mut counts = vec![0usize; labels];
        for &label in self.by_row.indices.iter() {
            counts[label as usize] += 1;
        }
        self.by_row.release(0..self.by_row.rows());
        let (mut ranges, mut first, mut sum) = (Vec::new(), 0, 0);
        for (label, count) in counts.into_iter().enumerate() {
            if sum + count > self.arranged_at_once && label > first {
                ranges.push(first..label);
                (first, sum) = (label, 0);
            }
            sum += count;
        }
        ranges.push(first..labels);
        ranges
    }

    /// Returns the scores of some labels: one row for each.
    fn arranged(&self, labels: Range<usize>) -> Cow<'_, Csr> {
        if labels == (0..self.by_row.cols) {
            Cow::Borrowed(self.by_label())
        } else {
            Cow::Owned(columns(&self.by_row, labels))
        }
    }
}

/// Reads rows of a sparse matrix; entries that are not stored are minus infinity.
fn read_sparse(matrix: &Csr, rows: Range<usize>, into: &mut [f32]) {
    into.fill(f32::NEG_INFINITY);
    if matrix.cols == 0 {
        return;
    }
    for (row, into) in rows.zip(into.chunks_exact_mut(matrix.cols)) {
        for (&column, &value) in matrix.row(row).iter().zip(matrix.row_values(row)) {
            into[column as usize] = value;
        }
    }
}

impl Scores for CandidateScores {
    fn rows(&self) -> usize {
        self.by_row.rows()
    }

    fn labels(&self) -> usize {
        self.by_row.cols
    }

    fn read_labels(&self, labels: Range<usize>, into: &mut [f32]) {
        read_sparse(self.by_label(), labels, into);
    }

    fn read_rows(&self, rows: Range<usize>, into: &mut [f32]) {
        read_sparse(&self.by_row, rows, into);
    }

    fn candidates(&self) -> Option<&CandidateScores> {
        Some(self)
    }
}

/// Some rows of a table.
pub struct ScoresOfRows<'a> {
    pub scores: &'a dyn Scores,
    pub rows: &'a [u32],
}

impl Scores for ScoresOfRows<'_> {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn labels(&self) -> usize {
        self.scores.labels()
    }

    fn read_labels(&self, labels: Range<usize>, into: &mut [f32]) {
        let all = self.scores.rows();
        let mut columns = vec![0.0; labels.len() * all];
        self.scores.read_labels(labels, &mut columns);
        if all == 0 || self.rows.is_empty() {
            return;
        }
        for (into, column) in into.chunks_exact_mut(self.rows.len()).zip(columns.chunks_exact(all)) {
            for (into, &row) in into.iter_mut().zip(self.rows) {
                *into = column[row as usize];
            }
        }
    }

    fn read_rows(&self, rows: Range<usize>, into: &mut [f32]) {
        let labels = self.labels();
        for (at, &row) in self.rows[rows].iter().enumerate() {
            let row = row as usize;
            self.scores.read_rows(row..row + 1, &mut into[at * labels..(at + 1) * labels]);
        }
    }
}

/// Transposes a matrix.
pub fn by_column(matrix: &Csr) -> Csr {
    columns(matrix, 0..matrix.cols)
}

/// Divides the rows of a matrix into blocks, after each of which its memory can be given back.
fn row_blocks(matrix: &Csr) -> impl Iterator<Item = Range<usize>> {
    const ROWS: usize = 1 << 14;
    let rows = matrix.rows();
    (0..rows).step_by(ROWS).map(move |first| first..rows.min(first + ROWS))
}

/// Transposes some columns of a matrix.
fn columns(matrix: &Csr, columns: Range<usize>) -> Csr {
    let span = |row: &[u32]| {
        let before = |bound: usize| row.partition_point(|&column| (column as usize) < bound);
        before(columns.start)..before(columns.end)
    };
    let mut indptr = vec![0u64; columns.len() + 1];
    for rows in row_blocks(matrix) {
        for row in rows.clone() {
            let row = matrix.row(row);
            for &column in &row[span(row)] {
                indptr[column as usize - columns.start + 1] += 1;
            }
        }
        matrix.release(rows);
    }
    for column in 0..columns.len() {
        indptr[column + 1] += indptr[column];
    }
    let entries = indptr[columns.len()] as usize;
    let mut next = indptr.clone();
    let mut indices = vec![0u32; entries];
    let mut values = vec![0f32; if matrix.values.is_empty() { 0 } else { entries }];
    for rows in row_blocks(matrix) {
        for number in rows.clone() {
            let (row, row_values) = (matrix.row(number), matrix.row_values(number));
            for at in span(row) {
                let column = row[at] as usize - columns.start;
                let place = next[column] as usize;
                next[column] += 1;
                indices[place] = number as u32;
                if let Some(&value) = row_values.get(at) {
                    values[place] = value;
                }
            }
        }
        matrix.release(rows);
    }
    Csr { cols: matrix.rows(), indptr: indptr.into(), indices: indices.into(), values: values.into() }
}

/// The number of scores that one thread has in memory at a time.
const BLOCK: usize = 1 << 21;
/// The number of labels that share a cache line in a row-major table.
const WIDE: usize = 16;

/// Calls `visit` with the scores of each label, on all threads, and collects the results by label.
pub fn map_labels<T: Send>(
    scores: &dyn Scores,
    visit: impl Fn(usize, &[f32]) -> T + Sync,
) -> Result<Vec<T>, ThresholdError> {
    let (rows, labels) = (scores.rows(), scores.labels());
    let width = (BLOCK / rows.max(1)).clamp(1, WIDE);
    let block = |first: usize| {
        let end = labels.min(first + width);
        let mut values = vec![0.0; (end - first) * rows];
        scores.read_labels(first..end, &mut values);
        let column = |label: usize| {
            let column = &mut values[(label - first) * rows..(label - first + 1) * rows];
            normalise_zeros(column).map_err(|row| ThresholdError::NotANumber { row, label })?;
            Ok(visit(label, column))
        };
        (first..end).map(column).collect::<Result<Vec<T>, _>>()
    };
    let firsts: Vec<usize> = (0..labels).step_by(width).collect();
    let blocks = firsts.into_par_iter().map(block).collect::<Result<Vec<_>, _>>()?;
    Ok(blocks.into_iter().flatten().collect())
}

/// Calls `visit` with the scores of each label, on all threads, and collects the results by label. Scores that are not stored
/// take no time.
pub fn map_stored<T: Send>(
    scores: &dyn Scores,
    visit: impl Fn(usize, LabelScores) -> T + Sync,
) -> Result<Vec<T>, ThresholdError> {
    let Some(candidates) = scores.candidates() else {
        return map_labels(scores, |label, scores| visit(label, LabelScores { rows: None, scores }));
    };
    let mut results = Vec::with_capacity(scores.labels());
    for labels in candidates.ranges() {
        let arranged = candidates.arranged(labels.clone());
        let stored = |label: usize| {
            let at = label - labels.start;
            let (rows, mut scores) = (arranged.row(at), arranged.row_values(at).to_vec());
            normalise_zeros(&mut scores)
                .map_err(|at| ThresholdError::NotANumber { row: rows[at] as usize, label })?;
            Ok(visit(label, LabelScores { rows: Some(rows), scores: &scores }))
        };
        results.extend(labels.clone().into_par_iter().map(stored).collect::<Result<Vec<T>, _>>()?);
    }
    Ok(results)
}

/// Calls `visit` with the scores of each row, in blocks that run on all threads, and collects one `T` per
/// block. The blocks, and the rows within a block, are in order.
pub fn map_row_blocks<T: Send + Default>(
    scores: &dyn Scores,
    visit: impl Fn(&mut T, usize, &[f32]) + Sync,
) -> Result<Vec<T>, ThresholdError> {
    let (rows, labels) = (scores.rows(), scores.labels());
    let height = (BLOCK / labels.max(1)).clamp(1, 4096);
    let block = |first: usize| {
        let end = rows.min(first + height);
        let mut values = vec![0.0; (end - first) * labels];
        scores.read_rows(first..end, &mut values);
        let mut result = T::default();
        for row in first..end {
            let values = &mut values[(row - first) * labels..(row - first + 1) * labels];
            normalise_zeros(values).map_err(|label| ThresholdError::NotANumber { row, label })?;
            visit(&mut result, row, values);
        }
        Ok(result)
    };
    let firsts: Vec<usize> = (0..rows).step_by(height).collect();
    firsts.into_par_iter().map(block).collect()
}

/// Turns -0 into +0, so that both tie. The error is the index of a score that is not a number.
pub fn normalise_zeros(scores: &mut [f32]) -> Result<(), usize> {
    for score in scores.iter_mut() {
        *score += 0.0;
    }
    scores.iter().position(|score| score.is_nan()).map_or(Ok(()), Err)
}
