//! Scores of rows by a model whose parts keep only the best labels of a row, without a number for every label and row.
//!
//! A label that no part keeps has the same score in every row, so it is computed once.

use std::sync::Arc;

use anyhow::Result;
use rayon::prelude::*;

use super::composite::{CompositeSystem, probability};
use crate::composite::{Composite, ModelPart};
use crate::data::examples::Unlabelled;
use crate::metric::block::{DecisionBlock, SparseScores};
use crate::metric::rest::Rest;
use crate::score::ScoreScale;
use crate::score::candidates::{Candidates, keep_best};
use crate::scorer::{SEARCHED_ROWS, Scorer, rows_at_once};
use crate::system::BlockSink;
use crate::threshold::cuts::{Cuts, Decision};
use crate::threshold::error::ThresholdError;

/// The labels that a part keeps of each row, ascending, with their scores.
type KeptRows = Vec<Vec<(u32, f32)>>;

/// The labels of a row that are a candidate of at least one part, and their fused scores.
type FusedRow = (Vec<u32>, Vec<f32>);

impl CompositeSystem {
    /// Returns whether every part keeps only some labels of a row. With a label ridge, the score of each label depends on the row.
    pub(super) fn is_sparse(&self) -> bool {
        self.label_ridge.is_none() && self.card.parts.iter().all(|part| part.keep.is_some())
    }

    /// Decides about rows, and passes blocks with sparse scores on.
    pub(super) fn decide_sparse(&mut self, rows: Unlabelled, take: BlockSink) -> Result<()> {
        let rest = Arc::new(self.rest());
        // The blocks are those of a model that scores all labels, because some sums depend on their size.
        let size = rows_at_once(self.card.labels);
        let only_searches = self.scorers.iter().all(|scorer| scorer.search().is_some());
        let scored = if only_searches { SEARCHED_ROWS.max(size) / size * size } else { size };
        for (number, chunk) in rows.rows.chunks(scored).enumerate() {
            let mut fused = self.fused_rows(Unlabelled { features: rows.features, rows: chunk })?.into_iter();
            for first in (0..chunk.len()).step_by(size) {
                let block = fused.by_ref().take(size).collect();
                take(&self.sparse_block(number * scored + first, block, rest.clone())?)?;
            }
        }
        Ok(())
    }

    /// Returns what the labels have that no part keeps.
    fn rest(&self) -> Rest {
        let card = &self.card;
        let score = |label: u32| fused_score(card, label, |part| part.1.rest);
        let scores: Vec<f32> =
            self.pool.install(|| (0..card.labels as u32).into_par_iter().map(score).collect());
        let probabilities = self.probabilities(&scores);
        Rest::new(scores, probabilities)
    }

    /// Returns the probabilities of scores, or none if the model gives none.
    fn probabilities(&self, scores: &[f32]) -> Vec<f32> {
        match self.card.scale() {
            ScoreScale::LogOdds => scores.iter().copied().map(probability).collect(),
            ScoreScale::Response | ScoreScale::Share | ScoreScale::Probability => Vec::new(),
        }
    }

    /// Scores rows by each part, and fuses the scores of the labels that any part keeps.
    fn fused_rows(&mut self, rows: Unlabelled) -> Result<Vec<FusedRow>> {
        let mut kept: Vec<KeptRows> = Vec::new();
        for (scorer, part) in self.scorers.iter_mut().zip(&self.card.parts) {
            let Some(keep) = part.keep else { continue };
            let candidates = Candidates { keep, scale: part.model.scale() };
            kept.push(self.pool.install(|| kept_rows(&mut **scorer, candidates, rows))?);
        }
        let card = &self.card;
        let fuse = |row: usize| -> FusedRow {
            let all = kept.iter().flat_map(|kept| &kept[row]);
            let mut labels: Vec<u32> = all.map(|&(label, _)| label).collect();
            labels.sort_unstable();
            labels.dedup();
            let score = |&label: &u32| {
                fused_score(card, label, |(number, part)| {
                    let own = &kept[number][row];
                    own.binary_search_by_key(&label, |own| own.0).map_or(part.rest, |at| own[at].1)
                })
            };
            let scores = labels.iter().map(score).collect();
            (labels, scores)
        };
        Ok(self.pool.install(|| (0..rows.rows.len()).into_par_iter().map(fuse).collect()))
    }

    /// Decides about consecutive rows.
    fn sparse_block(&self, first: usize, fused: Vec<FusedRow>, rest: Arc<Rest>) -> Result<DecisionBlock> {
        let (cuts, default_cut, labels) = (self.card.cuts.as_ref(), self.default_cut(), self.card.labels);
        let decide = |row: (usize, &FusedRow)| chosen(cuts, default_cut, labels, row);
        let predicted: Result<_> = self.pool.install(|| fused.par_iter().enumerate().map(decide).collect());
        let (candidates, scores): (Vec<_>, Vec<_>) = fused.into_iter().unzip();
        let has_probabilities = !rest.probabilities.is_empty();
        let probabilities = if has_probabilities {
            scores.iter().map(|scores| self.probabilities(scores)).collect()
        } else {
            Vec::new()
        };
        Ok(DecisionBlock {
            first,
            rows: candidates.len(),
            labels: self.card.labels,
            predicted: predicted?,
            thresholds: self.thresholds(),
            candidates: Some(candidates),
            sparse: Some(SparseScores { scores, probabilities, rest }),
            ..DecisionBlock::default()
        })
    }
}

/// Fuses the scores of a label by each part. A single part keeps its scores.
fn fused_score(card: &Composite, label: u32, of_part: impl Fn((usize, &ModelPart)) -> f32) -> f32 {
    let mut scores = card.parts.iter().enumerate().map(of_part);
    match &card.fusion {
        Some(fusion) => fusion.score(label, scores),
        None => scores.next().unwrap_or_default(),
    }
}

/// Returns the predicted labels of a row, which are among its candidates. `default_cut` is for models without cuts.
fn chosen(
    cuts: Option<&Cuts>,
    default_cut: f32,
    all_labels: usize,
    (row, (labels, scores)): (usize, &FusedRow),
) -> Result<Vec<u32>> {
    let above = |cut: &dyn Fn(usize) -> Option<f32>| -> Result<Vec<u32>> {
        if let Some(at) = scores.iter().position(|score| score.is_nan()) {
            return Err(ThresholdError::NotANumber { row, label: labels[at] as usize }.into());
        }
        let scored = labels.iter().zip(scores);
        let above = scored.filter(|&(&label, &score)| cut(label as usize).is_some_and(|cut| score > cut));
        Ok(above.map(|(&label, _)| label).collect())
    };
    match (cuts, cuts.map(Cuts::decision)) {
        (_, Some(Decision::PerLabel { cuts })) => above(&|label| cuts[label]),
        (Some(cuts), _) => {
            let mut whole = vec![f32::NEG_INFINITY; all_labels];
            for (&label, &score) in labels.iter().zip(scores) {
                whole[label as usize] = score;
            }
            Ok(cuts.predict_row(&whole)?)
        }
        (None, _) => above(&|_| Some(default_cut)),
    }
}

/// Returns the best labels of each row by one part.
fn kept_rows(scorer: &mut dyn Scorer, candidates: Candidates, rows: Unlabelled) -> Result<KeptRows> {
    if let Some(search) = scorer.search() {
        let mut found = search.found(rows);
        found.par_iter_mut().for_each(|found| keep_best(found, candidates.keep));
        return Ok(found);
    }
    let labels = scorer.labels();
    let mut scores = vec![0f32; rows.rows.len() * labels];
    scorer.score(rows, &mut scores)?;
    let keep = |row: &[f32]| {
        let mut chosen = Vec::new();
        candidates.of(row, &mut chosen);
        chosen.into_iter().map(|label| (label, row[label as usize])).collect()
    };
    Ok(scores.par_chunks(labels).map(keep).collect())
}
