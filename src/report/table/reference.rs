//! Published figures to print beside ours: those of the paper, which ship, and a user's own.
//!
//! ```yaml
//! heading: Paper
//! citation: D. Shamatrin, ..., arXiv:2505.03118 (2025), Table 1
//! data: AmazonCat-13K
//! protocol: oracle                      # or honest; also per row
//! rows:
//!   - match: { variant: adaptive }      # beside our row with that value
//!     name: Adaptive (IDF+KNN)          # if no row of ours has it: in a row of its own
//!     values: { macro_f1: 0.1712, bce: "0.3118" }
//!   - name: AttentionXML
//!     values: { macro_f1: about 0.07 }  # words before the number are printed too
//! ```

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use super::build::TableError;
use super::request::Request;
use super::{Cited, Line, METRIC, OtherRow, Published, Value};
use pipe_ml::metric::marked::{Marked, Protocol};
use pipe_ml::metric::registry::Metric;

/// The sets that ship. Changing one changes tables: bump the stage's version.
const SHIPPED: [(&str, &str); 2] = [
    ("paper-table-1", include_str!("references/paper-table-1.yaml")),
    ("paper-prior-work", include_str!("references/paper-prior-work.yaml")),
];

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    heading: String,
    citation: String,
    data: Option<String>,
    protocol: Protocol,
    rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    #[serde(default, rename = "match")]
    matches: BTreeMap<String, Written>,
    name: String,
    citation: Option<String>,
    protocol: Option<Protocol>,
    values: BTreeMap<Metric, Written>,
}

/// Text, or a number that is kept as it is shortest written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Written(String);

pub fn shipped_names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

impl Reference {
    pub fn shipped(name: &str) -> Result<Self, TableError> {
        match SHIPPED.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Self::parse(name, text),
            None => {
                let known: Vec<_> = shipped_names().collect();
                let message = format!("there is no such reference; {} ship with pipe", known.join(", "));
                Err(TableError::Reference { file: name.to_owned(), message })
            }
        }
    }

    /// `file` is for messages.
    pub fn parse(file: &str, yaml: &str) -> Result<Self, TableError> {
        let bad = |message: String| TableError::Reference { file: file.to_owned(), message };
        let reference: Self = serde_yaml::from_str(yaml).map_err(|error| bad(error.to_string()))?;
        for row in &reference.rows {
            for (metric, written) in &row.values {
                if written.published().is_none() {
                    return Err(bad(format!(
                        "`{}` of `{}` is `{}`: a number is expected at its end",
                        metric, row.name, written.0
                    )));
                }
            }
        }
        Ok(reference)
    }

    pub(super) fn cited(&self) -> Cited {
        Cited { heading: self.heading.clone(), citation: self.citation.clone(), data: self.data.clone() }
    }

    /// The published figure for a place of ours.
    pub(super) fn find(&self, place: &[&Value], metric: Metric) -> Option<Marked<Published>> {
        self.rows.iter().filter(|row| row.is_at(place)).find_map(|row| self.figure(row, metric))
    }

    fn figure(&self, row: &Row, metric: Metric) -> Option<Marked<Published>> {
        let published = row.values.get(&metric)?.published()?;
        Some(Marked::new(row.protocol.unwrap_or(self.protocol), published))
    }
}

impl Row {
    fn is_at(&self, place: &[&Value]) -> bool {
        let fits = |(axis, wanted): (&String, &Written)| {
            place.iter().any(|value| value.axis == *axis && value.value == wanted.0)
        };
        !self.matches.is_empty() && self.matches.iter().all(fits)
    }

    /// The filter does not want rows like this.
    fn is_left_out(&self, request: &Request) -> bool {
        self.matches
            .iter()
            .any(|(axis, value)| request.only.get(axis).is_some_and(|only| !only.contains(&value.0)))
    }
}

/// The published rows that stand beside none of ours, as rows of their own. Where metrics are in the rows
/// there is no place for them.
pub(super) fn others(request: &Request, rows: &[Line], columns: &[Line]) -> Vec<OtherRow> {
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
            let figure = |column: &Line| {
                let elsewhere =
                    |value: &Value| row.matches.get(&value.axis).is_some_and(|w| w.0 != value.value);
                if column.values.iter().any(elsewhere) {
                    return None;
                }
                let metric = column.values.iter().find(|value| value.axis == METRIC)?;
                reference.figure(row, metric.value.parse().ok()?)
            };
            let values: Vec<_> = columns.iter().map(figure).collect();
            if values.iter().any(Option::is_some) {
                let (name, citation) = (row.name.clone(), row.citation.clone());
                others.push(OtherRow { reference: at, name, citation, values });
            }
        }
    }
    others
}

impl Written {
    fn published(&self) -> Option<Published> {
        let number = self.0.split_whitespace().last()?;
        let value: f64 = number.parse().ok().filter(|value: &f64| value.is_finite())?;
        Some(Published { text: self.0.clone(), value })
    }
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Scalar;
        impl Visitor<'_> for Scalar {
            type Value = Written;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or a number")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Written, E> {
                Ok(Written(text.to_owned()))
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Written, E> {
                Ok(Written(value.to_string()))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Written, E> {
                Ok(Written(value.to_string()))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Written, E> {
                Ok(Written(value.to_string()))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Written, E> {
                Ok(Written(value.to_string()))
            }
        }
        deserializer.deserialize_any(Scalar)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ships_can_be_read() {
        for name in shipped_names() {
            assert!(!Reference::shipped(name).unwrap().rows.is_empty(), "{name}");
        }
        let error = Reference::shipped("paper-table-2").unwrap_err().to_string();
        assert!(error.contains("paper-table-1"), "{error}");
    }

    #[test]
    fn the_figures_of_table_1_are_the_papers() {
        let table_1 = Reference::shipped("paper-table-1").unwrap();
        let figures = |variant: &str| {
            let place = Value { axis: "variant".into(), value: variant.into(), title: String::new() };
            [Metric::MacroF1, Metric::Bce, Metric::PositiveRatio].map(|metric| {
                let (protocol, published) = table_1.find(&[&place], metric).unwrap().reveal();
                assert_eq!(protocol, Protocol::Oracle);
                published.text
            })
        };
        assert_eq!(figures("adaptive"), ["0.1712", "0.3118", "0.0006"]);
        assert_eq!(figures("knn-only"), ["0.1456", "0.3131", "0.0007"]);
        assert_eq!(figures("idf-only"), ["0.0094", "0.3197", "0.0007"]);
        assert_eq!(figures("static"), ["0.0035", "0.4754", "0.0023"]);
    }

    #[test]
    fn a_figure_without_a_number_and_an_unknown_metric_are_refused() {
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
