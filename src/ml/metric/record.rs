//! [`EvaluationRecord`], the artifact `evaluation` that an `evaluate` stage writes as one JSON file.

use serde::{Deserialize, Serialize};

use super::bootstrap::{Bootstrap, Interval};
use super::evaluation::Evaluation;
use super::marked::{Marked, Protocol};
use super::registry::Metric;
use crate::data::split_data::PartName;

/// The metrics of one model on one part of a data set, with confidence intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvaluationRecord {
    pub part: PartName,
    pub evaluation: Evaluation,
    /// Confidence intervals over the evaluated rows. They do not include the variation over seeds.
    pub intervals: Option<Intervals>,
}

/// Confidence intervals, and how they were computed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intervals {
    pub bootstrap: Bootstrap,
    pub values: Vec<Interval>,
}

impl EvaluationRecord {
    /// Returns the protocol of all values.
    pub fn protocol(&self) -> Protocol {
        self.evaluation.protocol()
    }

    /// Returns the value of a metric, if it was computed.
    pub fn get(&self, metric: Metric) -> Option<Marked<f64>> {
        self.evaluation.get(metric)
    }

    /// Returns the confidence interval of a metric, if it was computed.
    pub fn interval(&self, metric: Metric) -> Option<Marked<Interval>> {
        let values = &self.intervals.as_ref()?.values;
        let found = values.iter().find(|interval| interval.metric == metric)?;
        Some(Marked::new(self.protocol(), *found))
    }
}
