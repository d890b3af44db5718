//! YAML text -> typed, validated, expanded specification. Pure: given the same text, variables and
//! environment it gives the same pipeline, and it opens only the files that `extends` names.
//!
//! The way of a file through the modules: [`extends`](self) reads it and lays it over what it
//! extends, as a tree of located `node`s; `scope` gives names their values and `interpolate` puts
//! them in; `stages` finds kinds and, with `matrix`, makes instances; `check` reads their
//! parameters through [`kind`]; `resolve` follows references with the `index`, and `axes` are
//! held against what they lead to; `outputs` places results. On the way every `problem` is collected, and [`diagnostic`] shows them all.

mod axes;
mod check;
pub mod compare;
mod cycle;
pub mod diagnostic;
mod extends;
pub mod file;
mod index;
mod interpolate;
mod load;
mod matrix;
mod node;
mod outputs;
mod overrides;
mod own_file;
pub mod pipeline;
mod problem;
mod resolve;
mod schema;
mod scope;
mod select;
mod source;
mod stages;
#[cfg(test)]
mod test_kinds;
#[cfg(test)]
mod tests;
mod typed;

pub use diagnostic::{Diagnostic, Diagnostics, Severity};
pub use index::SelectError;
pub use load::{Request, load};
pub use overrides::{BadOverride, Override};
pub use schema::schema;
pub use select::select;
