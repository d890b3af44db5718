//! A composite model as a [`System`]: scores of its fitted parts, fused if there are several, compared with cuts.

use std::path::Path;

use anyhow::{Result, ensure};
use rayon::prelude::*;

use super::{BlockSink, ExplainRequest, LoadPart, System, SystemSettings};
use crate::composite::{Composite, LABEL_RIDGE, ModelPart};
use crate::data::csr::Csr;
use crate::data::examples::Unlabelled;
use crate::explanation::Explanation;
use crate::fusion::Fusion;
use crate::label_ridge::{LabelRidge, Probabilities, probabilities};
use crate::metric::block::{DecisionBlock, Thresholds};
use crate::score::candidates::Candidates;
use crate::score::table::{ScoreTable, ScoreTableSpec, ScoreWriter};
use crate::score::{ScoreOrigin, ScoreScale};
use crate::scorer::{ModelSize, Scorer, rows_at_once};
use crate::threshold::cuts::{Cuts, Decision};

/// A composite model that is ready to predict.
pub(super) struct CompositeSystem {
    /// The contents of `model.json`.
    pub(super) card: Composite,
    pub(super) scorers: Vec<Box<dyn Scorer>>,
    pub(super) label_ridge: Option<LabelRidge>,
    /// The labels of the rows that the model was fitted on. Only explanations read them.
    pub(super) train_labels: Option<Csr>,
    pub(super) pool: rayon::ThreadPool,
}

/// The scores of some rows by each part, as they enter the fusion.
pub(super) struct PartScores {
    /// One row-major table per part, and one of the label ridge, if there is one.
    pub tables: Vec<Vec<f32>>,
    /// For each part, the candidates of each row; `None` if the part keeps all labels.
    pub kept: Vec<Option<Vec<Vec<u32>>>>,
}

/// The fused scores of some rows.
pub(super) struct FusedScores {
    pub scores: Vec<f32>,
    /// The labels of each row that may be predicted; `None` if all may be.
    pub candidates: Option<Vec<Vec<u32>>>,
}

impl CompositeSystem {
    /// Opens a composite model and all of its parts.
    pub(super) fn open(directory: &Path, settings: SystemSettings, load: LoadPart) -> Result<Self> {
        let card = Composite::load(directory)?;
        let size = ModelSize { features: card.features, labels: card.labels };
        if let Some(train) = &settings.train {
            let (features, labels) = (train.features.cols, train.labels.cols);
            ensure!(
                size == ModelSize { features, labels },
                "the model has {} features and {} labels, but the data set has {features} and {labels}: the model was \
                 made from another data set",
                size.features,
                size.labels
            );
        }
        let load_part = |part: &ModelPart| load(&part.model, &directory.join(&part.directory), size);
        let scorers = card.parts.iter().map(load_part).collect::<Result<_>>()?;
        let same_row_count =
            |labels: &Csr| card.fusion.as_ref().is_none_or(|fusion| fusion.rows == labels.rows() as u64);
        let open_ridge = |_: &Fusion| LabelRidge::load(&directory.join(LABEL_RIDGE), card.labels);
        let label_ridge = card.first_fusion.as_ref().map(open_ridge).transpose()?;
        let train_labels = settings.train.map(|part| part.labels).filter(same_row_count);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(settings.threads.max(1)).build()?;
        Ok(Self { scorers, label_ridge, card, train_labels, pool })
    }

    /// Returns an error if the rows do not have the features that the model was fitted on.
    pub(super) fn check(&self, rows: Unlabelled) -> Result<()> {
        let (model, data) = (self.card.features, rows.features.cols);
        ensure!(
            model == data,
            "the model was fitted on {model} features, but the rows have {data}: they are not from the same data set"
        );
        Ok(())
    }

    /// Scores rows and fuses the scores.
    fn score(&mut self, rows: Unlabelled) -> Result<FusedScores> {
        let parts = self.part_scores(rows)?;
        Ok(self.fuse(parts))
    }

    /// Scores the rows by each part, and reduces each part's scores to its candidates.
    pub(super) fn part_scores(&mut self, rows: Unlabelled) -> Result<PartScores> {
        let labels = self.card.labels;
        let mut tables: Vec<Vec<f32>> = Vec::new();
        let mut kept: Vec<Option<Vec<Vec<u32>>>> = Vec::new();
        for (scorer, part) in self.scorers.iter_mut().zip(&self.card.parts) {
            let mut scores = vec![0f32; rows.rows.len() * labels];
            self.pool.install(|| scorer.score(rows, &mut scores))?;
            let candidates = part.keep.map(|keep| Candidates { keep, scale: part.model.scale() });
            kept.push(candidates.map(|candidates| {
                self.pool.install(|| {
                    let rows = scores.par_chunks_mut(labels);
                    rows.map(|row| keep_candidates(candidates, part.rest, row)).collect()
                })
            }));
            tables.push(scores);
        }
        if let (Some(first), Some(ridge)) = (&self.card.first_fusion, &self.label_ridge) {
            let count = rows.rows.len();
            let found = kept.iter().any(Option::is_some).then(|| union(&kept, count));
            let mut scores = vec![0f32; count * labels];
            self.pool.install(|| {
                scores.par_chunks_mut(labels).enumerate().for_each(|(row, into)| {
                    let score = |part: usize, label: u32| tables[part][row * labels + label as usize];
                    let candidates = found.as_ref().map(|found| found[row].as_slice());
                    ridge.score(&first_probabilities(first, candidates, score), into);
                });
            });
            tables.push(scores);
        }
        Ok(PartScores { tables, kept })
    }

    /// Fuses the scores of the parts; a single part keeps its scores.
    pub(super) fn fuse(&self, parts: PartScores) -> FusedScores {
        let (labels, PartScores { mut tables, kept }) = (self.card.labels, parts);
        let entries = tables[0].len();
        let sparse = kept.iter().any(Option::is_some);
        let candidates = sparse.then(|| self.pool.install(|| union(&kept, entries / labels)));
        let scores = match &self.card.fusion {
            None => tables.swap_remove(0),
            Some(fusion) => self.pool.install(|| {
                let fused_score = |at: usize| {
                    let scores = tables.iter().map(|table| table[at]);
                    fusion.score((at % labels) as u32, scores)
                };
                (0..entries).into_par_iter().map(fused_score).collect()
            }),
        };
        FusedScores { scores, candidates }
    }

    /// Returns a block with scores, probabilities and thresholds, and no predictions yet.
    pub(super) fn block(&self, first: usize, scores: Vec<f32>) -> DecisionBlock {
        let labels = self.card.labels;
        let probabilities = match self.card.scale() {
            ScoreScale::LogOdds => {
                self.pool.install(|| scores.par_iter().copied().map(probability).collect())
            }
            ScoreScale::Response | ScoreScale::Share | ScoreScale::Probability => Vec::new(),
        };
        let thresholds = self.thresholds();
        let rows = scores.len() / labels;
        DecisionBlock { first, rows, labels, scores, probabilities, thresholds, ..DecisionBlock::default() }
    }

    /// Returns what the score of each label must exceed.
    pub(super) fn thresholds(&self) -> Thresholds {
        match self.card.cuts.as_ref().map(Cuts::decision) {
            None => Thresholds::PerLabel(vec![self.default_cut(); self.card.labels]),
            Some(Decision::PerLabel { cuts }) => {
                Thresholds::PerLabel(cuts.iter().map(|cut| cut.unwrap_or(f32::INFINITY)).collect())
            }
            Some(Decision::Ranks { .. } | Decision::Shares { .. } | Decision::RankInScore { .. }) => {
                Thresholds::None
            }
        }
    }

    /// Returns the cut of a model that has no fitted cuts.
    pub(super) fn default_cut(&self) -> f32 {
        if self.card.scale() == ScoreScale::LogOdds { 0.0 } else { 0.5 }
    }

    /// Returns the predicted labels of each row.
    pub(super) fn predicted(&self, scored: &FusedScores) -> Result<Vec<Vec<u32>>> {
        let (labels, cuts, cut) = (self.card.labels, &self.card.cuts, self.default_cut());
        let rows = scored.scores.par_chunks(labels).enumerate();
        let decide = |(row, scores): (usize, &[f32])| -> Result<Vec<u32>> {
            let masked = scored.candidates.as_ref().map(|candidates| mask_others(scores, &candidates[row]));
            let scores = masked.as_deref().unwrap_or(scores);
            match cuts {
                Some(cuts) => Ok(cuts.predict_row(scores)?),
                None => Ok((0..labels as u32).filter(|&label| scores[label as usize] > cut).collect()),
            }
        };
        self.pool.install(|| rows.map(decide).collect())
    }

    /// Decides by a rule that looks at all rows together. The scores wait in a temporary file until all rows
    /// are scored.
    fn decide_together(&mut self, cuts: &Cuts, rows: Unlabelled, take: BlockSink) -> Result<()> {
        let labels = self.card.labels;
        let (waiting, whole) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let purpose = |keep| ScoreTableSpec {
            mark: String::new(),
            labels,
            scale: ScoreScale::LogOdds,
            made: ScoreOrigin::Fused {},
            keep,
        };
        let sparse = self.card.parts.iter().any(|part| part.keep.is_some());
        let mut writer = ScoreWriter::create(waiting.path(), purpose(sparse.then_some(labels)))?;
        let mut all = ScoreWriter::create(whole.path(), purpose(None))?;
        for chunk in rows.rows.chunks(rows_at_once(labels)) {
            let scored = self.score(Unlabelled { features: rows.features, rows: chunk })?;
            for (row, scores) in scored.scores.chunks_exact(labels).enumerate() {
                all.push(scores)?;
                match &scored.candidates {
                    None => writer.push_kept(&[], scores)?,
                    Some(candidates) => {
                        let kept = candidates[row].iter().map(|&label| scores[label as usize]);
                        writer.push_kept(&candidates[row], &kept.collect::<Vec<_>>())?;
                    }
                }
            }
        }
        let kept: ScoreTable = writer.finish()?;
        let predicted = cuts.predict(&*kept.for_rules()?)?;
        let all: ScoreTable = all.finish()?;
        let size = rows_at_once(labels);
        for first in (0..rows.rows.len()).step_by(size) {
            let end = rows.rows.len().min(first + size);
            let mut scores = vec![0f32; (end - first) * labels];
            for (into, row) in scores.chunks_exact_mut(labels).zip(first..) {
                all.read_row(row, into);
            }
            let mut block = self.block(first, scores);
            block.predicted = (first..end).map(|row| predicted.row(row).to_vec()).collect();
            block.candidates = (first..end).map(|row| kept.kept(row).map(<[u32]>::to_vec)).collect();
            take(&block)?;
        }
        Ok(())
    }
}

/// Returns the probability of log-odds.
pub(super) fn probability(score: f32) -> f32 {
    1.0 / (1.0 + (-score).exp())
}

/// Keeps the scores of a row's candidates, sets all others to `rest`, and returns the candidates.
fn keep_candidates(candidates: Candidates, rest: f32, row: &mut [f32]) -> Vec<u32> {
    let mut chosen = Vec::new();
    candidates.of(row, &mut chosen);
    let values: Vec<f32> = chosen.iter().map(|&label| row[label as usize]).collect();
    row.fill(rest);
    for (&label, value) in chosen.iter().zip(values) {
        row[label as usize] = value;
    }
    chosen
}

/// Returns the probabilities that the fusion of the parts gives to the candidates of a row, or to all labels. `score` is the score of a
/// part for a label.
pub(super) fn first_probabilities(
    first: &Fusion,
    candidates: Option<&[u32]>,
    score: impl Fn(usize, u32) -> f32,
) -> Probabilities {
    let log_odds =
        |label: u32| (label, first.score(label, (0..first.terms.len()).map(|part| score(part, label))));
    match candidates {
        Some(labels) => probabilities(labels.iter().copied().map(log_odds)),
        None => probabilities((0..first.labels() as u32).map(log_odds)),
    }
}

/// Returns the labels of each row that are a candidate of at least one part.
fn union(kept: &[Option<Vec<Vec<u32>>>], rows: usize) -> Vec<Vec<u32>> {
    let row_union = |row: usize| {
        let mut labels: Vec<u32> = kept.iter().flatten().flat_map(|kept| &kept[row]).copied().collect();
        labels.sort_unstable();
        labels.dedup();
        labels
    };
    (0..rows).into_par_iter().map(row_union).collect()
}

/// Returns the scores with minus infinity for every label that is not a candidate.
fn mask_others(scores: &[f32], candidates: &[u32]) -> Vec<f32> {
    let mut masked = vec![f32::NEG_INFINITY; scores.len()];
    for &label in candidates {
        masked[label as usize] = scores[label as usize];
    }
    masked
}

impl System for CompositeSystem {
    fn features(&self) -> usize {
        self.card.features
    }

    fn labels(&self) -> usize {
        self.card.labels
    }

    fn decide(&mut self, rows: Unlabelled, take: BlockSink) -> Result<()> {
        self.check(rows)?;
        if self.decides_together()
            && let Some(cuts) = self.card.cuts.clone()
        {
            return self.decide_together(&cuts, rows, take);
        }
        if self.is_sparse() {
            return self.decide_sparse(rows, take);
        }
        let size = rows_at_once(self.labels());
        for (number, chunk) in rows.rows.chunks(size).enumerate() {
            let scored = self.score(Unlabelled { features: rows.features, rows: chunk })?;
            let predicted = self.predicted(&scored)?;
            let candidates = scored.candidates;
            let block = DecisionBlock { predicted, candidates, ..self.block(number * size, scored.scores) };
            take(&block)?;
        }
        Ok(())
    }

    fn decides_together(&self) -> bool {
        matches!(self.card.cuts.as_ref().map(Cuts::decision), Some(Decision::Shares { .. }))
    }

    fn explain(&mut self, rows: Unlabelled, request: &ExplainRequest) -> Result<Explanation> {
        self.explained(rows, request)
    }
}
