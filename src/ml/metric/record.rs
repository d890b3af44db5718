//! What an `evaluate` stage leaves: the artifact `evaluation`, one JSON file.

use serde::{Deserialize, Serialize};

use super::bootstrap::{Bootstrap, Interval};
use super::evaluation::Evaluation;
use super::marked::{Marked, Protocol};
use super::registry::Metric;
use crate::data::split_data::PartName;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub part: PartName,
    pub evaluation: Evaluation,
    /// Over the evaluated rows; the variation over seeds is another thing and is not in here.
    pub intervals: Option<Intervals>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intervals {
    pub bootstrap: Bootstrap,
    pub values: Vec<Interval>,
}

impl Record {
    pub fn protocol(&self) -> Protocol {
        self.evaluation.protocol()
    }

    pub fn get(&self, metric: Metric) -> Option<Marked<f64>> {
        self.evaluation.get(metric)
    }

    pub fn interval(&self, metric: Metric) -> Option<Marked<Interval>> {
        let values = &self.intervals.as_ref()?.values;
        let found = values.iter().find(|interval| interval.metric == metric)?;
        Some(Marked::new(self.protocol(), *found))
    }
}
