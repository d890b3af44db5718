//! What things are called in print, unless the user says otherwise.

use super::measured::{PART, PROTOCOL};
use pipe_ml::metric::registry::Metric;

/// Returns the printed name of a metric.
pub fn metric(metric: Metric) -> String {
    metric.title()
}

/// `learning_rate` -> `Learning rate`.
pub fn words(name: &str) -> String {
    capitalised(&name.replace('_', " "))
}

pub fn value(axis: &str, value: &str) -> String {
    match axis {
        PROTOCOL | PART => capitalised(value),
        _ => value.to_owned(),
    }
}

fn capitalised(word: &str) -> String {
    let mut characters = word.chars();
    let first = characters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(characters).collect()
}
