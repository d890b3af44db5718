//! The evaluator, fed row by row, and the record that it leaves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::calibration::{Calibration, NotAProbability};
use super::counts::Counts;
use super::curves::{FrequencyBin, ReliabilityBin};
use super::exact::ExactSum;
use super::frequency::Frequencies;
use super::label::{LabelRecord, Tally};
use super::marked::{Marked, Protocol};
use super::propensity::Propensity;
use super::ranking::Ranking;
use super::registry::Metric;
use super::released;

/// What one set of predictions is worth. The figures come out with their protocol only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    protocol: Protocol,
    rows: u64,
    labels: u64,
    values: BTreeMap<Metric, f64>,
}

impl Evaluation {
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub fn labels(&self) -> u64 {
        self.labels
    }

    /// `None` if what the metric needs was not there: scores, probabilities, training counts.
    pub fn get(&self, metric: Metric) -> Option<Marked<f64>> {
        self.values.get(&metric).map(|&value| Marked::new(self.protocol, value))
    }

    /// In the order of the registry.
    pub fn iter(&self) -> impl Iterator<Item = (Metric, Marked<f64>)> + '_ {
        self.values.iter().map(|(&metric, &value)| (metric, Marked::new(self.protocol, value)))
    }
}

/// What is known of the training rows: it places labels in frequency bins and gives propensities.
#[derive(Debug, Clone)]
pub struct Training {
    pub rows: usize,
    /// Training rows in which each label is true.
    pub positives: Vec<u32>,
    pub propensity: Propensity,
}

/// A loss that is not a finite number.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error(
    "{metric} is {value} for some rows: the model's outputs are not finite; look at the training history"
)]
pub struct NotFinite {
    pub metric: Metric,
    pub value: f64,
}

/// Collects what the metrics need. Each kind of input is optional: a metric without its input is left
/// out of the record. Evaluators of different rows merge, in any order, to the same bits.
#[derive(Debug, Clone)]
pub struct Evaluator {
    counts: Counts,
    ranking: Ranking,
    calibration: Calibration,
    calibrated: bool,
    losses: BTreeMap<Metric, Loss>,
    frequencies: Option<Frequencies>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Loss {
    sum: ExactSum,
    terms: u64,
}

impl Evaluator {
    pub fn new(labels: usize, training: Option<Training>) -> Self {
        let inverse =
            training.as_ref().map(|training| training.propensity.inverse(training.rows, &training.positives));
        Self {
            counts: Counts::new(labels),
            ranking: Ranking::new(inverse),
            calibration: Calibration::default(),
            calibrated: false,
            losses: BTreeMap::new(),
            frequencies: training.map(|training| Frequencies::new(training.positives)),
        }
    }

    /// The decisions for one row.
    pub fn add_decisions(&mut self, truth: &[u32], predicted: &[u32]) {
        self.counts.add(truth, predicted);
    }

    /// Decisions counted elsewhere, for example by [`Counts::of`].
    pub fn add_counts(&mut self, counts: &Counts) {
        self.counts.merge(counts);
    }

    /// The first labels of one row by score, best first; see [`super::ranking::DEPTH`].
    pub fn add_ranking(&mut self, truth: &[u32], top: &[u32]) {
        self.ranking.add(truth, top);
    }

    /// The probability of every label for one row.
    pub fn add_probabilities(&mut self, truth: &[u32], probabilities: &[f32]) -> Result<(), NotAProbability> {
        self.calibrated = true;
        self.calibration.add(truth, probabilities)
    }

    /// A sum of loss terms, for [`Metric::Bce`] and [`Metric::TrainingLoss`].
    pub fn add_loss(&mut self, metric: Metric, sum: f64, terms: u64) -> Result<(), NotFinite> {
        if !sum.is_finite() {
            return Err(NotFinite { metric, value: sum });
        }
        let loss = self.losses.entry(metric).or_default();
        loss.sum += sum;
        loss.terms += terms;
        Ok(())
    }

    /// Adds what another evaluator has seen.
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

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    pub fn finish(&self, protocol: Protocol) -> Evaluation {
        let counts = &self.counts;
        let mut values = BTreeMap::new();
        if counts.rows() > 0 {
            let tally = Tally::over(counts.iter());
            values.extend(Tally::METRICS.into_iter().zip(tally.values(counts.rows())));
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

    /// What the curves of [`super::curves::Curves`] need of the evaluator.
    pub fn reliability(&self) -> Vec<ReliabilityBin> {
        self.calibration.reliability()
    }

    /// No bins where nothing is known of the training rows.
    pub fn by_frequency(&self) -> Vec<FrequencyBin> {
        self.frequencies.as_ref().map(|f| f.bins(self.counts.iter())).unwrap_or_default()
    }

    /// The record of every label; `threshold` gives the cut that decided on it, if there is one.
    pub fn label_records(&self, threshold: impl Fn(usize) -> Option<f32>) -> Vec<LabelRecord> {
        let record = |(label, count)| LabelRecord {
            training_positives: self.frequencies.as_ref().map(|f| f.positives()[label]),
            threshold: threshold(label),
            ..LabelRecord::new(label as u32, count)
        };
        self.counts.iter().enumerate().map(record).collect()
    }
}
