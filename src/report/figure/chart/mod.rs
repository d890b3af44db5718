//! Charts, which are laid out as a [`Drawing`](super::draw::Drawing).
//!
//! Measured values are [`Marked`](pipe_ml::metric::marked::Marked), and only the layout reveals them: there, values of
//! the oracle protocol get their mark on the name, on the shape and in a note.
//!
//! The charts are hand-written (about 800 lines with tests) because they follow rules that a plotting crate such as
//! `plotters` does not know: legends never cover the chart, oracle values are marked by shape and text, and the same
//! input gives the same bytes.

pub mod bars;
pub mod curves;
mod legend;
pub mod scale;
pub mod style;

/// One column of a two-column paper: 3.3 inches.
pub const WIDTH: f64 = 237.6;
/// The text size of axis labels and legends.
const TEXT: f64 = 8.0;
/// The text size of tick labels and notes.
const SMALL: f64 = 7.0;
const MARGIN: f64 = 3.0;

/// The mark behind every name and value of the oracle protocol.
pub const ORACLE_MARK: &str = "†";
const ORACLE_NOTE: &str = "† oracle: thresholds have seen the true labels of the judged rows.";
