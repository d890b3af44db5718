//! [`Ceiling`]: decisions by the best possible cuts, which are chosen by the labels of the very rows that are decided about.

use std::ops::Range;

use anyhow::{Context, Result, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::ThresholdError;
use super::rule::{Objective, Rule};
use super::scores::{DenseScores, ScoreLayout, Scores};
use crate::data::artifact::DenseWriter;
use crate::data::csr::Csr;
use crate::metric::block::{DecisionBlock, Thresholds};
use crate::scorer::rows_at_once;
use crate::system::BlockSink;

/// The metric that the best possible cuts reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ceiling {
    /// The highest mean of the F1 of all labels.
    Macro,
    /// The highest F1 of all decisions pooled.
    Micro,
}

impl Ceiling {
    fn objective(self) -> Objective {
        match self {
            Self::Macro => Objective::Macro,
            Self::Micro => Objective::Micro,
        }
    }
}

/// The scores of all evaluated rows. They wait in a temporary file until the cuts are known.
pub struct CeilingScores {
    directory: tempfile::TempDir,
    writer: DenseWriter,
}

impl CeilingScores {
    /// Creates the file.
    pub fn create(labels: usize) -> Result<Self> {
        let directory =
            tempfile::tempdir().context("cannot create a directory for the scores of the ceiling")?;
        let writer = DenseWriter::create(&directory.path().join("scores"), labels)?;
        Ok(Self { directory, writer })
    }

    /// Adds the scores of a model. If each entry has its own threshold, the thresholds are part of the model's output, and
    /// the margins are the scores.
    pub fn add(&mut self, block: &DecisionBlock) -> Result<()> {
        let is_scored = block.has_scores() || block.rows * block.labels == 0;
        ensure!(is_scored, "predictions without scores have no ceiling: leave `ceiling` out, or give scores");
        for row in 0..block.rows {
            let mut scores = block.ranking(row).into_owned();
            for (label, score) in scores.iter_mut().enumerate() {
                if score.is_nan() {
                    return Err(ThresholdError::NotANumber { row: block.first + row, label }.into());
                }
                if *score == f32::NEG_INFINITY || !block.is_candidate(row, label as u32) {
                    *score = UNREACHABLE;
                }
            }
            self.writer.append(&scores)?;
        }
        Ok(())
    }

    /// Chooses the cuts by the labels of the rows, and passes the decisions of these cuts to `take`.
    pub fn decide(
        self,
        ceiling: Ceiling,
        truth: &Csr,
        threads: &rayon::ThreadPool,
        take: BlockSink,
    ) -> Result<()> {
        let matrix = self.writer.finish()?;
        let (rows, labels) = (truth.rows(), truth.cols);
        let dense = DenseScores::new(rows, labels, ScoreLayout::RowMajor, matrix.values);
        let scores = HeldScores(dense.context("the ceiling needs a score for each evaluated row and label")?);
        let fitted = threads.install(|| {
            let cuts = Rule::Scut {}.fit(&scores, truth, ceiling.objective())?;
            let predicted = cuts.predict(&scores)?;
            anyhow::Ok((cuts, predicted))
        });
        let (cuts, predicted) = fitted?;
        let cuts: Vec<f32> = (0..labels).map(|label| cuts.cut(label).unwrap_or(f32::INFINITY)).collect();
        let size = rows_at_once(labels);
        for first in (0..rows).step_by(size) {
            let end = rows.min(first + size);
            let mut block = DecisionBlock { first, rows: end - first, labels, ..DecisionBlock::default() };
            block.scores.resize(block.rows * labels, 0.0);
            scores.read_rows(first..end, &mut block.scores);
            block.predicted = (first..end).map(|row| predicted.row(row).to_vec()).collect();
            block.thresholds = Thresholds::PerLabel(cuts.clone());
            take(&block)?;
        }
        drop(self.directory);
        Ok(())
    }
}

/// Stands for minus infinity in the file, which has only finite numbers: the score of a label that cannot be predicted.
const UNREACHABLE: f32 = f32::MIN;

/// The scores of the file, with minus infinity for labels that cannot be predicted.
struct HeldScores(DenseScores);

impl Scores for HeldScores {
    fn rows(&self) -> usize {
        self.0.rows()
    }

    fn labels(&self) -> usize {
        self.0.labels()
    }

    fn read_labels(&self, labels: Range<usize>, into: &mut [f32]) {
        self.0.read_labels(labels, into);
        restore(into);
    }

    fn read_rows(&self, rows: Range<usize>, into: &mut [f32]) {
        self.0.read_rows(rows, into);
        restore(into);
    }
}

fn restore(scores: &mut [f32]) {
    for score in scores {
        if *score == UNREACHABLE {
            *score = f32::NEG_INFINITY;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::metric::counts::Counts;
    use crate::metric::label::Tally;

    const LABELS: usize = 3;

    /// Rows of (score, threshold, true, candidate) per label.
    type Rows = Vec<Vec<(f32, f32, bool, bool)>>;

    fn rows() -> impl Strategy<Value = Rows> {
        let quarters = || (-6..7i8).prop_map(|quarters| f32::from(quarters) / 4.0);
        let entry = (quarters(), quarters(), prop::bool::weighted(0.4), prop::bool::weighted(0.8));
        prop::collection::vec(prop::collection::vec(entry, LABELS), 1..5)
    }

    fn csr(rows: &[Vec<u32>]) -> Csr {
        let ends = rows.iter().scan(0, |end, row| {
            *end += row.len() as u64;
            Some(*end)
        });
        let indptr: Vec<u64> = std::iter::once(0).chain(ends).collect();
        Csr { cols: LABELS, indptr: indptr.into(), indices: rows.concat().into(), values: vec![].into() }
    }

    fn labels_with(
        row: &[(f32, f32, bool, bool)],
        has: impl Fn(&(f32, f32, bool, bool)) -> bool,
    ) -> Vec<u32> {
        (0..LABELS as u32).filter(|&label| has(&row[label as usize])).collect()
    }

    fn truth(rows: &Rows) -> Csr {
        csr(&rows.iter().map(|row| labels_with(row, |entry| entry.2)).collect::<Vec<_>>())
    }

    fn block(rows: &Rows, per_entry: bool) -> DecisionBlock {
        let all = || rows.iter().flatten();
        DecisionBlock {
            rows: rows.len(),
            labels: LABELS,
            scores: all().map(|entry| entry.0).collect(),
            thresholds: if per_entry {
                Thresholds::PerEntry(all().map(|entry| entry.1).collect())
            } else {
                Thresholds::None
            },
            candidates: Some(rows.iter().map(|row| labels_with(row, |entry| entry.3)).collect()),
            ..DecisionBlock::default()
        }
    }

    fn value(ceiling: Ceiling, truth: &Csr, predicted: &Csr) -> f64 {
        let tally = Tally::over(Counts::of(truth, predicted).unwrap().iter());
        match ceiling {
            Ceiling::Macro => tally.macro_f1(),
            Ceiling::Micro => tally.micro_f1(),
        }
    }

    /// Returns the best value of all combinations of cuts, tried one by one.
    fn best(ceiling: Ceiling, rows: &Rows, per_entry: bool) -> f64 {
        let score = |entry: &(f32, f32, bool, bool)| entry.0 - if per_entry { entry.1 } else { 0.0 };
        let mut cuts: Vec<f32> = rows.iter().flatten().map(score).collect();
        cuts.push(-100.0);
        cuts.sort_by(f32::total_cmp);
        cuts.dedup();
        let mut best = 0f64;
        for combination in 0..cuts.len().pow(LABELS as u32) {
            let cut = |label: usize| cuts[combination / cuts.len().pow(label as u32) % cuts.len()];
            let predicted = rows.iter().map(|row| {
                let above = |&label: &u32| {
                    let entry = &row[label as usize];
                    entry.3 && score(entry) > cut(label as usize)
                };
                (0..LABELS as u32).filter(above).collect()
            });
            let predicted: Vec<Vec<u32>> = predicted.collect();
            best = best.max(value(ceiling, &truth(rows), &csr(&predicted)));
        }
        best
    }

    fn reached(ceiling: Ceiling, rows: &Rows, per_entry: bool) -> f64 {
        let threads = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let mut scores = CeilingScores::create(LABELS).unwrap();
        scores.add(&block(rows, per_entry)).unwrap();
        let mut predicted = Vec::new();
        let take: BlockSink = &mut |block| {
            predicted.extend(block.predicted.clone());
            Ok(())
        };
        scores.decide(ceiling, &truth(rows), &threads, take).unwrap();
        value(ceiling, &truth(rows), &csr(&predicted))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..Default::default() })]

        #[test]
        fn no_cuts_on_these_scores_are_better_than_the_ceiling(rows in rows(), per_entry in any::<bool>()) {
            for ceiling in [Ceiling::Macro, Ceiling::Micro] {
                let (reached, best) = (reached(ceiling, &rows, per_entry), best(ceiling, &rows, per_entry));
                prop_assert!((reached - best).abs() < 1e-9, "{reached} {best}");
            }
        }
    }

    #[test]
    fn decisions_without_scores_have_no_ceiling() {
        let decisions = DecisionBlock { rows: 1, labels: LABELS, ..DecisionBlock::default() };
        let error = CeilingScores::create(LABELS).unwrap().add(&decisions).unwrap_err();
        assert!(error.to_string().contains("without scores"), "{error}");
    }
}
