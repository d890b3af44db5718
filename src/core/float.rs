//! Floating-point numbers in JSON, including those that JSON has no number for.
//!
//! For `#[serde(with = "pipe_core::float")]`: finite values are JSON numbers; NaN and the infinities are strings.

use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serializer};
use serde_json::Value;

/// Writes a finite value as a number and any other as a string.
pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() { serializer.serialize_f64(*value) } else { serializer.collect_str(value) }
}

/// Reads a number, or a string that spells one.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let json = Value::deserialize(deserializer)?;
    let number = json.as_f64().or_else(|| json.as_str()?.parse().ok());
    number.ok_or_else(|| D::Error::invalid_type(Unexpected::Other("something else"), &"a number"))
}
