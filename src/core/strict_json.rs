//! Deserializes parameters from JSON more strictly than `serde_json` does.
//!
//! `serde_json` also accepts a list for a struct and a map for an enum, forms that the pipeline language does not have.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, Error as _, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Value};

/// A JSON value that is deserialized strictly: a struct only from a map, and an enum only from its name.
#[derive(Debug, Clone, Copy)]
pub struct StrictJson<'a>(pub &'a Value);

impl StrictJson<'_> {
    fn unexpected(&self) -> Unexpected<'_> {
        match self.0 {
            Value::Null => Unexpected::Unit,
            Value::Bool(value) => Unexpected::Bool(*value),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), _, _) => Unexpected::Unsigned(number),
                (_, Some(number), _) => Unexpected::Signed(number),
                (_, _, number) => Unexpected::Float(number.unwrap_or(f64::NAN)),
            },
            Value::String(text) => Unexpected::Str(text),
            Value::Array(_) => Unexpected::Seq,
            Value::Object(_) => Unexpected::Map,
        }
    }
}

impl<'a> IntoDeserializer<'a, Error> for StrictJson<'a> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for StrictJson<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Array(items) => {
                let mut items = SeqDeserializer::<_, Error>::new(items.iter().map(StrictJson));
                let value = visitor.visit_seq(&mut items)?;
                items.end()?;
                Ok(value)
            }
            Value::Object(fields) => {
                let mut fields = MapDeserializer::<_, Error>::new(
                    fields.iter().map(|(key, value)| (key.as_str(), StrictJson(value))),
                );
                let value = visitor.visit_map(&mut fields)?;
                fields.end()?;
                Ok(value)
            }
            scalar => scalar.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.0.is_object() {
            self.deserialize_any(visitor)
        } else {
            Err(Error::invalid_type(self.unexpected(), &visitor))
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Value::String(name) => visitor.visit_enum(name.as_str().into_deserializer()),
            _ => Err(Error::invalid_type(self.unexpected(), &visitor)),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Point {
        x: f64,
        #[serde(default)]
        word: Option<Word>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Word {
        Near,
    }

    fn read(value: Value) -> Result<Point, String> {
        Point::deserialize(StrictJson(&value)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_struct_is_a_map_and_an_enum_is_a_name() {
        assert_eq!(read(json!({ "x": 1, "word": "near" })), Ok(Point { x: 1.0, word: Some(Word::Near) }));
        assert_eq!(read(json!({ "x": 0.5, "word": null })), Ok(Point { x: 0.5, word: None }));
        assert_eq!(read(json!([1])), Err("invalid type: sequence, expected struct Point".to_owned()));
        let error = read(json!({ "x": 1, "word": { "near": null } }));
        assert_eq!(error, Err("invalid type: map, expected enum Word".to_owned()));
    }
}
