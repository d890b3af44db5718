//! The parameters of training and of models.
//!
//! Every group of parameters is two types, defined by one macro: the one that a user writes, with all fields
//! optional (`LossChanges`), and the one that the program uses, with all fields present (`LossConfig`). A
//! [`preset::Preset`] is a complete [`method::Method`]; changes are applied to it.
//!
//! The doc comments of types that users write are the descriptions in `pipeline.schema.json`.

/// Defines a group of parameters, and the same group with every field optional.
macro_rules! settings {
    (
        $(#[$doc:meta])*
        $name:ident / $changes:ident {
            $( $(#[$field_doc:meta])* $field:ident : $type:ty ),+ $(,)?
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $( $(#[$field_doc])* pub $field: $type, )+
        }

        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct $changes {
            $( $(#[$field_doc])* pub $field: Option<$type>, )+
        }

        impl $changes {
            /// Returns `base` with the written fields replaced.
            pub fn over(self, base: $name) -> $name {
                $name { $( $field: self.$field.unwrap_or(base.$field), )+ }
            }
        }
    };
}

/// Returns whether a parameter has its default value. A parameter that came later is left out of keys then, so that they
/// stay what they were.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub mod auto_model;
pub mod device;
pub mod loss;
pub mod method;
pub mod model;
pub mod net;
pub mod number_or_word;
pub mod optimiser;
pub mod preset;
pub mod schedule;
pub mod signal;
pub mod threshold;
