//! Records to tables, figures and pages, and two of them to their differences. Pure: strings and bytes come out,
//! nothing is read or written.
//!
//! Figures enter as [`Marked`](pipe_ml::metric::marked::Marked) values and stay so in a [`table::Table`]; the
//! sheet, which every format for people is written from, is where they are revealed, each under its mark.

pub mod artifacts;
pub mod diff;
pub mod figure;
pub mod page;
pub mod table;
