//! Charts: what is to be seen, laid out into a [`Drawing`](super::draw::Drawing). Whatever was measured comes in as
//! [`Marked`](pipe_ml::metric::marked::Marked), and the layout is the only one that opens it: figures of the oracle
//! protocol get their mark there, on the name, on the shape and in a note.

pub mod bars;
pub mod curves;
mod legend;
pub mod scale;
pub mod style;

/// One column of a two-column paper: 3.3 inches.
pub const WIDTH: f64 = 237.6;
/// Of axis labels and legends.
const TEXT: f64 = 8.0;
/// Of tick labels and notes.
const SMALL: f64 = 7.0;
const MARGIN: f64 = 3.0;

/// Stands behind every name and value that comes from the oracle protocol.
pub const ORACLE_MARK: &str = "†";
const ORACLE_NOTE: &str = "† oracle: thresholds have seen the true labels of the judged rows.";
