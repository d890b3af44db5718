//! The terms that rows and columns consist of: named metrics, or the values of an axis.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use pipe_ml::metric::registry::Metric;

/// A metric or an axis, as it is written in `rows` or `columns`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableTerm {
    Metric(Metric),
    Axis(String),
}

impl TableTerm {
    /// Returns the word.
    pub fn name(&self) -> &str {
        match self {
            Self::Metric(metric) => metric.name(),
            Self::Axis(axis) => axis,
        }
    }

    /// Returns the metric that was probably meant, if this is read as an axis but nearly the name of a metric, or a part of one
    /// such as `f1`.
    pub fn misspelt(&self) -> Option<Metric> {
        let Self::Axis(axis) = self else { return None };
        let has_part = |name: &&str| name.split('_').any(|part| part.eq_ignore_ascii_case(axis));
        let names = || Metric::ALL.iter().map(|metric| metric.name());
        pipe_core::suggest::closest(axis, names()).or_else(|| names().find(has_part))?.parse().ok()
    }
}

impl From<String> for TableTerm {
    fn from(word: String) -> Self {
        word.parse().map_or(Self::Axis(word), Self::Metric)
    }
}

impl Serialize for TableTerm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Metric(metric) => metric.serialize(serializer),
            Self::Axis(axis) => serializer.serialize_str(axis),
        }
    }
}

impl<'de> Deserialize<'de> for TableTerm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

impl JsonSchema for TableTerm {
    fn schema_name() -> Cow<'static, str> {
        "TableTerm".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let metric = generator.subschema_for::<Metric>();
        json_schema!({
            "description": "A metric, or an axis: one of the matrix, `stage`, `protocol` or `part`.",
            "anyOf": [metric, { "type": "string" }],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_not_a_metric_is_an_axis_and_may_be_a_misspelt_metric() {
        let term = |word: &str| TableTerm::from(word.to_owned());
        assert_eq!(term("bce"), TableTerm::Metric(Metric::Bce));
        assert_eq!(term("seed").misspelt(), None);
        assert_eq!(term("lr").misspelt(), None);
        assert_eq!(term("macro_fi").misspelt(), Some(Metric::MacroF1));
        assert!(term("p_at_2").misspelt().is_some());
        assert_eq!(term("F1").misspelt(), Some(Metric::MacroF1));
    }
}
