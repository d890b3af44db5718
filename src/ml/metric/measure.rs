//! [`Measure`], which computes all metrics and curves of a model's decisions, block by block.
//!
//! Memory is bounded by one block and a few numbers per label. The result does not depend on the number of threads.

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
use super::threshold_bins::ThresholdBins;
use super::top::Top;
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
    /// Whether the first block has come, from which the bins of thresholds are chosen.
    begun: bool,
}

/// The sums over the rows that one thread has seen.
#[derive(Clone)]
struct MeasurePart {
    evaluator: Evaluator,
    top: Top,
    tradeoff: Tradeoff,
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
            tradeoff: Tradeoff::new(labels),
            thresholds: None,
            span: vec![(f32::INFINITY, f32::NEG_INFINITY); labels],
        };
        Self { parts: vec![part; rayon::current_num_threads().max(1)], begun: false }
    }

    /// Adds a block of decisions. `truth` has one ascending list of labels per row of the block. Blocks must
    /// be added in the order of the rows.
    pub fn add(&mut self, block: &DecisionBlock, truth: &[&[u32]]) -> Result<(), MeasureError> {
        if !self.begun && block.rows > 0 {
            self.begun = true;
            let all = (0..block.rows).filter_map(|row| block.row_thresholds(row)).flatten();
            let bins = ThresholdBins::spanning(all);
            for part in &mut self.parts {
                part.thresholds = bins.clone();
            }
        }
        let share = block.rows.div_ceil(self.parts.len()).max(1);
        self.parts.par_iter_mut().enumerate().try_for_each(|(number, part)| {
            let rows = block.rows.min(number * share)..block.rows.min((number + 1) * share);
            rows.clone().try_for_each(|row| part.add(block, row, truth[row]))?;
            part.tradeoff.add(block, rows, truth);
            Ok(())
        })
    }

    /// Adds a loss of the last block; see [`Evaluator::add_loss`].
    pub fn add_loss(&mut self, metric: Metric, sum: f64, terms: u64) -> Result<(), NotFinite> {
        self.parts[0].evaluator.add_loss(metric, sum, terms)
    }

    /// Combines what all threads have seen.
    pub fn finish(mut self, protocol: Protocol) -> Measurements {
        let mut whole = self.parts.swap_remove(0);
        for part in &self.parts {
            whole.merge(part);
        }
        Measurements { protocol, whole }
    }
}

impl MeasurePart {
    /// Adds a row to everything but the tradeoff.
    fn add(&mut self, block: &DecisionBlock, row: usize, truth: &[u32]) -> Result<(), MeasureError> {
        let number = block.first + row;
        self.evaluator.add_decisions(truth, &block.predicted[row]);
        if !block.scores.is_empty() {
            // A program may score only some labels; the others are no part of the ranking.
            let is_scored = |&(_, score): &(u32, f32)| score != f32::NEG_INFINITY;
            let ranked = match (&block.thresholds, block.margins(row)) {
                (Thresholds::PerEntry(_), Some(margins)) => self.top.of((0..).zip(margins).filter(is_scored)),
                _ => self.top.of((0..).zip(block.row_scores(row).iter().copied()).filter(is_scored)),
            };
            let ranked = ranked.map_err(|bad| MeasureError::NotANumber { row: number, label: bad.label })?;
            self.evaluator.add_ranking(truth, ranked);
        }
        let probabilities = block.row_probabilities(row);
        if !probabilities.is_empty() {
            let added = self.evaluator.add_probabilities(truth, probabilities);
            added.map_err(|source| MeasureError::NotAProbability { row: number, source })?;
        }
        if let Some(thresholds) = block.row_thresholds(row) {
            if let Some(bins) = &mut self.thresholds {
                bins.add(truth, thresholds);
            }
            for (span, &threshold) in self.span.iter_mut().zip(thresholds) {
                *span = (span.0.min(threshold), span.1.max(threshold));
            }
        }
        Ok(())
    }

    fn merge(&mut self, other: &Self) {
        self.evaluator.merge(&other.evaluator);
        self.tradeoff.merge(&other.tradeoff);
        if let (Some(bins), Some(other)) = (&mut self.thresholds, &other.thresholds) {
            bins.merge(other);
        }
        for (span, other) in self.span.iter_mut().zip(&other.span) {
            *span = (span.0.min(other.0), span.1.max(other.1));
        }
    }
}

/// The result of a [`Measure`], under one protocol.
pub struct Measurements {
    protocol: Protocol,
    whole: MeasurePart,
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
            tradeoff: self.whole.tradeoff.curve(),
            thresholds: self.whole.thresholds.as_ref().map(ThresholdBins::histogram),
            by_frequency: self.whole.evaluator.by_frequency(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::label::Tally;
    use super::super::propensity::Propensity;
    use super::*;

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
