//! Why a model decided about a row as it did.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explanation {
    pub row: usize,
    /// What the local signal was made of, in words.
    pub signal: String,
    /// The nearest training rows, nearest first, where the signal is made of them.
    pub neighbours: Vec<Neighbour>,
    /// Best margin first.
    pub labels: Vec<LabelExplanation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbour {
    /// In the training part, from 0.
    pub row: u32,
    /// The weights of a row's neighbours sum to one.
    pub weight: f32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelExplanation {
    pub label: u32,
    pub name: Option<String>,
    /// What led to the score, and what led to the threshold.
    pub score_terms: Vec<Term>,
    pub score: f64,
    pub threshold_terms: Vec<Term>,
    pub threshold: Option<f64>,
    /// Above zero the label is predicted.
    pub margin: Option<f64>,
    pub probability: Option<f64>,
    pub predicted: bool,
    /// The training rows that have the label, of the neighbours.
    pub neighbours: Vec<u32>,
}

/// A summand: `value` follows from the `inputs` by the formula.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    pub formula: String,
    pub inputs: Vec<Input>,
    pub value: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub name: String,
    pub value: f64,
}

impl Term {
    pub fn new(formula: &str, inputs: &[(&str, f64)], value: f64) -> Self {
        let input = |&(name, value): &(&str, f64)| Input { name: name.to_owned(), value };
        Self { formula: formula.to_owned(), inputs: inputs.iter().map(input).collect(), value }
    }
}

impl Explanation {
    pub fn text(&self) -> String {
        let mut out = format!("row {}, local signal: {}\n", self.row, self.signal);
        if !self.neighbours.is_empty() {
            let shown: Vec<String> =
                self.neighbours.iter().take(5).map(|n| format!("{} ({:.3})", n.row, n.weight)).collect();
            let (count, shown) = (self.neighbours.len(), shown.join(", "));
            let _ = writeln!(out, "{count} nearest training rows, with weights: {shown}, ...");
        }
        for label in &self.labels {
            let decision = if label.predicted { "predicted" } else { "not predicted" };
            let name = label.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
            let _ = writeln!(out, "\nlabel {}{name}: {decision}", label.label);
            terms(&mut out, "score", label.score, &label.score_terms);
            if let Some(threshold) = label.threshold {
                terms(&mut out, "threshold", threshold, &label.threshold_terms);
            }
            if let Some(margin) = label.margin {
                let _ = write!(out, "  margin {margin:+.4}");
                let probability = label.probability.map(|p| format!(", probability {p:.4}"));
                let _ = writeln!(out, "{}", probability.unwrap_or_default());
            }
            if !label.neighbours.is_empty() {
                let rows: Vec<String> = label.neighbours.iter().take(10).map(u32::to_string).collect();
                let more = if label.neighbours.len() > rows.len() { ", ..." } else { "" };
                let count = label.neighbours.len();
                let _ = writeln!(out, "  {count} neighbours have it: {}{more}", rows.join(", "));
            }
        }
        out
    }
}

fn terms(out: &mut String, what: &str, value: f64, terms: &[Term]) {
    let _ = writeln!(out, "  {what} {value:+.4}");
    for term in terms {
        let inputs: Vec<String> =
            term.inputs.iter().map(|input| format!("{} {:.4}", input.name, input.value)).collect();
        let inputs = if inputs.is_empty() { String::new() } else { format!("  ({})", inputs.join(", ")) };
        let _ = writeln!(out, "    {:+.4}  {}{inputs}", term.value, term.formula);
    }
}
