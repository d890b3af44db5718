//! Records to tables, figures and pages. Pure: strings and bytes come out, nothing is read or written.
//!
//! ```text
//! Measured records + Request -> build         -> Table     figures with their protocol, ranks, comparisons
//! Decisions                  -> significance  -> Table     which differences are settled
//! Table                      -> sheet         -> Sheet     heads, marks and notes, laid out once for all formats
//! Sheet                      -> latex, markdown (and the terminal, in `cli`)
//! Table                      -> csv, json, macros
//! ```
//!
//! Figures enter as [`Marked`](crate::ml::metric::marked::Marked) values and stay so in the [`table::Table`]; the
//! sheet, which every format for people is written from, is where they are revealed, each under its mark.

pub mod build;
pub mod csv;
pub mod diff;
pub mod figure;
pub mod latex;
mod latex_char;
pub mod latex_text;
pub mod macros;
pub mod markdown;
pub mod measured;
pub mod note;
pub mod number;
pub mod page;
mod rank;
pub mod reference;
pub mod request;
pub mod sheet;
pub mod significance;
pub mod table;
pub mod term;
#[cfg(test)]
mod tests;
pub mod title;
