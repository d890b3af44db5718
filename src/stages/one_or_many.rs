//! Parameters that may be written in several ways: one value or a list, the value of an axis, a file.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, IntoDeserializer};
use serde::{Deserialize, Deserializer, Serialize};
use serde_untagged::UntaggedEnumVisitor;

use pipe_core::scalar::float_text;

/// One value or a list of values: `rows: variant`, `rows: [dataset, variant]`. A single value and a list of one value
/// give the same key.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct OneOrMany<T>(pub Vec<T>);

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let items = UntaggedEnumVisitor::new()
            .expecting("one value or a list")
            .string(|text| Ok(vec![T::deserialize(text.into_deserializer())?]))
            .bool(|value| Ok(vec![T::deserialize(value.into_deserializer())?]))
            .i64(|value| Ok(vec![T::deserialize(value.into_deserializer())?]))
            .u64(|value| Ok(vec![T::deserialize(value.into_deserializer())?]))
            .f64(|value| Ok(vec![T::deserialize(value.into_deserializer())?]))
            .map(|map| Ok(vec![map.deserialize()?]))
            .seq(|items| items.deserialize())
            .deserialize(deserializer)?;
        Ok(Self(items))
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let item = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [item, { "type": "array", "items": item }] })
    }
}

/// The value of an axis, which may be written as `1`, `"1"`, `true` or `1e-4`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct AxisValue(pub String);

impl<'de> Deserialize<'de> for AxisValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = UntaggedEnumVisitor::new()
            .expecting("the value of an axis")
            .string(|text| Ok(text.to_owned()))
            .bool(|value| Ok(value.to_string()))
            .i64(|value| Ok(value.to_string()))
            .u64(|value| Ok(value.to_string()))
            .f64(|value| Ok(float_text(value)))
            .deserialize(deserializer)?;
        Ok(Self(text))
    }
}

/// A file or directory of the user, written as `{ file: PATH }`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserFile {
    pub(crate) file: String,
}

impl JsonSchema for AxisValue {
    fn schema_name() -> Cow<'static, str> {
        "AxisValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}
