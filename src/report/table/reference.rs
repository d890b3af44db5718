//! Published values to print beside ours: those of the paper, which ship with `pipe`, and a user's own.
//!
//! ```yaml
//! heading: Paper
//! citation: D. Shamatrin, ..., arXiv:2505.03118 (2025), Table 1
//! data: AmazonCat-13K
//! protocol: oracle                      # or honest; also per row
//! rows:
//!   - match: { variant: adaptive }      # beside our row with that entry
//!     name: Adaptive (IDF+KNN)          # used if no row of ours matches
//!     values: { macro_f1: 0.1712, bce: "0.3118" }
//!   - name: AttentionXML
//!     values: { macro_f1: about 0.07 }  # words before the number are printed too
//! ```

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use super::build::TableError;
use super::request::TableRequest;
use super::{AxisEntry, CitedReference, METRIC, OtherRow, Published, TableLine};
use pipe_core::suggest::in_brackets;
use pipe_ml::metric::marked::{Marked, Protocol};
use pipe_ml::metric::registry::Metric;

/// The references that ship with `pipe`. A change to one changes tables: bump the version of the `table` stage.
const SHIPPED: [(&str, &str); 2] = [
    ("paper-table-1", include_str!("references/paper-table-1.yaml")),
    ("paper-prior-work", include_str!("references/paper-prior-work.yaml")),
];

/// Published results.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    heading: String,
    citation: String,
    data: Option<String>,
    protocol: Protocol,
    rows: Vec<ReferenceRow>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReferenceRow {
    #[serde(default, rename = "match")]
    matches: BTreeMap<String, PublishedText>,
    name: String,
    citation: Option<String>,
    protocol: Option<Protocol>,
    values: BTreeMap<Metric, PublishedText>,
}

/// A published value: text that ends with a number. A number in the file becomes its shortest text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PublishedText(String);

/// Returns the names of the references that ship with `pipe`.
pub fn shipped_names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

impl Reference {
    /// Returns a reference that ships with `pipe`.
    pub fn shipped(name: &str) -> Result<Self, TableError> {
        match SHIPPED.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Self::parse(name, text),
            None => {
                let known: Vec<_> = shipped_names().collect();
                let meant = in_brackets(name, known.iter().copied());
                let message =
                    format!("there is no such reference{meant}; {} ship with pipe", known.join(", "));
                Err(TableError::Reference { file: name.to_owned(), message })
            }
        }
    }

    /// Parses a reference. `file` is used in messages.
    pub fn parse(file: &str, yaml: &str) -> Result<Self, TableError> {
        let error = |message: String| TableError::Reference { file: file.to_owned(), message };
        let reference: Self = serde_yaml::from_str(yaml).map_err(|cause| error(cause.to_string()))?;
        for row in &reference.rows {
            for (metric, written) in &row.values {
                if written.published().is_none() {
                    return Err(error(format!(
                        "`{}` of `{}` is `{}`, but it must end with a number",
                        metric, row.name, written.0
                    )));
                }
            }
        }
        Ok(reference)
    }

    pub(super) fn cited(&self) -> CitedReference {
        CitedReference {
            heading: self.heading.clone(),
            citation: self.citation.clone(),
            data: self.data.clone(),
        }
    }

    /// Returns the published value for a cell of ours.
    pub(super) fn find(&self, place: &[&AxisEntry], metric: Metric) -> Option<Marked<Published>> {
        self.rows.iter().filter(|row| row.is_at(place)).find_map(|row| self.value(row, metric))
    }

    fn value(&self, row: &ReferenceRow, metric: Metric) -> Option<Marked<Published>> {
        let published = row.values.get(&metric)?.published()?;
        Some(Marked::new(row.protocol.unwrap_or(self.protocol), published))
    }
}

impl ReferenceRow {
    /// Whether the row matches the entries of a cell.
    fn is_at(&self, place: &[&AxisEntry]) -> bool {
        let fits = |(axis, wanted): (&String, &PublishedText)| {
            place.iter().any(|value| value.axis == *axis && value.value == wanted.0)
        };
        !self.matches.is_empty() && self.matches.iter().all(fits)
    }

    /// Whether the filter of the table excludes the row.
    fn is_left_out(&self, request: &TableRequest) -> bool {
        self.matches
            .iter()
            .any(|(axis, value)| request.only.get(axis).is_some_and(|only| !only.contains(&value.0)))
    }
}

/// Returns the published rows that match none of ours. A table with metrics in its rows has no place for them.
pub(super) fn others(request: &TableRequest, rows: &[TableLine], columns: &[TableLine]) -> Vec<OtherRow> {
    let mut others = Vec::new();
    for (at, reference) in request.references.iter().enumerate() {
        for row in &reference.rows {
            let beside = rows.iter().any(|ours| {
                columns
                    .iter()
                    .any(|column| row.is_at(&ours.values.iter().chain(&column.values).collect::<Vec<_>>()))
            });
            if beside || row.is_left_out(request) {
                continue;
            }
            let value = |column: &TableLine| {
                let contradicts =
                    |value: &AxisEntry| row.matches.get(&value.axis).is_some_and(|w| w.0 != value.value);
                if column.values.iter().any(contradicts) {
                    return None;
                }
                let metric = column.values.iter().find(|value| value.axis == METRIC)?;
                reference.value(row, metric.value.parse().ok()?)
            };
            let values: Vec<_> = columns.iter().map(value).collect();
            if values.iter().any(Option::is_some) {
                let (name, citation) = (row.name.clone(), row.citation.clone());
                others.push(OtherRow { reference: at, name, citation, values });
            }
        }
    }
    others
}

impl PublishedText {
    fn published(&self) -> Option<Published> {
        let number = self.0.split_whitespace().last()?;
        let value: f64 = number.parse().ok().filter(|value: &f64| value.is_finite())?;
        Some(Published { text: self.0.clone(), value })
    }
}

impl<'de> Deserialize<'de> for PublishedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Scalar;
        impl Visitor<'_> for Scalar {
            type Value = PublishedText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or a number")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<PublishedText, E> {
                Ok(PublishedText(text.to_owned()))
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<PublishedText, E> {
                Ok(PublishedText(value.to_string()))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<PublishedText, E> {
                Ok(PublishedText(value.to_string()))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<PublishedText, E> {
                Ok(PublishedText(value.to_string()))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<PublishedText, E> {
                Ok(PublishedText(value.to_string()))
            }
        }
        deserializer.deserialize_any(Scalar)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shipped_references_can_be_read() {
        for name in shipped_names() {
            assert!(!Reference::shipped(name).unwrap().rows.is_empty(), "{name}");
        }
        let error = Reference::shipped("paper-table-2").unwrap_err().to_string();
        assert!(error.contains("paper-table-1"), "{error}");
    }

    #[test]
    fn the_values_of_table_1_are_those_of_the_paper() {
        let table_1 = Reference::shipped("paper-table-1").unwrap();
        let values = |variant: &str| {
            let place = AxisEntry { axis: "variant".into(), value: variant.into(), title: String::new() };
            [Metric::MacroF1, Metric::Bce, Metric::PositiveRatio].map(|metric| {
                let (protocol, published) = table_1.find(&[&place], metric).unwrap().reveal();
                assert_eq!(protocol, Protocol::Oracle);
                published.text
            })
        };
        assert_eq!(values("adaptive"), ["0.1712", "0.3118", "0.0006"]);
        assert_eq!(values("knn-only"), ["0.1456", "0.3131", "0.0007"]);
        assert_eq!(values("idf-only"), ["0.0094", "0.3197", "0.0007"]);
        assert_eq!(values("static"), ["0.0035", "0.4754", "0.0023"]);
    }

    #[test]
    fn a_value_without_a_number_and_an_unknown_metric_are_rejected() {
        let parse = |values: &str| {
            let yaml = format!(
                "{{heading: H, citation: C, protocol: honest, rows: [{{name: A, values: {values}}}]}}"
            );
            Reference::parse("refs.yaml", &yaml).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(parse("{macro_f1: about 0.07}"), Ok(()));
        assert!(parse("{macro_f1: high}").unwrap_err().contains("`refs.yaml`: `macro_f1` of `A` is `high`"));
        assert!(parse("{macro_f2: 0.1}").unwrap_err().contains("macro_f1"));
    }
}
