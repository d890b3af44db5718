//! Default titles of metrics, axes and values in print.

use super::measured::{PART, PROTOCOL};
use pipe_ml::metric::registry::Metric;

/// Returns the title of a metric: `Macro F1` for `macro_f1`, `P@5 nonempty` for `p_at_5_nonempty`, `BCE` for `bce`.
pub fn metric(metric: Metric) -> String {
    metric.title()
}

/// Returns a name as words: `Learning rate` for `learning_rate`.
pub fn words(name: &str) -> String {
    capitalised(&name.replace('_', " "))
}

/// Returns the title of a value on an axis.
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
