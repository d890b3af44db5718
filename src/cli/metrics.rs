//! `pipe metrics`: lists metrics with their direction and definition.

use std::collections::BTreeSet;

use super::exit::{Failure, Outcome};
use super::table::{terminal_width, wrap};
use super::{print_json, print_text};
use pipe_core::suggest;
use pipe_ml::metric::registry::{Description, Direction, UnknownMetric, descriptions};

/// Stands before the definition of a metric.
const INDENT: &str = "    ";

/// Runs `pipe metrics`.
pub(super) fn metrics(name: Option<&str>, as_json: bool) -> Outcome {
    let found = find(name).map_err(|unknown| Failure::bad_input(unknown.to_string()))?;
    if as_json { print_json(&found) } else { print_text(&listing(found)) }
}

/// Returns all metrics, the one with this name, or those that have it in their name.
fn find(name: Option<&str>) -> Result<Vec<Description>, UnknownMetric> {
    let Some(name) = name else { return Ok(descriptions().collect()) };
    let word = name.to_lowercase();
    let mut found: Vec<Description> = descriptions().filter(|metric| metric.name.contains(&word)).collect();
    if let Some(exact) = found.iter().position(|metric| metric.name == word) {
        found = vec![found.swap_remove(exact)];
    }
    if found.is_empty() { Err(UnknownMetric { name: name.to_owned() }) } else { Ok(found) }
}

/// Fails if a metric that was asked for is not among the known ones; `sentence` says about it what that means.
pub(super) fn require(asked: &[String], known: &BTreeSet<&str>, sentence: &str) -> Result<(), Failure> {
    let Some(name) = asked.iter().find(|name| !known.contains(name.as_str())) else { return Ok(()) };
    let hint = suggest::did_you_mean(name, "there are", known.iter().copied());
    let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
    Err(Failure::bad_input(format!("{sentence} `{name}`{hint}")))
}

/// Returns name and direction of each metric on one line, and its definition below.
fn listing(metrics: Vec<Description>) -> String {
    let describe = |metric: Description| {
        let direction = match metric.direction {
            Direction::Higher => "higher is better",
            Direction::Lower => "lower is better",
            Direction::Neither => "neither direction is better",
        };
        let width = terminal_width().unwrap_or(usize::MAX).saturating_sub(INDENT.len());
        let definition = wrap(metric.definition, width).replace('\n', &format!("\n{INDENT}"));
        format!("{} ({direction})\n{INDENT}{definition}\n", metric.name)
    };
    metrics.into_iter().map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_ml::metric::registry::Metric;

    #[test]
    fn every_metric_is_listed_once() {
        let listing = listing(find(None).unwrap());
        for metric in Metric::ALL {
            let heading = format!("{} (", metric.name());
            assert_eq!(listing.lines().filter(|line| line.starts_with(&heading)).count(), 1, "{metric}");
        }
    }

    #[test]
    fn a_name_gives_one_metric_and_a_part_of_it_several() {
        let names = |word| find(Some(word)).map(|found| found.iter().map(|m| m.name).collect::<Vec<_>>());
        assert_eq!(names("macro_f1").unwrap(), ["macro_f1"]);
        let several = names("Precision").unwrap();
        assert!(several.len() > 1 && several.iter().all(|name| name.contains("precision")), "{several:?}");
        let unknown = names("macro_fi").unwrap_err().to_string();
        assert!(
            unknown.contains("did you mean `macro_f1`?") && unknown.contains("`pipe metrics`"),
            "{unknown}"
        );
    }
}
