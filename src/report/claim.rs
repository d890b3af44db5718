//! Checks a claim: that one result is better than each of several others, if asked for significantly.

use serde::{Deserialize, Serialize};

use pipe_ml::metric::bootstrap::{Bootstrap, BootstrapError, Interval};
use pipe_ml::metric::marked::{Marked, MixedProtocols, Protocol};
use pipe_ml::metric::outcomes::Outcomes;
use pipe_ml::metric::registry::{Direction, Metric};

/// One side of a comparison: the evaluations whose mean counts, such as those of several seeds.
pub struct ClaimSide {
    /// The name for messages.
    pub name: String,
    /// The value of the metric, by evaluation.
    pub values: Vec<f64>,
    /// The decisions, by evaluation.
    pub outcomes: Vec<Marked<Outcomes>>,
}

/// What is claimed about the sides.
pub struct ClaimRequest {
    pub metric: Metric,
    pub significant: bool,
    pub bootstrap: Bootstrap,
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimVerdict {
    pub sentence: String,
    /// Whether the claim holds in every comparison.
    pub passed: bool,
    pub metric: Metric,
    pub protocol: Protocol,
    /// Whether the differences had to be significant.
    pub significant: bool,
    pub comparisons: Vec<ClaimComparison>,
}

/// The comparison with one of the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimComparison {
    pub than: String,
    pub holds: bool,
    pub value: f64,
    pub other: f64,
    /// The value minus the other one.
    pub difference: f64,
    /// The interval of the difference; `None` for a metric that cannot be computed from decisions.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// The confidence of the interval, corrected for the number of comparisons.
    pub confidence: f64,
}

impl ClaimVerdict {
    /// Says how the claimed result compares with another one.
    pub fn words(&self, comparison: &ClaimComparison) -> &'static str {
        comparison.words(self.metric, self.significant)
    }
}

impl ClaimComparison {
    /// Says how the claimed result compares with the other one. An interval beyond zero on the wrong side means that it is
    /// significantly worse.
    fn words(&self, metric: Metric, significant: bool) -> &'static str {
        let sign = if metric.direction() == Direction::Lower { -1.0 } else { 1.0 };
        let is_all_worse = |bound: Option<f64>| bound.is_some_and(|bound| sign * bound < 0.0);
        match (self.holds, significant) {
            (true, true) => "significantly better",
            (true, false) => "better",
            (false, _) if is_all_worse(self.low) && is_all_worse(self.high) => "significantly worse",
            (false, true) => "not significantly better",
            (false, false) => "not better",
        }
    }
}

/// Why a claim cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    #[error("the sides have different protocols")]
    Mixed(#[from] MixedProtocols),
    #[error("{than}: {error}")]
    Bootstrap { than: String, error: BootstrapError },
    #[error(
        "a difference of `{0}` cannot be tested for significance, because it does not follow from the decisions alone; \
         leave `significant` out, or choose a metric of decisions such as `macro_f1`"
    )]
    Untestable(Metric),
}

/// Checks whether `better` is better than each of the others. They must have been evaluated on the same rows.
pub fn check(
    request: &ClaimRequest,
    better: &ClaimSide,
    others: &[ClaimSide],
) -> Result<ClaimVerdict, ClaimError> {
    let bootstrap = &request.bootstrap;
    let confidence = 1.0 - (1.0 - bootstrap.confidence) / others.len().max(1) as f64;
    let bootstrap = Bootstrap { confidence, ..*bootstrap };
    let mut comparisons = Vec::new();
    let mut protocol = Protocol::default();
    for other in others {
        let all = better.outcomes.iter().chain(&other.outcomes).map(Marked::as_ref);
        let Some(gathered) = Marked::gather(all)? else { continue };
        let (found, outcomes) = gathered.reveal();
        protocol = found;
        let (ours, theirs) = outcomes.split_at(better.outcomes.len());
        let intervals = bootstrap
            .mean_differences(ours, theirs)
            .map_err(|error| ClaimError::Bootstrap { than: other.name.clone(), error })?;
        let interval = intervals.into_iter().find(|interval| interval.metric == request.metric);
        comparisons.push(compare(request, better, other, interval, confidence)?);
    }
    let passed = comparisons.iter().all(|comparison| comparison.holds);
    let sentence = sentence(request, better, &comparisons);
    let sentence =
        if protocol == Protocol::Oracle { format!("{sentence} (oracle values)") } else { sentence };
    let ClaimRequest { metric, significant, .. } = *request;
    Ok(ClaimVerdict { sentence, passed, metric, protocol, significant, comparisons })
}

fn compare(
    request: &ClaimRequest,
    better: &ClaimSide,
    other: &ClaimSide,
    interval: Option<Interval>,
    confidence: f64,
) -> Result<ClaimComparison, ClaimError> {
    let (value, theirs) = (mean(&better.values), mean(&other.values));
    let difference = value - theirs;
    let sign = if request.metric.direction() == Direction::Lower { -1.0 } else { 1.0 };
    let is_significant = match &interval {
        Some(interval) => interval.excludes_zero(),
        None if request.significant => return Err(ClaimError::Untestable(request.metric)),
        None => true,
    };
    Ok(ClaimComparison {
        than: other.name.clone(),
        holds: sign * difference > 0.0 && (is_significant || !request.significant),
        value,
        other: theirs,
        difference,
        low: interval.map(|interval| interval.low),
        high: interval.map(|interval| interval.high),
        confidence,
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns a list in words: `a, b and c`.
fn listed(items: &[String]) -> String {
    match items {
        [before @ .., last] if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        items => items.concat(),
    }
}

/// Says whether the claim holds and, if not, where it fails.
fn sentence(request: &ClaimRequest, better: &ClaimSide, comparisons: &[ClaimComparison]) -> String {
    let (metric, value) = (request.metric, mean(&better.values));
    let shown = |comparison: &ClaimComparison| {
        let ClaimComparison { than, other, difference, .. } = comparison;
        let interval = match (comparison.low, comparison.high) {
            (Some(low), Some(high)) => format!(", from {low:+.4} to {high:+.4}"),
            _ => String::new(),
        };
        format!("{than} ({other:.4}; difference {difference:+.4}{interval})")
    };
    let has_failed = comparisons.iter().any(|comparison| !comparison.holds);
    // The others, by how the claimed result compares with them.
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for comparison in comparisons.iter().filter(|comparison| comparison.holds != has_failed) {
        let words = comparison.words(metric, request.significant);
        match groups.iter_mut().find(|(known, _)| *known == words) {
            Some((_, others)) => others.push(shown(comparison)),
            None => groups.push((words, vec![shown(comparison)])),
        }
    }
    let parts = groups.iter().map(|(words, others)| format!("{words} than that of {}", listed(others)));
    let parts: Vec<String> = parts.collect();
    format!("{} of {} is {value:.4}, {}", metric.title(), better.name, parts.join(", and "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_ml::data::csr::Csr;
    use pipe_ml::metric::decisions::Decisions;

    /// Returns a side on 150 rows with five labels, where every n-th row is predicted wrongly.
    fn side(name: &str, protocol: Protocol, wrong_every: usize) -> ClaimSide {
        let truth: Vec<Vec<u32>> = (0..150).map(|row| vec![row % 5]).collect();
        let guess = |(at, row): (usize, &Vec<u32>)| vec![(row[0] + u32::from(at % wrong_every == 0)) % 5];
        let predicted: Vec<Vec<u32>> = truth.iter().enumerate().map(guess).collect();
        let [truth, predicted] = [truth, predicted].map(|rows| Csr::from_rows(5, &rows));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("decisions");
        Decisions::write(&path, protocol, &truth, &predicted).unwrap();
        let decisions = Decisions::open(&path).unwrap();
        let value = 1.0 - 1.0 / wrong_every as f64;
        ClaimSide {
            name: name.to_owned(),
            values: vec![value],
            outcomes: vec![decisions.outcomes().unwrap()],
        }
    }

    fn request(metric: &str, significant: bool) -> ClaimRequest {
        let bootstrap = Bootstrap { replicates: 200, ..Bootstrap::default() };
        ClaimRequest { metric: metric.parse().unwrap(), significant, bootstrap }
    }

    #[test]
    fn a_claim_holds_only_if_every_comparison_does() {
        use Protocol::Honest;
        let (good, close, bad) =
            (side("good", Honest, 40), side("close", Honest, 38), side("bad", Honest, 2));
        let checked = |better: &ClaimSide, others: &[ClaimSide], significant| {
            check(&request("macro_f1", significant), better, others).unwrap()
        };
        assert!(checked(&good, &[side("bad", Honest, 2)], true).passed);
        assert!(checked(&good, &[side("close", Honest, 38)], false).passed);
        let verdict = checked(&good, &[close, bad], true);
        let held: Vec<bool> = verdict.comparisons.iter().map(|comparison| comparison.holds).collect();
        assert_eq!((held, verdict.passed), (vec![false, true], false));
        assert!(
            verdict.sentence.contains("not significantly better than that of close (0.97"),
            "{verdict:?}"
        );
        assert_eq!(verdict.comparisons[0].confidence, 0.975, "two comparisons share the allowed error");
        assert!(!checked(&good, &[side("same", Honest, 40)], false).passed, "equal is not better");
    }

    #[test]
    fn the_sentence_says_where_the_result_is_significantly_worse() {
        let [poor, same, good] = [("poor", 2), ("same", 2), ("good", 40)]
            .map(|(name, wrong_every)| side(name, Protocol::Honest, wrong_every));
        let others = [same, good];
        let sentence =
            |significant| check(&request("macro_f1", significant), &poor, &others).unwrap().sentence;
        let [asked, not_asked] = [sentence(true), sentence(false)];
        assert!(asked.contains(", not significantly better than that of same (0.5000;"), "{asked}");
        assert!(
            asked.contains("), and significantly worse than that of good (0.9750; difference -0.4750"),
            "{asked}"
        );
        assert!(not_asked.contains(", not better than that of same (0.5000;"), "{not_asked}");
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        use Protocol::{Honest, Oracle};
        let failure = |metric, significant, other| {
            check(&request(metric, significant), &side("good", Honest, 40), &[other]).unwrap_err().to_string()
        };
        assert!(failure("macro_f1", false, side("other", Oracle, 2)).contains("different protocols"));
        assert!(failure("bce", true, side("other", Honest, 2)).contains("leave `significant` out"));
    }

    #[test]
    fn less_is_better_for_a_loss() {
        let (low, high) = (side("low", Protocol::Honest, 2), side("high", Protocol::Honest, 40));
        assert!(check(&request("bce", false), &low, &[high]).unwrap().passed);
    }
}
