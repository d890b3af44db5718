//! Parameters that are either a number or one of a few words: `pos_weight: 10`, `pos_weight: sqrt`.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Defines an enum that is written as a number or as one of several words.
macro_rules! number_or_word {
    (
        $(#[$doc:meta])*
        $name:ident {
            $(#[$number_doc:meta])* $number:ident(f64);
            $( $(#[$word_doc:meta])* $variant:ident = $word:literal, )+
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub enum $name {
            $( $(#[$word_doc])* $variant, )+
            $(#[$number_doc])* $number(f64),
        }

        impl $name {
            const WORDS: &'static [&'static str] = &[$($word),+];
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $( Self::$variant => serializer.serialize_str($word), )+
                    Self::$number(number) => serializer.serialize_f64(*number),
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                match deserializer.deserialize_any(NumberOrWord(Self::WORDS))? {
                    Written::Number(number) => Ok(Self::$number(number)),
                    $( Written::Word($word) => Ok(Self::$variant), )+
                    Written::Word(other) => Err(D::Error::custom(format!("`{other}` has no meaning here"))),
                }
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "anyOf": [{ "type": "number" }, { "enum": Self::WORDS }] })
            }
        }
    };
}

/// The value as it was written.
enum Written {
    Number(f64),
    Word(&'static str),
}

/// Reads a number or one of these words.
struct NumberOrWord(&'static [&'static str]);

impl Visitor<'_> for NumberOrWord {
    type Value = Written;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a number or one of `{}`", self.0.join("`, `"))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Written, E> {
        Ok(Written::Number(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Written, E> {
        Ok(Written::Number(number as f64))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Written, E> {
        Ok(Written::Number(number as f64))
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Written, E> {
        match self.0.iter().find(|known| **known == word) {
            Some(known) => Ok(Written::Word(known)),
            None => Err(E::unknown_variant(word, self.0)),
        }
    }
}

number_or_word! {
    /// How much more a positive counts than a negative in the cross-entropy.
    PosWeight {
        /// The same for every label.
        Number(f64);
        /// The same as a negative.
        None = "none",
        /// Per label, the square root of negatives per positive.
        Sqrt = "sqrt",
        /// Per label, ln(1 + negatives per positive).
        Log = "log",
    }
}

number_or_word! {
    /// The initial value of a vector of threshold parameters.
    Init {
        /// Every entry the same.
        Constant(f64);
        /// Independent draws from the standard normal distribution.
        Normal = "normal",
    }
}

number_or_word! {
    /// The initial value of the bias of the output layer.
    BiasInit {
        /// Every entry the same.
        Constant(f64);
        /// Like the weights of the layer.
        Layer = "layer",
    }
}

number_or_word! {
    /// An upper bound that may be absent.
    Limit {
        /// This bound.
        At(f64);
        /// No bound.
        None = "none",
    }
}

impl Limit {
    /// Returns the bound, if there is one.
    pub fn value(self) -> Option<f64> {
        match self {
            Self::None => None,
            Self::At(bound) => Some(bound),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_words_are_read_and_written() {
        for (text, value) in [
            ("10", PosWeight::Number(10.0)),
            ("1e1", PosWeight::Number(10.0)),
            ("sqrt", PosWeight::Sqrt),
            ("none", PosWeight::None),
        ] {
            assert_eq!(serde_yaml::from_str::<PosWeight>(text).unwrap(), value);
        }
        let back = serde_json::to_string(&[PosWeight::Number(2.5), PosWeight::Log]).unwrap();
        assert_eq!(back, r#"[2.5,"log"]"#);
    }

    #[test]
    fn the_error_for_an_unknown_word_lists_the_known_ones() {
        let error = serde_yaml::from_str::<PosWeight>("square").unwrap_err().to_string();
        assert!(error.contains("square") && error.contains("sqrt"), "{error}");
    }
}
