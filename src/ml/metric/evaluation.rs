//! [`Evaluator`], which collects what the metrics need row by row, and [`Evaluation`], its result.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::calibration::{Calibration, NotAProbability};
use super::counts::Counts;
use super::curves::{FrequencyBin, ReliabilityBin};
use super::exact::ExactSum;
use super::frequency::LabelFrequencies;
use super::label::{LabelRecord, Tally};
use super::marked::{Marked, Protocol};
use super::propensity::Propensity;
use super::ranking::Ranking;
use super::registry::Metric;
use super::released;

/// The metrics of one set of predictions. Every value comes with the protocol under which it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    protocol: Protocol,
    rows: u64,
    labels: u64,
    values: BTreeMap<Metric, f64>,
}

impl Evaluation {
    /// Returns an evaluation that has only values that a program reports. Its rows and labels are not known.
    pub fn reported(values: BTreeMap<Metric, f64>) -> Self {
        Self { protocol: Protocol::Honest, rows: 0, labels: 0, values }
    }

    /// Returns the protocol of all values.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Returns the number of evaluated rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the number of labels.
    pub fn labels(&self) -> u64 {
        self.labels
    }

    /// Returns the value of a metric, or `None` if the scores, probabilities or training counts that it needs were not
    /// given.
    pub fn get(&self, metric: Metric) -> Option<Marked<f64>> {
        self.values.get(&metric).map(|&value| Marked::new(self.protocol, value))
    }

    /// Iterates over all values in the order of the registry.
    pub fn iter(&self) -> impl Iterator<Item = (Metric, Marked<f64>)> + '_ {
        self.values.iter().map(|(&metric, &value)| (metric, Marked::new(self.protocol, value)))
    }
}

/// Label counts of the training rows, for the metrics by label frequency and the propensity-scored metrics.
#[derive(Debug, Clone)]
pub struct TrainingCounts {
    pub rows: usize,
    /// Number of training rows with each label.
    pub positives: Vec<u32>,
    pub propensity: Propensity,
}

/// The error for a loss that is not a finite number.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error(
    "{metric} is {value} for some rows: the model's outputs are not finite; look at the training history"
)]
pub struct NotFinite {
    pub metric: Metric,
    pub value: f64,
}

/// Collects what the metrics need.
///
/// Each kind of input is optional: a metric without its input is left out of the [`Evaluation`]. Evaluators
/// of different rows can be merged in any order and give the same bits.
#[derive(Debug, Clone)]
pub struct Evaluator {
    counts: Counts,
    ranking: Ranking,
    calibration: Calibration,
    calibrated: bool,
    losses: BTreeMap<Metric, Loss>,
    frequencies: Option<LabelFrequencies>,
}

/// A loss, summed over its terms.
#[derive(Debug, Clone, Copy, Default)]
struct Loss {
    sum: ExactSum,
    terms: u64,
}

impl Evaluator {
    /// Creates an evaluator that has seen no rows.
    pub fn new(labels: usize, training: Option<TrainingCounts>) -> Self {
        let inverse =
            training.as_ref().map(|training| training.propensity.inverse(training.rows, &training.positives));
        Self {
            counts: Counts::new(labels),
            ranking: Ranking::new(inverse),
            calibration: Calibration::default(),
            calibrated: false,
            losses: BTreeMap::new(),
            frequencies: training.map(|training| LabelFrequencies::new(training.positives)),
        }
    }

    /// Adds the decisions about one row.
    pub fn add_decisions(&mut self, truth: &[u32], predicted: &[u32]) {
        self.counts.add(truth, predicted);
    }

    /// Adds decisions that were counted elsewhere, for example by [`Counts::of`].
    pub fn add_counts(&mut self, counts: &Counts) {
        self.counts.merge(counts);
    }

    /// Adds the [`super::ranking::DEPTH`] labels of one row with the highest scores, best first.
    pub fn add_ranking(&mut self, truth: &[u32], top: &[u32]) {
        self.ranking.add(truth, top);
    }

    /// Adds the probability of every label for one row.
    pub fn add_probabilities(&mut self, truth: &[u32], probabilities: &[f32]) -> Result<(), NotAProbability> {
        self.calibrated = true;
        self.calibration.add(truth, probabilities)
    }

    /// Adds the probabilities of the candidates of one row; see [`Calibration::add_candidates`].
    pub fn add_candidates(
        &mut self,
        truth: &[u32],
        candidates: &[u32],
        probabilities: &[f32],
        rest: &[f32],
    ) -> Result<(), NotAProbability> {
        self.calibrated = true;
        self.calibration.add_candidates(truth, candidates, probabilities, rest)
    }

    /// Adds the probability of each label so many times; see [`Calibration::add_rest`].
    pub fn add_rest(&mut self, probabilities: &[f32], times: &[u64]) {
        self.calibration.add_rest(probabilities, times);
    }

    /// Adds a sum of loss terms, for [`Metric::Bce`] and [`Metric::TrainingLoss`].
    pub fn add_loss(&mut self, metric: Metric, sum: f64, terms: u64) -> Result<(), NotFinite> {
        if !sum.is_finite() {
            return Err(NotFinite { metric, value: sum });
        }
        let loss = self.losses.entry(metric).or_default();
        loss.sum += sum;
        loss.terms += terms;
        Ok(())
    }

    /// Adds the rows of another evaluator.
    pub fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        self.ranking.merge(&other.ranking);
        self.calibration.merge(&other.calibration);
        self.calibrated |= other.calibrated;
        for (&metric, other) in &other.losses {
            let loss = self.losses.entry(metric).or_default();
            loss.sum += other.sum;
            loss.terms += other.terms;
        }
    }

    /// Returns the counts of the decisions.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Computes every metric whose input was given.
    pub fn finish(&self, protocol: Protocol) -> Evaluation {
        let counts = &self.counts;
        let mut values = BTreeMap::new();
        if counts.rows() > 0 {
            let tally = Tally::over(counts.iter());
            values.extend(tally.values(counts.rows()));
            values.extend(released::averages(counts.iter()));
            values.insert(Metric::SampleF1, counts.sample_f1());
            values.insert(Metric::SubsetAccuracy, counts.subset_accuracy());
            if let Some(frequencies) = &self.frequencies {
                values.extend(frequencies.macro_f1(counts.iter()));
            }
        }
        if self.ranking.rows() > 0 {
            values.extend(self.ranking.values());
        }
        if self.calibrated {
            values.extend(self.calibration.values());
        }
        let mean = |loss: &Loss| loss.sum.value() / loss.terms.max(1) as f64;
        values.extend(self.losses.iter().map(|(&metric, loss)| (metric, mean(loss))));
        let rows = counts.rows().max(self.ranking.rows());
        Evaluation { protocol, rows, labels: counts.labels() as u64, values }
    }

    /// Returns the bins of the reliability diagram.
    pub fn reliability(&self) -> Vec<ReliabilityBin> {
        self.calibration.reliability()
    }

    /// Returns mean F1 by label frequency; no bins if the training counts are unknown.
    pub fn by_frequency(&self) -> Vec<FrequencyBin> {
        self.frequencies.as_ref().map(|f| f.bins(self.counts.iter())).unwrap_or_default()
    }

    /// Returns the record of every label; `threshold` returns the cut of a label, if it has one.
    pub fn label_records(&self, threshold: impl Fn(usize) -> Option<f32>) -> Vec<LabelRecord> {
        let record = |(label, count)| LabelRecord {
            training_positives: self.frequencies.as_ref().map(|f| f.positives()[label]),
            threshold: threshold(label),
            ..LabelRecord::new(label as u32, count)
        };
        self.counts.iter().enumerate().map(record).collect()
    }
}
