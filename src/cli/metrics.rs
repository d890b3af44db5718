//! `pipe metrics`: every metric with its direction and definition.

use super::exit::Outcome;
use super::{print_json, print_text};
use crate::ml::metric::registry::{Description, Direction, descriptions};

pub fn metrics(as_json: bool) -> Outcome {
    if as_json {
        return print_json(&descriptions().collect::<Vec<_>>());
    }
    print_text(&listing())
}

/// Name and direction on one line, the definition below: definitions are sentences.
fn listing() -> String {
    let entry = |metric: Description| {
        let direction = match metric.direction {
            Direction::Higher => "higher is better",
            Direction::Lower => "lower is better",
            Direction::Neither => "describes",
        };
        format!("{} ({direction})\n    {}\n", metric.name, metric.definition)
    };
    descriptions().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use crate::ml::metric::registry::Metric;

    #[test]
    fn every_metric_is_listed_once() {
        let listing = super::listing();
        for metric in Metric::ALL {
            let heading = format!("{} (", metric.name());
            assert_eq!(listing.lines().filter(|line| line.starts_with(&heading)).count(), 1, "{metric}");
        }
    }
}
