//! `pipe metrics`: every metric with its direction and definition.

use super::exit::{Failure, Outcome};
use super::{print_json, print_text};
use pipe_ml::metric::registry::{Description, Direction, UnknownMetric, descriptions};

pub(super) fn metrics(name: Option<&str>, as_json: bool) -> Outcome {
    let found = found(name).map_err(|unknown| Failure::bad_input(unknown.to_string()))?;
    if as_json { print_json(&found) } else { print_text(&listing(found)) }
}

/// All of them; or the one of that name; or those that have it in their name.
fn found(name: Option<&str>) -> Result<Vec<Description>, UnknownMetric> {
    let Some(name) = name else { return Ok(descriptions().collect()) };
    let word = name.to_lowercase();
    let mut found: Vec<Description> = descriptions().filter(|metric| metric.name.contains(&word)).collect();
    if let Some(exact) = found.iter().position(|metric| metric.name == word) {
        found = vec![found.swap_remove(exact)];
    }
    if found.is_empty() { Err(UnknownMetric { name: name.to_owned() }) } else { Ok(found) }
}

/// Name and direction on one line, the definition below: definitions are sentences.
fn listing(metrics: Vec<Description>) -> String {
    let entry = |metric: Description| {
        let direction = match metric.direction {
            Direction::Higher => "higher is better",
            Direction::Lower => "lower is better",
            Direction::Neither => "describes",
        };
        format!("{} ({direction})\n    {}\n", metric.name, metric.definition)
    };
    metrics.into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_ml::metric::registry::Metric;

    #[test]
    fn every_metric_is_listed_once() {
        let listing = listing(found(None).unwrap());
        for metric in Metric::ALL {
            let heading = format!("{} (", metric.name());
            assert_eq!(listing.lines().filter(|line| line.starts_with(&heading)).count(), 1, "{metric}");
        }
    }

    #[test]
    fn a_name_gives_one_metric_and_a_part_of_it_several() {
        let names = |word| found(Some(word)).map(|found| found.iter().map(|m| m.name).collect::<Vec<_>>());
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
