//! Why a model decided about a row as it did: sums that add up to the score and to the threshold, and what the
//! numbers in them come from.

pub mod composite;
pub mod cut;
pub mod share;
mod text;

use serde::{Deserialize, Serialize};

use super::metric::marked::Protocol;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explanation {
    pub row: usize,
    pub protocol: Protocol,
    /// What decides, in words.
    pub model: String,
    /// What the local signal was made of, in words.
    pub signal: String,
    /// Predicted ones first; best margin first among them and among the others.
    pub labels: Vec<LabelExplanation>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelExplanation {
    pub label: u32,
    pub name: Option<String>,
    /// They add up to the score.
    pub score_terms: Vec<Term>,
    pub score: f64,
    /// They add up to the threshold.
    pub threshold_terms: Vec<Term>,
    /// `None` where the rule has none for this label.
    pub threshold: Option<f64>,
    /// Above zero the label is predicted, unless a note says otherwise.
    pub margin: Option<f64>,
    pub probability: Option<f64>,
    pub predicted: bool,
    /// The same decision as eq. 1 would have it, for a fusion; `train`'s own terms have that form already.
    pub paper_form: Option<PaperForm>,
    /// What the numbers do not say, in sentences.
    pub notes: Vec<String>,
}

/// A summand: `value` follows from the `inputs` by the formula.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// The kind of model that the term is of, where several are fused.
    pub part: Option<String>,
    pub formula: String,
    pub inputs: Vec<Input>,
    pub value: f64,
    /// What one of the inputs is the sum of.
    pub evidence: Option<Evidence>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub name: String,
    pub value: f64,
}

/// The decision with everything but the models' part on the side of the threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperForm {
    pub z: f64,
    /// They add up to theta.
    pub theta_terms: Vec<Input>,
    pub theta: f64,
}

/// A number taken apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The input that it is about.
    pub of: String,
    /// How the causes make it, or why there are none, in words.
    pub words: String,
    /// Largest share first; of those without a share, the nearest first.
    pub causes: Vec<Cause>,
    /// Causes that are not listed, and what they add up to.
    pub others: usize,
    pub others_value: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    pub what: Subject,
    pub inputs: Vec<Input>,
    /// Whether a training row has the label; `None` where that is not known, or is not asked of a feature.
    pub has_label: Option<bool>,
    /// What it adds to the number.
    pub value: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Subject {
    /// In the training part, from 0.
    TrainingRow { row: u32 },
    /// In the data set, from 0.
    Feature { feature: u32, name: Option<String> },
    /// The same for every row.
    Constant { name: String },
}

impl Term {
    pub fn new(formula: &str, inputs: &[(&str, f64)], value: f64) -> Self {
        Self { part: None, formula: formula.to_owned(), inputs: named(inputs), value, evidence: None }
    }
}

impl Evidence {
    /// Keeps the `most` causes with the largest values, whatever their sign; of equal ones the first.
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

    /// Of a number that is not taken apart.
    pub fn none(of: &str, why: impl Into<String>) -> Self {
        Self { of: of.to_owned(), words: why.into(), causes: Vec::new(), others: 0, others_value: 0.0 }
    }

    /// What all causes add up to.
    pub fn total(&self) -> f64 {
        self.causes.iter().map(|cause| cause.value).sum::<f64>() + self.others_value
    }
}

impl Cause {
    pub fn new(what: Subject, inputs: &[(&str, f64)], value: f64) -> Self {
        Self { what, inputs: named(inputs), has_label: None, value }
    }
}

fn named(inputs: &[(&str, f64)]) -> Vec<Input> {
    inputs.iter().map(|&(name, value)| Input { name: name.to_owned(), value }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_causes_are_kept_and_the_others_summed() {
        let values = [0.1, -0.5, 0.2, 0.5, 0.05];
        let cause = |at: usize| Cause::new(Subject::TrainingRow { row: at as u32 }, &[], values[at]);
        let evidence = Evidence::new("r", "a sum", &values, 2, cause);
        let rows: Vec<_> = evidence.causes.iter().map(|cause| cause.what.clone()).collect();
        assert_eq!(rows, [1, 3].map(|row| Subject::TrainingRow { row }));
        assert_eq!(evidence.others, 3);
        assert!((evidence.others_value - 0.35).abs() < 1e-12);
        assert!((evidence.total() - values.iter().sum::<f64>()).abs() < 1e-12);
    }
}
