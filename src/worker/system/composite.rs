//! A model of fitted parts: their scores, fused where there are several, and cut.

use std::path::Path;

use anyhow::{Result, ensure};
use pipe_ml::composite::Composite;
use pipe_ml::data::csr::Csr;
use pipe_ml::data::examples::Unlabelled;
use pipe_ml::explanation::Explanation;
use pipe_ml::score::candidates::Candidates;
use pipe_ml::score::table::{Purpose, ScoreTable, ScoreWriter};
use pipe_ml::score::{Made, Scale};
use pipe_ml::threshold::cuts::{Cuts, Decision};
use rayon::prelude::*;

use super::{Asked, Block, Settings, System, Take, Thresholds};
use crate::engine::pool::pool;
use crate::fit::cross_fit::rows_at_once;
use crate::fit::{self, Scorer};

pub struct Fused {
    pub(super) card: Composite,
    pub(super) scorers: Vec<Box<dyn Scorer>>,
    /// Those that the model was fitted on: for explanations only.
    pub(super) train_labels: Option<Csr>,
    pool: rayon::ThreadPool,
}

/// Scores of some rows by each part, as they enter the sum.
pub(super) struct PartScores {
    pub tables: Vec<Vec<f32>>,
    /// The candidates of each row; `None` where the part keeps all labels.
    pub kept: Vec<Option<Vec<Vec<u32>>>>,
}

/// Scores of some rows, and which labels of each may be predicted: `None` for all.
pub(super) struct Scored {
    pub scores: Vec<f32>,
    pub candidates: Option<Vec<Vec<u32>>>,
}

impl Fused {
    pub fn open(directory: &Path, settings: Settings) -> Result<Self> {
        let card = Composite::load(directory)?;
        let open = |part: &pipe_ml::composite::Part| {
            let place = directory.join(&part.directory);
            let scorer = fit::load(&part.model, &place, settings.device, settings.threads)?;
            let size = (scorer.features(), scorer.labels());
            ensure!(
                size == (card.features, card.labels),
                "{}: it is of {} features and {} labels, its model of {} and {}",
                place.display(),
                size.0,
                size.1,
                card.features,
                card.labels
            );
            Ok(scorer)
        };
        let scorers = card.parts.iter().map(open).collect::<Result<_>>()?;
        let fits =
            |labels: &Csr| card.fusion.as_ref().is_none_or(|fusion| fusion.rows == labels.rows() as u64);
        let train_labels = settings.train.map(|part| part.labels).filter(fits);
        Ok(Self { scorers, card, train_labels, pool: pool(settings.threads)? })
    }

    pub(super) fn check(&self, rows: Unlabelled) -> Result<()> {
        let (model, data) = (self.card.features, rows.features.cols);
        ensure!(
            model == data,
            "the model knows {model} features, the rows have {data}: they are not of the same data set"
        );
        Ok(())
    }

    fn score(&mut self, rows: Unlabelled) -> Result<Scored> {
        let parts = self.parts(rows)?;
        Ok(self.joined(parts))
    }

    pub(super) fn parts(&mut self, rows: Unlabelled) -> Result<PartScores> {
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
                    rows.map(|row| only(candidates, part.rest, row)).collect()
                })
            }));
            tables.push(scores);
        }
        Ok(PartScores { tables, kept })
    }

    pub(super) fn joined(&self, parts: PartScores) -> Scored {
        let (labels, PartScores { mut tables, kept }) = (self.card.labels, parts);
        let entries = tables[0].len();
        let candidates = kept.iter().any(Option::is_some).then(|| union(&kept, entries / labels));
        let scores = match &self.card.fusion {
            None => tables.swap_remove(0),
            Some(fusion) => self.pool.install(|| {
                let place = |at: usize| {
                    let scores = tables.iter().map(|table| table[at]);
                    fusion.score((at % labels) as u32, scores)
                };
                (0..entries).into_par_iter().map(place).collect()
            }),
        };
        Scored { scores, candidates }
    }

    /// Everything of a block but the predictions.
    pub(super) fn block(&self, first: usize, scores: Vec<f32>) -> Block {
        let labels = self.card.labels;
        let probabilities = match self.card.scale() {
            Scale::LogOdds => scores.iter().map(|score| 1.0 / (1.0 + (-score).exp())).collect(),
            Scale::Response | Scale::Share => Vec::new(),
        };
        let thresholds = match self.card.cuts.as_ref().map(Cuts::decision) {
            None => Thresholds::PerLabel(vec![self.plain_cut(); labels]),
            Some(Decision::PerLabel { cuts }) => {
                Thresholds::PerLabel(cuts.iter().map(|cut| cut.unwrap_or(f32::INFINITY)).collect())
            }
            Some(Decision::Ranks { .. } | Decision::Shares { .. }) => Thresholds::None,
        };
        let rows = scores.len() / labels;
        Block { first, rows, labels, scores, probabilities, predicted: Vec::new(), thresholds }
    }

    /// Where a model without cuts is cut.
    fn plain_cut(&self) -> f32 {
        if self.card.scale() == Scale::LogOdds { 0.0 } else { 0.5 }
    }

    pub(super) fn predicted(&self, scored: &Scored) -> Result<Vec<Vec<u32>>> {
        let (labels, cuts, cut) = (self.card.labels, &self.card.cuts, self.plain_cut());
        let rows = scored.scores.par_chunks(labels).enumerate();
        let decide = |(row, scores): (usize, &[f32])| -> Result<Vec<u32>> {
            let masked = scored.candidates.as_ref().map(|candidates| masked(scores, &candidates[row]));
            let scores = masked.as_deref().unwrap_or(scores);
            match cuts {
                Some(cuts) => Ok(cuts.predict_row(scores)?),
                None => Ok((0..labels as u32).filter(|&label| scores[label as usize] > cut).collect()),
            }
        };
        self.pool.install(|| rows.map(decide).collect())
    }

    /// For a rule that decides about all rows together: the scores wait in a file until all are there.
    fn decide_together(&mut self, cuts: &Cuts, rows: Unlabelled, take: Take) -> Result<()> {
        let labels = self.card.labels;
        let (waiting, whole) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let purpose =
            |keep| Purpose { mark: String::new(), labels, scale: Scale::LogOdds, made: Made::Fused {}, keep };
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
        let predicted = cuts.predict(&*writer.finish()?.for_rules()?)?;
        let all: ScoreTable = all.finish()?;
        let size = rows_at_once(labels);
        for first in (0..rows.rows.len()).step_by(size) {
            let end = rows.rows.len().min(first + size);
            let mut scores = vec![0f32; (end - first) * labels];
            scores.chunks_exact_mut(labels).zip(first..).for_each(|(into, row)| all.read_row(row, into));
            let mut block = self.block(first, scores);
            block.predicted = (first..end).map(|row| predicted.row(row).to_vec()).collect();
            take(&block)?;
        }
        Ok(())
    }
}

/// Leaves a row its candidates, which are returned; the others count as `rest`.
fn only(candidates: Candidates, rest: f32, row: &mut [f32]) -> Vec<u32> {
    let mut chosen = Vec::new();
    candidates.of(row, &mut chosen);
    let values: Vec<f32> = chosen.iter().map(|&label| row[label as usize]).collect();
    row.fill(rest);
    chosen.iter().zip(values).for_each(|(&label, value)| row[label as usize] = value);
    chosen
}

fn union(kept: &[Option<Vec<Vec<u32>>>], rows: usize) -> Vec<Vec<u32>> {
    let row = |row: usize| {
        let mut labels: Vec<u32> = kept.iter().flatten().flat_map(|kept| &kept[row]).copied().collect();
        labels.sort_unstable();
        labels.dedup();
        labels
    };
    (0..rows).map(row).collect()
}

fn masked(scores: &[f32], candidates: &[u32]) -> Vec<f32> {
    let mut masked = vec![f32::NEG_INFINITY; scores.len()];
    candidates.iter().for_each(|&label| masked[label as usize] = scores[label as usize]);
    masked
}

impl System for Fused {
    fn features(&self) -> usize {
        self.card.features
    }

    fn labels(&self) -> usize {
        self.card.labels
    }

    fn decide(&mut self, rows: Unlabelled, take: Take) -> Result<()> {
        self.check(rows)?;
        if let Some(cuts) = self.card.cuts.clone()
            && matches!(cuts.decision(), Decision::Shares { .. })
        {
            return self.decide_together(&cuts, rows, take);
        }
        let size = rows_at_once(self.labels());
        for (number, chunk) in rows.rows.chunks(size).enumerate() {
            let scored = self.score(Unlabelled { features: rows.features, rows: chunk })?;
            let predicted = self.predicted(&scored)?;
            let block = Block { predicted, ..self.block(number * size, scored.scores) };
            take(&block)?;
        }
        Ok(())
    }
    fn explain(&mut self, rows: Unlabelled, asked: &Asked) -> Result<Explanation> {
        self.explained(rows, asked)
    }
}
