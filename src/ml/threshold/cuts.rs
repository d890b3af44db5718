//! [`Cuts`]: a fitted rule, which decides about scores without seeing labels.

use serde::{Deserialize, Serialize};

use super::error::ThresholdError;
use super::scores::{Scores, by_column, map_labels, map_row_blocks};
use crate::data::csr::Csr;
use crate::data::stats::column_counts;
use crate::metric::top::Top;

/// If a label is predicted this many times as often as it is true, its F1 is at most 2 / (1 + 10) = 0.18.
const USELESS: u64 = 10;

/// A fitted rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cuts {
    labels: usize,
    decision: Decision,
}

/// How a fitted rule decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Decision {
    /// A label is predicted if its score is above its cut, and never if it has no cut.
    PerLabel { cuts: Vec<Option<f32>> },
    /// The `sure` best labels of a row are predicted, and the next one if its score is above `cut`. Labels
    /// that no fitting row has are left out of the ranking.
    Ranks { sure: usize, cut: Option<f32>, unseen: Vec<u32> },
    /// A label is predicted for this share of all rows, those with the highest scores.
    Shares { shares: Vec<f64> },
    /// A label is predicted if its score is above its zone, and, if its score is within the zone, if it is among the `k` best
    /// labels of the row. A label without a zone is never predicted. Labels that no fitting row has are left out of the ranking.
    RankInScore { zones: Vec<Option<ScoreZone>>, k: usize, unseen: Vec<u32> },
}

/// The scores for which the rank of a label decides: those above `bottom`, up to `top`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreZone {
    pub bottom: f32,
    pub top: f32,
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

    pub(super) fn rank_in_score(zones: Vec<Option<ScoreZone>>, k: usize, unseen: Vec<u32>) -> Self {
        Self { labels: zones.len(), decision: Decision::RankInScore { zones, k, unseen } }
    }

    /// Returns the number of labels.
    pub fn labels(&self) -> usize {
        self.labels
    }

    /// Returns whether the decision is one about this many labels.
    pub(crate) fn fits(&self, labels: usize) -> bool {
        let decision_fits = match &self.decision {
            Decision::PerLabel { cuts } => cuts.len() == labels,
            Decision::Ranks { sure, .. } => *sure <= labels,
            Decision::Shares { shares } => shares.len() == labels,
            Decision::RankInScore { zones, .. } => zones.len() == labels,
        };
        self.labels == labels && decision_fits
    }

    /// Returns how to decide.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Returns the score that a label must exceed, if the rule has one cut per label.
    pub fn cut(&self, label: usize) -> Option<f32> {
        match &self.decision {
            Decision::PerLabel { cuts } => cuts[label],
            Decision::Ranks { .. } | Decision::Shares { .. } | Decision::RankInScore { .. } => None,
        }
    }

    /// Takes the cuts of labels away that would be predicted for more than a share of the fitting rows, and for more than
    /// [`USELESS`] times as many of them as have the label (`positives`). Returns the number of these labels.
    pub fn drop_useless(
        &mut self,
        scores: &dyn Scores,
        positives: &[u64],
        largest_share: f64,
    ) -> Result<usize, ThresholdError> {
        let predicted = self.predict(scores)?;
        let rows = predicted.rows();
        let Decision::PerLabel { cuts } = &mut self.decision else { return Ok(0) };
        let counts = column_counts(&predicted, 0..rows as u32);
        let mut dropped = 0;
        for ((cut, count), &positives) in cuts.iter_mut().zip(counts).zip(positives) {
            if count as f64 > largest_share * rows as f64 && count > USELESS * positives {
                *cut = None;
                dropped += 1;
            }
        }
        Ok(dropped)
    }

    /// Takes all cuts away, so that no label is predicted.
    pub fn drop_all(&mut self) {
        self.decision = Decision::PerLabel { cuts: vec![None; self.labels] };
    }

    /// Returns the predicted labels of every row.
    pub fn predict(&self, scores: &dyn Scores) -> Result<Csr, ThresholdError> {
        if scores.labels() != self.labels {
            let expected = format!("the cuts are for {} labels", self.labels);
            return Err(ThresholdError::Shape { rows: scores.rows(), labels: scores.labels(), expected });
        }
        if let Decision::Shares { shares } = &self.decision {
            return predict_shares(shares, scores);
        }
        let blocks = map_row_blocks(scores, |block: &mut PredictedRows, _, scores| {
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

    /// Returns the predicted labels of one row, ascending.
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

    /// Returns the finder that [`Cuts::choose`] ranks labels with.
    fn ranking(&self) -> Top {
        match &self.decision {
            Decision::Ranks { sure, cut, .. } => Top::new(sure + usize::from(cut.is_some())),
            Decision::RankInScore { k, .. } => Top::new(*k),
            Decision::PerLabel { .. } | Decision::Shares { .. } => Top::new(0),
        }
    }

    /// Appends the predicted labels of one row. The scores must be numbers.
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
                let last_is_below_cut =
                    cut.is_some_and(|cut| top.scores().nth(*sure).is_some_and(|score| score <= cut));
                if last_is_below_cut {
                    chosen.pop();
                }
                chosen[start..].sort_unstable();
            }
            Decision::RankInScore { zones, unseen, .. } => {
                let ranked = top.of(rankable(scores, unseen)).unwrap_or_default();
                let is_chosen = |&(label, zone): &(usize, &Option<ScoreZone>)| {
                    let (score, is_ranked) = (scores[label], || ranked.contains(&(label as u32)));
                    zone.is_some_and(|zone| score > zone.top || (score > zone.bottom && is_ranked()))
                };
                chosen.extend(zones.iter().enumerate().filter(is_chosen).map(|(label, _)| label as u32));
            }
            Decision::Shares { .. } => {}
        }
    }
}

/// Returns the labels of a row that take part in the ranking, with their scores.
pub(super) fn rankable<'a>(scores: &'a [f32], unseen: &'a [u32]) -> impl Iterator<Item = (u32, f32)> + 'a {
    let mut unseen = unseen.iter().copied().peekable();
    let scored = scores.iter().enumerate().map(|(label, &score)| (label as u32, score));
    scored.filter(move |(label, score)| unseen.next_if_eq(label).is_none() && *score > f32::NEG_INFINITY)
}

/// The predicted labels of consecutive rows.
#[derive(Default)]
struct PredictedRows {
    top: Option<Top>,
    labels: Vec<u32>,
    /// The end of each row in `labels`.
    ends: Vec<usize>,
}

/// Predicts each label for its share of the rows.
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

/// Returns the lowest cut that at most `count` scores exceed. Equal scores are all above it or all not.
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
