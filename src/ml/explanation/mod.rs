//! [`Explanation`]: why a model decided about a row as it did.
//!
//! The score and the threshold of each label are split into terms that add up to them; the numbers in a term are split
//! further into their causes, such as training rows and features.

pub mod composite;
pub mod cut;
pub mod share;
mod text;

use serde::{Deserialize, Serialize};

use super::metric::marked::Protocol;

/// The explanation of the decisions about one row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explanation {
    pub row: usize,
    pub protocol: Protocol,
    /// The model, in words.
    pub model: String,
    /// The source of the local signal, in words.
    pub signal: String,
    /// Predicted labels first; within both groups by falling margin.
    pub labels: Vec<LabelExplanation>,
    /// Sentences about the explanation as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Explanation {
    /// Returns every cause of every label.
    pub fn causes_mut(&mut self) -> impl Iterator<Item = &mut Cause> {
        let labels = self.labels.iter_mut();
        let terms = labels.flat_map(|label| label.score_terms.iter_mut().chain(&mut label.threshold_terms));
        terms.filter_map(|term| term.evidence.as_mut()).flat_map(|evidence| &mut evidence.causes)
    }
}

/// The explanation of the decision about one label of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelExplanation {
    pub label: u32,
    pub name: Option<String>,
    /// The terms add up to the score.
    pub score_terms: Vec<ExplanationTerm>,
    pub score: f64,
    /// The terms add up to the threshold.
    pub threshold_terms: Vec<ExplanationTerm>,
    /// `None` if the rule has no threshold for this label.
    pub threshold: Option<f64>,
    /// Score minus threshold. The label is predicted if this is above zero, unless a note says otherwise.
    pub margin: Option<f64>,
    pub probability: Option<f64>,
    pub predicted: bool,
    /// The same decision in the form of eq. 1, for a fusion. The terms of a model of `train` have that form already.
    pub paper_form: Option<PaperForm>,
    /// Sentences about what the numbers do not show.
    pub notes: Vec<String>,
}

/// A term of a sum: the formula computes `value` from the `inputs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplanationTerm {
    /// The kind of model that the term belongs to, if several are fused.
    pub part: Option<String>,
    pub formula: String,
    pub inputs: Vec<TermInput>,
    pub value: f64,
    /// The causes of one of the inputs.
    pub evidence: Option<Evidence>,
}

/// A named number in a formula.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TermInput {
    pub name: String,
    pub value: f64,
}

/// The decision z > theta in the form of eq. 1: z has the terms of the models, theta all others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperForm {
    pub z: f64,
    /// The terms add up to theta.
    pub theta_terms: Vec<TermInput>,
    pub theta: f64,
}

/// A number as a sum of causes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The name of the input that is explained.
    pub of: String,
    /// How the number follows from the causes, or why there are none, in words.
    pub words: String,
    /// By falling absolute value; of equal ones, nearest rows first.
    pub causes: Vec<Cause>,
    /// The number of causes that are not listed.
    pub others: usize,
    /// The sum of the causes that are not listed.
    pub others_value: f64,
}

/// One cause of a number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    pub what: CauseSubject,
    pub inputs: Vec<TermInput>,
    /// Whether the training row has the label; `None` if this is unknown, or if the cause is not a training row.
    pub has_label: Option<bool>,
    /// The contribution to the number.
    pub value: f64,
}

/// What a cause is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum CauseSubject {
    /// A row of the training part, counted from 0.
    TrainingRow {
        row: u32,
        /// The id in the source, if the data set keeps it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The beginning of the text, if the data set keeps it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// A feature of the data set, counted from 0.
    Feature { feature: u32, name: Option<String> },
    /// A label of the data set, counted from 0.
    Label { label: u32, name: Option<String> },
    /// A constant, the same for every row.
    Constant { name: String },
}

impl CauseSubject {
    /// Returns a training row whose id and text are not known yet.
    pub fn training_row(row: u32) -> Self {
        Self::TrainingRow { row, id: None, text: None }
    }
}

impl ExplanationTerm {
    /// Creates a term without evidence.
    pub fn new(formula: &str, inputs: &[(&str, f64)], value: f64) -> Self {
        Self { part: None, formula: formula.to_owned(), inputs: named(inputs), value, evidence: None }
    }
}

impl Evidence {
    /// Keeps the `most` causes with the largest absolute values; of equal ones the first.
    pub fn new(
        of: &str,
        words: impl Into<String>,
        values: &[f64],
        most: usize,
        cause: impl Fn(usize) -> Cause,
    ) -> Self {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&a, &b| values[b].abs().total_cmp(&values[a].abs()).then(a.cmp(&b)));
        let rest = order.split_off(most.min(order.len()));
        Self {
            of: of.to_owned(),
            words: words.into(),
            causes: order.into_iter().map(cause).collect(),
            others: rest.len(),
            others_value: rest.into_iter().map(|at| values[at]).sum(),
        }
    }

    /// Creates evidence without causes, for a number that is not explained.
    pub fn none(of: &str, why: impl Into<String>) -> Self {
        Self { of: of.to_owned(), words: why.into(), causes: Vec::new(), others: 0, others_value: 0.0 }
    }

    /// Returns the sum of all causes.
    pub fn total(&self) -> f64 {
        self.causes.iter().map(|cause| cause.value).sum::<f64>() + self.others_value
    }
}

impl Cause {
    /// Creates a cause that says nothing about the label.
    pub fn new(what: CauseSubject, inputs: &[(&str, f64)], value: f64) -> Self {
        Self { what, inputs: named(inputs), has_label: None, value }
    }
}

/// Creates inputs from names and values.
fn named(inputs: &[(&str, f64)]) -> Vec<TermInput> {
    inputs.iter().map(|&(name, value)| TermInput { name: name.to_owned(), value }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_causes_are_kept_and_the_others_summed() {
        let values = [0.1, -0.5, 0.2, 0.5, 0.05];
        let cause = |at: usize| Cause::new(CauseSubject::training_row(at as u32), &[], values[at]);
        let evidence = Evidence::new("r", "a sum", &values, 2, cause);
        let rows: Vec<_> = evidence.causes.iter().map(|cause| cause.what.clone()).collect();
        assert_eq!(rows, [1, 3].map(CauseSubject::training_row));
        assert_eq!(evidence.others, 3);
        assert!((evidence.others_value - 0.35).abs() < 1e-12);
        assert!((evidence.total() - values.iter().sum::<f64>()).abs() < 1e-12);
    }
}
