//! Default titles of metrics, axes and values in print.

use super::measured::{PART, PROTOCOL};
use pipe_ml::metric::registry::Metric;

/// Returns the title of a metric: `Macro F1` for `macro_f1`, `P@5 nonempty` for `p_at_5_nonempty`, `BCE` for `bce`.
pub fn metric(metric: Metric) -> String {
    let mut title = String::new();
    let mut glued = true;
    for word in metric.name().split('_') {
        let shown = match word {
            "at" => "@".to_owned(),
            "f1" => "F1".to_owned(),
            "bce" | "ece" | "p" | "psp" => word.to_uppercase(),
            "ndcg" => "nDCG".to_owned(),
            "psndcg" => "PSnDCG".to_owned(),
            _ if title.is_empty() => capitalised(word),
            _ => word.to_owned(),
        };
        let at = shown == "@";
        if !(glued || at) {
            title.push(' ');
        }
        glued = at;
        title.push_str(&shown);
    }
    title
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_called_what_papers_call_them() {
        let titles =
            ["macro_f1", "bce", "p_at_5_nonempty", "psndcg_at_1", "macro_f1_under_10", "hamming_loss"]
                .map(|name| metric(name.parse().unwrap()));
        assert_eq!(
            titles,
            ["Macro F1", "BCE", "P@5 nonempty", "PSnDCG@1", "Macro F1 under 10", "Hamming loss"]
        );
        let mut all: Vec<_> = Metric::ALL.iter().map(|&m| metric(m)).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), Metric::ALL.len(), "two metrics have the same title");
    }
}
