//! The entries of `figures`: the name of a figure, or the description of a figure of metrics.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::IntoDeserializer;
use serde::{Deserialize, Deserializer, Serialize};
use serde_untagged::UntaggedEnumVisitor;

use crate::one_or_many::OneOrMany;
use pipe_core::issue::Issue;
use pipe_ml::metric::registry::UnknownMetric;
use pipe_report::figure::kind::{FigureKind, FigureSource};
use pipe_report::figure::metric_figure::{AxisOptions, ChartKind, FigureX, IntervalKind, MetricFigure};
use pipe_report::table::term::TableTerm;

/// A figure to draw.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum FigureEntry {
    Named(FigureKind),
    Metrics(Box<MetricEntry>),
}

/// A figure of metrics: `{ kind: line, x: prior, y: [macro_f1, micro_f1], group: variant }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricEntry {
    /// The name of the figure and of its files; the default consists of the first metric and `x`: `macro_f1-by-prior`.
    pub name: Option<String>,
    /// How the metrics are shown.
    pub kind: ChartKind,
    /// An axis of the evaluations, or `stage`; in a scatter plot also a metric.
    pub x: TableTerm,
    /// The metrics to show; with `files`, also columns of numbers.
    pub y: OneOrMany<TableTerm>,
    /// The axes whose values are separate lines, bars, colours or rows of cells; the default is every axis that is not
    /// used otherwise.
    pub group: Option<OneOrMany<String>>,
    /// An axis that has one panel for each value, such as the data set.
    pub panels: Option<String>,
    /// The range and scale of the x axis.
    #[serde(default)]
    pub x_axis: AxisOptions,
    /// The range and scale of the y axis; of the axis of values, if the figure has horizontal bars.
    #[serde(default)]
    pub y_axis: AxisOptions,
    /// The error bars over the values of `mean_over`.
    #[serde(default)]
    pub interval: IntervalKind,
}

impl FigureEntry {
    /// Returns the name, which its outputs have too.
    pub fn name(&self) -> Cow<'static, str> {
        match self {
            Self::Named(kind) => kind.name().into(),
            Self::Metrics(entry) => entry.name().into(),
        }
    }

    /// Returns the name of its files without their ending.
    pub fn file_stem(&self) -> Cow<'static, str> {
        match self {
            Self::Named(kind) => kind.file_stem().into(),
            Self::Metrics(_) => self.name(),
        }
    }

    /// Returns the kind of results that the figure is drawn from.
    pub fn source(&self) -> FigureSource {
        match self {
            Self::Named(kind) => kind.source(),
            Self::Metrics(_) => FigureSource::Evaluation,
        }
    }

    /// Returns the position among the outputs: figures with fixed names come first.
    pub(super) fn order(&self) -> (bool, Option<FigureKind>, Cow<'static, str>) {
        match self {
            Self::Named(kind) => (false, Some(*kind), Cow::Borrowed("")),
            Self::Metrics(_) => (true, None, self.name()),
        }
    }

    /// Returns the figure of metrics, if it is one.
    pub(super) fn metric_figure(&self) -> Option<MetricFigure> {
        match self {
            Self::Named(_) => None,
            Self::Metrics(entry) => Some(entry.metric_figure()),
        }
    }

    /// Returns the fields that cannot be used.
    pub(super) fn issues(&self, mean_over: &str, has_files: bool) -> Vec<Issue> {
        let Self::Metrics(entry) = self else { return Vec::new() };
        let mut issues = entry.metric_figure().issues(mean_over);
        for (at, term) in entry.y.0.iter().enumerate().filter(|_| !has_files) {
            if let TableTerm::Axis(name) = term {
                let field = if entry.y.0.len() == 1 { "y".to_owned() } else { format!("y[{at}]") };
                let error = UnknownMetric { name: name.clone() };
                issues.push(Issue::new(field, error.to_string()));
            }
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if entry.name.as_ref().is_some_and(|name| name.is_empty() || !name.chars().all(is_plain)) {
            let message = "use letters, digits, `_` and `-`: the files of the figure are named after it";
            issues.push(Issue::new("name", message));
        }
        issues
    }
}

impl MetricEntry {
    fn name(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        let y = self.y.0.first().map_or("metrics", TableTerm::name);
        format!("{y}-by-{}", self.x.name())
    }

    /// Returns the figure that the entry describes.
    pub(super) fn metric_figure(&self) -> MetricFigure {
        MetricFigure {
            chart: self.kind,
            x: match &self.x {
                TableTerm::Metric(metric) => FigureX::Value(metric.name().to_owned()),
                TableTerm::Axis(axis) => FigureX::Axis(axis.clone()),
            },
            y: self.y.0.iter().map(|term| term.name().to_owned()).collect(),
            group: self.group.as_ref().map(|group| group.0.clone()),
            panels: self.panels.clone(),
            x_axis: self.x_axis,
            y_axis: self.y_axis,
            interval: self.interval,
        }
    }
}

impl<'de> Deserialize<'de> for FigureEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UntaggedEnumVisitor::new()
            .expecting(
                "the name of a figure, or a figure of metrics such as { kind: line, x: prior, y: macro_f1 }",
            )
            .string(|name| FigureKind::deserialize(name.into_deserializer()).map(Self::Named))
            .map(|map| map.deserialize().map(Self::Metrics))
            .deserialize(deserializer)
    }
}

impl JsonSchema for FigureEntry {
    fn schema_name() -> Cow<'static, str> {
        "FigureEntry".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let named = generator.subschema_for::<FigureKind>();
        let metrics = generator.subschema_for::<MetricEntry>();
        json_schema!({ "description": "The name of a figure, or a figure of metrics.", "anyOf": [named, metrics] })
    }
}
