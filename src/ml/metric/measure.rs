//! [`Measure`], which computes all metrics and curves of a model's decisions, block by block.
//!
//! Memory is bounded by one block and a few numbers per label. The result does not depend on the number of threads.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::block::{DecisionBlock, Thresholds};
use super::calibration::NotAProbability;
use super::counts::Counts;
use super::curves::Curves;
use super::evaluation::{Evaluation, Evaluator, NotFinite, TrainingCounts};
use super::label::LabelRecord;
use super::marked::Protocol;
use super::ranking::DEPTH;
use super::registry::Metric;
use super::rest::Rest;
use super::threshold_bins::ThresholdBins;
use super::top::{NotANumber, Top};
use super::tradeoff::Tradeoff;

/// The error for scores, probabilities or losses that cannot be measured.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MeasureError {
    #[error("row {row}: the score of label {label} is not a number; look at the training history")]
    NotANumber { row: usize, label: usize },
    #[error("row {row}: {source}")]
    NotAProbability { row: usize, source: NotAProbability },
    #[error(transparent)]
    NotFinite(#[from] NotFinite),
}

/// Collects decisions block by block, on all threads.
pub struct Measure {
    parts: Vec<MeasurePart>,
    tradeoff: Tradeoff,
    /// The scores of all labels but the candidates of each row, and their thresholds. They are counted when the number of rows
    /// is known.
    rest: Option<RestOfRows>,
    /// Whether the first block has come, from which the bins of thresholds are chosen.
    begun: bool,
}

/// What all rows with sparse scores have in common.
struct RestOfRows {
    rest: Arc<Rest>,
    thresholds: Option<Vec<f32>>,
}

/// The sums over the rows that one thread has seen.
#[derive(Clone)]
struct MeasurePart {
    evaluator: Evaluator,
    top: Top,
    /// The number of rows with sparse scores.
    sparse_rows: u64,
    /// For each label, of how many of these rows it is a candidate.
    candidate_of: Vec<u64>,
    thresholds: Option<ThresholdBins>,
    /// The smallest and the largest threshold of each label.
    span: Vec<(f32, f32)>,
}

impl Measure {
    /// Creates a measure that has seen no rows.
    pub fn new(labels: usize, training: Option<TrainingCounts>) -> Self {
        let part = MeasurePart {
            evaluator: Evaluator::new(labels, training),
            top: Top::new(DEPTH),
            sparse_rows: 0,
            candidate_of: Vec::new(),
            thresholds: None,
            span: vec![(f32::INFINITY, f32::NEG_INFINITY); labels],
        };
        let parts = vec![part; rayon::current_num_threads().max(1)];
        Self { parts, tradeoff: Tradeoff::new(labels), rest: None, begun: false }
    }

    /// Adds a block of decisions. `truth` has one ascending list of labels per row of the block. Blocks must
    /// be added in the order of the rows.
    pub fn add(&mut self, block: &DecisionBlock, truth: &[&[u32]]) -> Result<(), MeasureError> {
        if !self.begun && block.rows > 0 {
            self.begun = true;
            let different = if matches!(block.thresholds, Thresholds::PerEntry(_)) { block.rows } else { 1 };
            let all = (0..different).filter_map(|row| block.row_thresholds(row)).flatten();
            let bins = ThresholdBins::spanning(all);
            for part in &mut self.parts {
                part.thresholds = bins.clone();
            }
        }
        if let Some(sparse) = &block.sparse
            && !self.rest.as_ref().is_some_and(|known| Arc::ptr_eq(&known.rest, &sparse.rest))
        {
            self.count_rest();
            let thresholds = block.row_thresholds(0).map(<[f32]>::to_vec);
            self.rest = Some(RestOfRows { rest: sparse.rest.clone(), thresholds });
        }
        let share = block.rows.div_ceil(self.parts.len()).max(1);
        self.parts.par_iter_mut().enumerate().try_for_each(|(number, part)| {
            let mut rows = block.rows.min(number * share)..block.rows.min((number + 1) * share);
            part.add_thresholds(block, rows.clone());
            rows.try_for_each(|row| part.add(block, row, truth[row]))
        })?;
        self.tradeoff.add(block, truth);
        Ok(())
    }

    /// Adds the labels that are no candidates of the rows with sparse scores.
    fn count_rest(&mut self) {
        let Some(RestOfRows { rest, thresholds }) = self.rest.take() else { return };
        let rows: u64 = self.parts.iter_mut().map(|part| std::mem::take(&mut part.sparse_rows)).sum();
        let mut times = vec![rows; rest.scores.len()];
        for part in &mut self.parts {
            for (times, candidate_of) in times.iter_mut().zip(std::mem::take(&mut part.candidate_of)) {
                *times -= candidate_of;
            }
        }
        self.parts[0].evaluator.add_rest(&rest.probabilities, &times);
        if let Some(thresholds) = thresholds {
            self.tradeoff.add_rest(&rest.scores, &thresholds, &times);
            self.parts[0].add_same_thresholds(&thresholds, rows);
        }
    }

    /// Adds a loss of the last block; see [`Evaluator::add_loss`].
    pub fn add_loss(&mut self, metric: Metric, sum: f64, terms: u64) -> Result<(), NotFinite> {
        self.parts[0].evaluator.add_loss(metric, sum, terms)
    }

    /// Combines what all threads have seen.
    pub fn finish(mut self, protocol: Protocol) -> Measurements {
        self.count_rest();
        let mut whole = self.parts.swap_remove(0);
        for part in &self.parts {
            whole.merge(part);
        }
        Measurements { protocol, whole, tradeoff: self.tradeoff }
    }
}

impl MeasurePart {
    /// Adds the thresholds of some rows of a block. Those of rows with sparse scores are counted later.
    fn add_thresholds(&mut self, block: &DecisionBlock, rows: Range<usize>) {
        match &block.thresholds {
            Thresholds::PerLabel(thresholds) if block.sparse.is_none() && !rows.is_empty() => {
                self.add_same_thresholds(thresholds, rows.len() as u64);
            }
            Thresholds::PerEntry(_) => {
                for thresholds in rows.filter_map(|row| block.row_thresholds(row)) {
                    self.add_same_thresholds(thresholds, 1);
                }
            }
            Thresholds::PerLabel(_) | Thresholds::None => {}
        }
    }

    /// Adds rows with the same threshold of every label.
    fn add_same_thresholds(&mut self, thresholds: &[f32], rows: u64) {
        if let Some(bins) = &mut self.thresholds {
            bins.add(thresholds, rows);
        }
        for (span, &threshold) in self.span.iter_mut().zip(thresholds) {
            *span = (span.0.min(threshold), span.1.max(threshold));
        }
    }

    /// Adds a row to everything but the tradeoff, without its thresholds.
    fn add(&mut self, block: &DecisionBlock, row: usize, truth: &[u32]) -> Result<(), MeasureError> {
        let number = block.first + row;
        self.evaluator.add_decisions(truth, &block.predicted[row]);
        if let (Some(bins), Some(thresholds)) = (&mut self.thresholds, block.row_thresholds(row)) {
            bins.add_truth(truth, thresholds);
        }
        let not_a_number = |bad: NotANumber| MeasureError::NotANumber { row: number, label: bad.label };
        let not_a_probability = |source| MeasureError::NotAProbability { row: number, source };
        if let Some(sparse) = &block.sparse {
            let candidates = block.row_candidates(row);
            let ranked = self.ranked_with_rest(candidates, &sparse.scores[row], &sparse.rest);
            let ranked = ranked.map_err(not_a_number)?;
            self.evaluator.add_ranking(truth, &ranked);
            self.sparse_rows += 1;
            self.candidate_of.resize(block.labels, 0);
            for &label in candidates {
                self.candidate_of[label as usize] += 1;
            }
            if let Some(own) = sparse.probabilities.get(row) {
                let added = self.evaluator.add_candidates(truth, candidates, own, &sparse.rest.probabilities);
                added.map_err(not_a_probability)?;
            }
            return Ok(());
        }
        if block.has_scores() {
            let ranked = match (&block.thresholds, block.margins(row)) {
                (Thresholds::PerEntry(_), Some(margins)) => self.top.of((0..).zip(margins).filter(is_scored)),
                _ => self.top.of((0..).zip(block.row_scores(row).iter().copied()).filter(is_scored)),
            };
            self.evaluator.add_ranking(truth, ranked.map_err(not_a_number)?);
        }
        let probabilities = block.row_probabilities(row);
        if !probabilities.is_empty() {
            self.evaluator.add_probabilities(truth, &probabilities).map_err(not_a_probability)?;
        }
        Ok(())
    }

    /// Returns the labels of a row with the highest scores, best first.
    fn ranked_with_rest(
        &mut self,
        candidates: &[u32],
        scores: &[f32],
        rest: &Rest,
    ) -> Result<Vec<u32>, NotANumber> {
        let scored = candidates.iter().copied().zip(scores.iter().copied());
        let best = self.top.of(scored.filter(is_scored))?.to_vec();
        let mut best: Vec<(u32, f32)> = best.into_iter().zip(self.top.scores()).collect();
        best.extend(rest.best_without(candidates).take(DEPTH).filter(is_scored));
        best.sort_unstable_by_key(|&(label, _)| label);
        Ok(self.top.of(best)?.to_vec())
    }

    fn merge(&mut self, other: &Self) {
        self.evaluator.merge(&other.evaluator);
        if let (Some(bins), Some(other)) = (&mut self.thresholds, &other.thresholds) {
            bins.merge(other);
        }
        for (span, other) in self.span.iter_mut().zip(&other.span) {
            *span = (span.0.min(other.0), span.1.max(other.1));
        }
    }
}

/// Returns whether a label takes part in the ranking: a program may score only some labels.
fn is_scored(&(_, score): &(u32, f32)) -> bool {
    score != f32::NEG_INFINITY
}

/// The result of a [`Measure`], under one protocol.
pub struct Measurements {
    protocol: Protocol,
    whole: MeasurePart,
    tradeoff: Tradeoff,
}

impl Measurements {
    /// Returns the metrics.
    pub fn evaluation(&self) -> Evaluation {
        self.whole.evaluator.finish(self.protocol)
    }

    /// Returns the counts of the decisions.
    pub fn counts(&self) -> &Counts {
        self.whole.evaluator.counts()
    }

    /// Returns the record of every label. Its threshold is given if it was finite and the same in every row.
    pub fn label_records(&self) -> Vec<LabelRecord> {
        let threshold = |label: usize| {
            let (least, most) = self.whole.span[label];
            (least == most && least.is_finite()).then_some(least)
        };
        self.whole.evaluator.label_records(threshold)
    }

    /// Returns the data of the figures.
    pub fn curves(&self) -> Curves {
        Curves {
            protocol: self.protocol,
            reliability: self.whole.evaluator.reliability(),
            tradeoff: self.tradeoff.curve(),
            thresholds: self.whole.thresholds.as_ref().map(ThresholdBins::histogram),
            by_frequency: self.whole.evaluator.by_frequency(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::block::SparseScores;
    use super::super::label::Tally;
    use super::super::propensity::Propensity;
    use super::*;
    use crate::system::cross_entropy;

    const LABELS: usize = 6;

    /// Rows of (true, score, threshold) per label; some scores are equal to their threshold.
    fn rows() -> impl Strategy<Value = Vec<Vec<(bool, f32, f32)>>> {
        let eighths = |range: std::ops::Range<i32>| range.prop_map(|eighths| eighths as f32 / 8.0);
        let entry = (any::<bool>(), eighths(-40..40), eighths(-8..8));
        prop::collection::vec(prop::collection::vec(entry, LABELS), 1..12)
    }

    fn truth_of(row: &[(bool, f32, f32)]) -> Vec<u32> {
        (0..LABELS as u32).filter(|&label| row[label as usize].0).collect()
    }

    fn block(first: usize, rows: &[Vec<(bool, f32, f32)>]) -> DecisionBlock {
        let all = || rows.iter().flatten();
        let predicted = |row: &Vec<(bool, f32, f32)>| {
            (0..LABELS as u32).filter(|&l| row[l as usize].1 > row[l as usize].2).collect()
        };
        DecisionBlock {
            first,
            rows: rows.len(),
            labels: LABELS,
            scores: all().map(|entry| entry.1).collect(),
            probabilities: all().map(|entry| 1.0 / (1.0 + (entry.2 - entry.1).exp())).collect(),
            predicted: rows.iter().map(predicted).collect(),
            thresholds: Thresholds::PerEntry(all().map(|entry| entry.2).collect()),
            candidates: None,
            sparse: None,
        }
    }

    fn measured(rows: &[Vec<(bool, f32, f32)>], size: usize, threads: usize) -> Measurements {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let positives = vec![3, 0, 7, 50, 500, 5000];
            let training = TrainingCounts { rows: 9000, positives, propensity: Propensity::default() };
            let mut measure = Measure::new(LABELS, Some(training));
            for (number, rows) in rows.chunks(size).enumerate() {
                let truth: Vec<Vec<u32>> = rows.iter().map(|row| truth_of(row)).collect();
                let truth: Vec<&[u32]> = truth.iter().map(Vec::as_slice).collect();
                measure.add(&block(number * size, rows), &truth).unwrap();
            }
            measure.finish(Protocol::Honest)
        })
    }

    proptest! {
        #[test]
        fn shifted_thresholds_give_the_same_counts_as_new_decisions(rows in rows()) {
            let measured = measured(&rows, 5, 2);
            for shifted in measured.curves().tradeoff {
                let mut counts = Counts::new(LABELS);
                for row in &rows {
                    let above = |l: u32| f64::from(row[l as usize].1) > f64::from(row[l as usize].2) + shifted.shift;
                    let predicted: Vec<u32> = (0..LABELS as u32).filter(|&label| above(label)).collect();
                    counts.add(&truth_of(row), &predicted);
                }
                let tally = Tally::over(counts.iter());
                let values: BTreeMap<Metric, f64> = tally.values(counts.rows()).into();
                prop_assert_eq!(shifted.macro_f1, tally.macro_f1(), "shift {}", shifted.shift);
                prop_assert_eq!([shifted.micro_f1, shifted.micro_precision, shifted.micro_recall], [Metric::MicroF1, Metric::MicroPrecision, Metric::MicroRecall].map(|metric| values[&metric]));
            }
            let as_is = measured.curves().tradeoff.into_iter().find(|shifted| shifted.shift == 0.0).unwrap();
            prop_assert_eq!(Some(as_is.macro_f1), measured.evaluation().get(Metric::MacroF1).unwrap().honest());
        }

        #[test]
        fn sparse_scores_are_measured_like_the_same_scores_of_all_labels(rows in rows(), kept in 0..5u32) {
            // Labels that are no candidates have the score, the threshold and the probability of the first row.
            let rest: Vec<(f32, f32)> = rows[0].iter().map(|entry| (entry.1, entry.2)).collect();
            let is_candidate = |row: usize, label: usize| (row + label) as u32 % 5 < kept;
            let rows: Vec<Vec<(bool, f32, f32)>> = rows.iter().enumerate().map(|(at, row)| {
                let entry = |label: usize| {
                    let score = if is_candidate(at, label) { row[label].1 } else { rest[label].0 };
                    (row[label].0, score, rest[label].1)
                };
                (0..LABELS).map(entry).collect()
            }).collect();
            let per_label = |rows: &[Vec<(bool, f32, f32)>], first| DecisionBlock {
                thresholds: Thresholds::PerLabel(rest.iter().map(|rest| rest.1).collect()),
                ..block(first, rows)
            };
            let probability = |(score, threshold): (f32, f32)| 1.0 / (1.0 + (threshold - score).exp());
            let shared = Arc::new(Rest::new(
                rest.iter().map(|rest| rest.0).collect(),
                rest.iter().copied().map(probability).collect(),
            ));
            let sparse = |rows: &[Vec<(bool, f32, f32)>], first| {
                let dense = per_label(rows, first);
                let candidates: Vec<Vec<u32>> = (0..rows.len()).map(|row| {
                    (0..LABELS as u32).filter(|&label| is_candidate(first + row, label as usize)).collect()
                }).collect();
                let chosen = |values: &[f32]| candidates.iter().enumerate().map(|(row, labels)| {
                    labels.iter().map(|&label| values[row * LABELS + label as usize]).collect()
                }).collect();
                let (scores, probabilities) = (chosen(&dense.scores), chosen(&dense.probabilities));
                DecisionBlock {
                    scores: Vec::new(),
                    probabilities: Vec::new(),
                    candidates: Some(candidates.clone()),
                    sparse: Some(SparseScores { scores, probabilities, rest: shared.clone() }),
                    ..dense
                }
            };
            let truth: Vec<Vec<u32>> = rows.iter().map(|row| truth_of(row)).collect();
            let truth: Vec<&[u32]> = truth.iter().map(Vec::as_slice).collect();
            let measured = |is_sparse: bool| {
                let positives = vec![3, 0, 7, 50, 500, 5000];
                let training = TrainingCounts { rows: 9000, positives, propensity: Propensity::default() };
                let mut measure = Measure::new(LABELS, Some(training));
                let mut losses = Vec::new();
                for (number, rows) in rows.chunks(4).enumerate() {
                    let first = number * 4;
                    let block = if is_sparse { sparse(rows, first) } else { per_label(rows, first) };
                    let truth = &truth[first..first + rows.len()];
                    measure.add(&block, truth).unwrap();
                    losses.push(cross_entropy(&block, truth));
                }
                (measure.finish(Protocol::Honest), losses)
            };
            let ((dense, dense_losses), (sparse, sparse_losses)) = (measured(false), measured(true));
            prop_assert_eq!(dense.evaluation(), sparse.evaluation());
            prop_assert_eq!(dense.curves(), sparse.curves());
            prop_assert_eq!(dense.label_records(), sparse.label_records());
            prop_assert_eq!(dense_losses, sparse_losses);
        }

        #[test]
        fn the_result_does_not_depend_on_the_number_of_threads(rows in rows()) {
            let (one, three) = (measured(&rows, 4, 1), measured(&rows, 4, 3));
            prop_assert_eq!(one.evaluation(), three.evaluation());
            prop_assert_eq!(one.curves(), three.curves());
            prop_assert_eq!(one.label_records(), three.label_records());
        }

        #[test]
        fn the_bins_count_every_entry_once(rows in rows()) {
            let curves = measured(&rows, 3, 2).curves();
            let entries = (rows.len() * LABELS) as u64;
            let positives = rows.iter().flatten().filter(|entry| entry.0).count() as u64;
            let histogram = curves.thresholds.unwrap();
            prop_assert!(histogram.edges.is_sorted() && histogram.edges.len() == histogram.of_true.len() + 1);
            prop_assert_eq!(histogram.of_true.iter().sum::<u64>(), positives);
            prop_assert_eq!(histogram.of_false.iter().sum::<u64>(), entries - positives);
            prop_assert_eq!(curves.reliability.iter().map(|bin| bin.entries).sum::<u64>(), entries);
            prop_assert_eq!(curves.reliability.iter().map(|bin| bin.positives).sum::<u64>(), positives);
            for row in rows.iter().flatten() {
                let (low, high) = (histogram.edges[0], histogram.edges[histogram.edges.len() - 1]);
                prop_assert!(low <= row.2.into() && f64::from(row.2) <= high);
            }
        }
    }

    #[test]
    fn labels_are_binned_by_their_number_of_training_positives() {
        let row = vec![
            (true, 1.0, 0.0),
            (true, 1.0, 0.0),
            (true, -1.0, 0.0),
            (true, 1.0, 0.0),
            (false, 1.0, 0.0),
            (true, 1.0, 0.0),
        ];
        let bins = measured(&[row], 1, 1).curves().by_frequency;
        let found: Vec<_> = bins.iter().map(|bin| (bin.from, bin.to, bin.labels, bin.macro_f1)).collect();
        assert_eq!(
            found,
            [
                (1, Some(4), 1, 1.0),
                (5, Some(9), 1, 0.0),
                (10, Some(99), 1, 1.0),
                (100, Some(999), 0, 0.0),
                (1000, None, 1, 1.0),
            ]
        );
    }

    #[test]
    fn a_label_record_has_a_threshold_only_if_all_rows_share_it() {
        let row = |theta: f32| {
            (0..LABELS).map(|label| (false, 0.0, if label == 2 { theta } else { 0.5 })).collect()
        };
        let records = measured(&[row(0.5), row(0.75)], 1, 1).label_records();
        let thresholds: Vec<_> = records.iter().map(|record| record.threshold).collect();
        assert_eq!(thresholds, [Some(0.5), Some(0.5), None, Some(0.5), Some(0.5), Some(0.5)]);
    }

    #[test]
    fn a_nan_score_is_an_error_with_its_row_and_label() {
        let mut rows = vec![vec![(false, 0.0, 0.0); LABELS]; 2];
        rows[1][4].1 = f32::NAN;
        let mut measure = Measure::new(LABELS, None);
        let mut block = block(10, &rows);
        block.probabilities.clear();
        let error = measure.add(&block, &[&[], &[]]).unwrap_err();
        assert_eq!(error, MeasureError::NotANumber { row: 11, label: 4 });
    }
}
