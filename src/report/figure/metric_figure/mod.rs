//! Figures that a pipeline describes: any metrics of evaluations against an axis or against another metric.

mod bars;
mod heat;
mod panels;
mod points;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PlannedFigure;
use super::chart::format::FigureFormat;
use super::chart::scale::{AxisScale, Bounds};
use super::naming::RunAxes;
use super::source::FigureRecord;
use crate::student_t;
use pipe_core::issue::Issue;
use pipe_ml::metric::registry::Metric;
use pipe_ml::metric::spread::SeedSpread;
use points::Points;

/// A figure of metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricFigure {
    pub chart: ChartKind,
    pub x: FigureX,
    /// Metrics, or columns of files.
    pub y: Vec<String>,
    /// The axes whose values are separate lines, bars, colours or rows of cells; by default all remaining ones.
    pub group: Option<Vec<String>>,
    /// The axis that has one panel for each value.
    pub panels: Option<String>,
    pub x_axis: AxisOptions,
    pub y_axis: AxisOptions,
    pub interval: IntervalKind,
}

/// What the x axis of a figure shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FigureX {
    /// The values of an axis.
    Axis(String),
    /// A metric, or a column of a file.
    Value(String),
}

/// The chart of a figure of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChartKind {
    /// Lines over the values of an axis.
    Line,
    /// Horizontal bars for the values of an axis.
    Bar,
    /// A marker for each combination of axes, against a metric or an axis.
    Scatter,
    /// A grid of cells: `x` across, `group` down, and the metric as colour and number.
    Heat,
}

/// The error bars of a figure of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IntervalKind {
    /// One standard deviation to both sides.
    #[default]
    Deviation,
    /// The 95 % confidence interval of the mean (Student's t distribution).
    Confidence,
    /// From the smallest to the largest value.
    Range,
    /// No intervals.
    None,
}

/// The range and scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AxisOptions {
    /// The two ends: `[0.2, 0.6]`. Values outside are not shown.
    pub range: Option<[f64; 2]>,
    /// Whether the scale is logarithmic.
    #[serde(default)]
    pub log: bool,
}

/// What the figures of a stage have in common.
#[derive(Debug, Clone, Copy)]
pub struct MetricFigureContext<'a> {
    pub mean_over: &'a str,
    /// Names of axes, values and metrics in print.
    pub names: &'a BTreeMap<String, String>,
    pub format: FigureFormat,
}

/// The reason why a figure of metrics cannot be drawn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetricFigureError {
    #[error(
        "results that differ only in {} would be shown at the same point; add the axis to `group` or `panels`, \
         average over it (`mean_over`), or select one of its values in `eval`", listed(.0)
    )]
    SamePoint(Vec<String>),
    #[error(
        "two results have the same axes, so no figure could tell them apart; give the stages that produce them \
         different axes, or plot them in two stages (for a CSV file, `axes` lists columns of numbers that are axes)"
    )]
    SameAxes,
    #[error(
        "some results have no axis `{axis}`, so they cannot be placed; leave their stage out of `eval`, or their file out of `files`"
    )]
    NoValue { axis: String },
    #[error(
        "`{axis}` has the value {value}, which has no logarithm; remove `log: true`, or set a `range` above 0"
    )]
    NoLogarithm { axis: String, value: String },
    #[error("`log` and `range` need numbers, but `{axis}` has the value `{value}`")]
    NotANumber { axis: String, value: String },
}

fn listed(axes: &[String]) -> String {
    axes.iter().map(|axis| format!("`{axis}`")).collect::<Vec<_>>().join(" and ")
}

impl MetricFigure {
    /// Plans the figure.
    pub fn plan(
        &self,
        context: MetricFigureContext,
        records: &[(RunAxes, FigureRecord)],
    ) -> Result<PlannedFigure, MetricFigureError> {
        let points = Points::collect(self, context, records)?;
        match self.chart {
            ChartKind::Line | ChartKind::Scatter => panels::plan(self, context, &points),
            ChartKind::Bar => bars::plan(self, context, &points),
            ChartKind::Heat => Ok(heat::plan(self, context, &points)),
        }
    }

    /// Returns the axes that the figure names, except for `mean_over`.
    pub fn axes(&self) -> Vec<&str> {
        let x = match &self.x {
            FigureX::Axis(axis) => Some(axis.as_str()),
            FigureX::Value(_) => None,
        };
        let group = self.group.iter().flatten().map(String::as_str);
        x.into_iter().chain(group).chain(self.panels.as_deref()).collect()
    }

    /// Returns the metrics and columns that the figure shows.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        let x = match &self.x {
            FigureX::Axis(_) => None,
            FigureX::Value(name) => Some(name.as_str()),
        };
        self.y.iter().map(String::as_str).chain(x)
    }

    /// Returns the fields that cannot be used.
    pub fn issues(&self, mean_over: &str) -> Vec<Issue> {
        let mut issues = Vec::new();
        if self.y.is_empty() {
            issues.push(Issue::new("y", "name at least one metric; `pipe metrics` lists them"));
        }
        if let Some(twice) = (1..self.y.len()).find(|&at| self.y[..at].contains(&self.y[at])) {
            issues.push(Issue::new(format!("y[{twice}]"), format!("`{}` is given twice", self.y[twice])));
        }
        if let (FigureX::Value(metric), false) = (&self.x, self.chart == ChartKind::Scatter) {
            let message = format!("`{metric}` is a metric, but this kind of figure needs an axis");
            let hint = "`kind: scatter` shows one metric against another";
            issues.push(Issue::new("x", message).hint(hint));
        }
        let axes = self.axes();
        for (at, axis) in axes.iter().enumerate() {
            let is_x = at == 0 && matches!(self.x, FigureX::Axis(_));
            let is_panels = at + 1 == axes.len() && self.panels.is_some();
            let field = if is_x {
                "x"
            } else if is_panels {
                "panels"
            } else {
                "group"
            };
            if *axis == mean_over {
                issues.push(Issue::new(
                    field,
                    format!("`{axis}` is averaged over (`mean_over`) and cannot be shown"),
                ));
            } else if axes[..at].contains(axis) {
                issues.push(Issue::new(field, format!("`{axis}` is given twice")));
            }
        }
        for (field, options) in [("x_axis", self.x_axis), ("y_axis", self.y_axis)] {
            issues.extend(options.issues().into_iter().map(|issue| issue.within(field)));
        }
        if self.chart == ChartKind::Heat
            && [self.x_axis, self.y_axis].iter().any(|options| *options != AxisOptions::default())
        {
            issues.push(Issue::new("kind", "a heat map has neither ranges nor logarithmic axes"));
        }
        issues
    }
}

impl AxisOptions {
    fn issues(self) -> Vec<Issue> {
        match self.range {
            Some([low, high]) if !(low < high && low.is_finite() && high.is_finite()) => {
                vec![Issue::new("range", "the first number must be below the second one")]
            }
            Some([low, _]) if self.log && low <= 0.0 => {
                vec![Issue::new("range", "a logarithmic axis must start above 0")]
            }
            _ => Vec::new(),
        }
    }

    /// Returns a scale for values that are measured.
    fn scale(self, values: Vec<f64>, bounds: Bounds, ticks: usize) -> AxisScale {
        match self.range {
            Some([low, high]) => AxisScale::between(low, high, self.log, ticks),
            None if self.log => AxisScale::logarithmic(values),
            None => AxisScale::linear(values, bounds, ticks),
        }
    }
}

impl IntervalKind {
    /// Returns the ends of the interval, if there is one.
    fn of(self, spread: &SeedSpread) -> Option<(f64, f64)> {
        let around = |half: f64| (spread.mean - half, spread.mean + half);
        match self {
            Self::Deviation => spread.standard_deviation.map(around),
            Self::Confidence => student_t::confidence_interval(spread),
            Self::Range => (spread.seeds > 1).then_some((spread.min, spread.max)),
            Self::None => None,
        }
    }

    /// Returns the explanation of the interval for the note below the figure.
    fn meaning(self) -> &'static str {
        match self {
            Self::Deviation => "error bars: ± 1 standard deviation.",
            Self::Confidence => "error bars: 95 % confidence interval of the mean.",
            Self::Range => "error bars: smallest and largest value.",
            Self::None => "",
        }
    }
}

impl MetricFigureContext<'_> {
    fn metric_title(&self, name: &str) -> String {
        self.names.get(name).cloned().unwrap_or_else(|| plain_title(name))
    }

    fn axis_title(&self, axis: &str) -> String {
        self.names.get(axis).cloned().unwrap_or_else(|| axis.replace('_', " "))
    }

    fn named(&self, axis: &str, value: &str) -> Option<&String> {
        self.names.get(&format!("{axis}={value}")).or_else(|| self.names.get(value))
    }

    /// Returns the name of a value beside its axis.
    fn value_title(&self, axis: &str, value: &str) -> String {
        self.named(axis, value).cloned().unwrap_or_else(|| value.to_owned())
    }

    /// Returns the name of a value where its axis is not shown.
    fn full_value_title(&self, axis: &str, value: &str) -> String {
        let default = if value.parse::<f64>().is_ok() { format!("{axis}={value}") } else { value.to_owned() };
        self.named(axis, value).cloned().unwrap_or(default)
    }
}

/// Returns the title of a metric or of a column, without a name of the user.
fn plain_title(name: &str) -> String {
    name.parse::<Metric>().map_or_else(|_| name.replace('_', " "), Metric::title)
}

/// Returns the words that `names` may have as keys in figures of metrics: axes, values (`adaptive`, `variant=adaptive`)
/// and metrics.
pub fn nameable(figures: &[MetricFigure], runs: &[&RunAxes]) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for (axis, value) in runs.iter().copied().flatten() {
        words.extend([axis.clone(), value.clone(), format!("{axis}={value}")]);
    }
    for figure in figures {
        words.extend(figure.values().map(str::to_owned));
    }
    words
}

/// Returns a value in print.
fn number(value: f64) -> String {
    match value.abs() {
        size if size < 10.0 => format!("{value:.3}"),
        size if size < 1000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests;
