//! What the figures of one evaluation are drawn from: the artifact `curves`, one JSON file.

use serde::{Deserialize, Serialize};

use super::marked::Protocol;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curves {
    pub protocol: Protocol,
    /// By probability, ascending; empty bins are left out. No bins where the model gives no probabilities.
    pub reliability: Vec<ReliabilityBin>,
    /// What becomes of the decisions when every threshold is moved by the same amount; by shift, ascending.
    pub tradeoff: Vec<Shifted>,
    /// Where the thresholds of the evaluated entries lie; absent where a rule has no thresholds.
    pub thresholds: Option<ThresholdHistogram>,
    pub by_frequency: Vec<FrequencyBin>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReliabilityBin {
    pub mean_probability: f64,
    pub entries: u64,
    pub positives: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shifted {
    /// Added to every threshold.
    pub shift: f64,
    pub micro_precision: f64,
    pub micro_recall: f64,
    pub micro_f1: f64,
    pub macro_f1: f64,
}

/// Counts of (row, label) entries by their threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThresholdHistogram {
    /// One more than there are bins, ascending.
    pub edges: Vec<f64>,
    /// Entries whose label is true.
    pub of_true: Vec<u64>,
    pub of_false: Vec<u64>,
}

/// Labels by how often they occur in training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrequencyBin {
    /// Training positives, both ends included; no upper end for the last bin.
    pub from: u32,
    pub to: Option<u32>,
    /// Labels of the bin that are true in an evaluated row.
    pub labels: u64,
    /// Mean F1 of those.
    pub macro_f1: f64,
}
