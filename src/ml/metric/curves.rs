//! [`Curves`], the artifact `curves`: the data of the figures of one evaluation, as one JSON file.

use serde::{Deserialize, Serialize};

use super::marked::Protocol;

/// The data of the figures of one evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curves {
    pub protocol: Protocol,
    /// By probability, ascending, without empty bins. Empty if the model gives no probabilities.
    pub reliability: Vec<ReliabilityBin>,
    /// The metrics when every threshold is shifted by the same amount; by shift, ascending.
    pub tradeoff: Vec<ShiftedMetrics>,
    /// The thresholds of the evaluated entries; absent if the rule has no thresholds.
    pub thresholds: Option<ThresholdHistogram>,
    pub by_frequency: Vec<FrequencyBin>,
}

/// Entries with similar probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReliabilityBin {
    pub mean_probability: f64,
    pub entries: u64,
    pub positives: u64,
}

/// The metrics after a shift of all thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShiftedMetrics {
    /// Added to every threshold.
    pub shift: f64,
    pub micro_precision: f64,
    pub micro_recall: f64,
    pub micro_f1: f64,
    pub macro_f1: f64,
}

/// A histogram of (row, label) entries by their threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThresholdHistogram {
    /// The edges of the bins, ascending: one more than there are bins.
    pub edges: Vec<f64>,
    /// Entries whose label is true.
    pub of_true: Vec<u64>,
    pub of_false: Vec<u64>,
}

/// Labels with similar numbers of training positives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrequencyBin {
    /// The smallest number of training positives.
    pub from: u32,
    /// The largest number of training positives; `None` for the last bin.
    pub to: Option<u32>,
    /// Number of labels of the bin that are true in an evaluated row.
    pub labels: u64,
    /// Mean F1 of these labels.
    pub macro_f1: f64,
}
