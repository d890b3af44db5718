//! What a fitted rule leaves: decisions about scores, without labels.

use serde::{Deserialize, Serialize};

use super::error::ThresholdError;
use super::scores::{Scores, by_column, map_labels, map_row_blocks};
use crate::data::csr::Csr;
use crate::metric::top::Top;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cuts {
    labels: usize,
    decision: Decision,
}

/// How to decide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Decision {
    /// A label is predicted where its score is above its cut, never where it has none.
    PerLabel { cuts: Vec<Option<f32>> },
    /// The first `sure` labels of a row are predicted, and the next one where it scores above `cut`; unseen labels
    /// have no rank.
    Ranks { sure: usize, cut: Option<f32>, unseen: Vec<u32> },
    /// A label is predicted for its best-scored rows, as many as this share of all rows.
    Shares { shares: Vec<f64> },
}

impl Cuts {
    pub(super) fn per_label(cuts: Vec<Option<f32>>) -> Self {
        Self { labels: cuts.len(), decision: Decision::PerLabel { cuts } }
    }

    pub(super) fn ranks(labels: usize, sure: usize, cut: Option<f32>, unseen: Vec<u32>) -> Self {
        Self { labels, decision: Decision::Ranks { sure, cut, unseen } }
    }

    pub(super) fn shares(shares: Vec<f64>) -> Self {
        Self { labels: shares.len(), decision: Decision::Shares { shares } }
    }

    pub fn labels(&self) -> usize {
        self.labels
    }

    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The score that a label must exceed, if the rule has one for it.
    pub fn cut(&self, label: usize) -> Option<f32> {
        match &self.decision {
            Decision::PerLabel { cuts } => cuts[label],
            Decision::Ranks { .. } | Decision::Shares { .. } => None,
        }
    }

    /// The labels of every row.
    pub fn predict(&self, scores: &dyn Scores) -> Result<Csr, ThresholdError> {
        if scores.labels() != self.labels {
            let expected = format!("the cuts are for {} labels", self.labels);
            return Err(ThresholdError::Shape { rows: scores.rows(), labels: scores.labels(), expected });
        }
        if let Decision::Shares { shares } = &self.decision {
            return predict_shares(shares, scores);
        }
        let blocks = map_row_blocks(scores, |block: &mut Block, _, scores| {
            let top = block.top.get_or_insert_with(|| self.ranking());
            self.choose(scores, top, &mut block.labels);
            block.ends.push(block.labels.len());
        })?;
        let mut indptr = vec![0u64];
        let mut indices = Vec::with_capacity(blocks.iter().map(|block| block.labels.len()).sum());
        for block in blocks {
            let start = indices.len();
            indptr.extend(block.ends.iter().map(|end| (start + end) as u64));
            indices.extend(block.labels);
        }
        let (indptr, indices) = (indptr.into(), indices.into());
        Ok(Csr { cols: self.labels, indptr, indices, values: Vec::new().into() })
    }

    /// The labels of one row, ascending.
    pub fn predict_row(&self, scores: &[f32]) -> Result<Vec<u32>, ThresholdError> {
        if matches!(self.decision, Decision::Shares { .. }) {
            return Err(ThresholdError::NeedsAllRows);
        }
        if scores.len() != self.labels {
            let expected = format!("the cuts are for {} labels", self.labels);
            return Err(ThresholdError::Shape { rows: 1, labels: scores.len(), expected });
        }
        if let Some(label) = scores.iter().position(|score| score.is_nan()) {
            return Err(ThresholdError::NotANumber { row: 0, label });
        }
        let mut labels = Vec::new();
        self.choose(scores, &mut self.ranking(), &mut labels);
        Ok(labels)
    }

    /// What [`Cuts::choose`] needs to rank labels.
    fn ranking(&self) -> Top {
        match &self.decision {
            Decision::Ranks { sure, cut, .. } => Top::new(sure + usize::from(cut.is_some())),
            Decision::PerLabel { .. } | Decision::Shares { .. } => Top::new(0),
        }
    }

    /// Appends the labels of one row, whose scores are all numbers.
    fn choose(&self, scores: &[f32], top: &mut Top, chosen: &mut Vec<u32>) {
        match &self.decision {
            Decision::PerLabel { cuts } => {
                let above =
                    |&(_, (score, cut)): &(usize, (&f32, &Option<f32>))| cut.is_some_and(|cut| *score > cut);
                chosen
                    .extend(scores.iter().zip(cuts).enumerate().filter(above).map(|(label, _)| label as u32));
            }
            Decision::Ranks { sure, cut, unseen } => {
                let start = chosen.len();
                let ranked = top.of(rankable(scores, unseen)).unwrap_or_default();
                chosen.extend(ranked);
                let last_falls_short =
                    cut.is_some_and(|cut| top.scores().nth(*sure).is_some_and(|score| score <= cut));
                if last_falls_short {
                    chosen.pop();
                }
                chosen[start..].sort_unstable();
            }
            Decision::Shares { .. } => {}
        }
    }
}

/// The labels of a row that may have a rank, with their scores.
pub(super) fn rankable<'a>(scores: &'a [f32], unseen: &'a [u32]) -> impl Iterator<Item = (u32, f32)> + 'a {
    let mut unseen = unseen.iter().copied().peekable();
    let scored = scores.iter().enumerate().map(|(label, &score)| (label as u32, score));
    scored.filter(move |(label, score)| unseen.next_if_eq(label).is_none() && *score > f32::NEG_INFINITY)
}

/// Predictions of consecutive rows.
#[derive(Default)]
struct Block {
    top: Option<Top>,
    labels: Vec<u32>,
    /// Where each row ends in `labels`.
    ends: Vec<usize>,
}

fn predict_shares(shares: &[f64], scores: &dyn Scores) -> Result<Csr, ThresholdError> {
    let rows = scores.rows();
    let chosen = map_labels(scores, |label, column| {
        let cut = cut_at(column, (shares[label] * rows as f64).round() as usize);
        let above = |row: &u32| cut.is_some_and(|cut| column[*row as usize] > cut);
        (0..rows as u32).filter(above).collect::<Vec<u32>>()
    })?;
    let mut indptr = vec![0u64];
    let mut indices = Vec::new();
    for rows in chosen {
        indices.extend(rows);
        indptr.push(indices.len() as u64);
    }
    let by_label =
        Csr { cols: rows, indptr: indptr.into(), indices: indices.into(), values: Vec::new().into() };
    Ok(by_column(&by_label))
}

/// The score that at most `count` scores exceed: as many as there are without parting equals.
pub(super) fn cut_at(column: &[f32], count: usize) -> Option<f32> {
    match count {
        0 => None,
        _ if count >= column.len() => Some(f32::NEG_INFINITY),
        _ => {
            let mut column = column.to_vec();
            let (_, cut, _) = column.select_nth_unstable_by(count, |a, b| b.total_cmp(a));
            Some(*cut)
        }
    }
}
