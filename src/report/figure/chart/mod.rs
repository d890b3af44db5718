//! Charts, which are laid out as a [`Drawing`](super::draw::Drawing).
//!
//! Measured values are [`Marked`](pipe_ml::metric::marked::Marked), and only the layout reveals them: there, values of
//! the oracle protocol get their mark on the name, on the shape and in a note.
//!
//! The charts are hand-written (about 1,300 lines with tests) because they follow rules that a plotting crate such as
//! `plotters` does not know: legends never cover the chart, oracle values are marked by shape and text, and the same
//! input gives the same bytes.

pub mod bars;
pub mod curves;
pub mod format;
mod legend;
pub mod scale;
pub mod style;

use super::draw::Drawing;
use bars::BarChart;
use curves::Chart;
use format::FigureFormat;

/// The text size of axis labels and legends.
const TEXT: f64 = 8.0;
/// The text size of tick labels and notes.
const SMALL: f64 = 7.0;
const MARGIN: f64 = 3.0;

/// The mark behind every name and value of the oracle protocol.
pub const ORACLE_MARK: &str = "†";
const ORACLE_NOTE: &str = "† oracle: the thresholds used the true labels of the evaluated rows.";

/// A chart of any type.
pub enum AnyChart {
    Curves(Chart),
    Bars(BarChart),
}

impl AnyChart {
    /// Lays the chart out.
    pub fn draw(&self, format: FigureFormat) -> Drawing {
        let drawing = match self {
            Self::Curves(chart) => chart.draw(format.page()),
            Self::Bars(chart) => chart.draw(format.page()),
        };
        format.finish(drawing)
    }
}

impl From<Chart> for AnyChart {
    fn from(chart: Chart) -> Self {
        Self::Curves(chart)
    }
}

impl From<BarChart> for AnyChart {
    fn from(chart: BarChart) -> Self {
        Self::Bars(chart)
    }
}
