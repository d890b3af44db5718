//! Figures for papers: results in, a [`Figure`] out, which writes itself as SVG, as PDF and as the CSV of what it shows.
//!
//! Results of several runs are put together by [`naming`], each kind of figure is a file here, [`chart`] lays it out and
//! [`draw`] writes it down. Same results, same bytes.

pub mod chart;
pub mod data_table;
pub mod draw;
mod f1_by_frequency;
mod f1_over_epochs;
mod final_f1;
pub mod kind;
mod label_frequency;
pub mod naming;
mod precision_recall;
mod reliability;
#[cfg(test)]
mod tests;
mod threshold_weights;
mod thresholds;

use data_table::DataTable;
use draw::Drawing;

pub use f1_by_frequency::f1_by_frequency;
pub use f1_over_epochs::f1_over_epochs;
pub use final_f1::{final_f1, oracle_versus_honest};
pub use label_frequency::label_frequency;
pub use precision_recall::precision_recall;
pub use reliability::reliability;
pub use threshold_weights::threshold_weights;
pub use thresholds::thresholds;

#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    drawing: Drawing,
    data: DataTable,
}

impl Figure {
    fn new(drawing: Drawing, data: DataTable) -> Self {
        Self { drawing, data }
    }

    pub fn svg(&self) -> String {
        draw::svg::svg(&self.drawing)
    }

    pub fn pdf(&self) -> Vec<u8> {
        draw::pdf::pdf(&self.drawing)
    }

    /// Whether there was nothing to show.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    pub fn csv(&self) -> String {
        self.data.csv()
    }

    /// Characters that the PDF shows as empty boxes, each once.
    pub fn missing_characters(&self) -> Vec<char> {
        let mut missing: Vec<char> = self.drawing.texts().flat_map(draw::font::missing).collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }
}
