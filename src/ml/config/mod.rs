//! The parameters of the method: typed, resolved, free of libtorch.
//!
//! Every group of parameters is two types made by one macro: what a user may write, every field
//! optional (`LossChanges`), and what the program works with, every field present
//! (`LossConfig`). A [`preset::Preset`] is a complete [`method::Method`]; changes go over it.

/// Defines a group of parameters and, beside it, the same group with every field optional.
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
            /// `base` with every field that was written replaced.
            pub fn over(self, base: $name) -> $name {
                $name { $( $field: self.$field.unwrap_or(base.$field), )+ }
            }
        }
    };
}

pub mod choice;
pub mod device;
pub mod loss;
pub mod method;
pub mod model;
pub mod net;
pub mod optimiser;
pub mod preset;
pub mod schedule;
pub mod signal;
pub mod threshold;
