//! `compare`: how equal a second computation of a stage has to be for its result to count as the same.
//! Not part of the key: it describes how a result is judged, not what the result is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use pipe_core::issue::Issue;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error};
use serde_untagged::UntaggedEnumVisitor;

use super::expect::unknown_metrics;
use pipe_core::kind::{OutputDecl, Vocabulary};
use pipe_core::suggest::{did_you_mean, in_brackets};

/// The comparison policy of a stage. Without exceptions every output is compared byte by byte.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Compare {
    /// Outputs that are not compared.
    pub ignore: BTreeSet<String>,
    /// If any are named, outputs may differ as long as these metrics of the stage agree within the tolerance.
    pub metrics: BTreeMap<String, Tolerance>,
    /// Text outputs whose numbers may differ within the tolerance; the text around them may not.
    pub numbers: BTreeMap<String, Tolerance>,
}

/// How far two numbers may be apart. A bound that is left out is 0.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tolerance {
    /// The largest allowed difference.
    #[serde(default)]
    pub abs: f64,
    /// The largest allowed difference as a fraction of the larger number.
    #[serde(default)]
    pub rel: f64,
}

impl Tolerance {
    /// Returns true if two numbers are equal within the tolerance. NaN equals NaN.
    pub fn allows(self, a: f64, b: f64) -> bool {
        let equal = a == b || (a.is_nan() && b.is_nan());
        equal || (a - b).abs() <= self.abs.max(self.rel * a.abs().max(b.abs()))
    }

    fn is_valid(self) -> bool {
        [self.abs, self.rel].iter().all(|bound| bound.is_finite() && *bound >= 0.0)
    }
}

impl Compare {
    /// Returns what cannot be used for a stage with these outputs and metrics.
    pub(super) fn issues(&self, outputs: &[OutputDecl], metrics: Option<&Vocabulary>) -> Vec<Issue> {
        let mut issues = unknown_metrics("compare.metrics", self.metrics.keys(), metrics);
        let named = self.ignore.iter().map(|name| ("ignore", name));
        for (list, name) in named.chain(self.numbers.keys().map(|name| ("numbers", name))) {
            if !outputs.iter().any(|output| output.name == *name) {
                let known = outputs.iter().map(|output| output.name.as_str());
                let (field, message) =
                    (format!("compare.{list}"), format!("the stage has no output `{name}`"));
                issues.push(Issue { field, message, hint: did_you_mean(name, "its outputs are", known) });
            }
        }
        let tolerances = self.metrics.iter().map(|entry| ("metrics", entry));
        for (list, (name, tolerance)) in tolerances.chain(self.numbers.iter().map(|entry| ("numbers", entry)))
        {
            if !tolerance.is_valid() {
                let message = "a tolerance must be a finite number of at least 0";
                issues.push(Issue::new(format!("compare.{list}.{name}"), message));
            }
        }
        issues
    }
}

/// Prints one line, which is the same for equal policies: `exact`, `ignore=log metrics.macro_f1=abs:0.001`.
impl fmt::Display for Compare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        if !self.ignore.is_empty() {
            words.push(format!("ignore={}", self.ignore.iter().cloned().collect::<Vec<_>>().join(",")));
        }
        words.extend(self.metrics.iter().map(|(name, tolerance)| format!("metrics.{name}={tolerance}")));
        words.extend(self.numbers.iter().map(|(name, tolerance)| format!("numbers.{name}={tolerance}")));
        if words.is_empty() { f.write_str("exact") } else { f.write_str(&words.join(" ")) }
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.abs, self.rel) {
            (abs, 0.0) => write!(f, "abs:{abs}"),
            (0.0, rel) => write!(f, "rel:{rel}"),
            (abs, rel) => write!(f, "abs:{abs},rel:{rel}"),
        }
    }
}

#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Exceptions {
    /// Outputs that are not compared.
    #[serde(default)]
    ignore: BTreeSet<String>,
    /// Metrics of the stage that may differ within the tolerance; if any are named, bytes need not agree.
    #[serde(default)]
    metrics: BTreeMap<String, Tolerance>,
    /// Text outputs whose numbers may differ within the tolerance.
    #[serde(default)]
    numbers: BTreeMap<String, Tolerance>,
}

impl<'de> Deserialize<'de> for Compare {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UntaggedEnumVisitor::new()
            .expecting("`exact`, or a map with `ignore`, `metrics` or `numbers`")
            .string(|text| match text {
                "exact" => Ok(Compare::default()),
                other => Err(Error::custom(format_args!(
                    "`{other}` is not a way to compare{}; write `exact`, or a map with `ignore`, `metrics` or `numbers`",
                    in_brackets(other, ["exact"])
                ))),
            })
            .map(|map| {
                let Exceptions { ignore, metrics, numbers } = map.deserialize()?;
                Ok(Compare { ignore, metrics, numbers })
            })
            .deserialize(deserializer)
    }
}

impl JsonSchema for Compare {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Compare".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let exceptions = Exceptions::json_schema(generator);
        json_schema!({ "anyOf": [{ "type": "string", "const": "exact" }, exceptions] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(yaml: &str) -> Compare {
        serde_yaml::from_str(yaml).unwrap()
    }

    #[test]
    fn equal_policies_are_printed_as_the_same_line() {
        assert_eq!(compare("exact").to_string(), "exact");
        assert_eq!(compare("{}").to_string(), "exact");
        let policy =
            compare("{ numbers: { t: { rel: 1e-6 } }, metrics: { f1: { abs: 0.0010 } }, ignore: [b, a] }");
        assert_eq!(policy.to_string(), "ignore=a,b metrics.f1=abs:0.001 numbers.t=rel:0.000001");
    }

    #[test]
    fn unknown_words_and_keys_are_rejected() {
        for bad in ["about", "{ skip: [a] }", "{ metrics: { f1: { absolute: 1 } } }", "3"] {
            assert!(serde_yaml::from_str::<Compare>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn unknown_outputs_and_negative_tolerances_are_reported() {
        let output = OutputDecl { name: "table".into(), artifact: "file", file_name: "t".into() };
        let policy = compare("{ ignore: [tabel], metrics: { f1: { abs: -1 } } }");
        let fields: Vec<String> =
            policy.issues(&[output], None).into_iter().map(|issue| issue.field).collect();
        assert_eq!(fields, ["compare.ignore", "compare.metrics.f1"]);
    }

    #[test]
    fn the_larger_of_the_absolute_and_the_relative_tolerance_counts() {
        let tolerance = Tolerance { abs: 0.1, rel: 0.01 };
        assert!(
            tolerance.allows(1.0, 1.05)
                && tolerance.allows(100.0, 101.0)
                && tolerance.allows(f64::NAN, f64::NAN)
        );
        assert!(!tolerance.allows(1.0, 1.2) && !tolerance.allows(1.0, f64::NAN));
    }
}
