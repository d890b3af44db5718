//! The bodies of requests: JSON to rows.

use std::fmt;

use hyper::StatusCode;
use serde::de::{DeserializeOwned, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use pipe_ml::data::row_encoder::{EncodedRow, NamedValue, NewRow};
use pipe_stages::judge::{ReadyModel, RowsToPredict};

/// How many rows one request may have.
pub(super) const MOST_ROWS: usize = 1000;
/// How many labels one request may ask for, over all of its rows.
const MOST_LABELS: usize = 100_000;

/// A request that is not answered: the status, and a sentence that says why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub status: StatusCode,
    pub message: String,
}

impl Refusal {
    /// Creates a refusal.
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }
}

/// The body of `POST /predict`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PredictBody {
    text: Option<String>,
    texts: Option<Vec<String>>,
    row: Option<JsonRow>,
    rows: Option<Vec<JsonRow>>,
    top: Option<usize>,
}

/// The body of `POST /explain`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ExplainBody {
    text: Option<String>,
    row: Option<JsonRow>,
    label: Option<LabelWord>,
}

/// A label, by its name or its number.
#[derive(Deserialize)]
#[serde(untagged)]
enum LabelWord {
    Name(String),
    Number(u64),
}

/// A row: an object with numbers or names of features and their values, or a list of values.
struct JsonRow(NewRow);

impl<'de> Deserialize<'de> for JsonRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RowVisitor;

        impl<'de> Visitor<'de> for RowVisitor {
            type Value = JsonRow;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a row: an object such as {\"12\": 0.3}, or a list of numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonRow, A::Error> {
                let (mut numbered, mut named) = (Vec::new(), Vec::new());
                while let Some(key) = map.next_key::<String>()? {
                    let is_number = key.bytes().all(|byte| byte.is_ascii_digit());
                    match key.parse() {
                        Ok(number) if is_number => numbered.push((number, map.next_value()?)),
                        _ => named.push((key, map.next_value::<JsonValue>()?.0)),
                    }
                }
                if named.is_empty() {
                    return Ok(JsonRow(NewRow::Sparse(numbered)));
                }
                let numbered = numbered.into_iter();
                named.extend(numbered.map(|(number, value)| (number.to_string(), NamedValue::Number(value))));
                Ok(JsonRow(NewRow::Named(named)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<JsonRow, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = list.next_element::<f32>()? {
                    values.push(value);
                }
                Ok(JsonRow(NewRow::Dense(values)))
            }
        }

        deserializer.deserialize_any(RowVisitor)
    }
}

/// The value of a feature that is given by its name.
struct JsonValue(NamedValue);

impl<'de> Deserialize<'de> for JsonValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValueVisitor;

        impl Visitor<'_> for ValueVisitor {
            type Value = JsonValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or a text for a nominal value")
            }

            fn visit_f64<E>(self, number: f64) -> Result<JsonValue, E> {
                Ok(JsonValue(NamedValue::Number(number as f32)))
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<JsonValue, E> {
                self.visit_f64(number as f64)
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<JsonValue, E> {
                self.visit_f64(number as f64)
            }

            fn visit_str<E>(self, text: &str) -> Result<JsonValue, E> {
                Ok(JsonValue(NamedValue::Nominal(text.to_owned())))
            }
        }

        deserializer.deserialize_any(ValueVisitor)
    }
}

/// Reads the rows of a request for predictions, and turns them into features.
pub(super) fn rows_to_predict(model: &ReadyModel, body: &[u8]) -> Result<RowsToPredict, Refusal> {
    let PredictBody { text, texts, row, rows, top } = read(body)?;
    let given = [text.is_some(), texts.is_some(), row.is_some(), rows.is_some()];
    if given.into_iter().filter(|given| *given).count() != 1 {
        return Err(Refusal::bad_request("give exactly one of `text`, `texts`, `row` and `rows`"));
    }
    let new_rows: Vec<NewRow> = match (text, texts, row, rows) {
        (_, Some(texts), ..) => texts.into_iter().map(NewRow::Text).collect(),
        (_, _, _, Some(rows)) => rows.into_iter().map(|row| row.0).collect(),
        (text, _, row, _) => text.map(NewRow::Text).into_iter().chain(row.map(|row| row.0)).collect(),
    };
    let count = new_rows.len();
    if count == 0 {
        return Err(Refusal::bad_request("there are no rows to predict: the list is empty"));
    }
    let too_large = |message| Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message);
    if count > MOST_ROWS {
        return Err(too_large(format!(
            "there are {count} rows, but one request may have at most {MOST_ROWS}"
        )));
    }
    if top == Some(0) {
        return Err(Refusal::bad_request("`top` must be at least 1"));
    }
    let top = top.map(|top| top.min(model.label_count()));
    let listed = top.unwrap_or(0);
    if count * listed > MOST_LABELS {
        let message = format!(
            "{listed} labels for each of {count} rows are more than {MOST_LABELS}: send fewer rows, or a smaller `top`"
        );
        return Err(too_large(message));
    }
    let encoded = |(number, row): (usize, &NewRow)| {
        model.encode(row).map_err(|reason| Refusal::bad_request(format!("row {number}: {reason}")))
    };
    Ok(RowsToPredict { rows: new_rows.iter().enumerate().map(encoded).collect::<Result<_, _>>()?, top })
}

/// Reads the row and the label of a request for an explanation.
pub(super) fn row_to_explain(model: &ReadyModel, body: &[u8]) -> Result<(EncodedRow, Option<u32>), Refusal> {
    let ExplainBody { text, row, label } = read(body)?;
    let row = match (text, row) {
        (Some(text), None) => NewRow::Text(text),
        (None, Some(row)) => row.0,
        _ => return Err(Refusal::bad_request("give exactly one of `text` and `row`")),
    };
    let row = model.encode(&row).map_err(|reason| Refusal::bad_request(format!("row 0: {reason}")))?;
    let label = label.map(|label| match label {
        LabelWord::Name(name) => model.label_finder().find(&name),
        LabelWord::Number(number) => model.label_finder().find_number(number),
    });
    Ok((row, label.transpose().map_err(Refusal::bad_request)?))
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    if let Err(error) = std::str::from_utf8(body) {
        let place = error.valid_up_to();
        return Err(Refusal::bad_request(format!("the body is not UTF-8: byte {place} is wrong")));
    }
    serde_json::from_slice(body).map_err(|error| {
        let what = if error.is_data() { "the body is wrong" } else { "the body is not JSON" };
        Refusal::bad_request(format!("{what}: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(json: &str) -> Result<NewRow, String> {
        serde_json::from_str::<JsonRow>(json).map(|row| row.0).map_err(|error| error.to_string())
    }

    #[test]
    fn a_row_is_an_object_of_features_or_a_list() {
        assert_eq!(row(r#"{"12": 0.3, "0": 1}"#), Ok(NewRow::Sparse(vec![(12, 0.3), (0, 1.0)])));
        assert_eq!(row("[0.5, -1e-3]"), Ok(NewRow::Dense(vec![0.5, -0.001])));
        assert_eq!(row("{}"), Ok(NewRow::Sparse(vec![])));
        let named = vec![
            ("colour".to_owned(), NamedValue::Nominal("red".to_owned())),
            ("-1".to_owned(), NamedValue::Number(2.0)),
            ("3".to_owned(), NamedValue::Number(0.5)),
        ];
        assert_eq!(row(r#"{"colour": "red", "3": 0.5, "-1": 2}"#), Ok(NewRow::Named(named)));
        for wrong in [r#"{"1": "x"}"#, r#"{"a": null}"#, r#"{"1": null}"#, "[[1]]", "3", "null"] {
            row(wrong).unwrap_err();
        }
        assert!(row("3").unwrap_err().contains("expected a row: an object such as"));
    }

    /// Numbers in JSON must become the floats that the reader of LIBSVM text makes of them.
    #[test]
    fn a_number_is_rounded_once() {
        // Rounded to 64 bits first, this number would become a tie and then the neighbouring 32-bit float.
        let number = "1.00000017881393432617187499";
        assert_ne!(number.parse::<f64>().unwrap() as f32, number.parse::<f32>().unwrap());
        assert_eq!(row(&format!("[{number}]")), Ok(NewRow::Dense(vec![number.parse().unwrap()])));
        assert_eq!(
            row(&format!("{{\"7\": {number}}}")),
            Ok(NewRow::Sparse(vec![(7, number.parse().unwrap())]))
        );
    }

    #[test]
    fn a_body_that_cannot_be_read_is_refused_with_a_reason() {
        let message = |body: &[u8]| read::<PredictBody>(body).err().unwrap().message;
        assert_eq!(message(b"{\"text\": \"\xff\"}"), "the body is not UTF-8: byte 10 is wrong");
        assert!(message(b"").starts_with("the body is not JSON: EOF"));
        assert!(message(b"text=x").starts_with("the body is not JSON: expected"));
        assert!(
            message(b"{\"txt\": \"a\"}")
                .starts_with("the body is wrong: unknown field `txt`, expected one of")
        );
        assert!(message(b"{\"text\": \"a\", \"text\": \"b\"}").contains("duplicate field `text`"));
        assert!(message(&[b'['; 100_000]).starts_with("the body is"));
    }
}
