//! The format of figures: their width, the size of their text, and the position of their legend.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::draw::Drawing;
use super::TEXT;

/// The points of an inch.
const INCH: f64 = 72.0;

/// Width, text size and legend position of all figures of a stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FigureFormat {
    /// In inches.
    pub width: f64,
    /// The size of axis labels and legends, in points. Tick labels and notes are one eighth smaller.
    pub font_size: f64,
    pub legend: LegendPosition,
}

/// The position of a legend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LegendPosition {
    /// Above the chart.
    #[default]
    Top,
    /// To the right of the chart.
    Right,
    /// Below the chart.
    Bottom,
    /// No legend.
    None,
}

impl Default for FigureFormat {
    /// Returns the format of one column of a two-column paper.
    fn default() -> Self {
        Self { width: 3.3, font_size: TEXT, legend: LegendPosition::Top }
    }
}

/// The page on which a chart is laid out. All texts have their default size: a larger font is a smaller page that is
/// scaled up afterwards, so that lines, markers and distances grow with the text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Page {
    pub width: f64,
    pub legend: LegendPosition,
}

impl FigureFormat {
    fn scale(self) -> f64 {
        self.font_size / TEXT
    }

    pub(super) fn page(self) -> Page {
        Page { width: self.width * INCH / self.scale(), legend: self.legend }
    }

    /// Scales a drawing that was laid out on the page of this format.
    pub(super) fn finish(self, drawing: Drawing) -> Drawing {
        if self.scale() == 1.0 { drawing } else { drawing.scaled(self.scale()) }
    }
}
