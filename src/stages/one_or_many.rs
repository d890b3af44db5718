//! A parameter that takes one thing or a list of them: `rows: variant`, `rows: [dataset, variant]`. Both ways are
//! the same list to a key.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct OneOrMany<T>(pub Vec<T>);

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one value or a list")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
                Ok(vec![T::deserialize(text.into_deserializer())?])
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Vec<T>, E> {
                Ok(vec![T::deserialize(value.into_deserializer())?])
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Vec<T>, E> {
                Ok(vec![T::deserialize(value.into_deserializer())?])
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Vec<T>, E> {
                Ok(vec![T::deserialize(value.into_deserializer())?])
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Vec<T>, E> {
                Ok(vec![T::deserialize(value.into_deserializer())?])
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<T>, A::Error> {
                Ok(vec![T::deserialize(MapAccessDeserializer::new(map))?])
            }

            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Vec<T>, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(items))
            }
        }
        deserializer.deserialize_any(Items(PhantomData)).map(Self)
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

/// The value of an axis, however it is written: `1`, `"1"`, `true`, `1e-4`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct AxisValue(pub String);

impl<'de> Deserialize<'de> for AxisValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Scalar;
        impl Visitor<'_> for Scalar {
            type Value = String;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the value of an axis")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
                Ok(text.to_owned())
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<String, E> {
                Ok(value.to_string())
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<String, E> {
                Ok(value.to_string())
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<String, E> {
                Ok(value.to_string())
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<String, E> {
                Ok(number_text(value))
            }
        }
        deserializer.deserialize_any(Scalar).map(Self)
    }
}

/// As axes have it: `1e-4` and `0.0001` are one value, `1.0` is `1`.
fn number_text(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 || (1e-5..1e15).contains(&size) { format!("{number}") } else { format!("{number:e}") }
}

impl JsonSchema for AxisValue {
    fn schema_name() -> Cow<'static, str> {
        "AxisValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}
