//! `expect`: what the metrics of a stage have to be. A result outside of these bounds fails the run and `pipe verify`.
//! Not part of the key: it describes how a result is judged, not what the result is.

use std::collections::BTreeMap;

use pipe_core::issue::Issue;
use pipe_core::kind::{Requirement, Vocabulary};
use pipe_core::protocol::MetricValue;
use pipe_core::suggest::did_you_mean;
use schemars::JsonSchema;

/// Bounds of the metrics of a stage, by the name of the metric, and what its kind requires.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Expect {
    bounds: BTreeMap<String, Bounds>,
    #[serde(skip)]
    requirement: Option<Requirement>,
}

/// The bounds of one metric.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// The smallest value that is accepted.
    min: Option<f64>,
    /// The largest value that is accepted.
    max: Option<f64>,
}

impl Expect {
    /// Returns true if nothing is expected.
    pub fn is_empty(&self) -> bool {
        self.bounds.is_empty() && self.requirement.is_none()
    }

    /// Adds what the kind of the stage requires.
    pub(super) fn and(self, requirement: Option<Requirement>) -> Self {
        Self { requirement, ..self }
    }

    /// Returns what is wrong with the bounds themselves, and with the names of metrics that a stage never records.
    pub(super) fn issues(&self, metrics: Option<&Vocabulary>) -> Vec<Issue> {
        let wrong = |bounds: &Bounds| match (bounds.min, bounds.max) {
            (None, None) => Some("give it a bound: `min`, `max` or both"),
            (min, max) if [min, max].iter().flatten().any(|bound| !bound.is_finite()) => {
                Some("a bound must be a finite number")
            }
            (Some(min), Some(max)) if min > max => Some("`min` is larger than `max`"),
            _ => None,
        };
        let issue = |(name, bounds)| Some(Issue::new(format!("expect.{name}"), wrong(bounds)?));
        let unknown = unknown_metrics("expect", self.bounds.keys(), metrics);
        unknown.into_iter().chain(self.bounds.iter().filter_map(issue)).collect()
    }

    /// Returns the sentences about metrics that are missing or not within their bounds.
    pub fn violations(&self, metrics: &BTreeMap<String, MetricValue>) -> Vec<String> {
        let violation = |(name, bounds): (&String, &Bounds)| {
            let Some(found) = metrics.get(name) else {
                let names = metrics.keys().map(String::as_str);
                let hint = did_you_mean(name, "it has", names).map(|hint| format!("; {hint}"));
                let hint = hint.unwrap_or_default();
                return Some(format!("it has no metric `{name}`, for which `expect` gives bounds{hint}"));
            };
            let (value, mark) = (found.value, found.suffix());
            let is_within =
                bounds.min.is_none_or(|min| value >= min) && bounds.max.is_none_or(|max| value <= max);
            let wanted = match (bounds.min, bounds.max) {
                (Some(min), Some(max)) => format!("between {min} and {max}"),
                (Some(min), None) => format!("at least {min}"),
                (None, Some(max)) => format!("at most {max}"),
                (None, None) => return None,
            };
            // NaN is within no bounds.
            let value = short(value, bounds);
            (!is_within).then(|| format!("{name} is {value}{mark}, but it has to be {wanted} (`expect`)"))
        };
        let unmet = self
            .requirement
            .filter(|required| metrics.get(required.metric).is_none_or(|found| found.value != 1.0));
        let unmet = unmet.map(|required| required.otherwise.to_owned());
        unmet.into_iter().chain(self.bounds.iter().filter_map(violation)).collect()
    }
}

/// Returns a value with four decimals, or with all if it would look like one of its bounds.
fn short(value: f64, bounds: &Bounds) -> String {
    let (full, rounded) = (value.to_string(), format!("{value:.4}"));
    let looks_like = |bound: f64| format!("{bound:.4}") == rounded;
    let is_bound = [bounds.min, bounds.max].into_iter().flatten().any(looks_like);
    if is_bound || full.len() <= rounded.len() { full } else { rounded }
}

/// Returns the issues of names under `setting` that are not those of metrics of the stage.
pub(super) fn unknown_metrics<'n>(
    setting: &str,
    names: impl IntoIterator<Item = &'n String>,
    metrics: Option<&Vocabulary>,
) -> Vec<Issue> {
    let Some(metrics) = metrics else { return Vec::new() };
    let unknown = names.into_iter().filter(|name| !metrics.has(name));
    unknown
        .map(|name| Issue {
            field: format!("{setting}.{name}"),
            message: format!("the stage records no metric `{name}`"),
            hint: metrics.hint(name),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expect(yaml: &str) -> Expect {
        serde_yaml::from_str(yaml).unwrap()
    }

    #[test]
    fn a_metric_outside_of_its_bounds_or_missing_is_a_violation() {
        let metrics = BTreeMap::from([
            ("macro_f1".to_owned(), MetricValue::unmarked(0.4)),
            ("undefined".to_owned(), MetricValue::unmarked(f64::NAN)),
        ]);
        let violations = |yaml| expect(yaml).violations(&metrics);
        assert_eq!(violations("{ macro_f1: { min: 0.4, max: 0.4 } }"), [""; 0]);
        assert_eq!(
            violations("{ macro_f1: { min: 0.43 } }"),
            ["macro_f1 is 0.4, but it has to be at least 0.43 (`expect`)"]
        );
        let third = BTreeMap::from([("macro_f1".to_owned(), MetricValue::unmarked(1.0 / 3.0))]);
        let shown = |yaml| expect(yaml).violations(&third)[0].split(',').next().unwrap().to_owned();
        assert_eq!(shown("{ macro_f1: { min: 0.43 } }"), "macro_f1 is 0.3333");
        assert_eq!(shown("{ macro_f1: { min: 0.33334 } }"), "macro_f1 is 0.3333333333333333");
        assert!(violations("{ macro_f1: { max: 0.3 } }")[0].contains("at most 0.3"));
        assert_eq!(violations("{ undefined: { min: 0 } }").len(), 1);
        assert!(violations("{ macrof1: { min: 0 } }")[0].contains("did you mean `macro_f1`?"));
    }

    #[test]
    fn a_requirement_of_the_kind_is_met_only_by_the_value_one() {
        let required = Some(Requirement { metric: "holds", otherwise: "it does not hold" });
        let violations = |value: f64| {
            let metrics = BTreeMap::from([("holds".to_owned(), MetricValue::unmarked(value))]);
            expect("{}").and(required).violations(&metrics)
        };
        assert_eq!(violations(1.0), [""; 0]);
        assert_eq!(violations(0.0), ["it does not hold"]);
        assert_eq!(violations(f64::NAN), ["it does not hold"]);
        assert_eq!(expect("{}").and(required).violations(&BTreeMap::new()), ["it does not hold"]);
        assert!(expect("{}").is_empty() && !expect("{}").and(required).is_empty());
    }

    #[test]
    fn a_metric_that_the_stage_never_records_is_an_issue() {
        let metrics = Vocabulary::of_metrics(["macro_f1", "weight_*"]);
        let issues = |yaml: &str| expect(yaml).issues(Some(&metrics));
        assert_eq!(issues("{ macro_f1: { min: 0 }, weight_1_knn: { max: 1 } }"), []);
        let [issue] = &issues("{ macrof1: { min: 0 } }")[..] else { panic!("one issue") };
        assert_eq!(
            (issue.field.as_str(), issue.hint.as_deref()),
            ("expect.macrof1", Some("did you mean `macro_f1`?"))
        );
        assert_eq!(expect("{ anything: { min: 0 } }").issues(None), [], "of a program of the user");
    }

    #[test]
    fn bounds_that_bound_nothing_or_contradict_each_other_are_issues() {
        for yaml in ["{ a: {} }", "{ a: { min: 1, max: 0 } }", "{ a: { min: .nan } }"] {
            assert_eq!(expect(yaml).issues(None).len(), 1, "{yaml}");
        }
        assert!(serde_yaml::from_str::<Expect>("{ a: { least: 1 } }").is_err());
    }
}
