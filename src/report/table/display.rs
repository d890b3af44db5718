//! How a table prints its values: their unit, their intervals, their numbers of runs, and the width of the page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pipe_core::default_value::is_default;
use pipe_ml::metric::registry::Metric;

/// How a table prints its values. The defaults are left out of files, so that they do not change older ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TableDisplay {
    #[serde(skip_serializing_if = "is_default")]
    pub scale: TableScale,
    #[serde(skip_serializing_if = "is_default")]
    pub interval: TableInterval,
    #[serde(skip_serializing_if = "is_default")]
    pub show_n: ShowN,
    #[serde(skip_serializing_if = "is_default")]
    pub layout: TableLayout,
}

/// The unit of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TableScale {
    /// As computed: 0.4152.
    #[default]
    Fraction,
    /// Shares in percent: 41.52. Losses such as `bce` are not shares and stay as they are.
    Percent,
}

/// The interval that is printed behind a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TableInterval {
    /// ± the standard deviation over `mean_over`.
    #[default]
    Deviation,
    /// The 95 % confidence interval of the mean over `mean_over` (Student's t distribution).
    Confidence,
    /// The smallest and the largest value over `mean_over`.
    Range,
    /// The confidence interval of the evaluation, over the evaluated rows. A cell must have one evaluation.
    Bootstrap,
    /// No interval.
    None,
}

/// The cells that state their number of runs, if the numbers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ShowN {
    /// All cells.
    #[default]
    All,
    /// The cells whose number differs from the most frequent one, which the caption states.
    Differing,
}

/// The width that the LaTeX table is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TableLayout {
    /// A table that is too wide for the line is shrunk.
    #[default]
    Normal,
    /// For one column of a two-column paper: text of 8 or 7 points, never shrunk; headings are broken into lines, groups of
    /// rows have headings of their own, and intervals are printed below their values if there is no room beside them.
    Narrow,
}

/// The number of decimals of values that are not in percent.
pub const DEFAULT_DIGITS: u8 = 4;

impl TableScale {
    /// Returns the number of decimals of a metric in a table that states none.
    pub fn default_digits(self, metric: Metric) -> u8 {
        if self.is_percent(metric) { 2 } else { DEFAULT_DIGITS }
    }

    /// Returns whether the values of a metric are printed in percent.
    pub fn is_percent(self, metric: Metric) -> bool {
        self == Self::Percent && !matches!(metric, Metric::Bce | Metric::TrainingLoss)
    }

    /// Returns a value of a metric in the unit in which it is printed.
    pub fn apply(self, metric: Metric, value: f64) -> f64 {
        if self.is_percent(metric) { value * 100.0 } else { value }
    }
}
