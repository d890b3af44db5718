//! Figures for papers. A [`Figure`] is drawn from [`FigureInputs`] and can be written as SVG, as PDF, and as CSV with the
//! values that it shows. The same results always give the same bytes.
//!
//! [`naming`] groups the results of several runs. Each [`kind`](kind::FigureKind) of figure is a file here. [`chart`] lays
//! it out, and [`draw`] writes it.
//!
//! To add a figure, write its file, add a variant to [`FigureKind`](kind::FigureKind) and a line to
//! [`FigureInputs::plan`], and describe it in `docs/figures.md`.

pub mod chart;
pub mod data_table;
pub mod draw;
mod f1_by_frequency;
mod f1_over_epochs;
mod final_f1;
mod inputs;
pub mod kind;
mod label_frequency;
pub mod metric_figure;
pub mod naming;
mod precision_recall;
mod reliability;
pub mod source;
#[cfg(test)]
mod tests;
mod threshold_weights;
mod thresholds;

use chart::AnyChart;
use chart::format::FigureFormat;
use data_table::DataTable;
use draw::Drawing;

pub use f1_by_frequency::f1_by_frequency;
pub use f1_over_epochs::f1_over_epochs;
pub use final_f1::{final_f1, oracle_versus_honest};
pub use inputs::FigureInputs;
pub use label_frequency::label_frequency;
pub use precision_recall::precision_recall;
pub use reliability::reliability;
pub use threshold_weights::threshold_weights;
pub use thresholds::thresholds;

/// The chart of a figure before it is drawn, with the values that it shows.
pub struct PlannedFigure {
    chart: AnyChart,
    data: DataTable,
}

impl PlannedFigure {
    fn new(chart: impl Into<AnyChart>, data: DataTable) -> Self {
        Self { chart: chart.into(), data }
    }

    /// Draws the figure.
    pub fn draw(self, format: FigureFormat) -> Figure {
        Figure { drawing: self.chart.draw(format), data: self.data }
    }
}

/// A drawn figure, with the values that it shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    drawing: Drawing,
    data: DataTable,
}

impl Figure {
    /// Returns the figure as SVG.
    pub fn svg(&self) -> String {
        draw::svg::svg(&self.drawing)
    }

    /// Returns the figure as a PDF file.
    pub fn pdf(&self) -> Vec<u8> {
        draw::pdf::pdf(&self.drawing)
    }

    /// Whether the figure shows no values.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Returns the values that the figure shows as CSV.
    pub fn csv(&self) -> String {
        self.data.csv()
    }

    /// Returns the characters that the PDF shows as empty boxes, each once.
    pub fn missing_characters(&self) -> Vec<char> {
        let mut missing: Vec<char> = self.drawing.texts().flat_map(draw::font::missing).collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }
}
