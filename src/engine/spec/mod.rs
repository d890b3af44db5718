//! The pipeline language: from YAML text to a typed, checked and expanded plan.
//!
//! Deterministic: the same text, variables and environment give the same plan. The only files that are opened are the
//! pipeline and those that it `extends`; built-in parts are passed in.
//!
//! The steps of [`load`], each in a module:
//! 1. `extends` reads the file and merges it over the files that it extends, as a tree of located nodes (`yaml_node`).
//! 2. `scope` resolves variables; `interpolate` replaces placeholders by their values.
//! 3. `stages` finds the kind of each stage and, with `matrix`, creates its instances.
//! 4. `check` turns parameters into JSON and deserializes them through their kind (`deserialize`).
//! 5. `resolve` follows references with the help of `index` and proves that they form no cycle; `axis_check` checks
//!    the axes that parameters mention.
//! 6. `outputs` decides what is placed outside the cache.
//!
//! Every step collects its issues (`spec_issue`); [`diagnostic`] shows all of them at once.

mod axis_check;
mod check;
pub mod compare;
mod deserialize;
pub mod diagnostic;
pub mod expect;
mod extends;
mod flat_params;
mod index;
mod interpolate;
mod json_text;
mod load;
mod matrix;
mod outputs;
mod overrides;
pub mod pipeline;
pub mod pipeline_file;
mod resolve;
pub mod resource_request;
mod schema;
mod scope;
mod select;
mod source_text;
mod spec_issue;
mod stages;
#[cfg(test)]
mod test_kinds;
#[cfg(test)]
mod tests;
pub mod time_limit;
mod user_files;
mod yaml_node;

pub use diagnostic::{Diagnostic, DiagnosticSeverity, Diagnostics};
pub use flat_params::FlatParams;
pub use index::SelectError;
pub use json_text::JsonText;
pub use load::{FindInterpreter, LoadRequest, load};
pub use overrides::{BadOverride, Override};
pub use schema::{TITLE, schema};
pub use select::select;
