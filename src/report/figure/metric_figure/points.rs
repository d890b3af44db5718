//! The points of a figure: results with the same group, panel, protocol and x value, averaged over repetitions.

use std::collections::{BTreeMap, BTreeSet};

use super::super::chart::style::SeriesStyle;
use super::super::data_table::{DataCell, DataTable};
use super::super::naming::{Naming, RunAxes, summary};
use super::super::source::FigureRecord;
use super::{ChartKind, FigureX, IntervalKind, MetricFigure, MetricFigureContext, MetricFigureError};
use pipe_ml::metric::marked::{Marked, Protocol};
use pipe_ml::metric::spread::SeedSpread;

/// All points of a figure.
pub(super) struct Points {
    pub points: Vec<Point>,
    /// The values of the axis of x, in the order of [`axis_values`].
    pub x_values: Vec<String>,
    /// The values of the axis of panels, in the same order; one empty text without such an axis.
    pub panels: Vec<String>,
    /// The names of the groups, in the order of the values of their axes.
    pub groups: Vec<String>,
    pub mean_note: String,
}

/// Results with the same group, panel and x value.
pub(super) struct Point {
    pub group: usize,
    pub panel: usize,
    pub protocol: Protocol,
    /// The position in [`Points::x_values`], if x is an axis.
    pub x_index: Option<usize>,
    /// The mean, if x is a metric.
    pub x_metric: Option<SeedSpread>,
    /// One for each metric of the figure; `None` if it was not computed.
    pub y: Vec<Option<SeedSpread>>,
}

/// What the results of one point have in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct PointKey {
    panel: usize,
    group: usize,
    protocol: Protocol,
    x_index: Option<usize>,
    /// In a scatter plot, results that differ in any axis are separate points.
    others: Vec<String>,
}

impl Points {
    /// Groups the results and averages over repetitions.
    pub(super) fn collect(
        figure: &MetricFigure,
        context: MetricFigureContext,
        records: &[(RunAxes, FigureRecord)],
    ) -> Result<Self, MetricFigureError> {
        let (x_axis, x_metric) = match &figure.x {
            FigureX::Axis(axis) => (Some(axis.as_str()), None),
            FigureX::Value(name) => (None, Some(name.as_str())),
        };
        let in_group = |axis: &str| match &figure.group {
            Some(group) => group.iter().any(|name| name == axis),
            None => Some(axis) != x_axis && Some(axis) != figure.panels.as_deref(),
        };
        let of_group = |axes: &RunAxes| axes.iter().filter(|(axis, _)| in_group(axis)).cloned().collect();
        let group_axes: Vec<RunAxes> = records.iter().map(|(axes, _)| of_group(axes)).collect();
        let in_order = ordered(&group_axes);
        let naming = Naming::new(&in_order, context.mean_over, context.names);
        let placed_by = x_axis.into_iter().chain(figure.panels.as_deref());
        for axis in placed_by {
            if records.iter().any(|(axes, _)| axes.iter().all(|(name, _)| name != axis)) {
                return Err(MetricFigureError::NoValue { axis: axis.to_owned() });
            }
        }
        let values = |axis: &str| axis_values(records.iter().map(|(axes, _)| axes), axis);
        let x_values = x_axis.map(values).unwrap_or_default();
        let panels = match &figure.panels {
            Some(axis) => values(axis),
            None => vec![String::new()],
        };
        let index = |values: &[String], value: &str| values.iter().position(|known| known == value);

        let mut runs: BTreeMap<PointKey, Vec<(&RunAxes, &FigureRecord)>> = BTreeMap::new();
        for ((axes, record), of_group) in records.iter().zip(&group_axes) {
            let panel = figure.panels.as_deref().map_or("", |axis| value_of(axes, axis));
            let others = axes.iter().filter(|(axis, _)| axis != context.mean_over);
            let others = others.map(|(_, value)| value.clone());
            let key = PointKey {
                panel: index(&panels, panel).unwrap_or(0),
                group: naming.index(of_group),
                protocol: record.protocol(),
                x_index: x_axis.and_then(|axis| index(&x_values, value_of(axes, axis))),
                others: if figure.chart == ChartKind::Scatter { others.collect() } else { Vec::new() },
            };
            runs.entry(key).or_default().push((axes, record));
        }
        let mut points = Vec::new();
        for (key, runs) in &runs {
            check_repetitions(runs, context.mean_over)?;
            let over = |metric: &str| {
                // The protocol is part of the key, and every use of a point marks it.
                summary(runs.iter().filter_map(|(_, run)| run.get(metric)).map(|value| value.reveal().1))
            };
            points.push(Point {
                group: key.group,
                panel: key.panel,
                protocol: key.protocol,
                x_index: key.x_index,
                x_metric: x_metric.and_then(over),
                y: figure.y.iter().map(|metric| over(metric)).collect(),
            });
        }
        let counts = runs.values().map(Vec::len).collect();
        let mean_note = naming.mean_note_of(
            &counts,
            match (figure.chart, figure.interval) {
                (ChartKind::Heat, _) | (_, IntervalKind::None) => "",
                (_, interval) => interval.meaning(),
            },
        );
        let mut groups = naming.group_names();
        if let [only] = groups.as_mut_slice() {
            // A single group needs no name.
            only.clear();
        }
        Ok(Self { points, x_values, panels, groups, mean_note })
    }

    /// Returns the protocols of all points, honest first.
    pub(super) fn protocols(&self) -> Vec<Protocol> {
        let protocols: BTreeSet<Protocol> = self.points.iter().map(|point| point.protocol).collect();
        protocols.into_iter().collect()
    }

    /// Returns the x values as numbers, if all of them are finite numbers.
    pub(super) fn x_numbers(&self) -> Option<Vec<f64>> {
        self.x_values
            .iter()
            .map(|value| value.parse::<f64>().ok().filter(|number| number.is_finite()))
            .collect()
    }

    /// Returns the style of a group.
    pub(super) fn style(group: usize) -> SeriesStyle {
        SeriesStyle::nth(group)
    }

    /// Returns the values that the figure shows.
    pub(super) fn data(&self, figure: &MetricFigure) -> DataTable {
        let mut rows = Vec::new();
        for (at, metric) in figure.y.iter().enumerate() {
            for point in &self.points {
                let Some(y) = &point.y[at] else { continue };
                let x = match (point.x_index, &point.x_metric) {
                    (Some(index), _) => DataCell::from(self.x_values[index].as_str()),
                    (None, Some(x)) => DataCell::from(x.mean),
                    (None, None) => continue,
                };
                let interval = figure.interval.of(y);
                let cells = vec![
                    DataCell::from(metric.as_str()),
                    DataCell::from(self.panels[point.panel].as_str()),
                    DataCell::from(self.groups[point.group].as_str()),
                    x,
                    DataCell::from(y.mean),
                    DataCell::from(y.standard_deviation),
                    DataCell::from(interval.map(|(low, _)| low)),
                    DataCell::from(interval.map(|(_, high)| high)),
                    DataCell::from(u64::from(y.seeds)),
                ];
                rows.push(Marked::new(point.protocol, cells));
            }
        }
        let columns = ["metric", "panel", "name", "x", "mean", "standard_deviation", "low", "high", "runs"];
        DataTable::of_results(&columns, rows)
    }
}

fn value_of<'a>(axes: &'a RunAxes, axis: &str) -> &'a str {
    axes.iter().find(|(name, _)| name == axis).map_or("", |(_, value)| value)
}

/// Returns the values of an axis: in ascending order if all are numbers, otherwise in the order of the pipeline.
fn axis_values<'a>(runs: impl Iterator<Item = &'a RunAxes>, axis: &str) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for axes in runs {
        let value = value_of(axes, axis);
        if !values.iter().any(|known| known == value) {
            values.push(value.to_owned());
        }
    }
    if values.iter().all(|value| value.parse::<f64>().is_ok()) {
        let number = |value: &String| value.parse().unwrap_or(f64::NAN);
        values.sort_by(|a, b| f64::total_cmp(&number(a), &number(b)));
    }
    values
}

/// Returns runs in the order of the values of their axes, the first axis first.
fn ordered(runs: &[RunAxes]) -> Vec<&RunAxes> {
    let mut axes: Vec<(&str, Vec<String>)> = Vec::new();
    for (axis, _) in runs.iter().flatten() {
        if axes.iter().all(|(known, _)| known != axis) {
            axes.push((axis, axis_values(runs.iter(), axis)));
        }
    }
    let place = |run: &RunAxes, (axis, values): &(&str, Vec<String>)| {
        values.iter().position(|value| value == value_of(run, axis))
    };
    let mut in_order: Vec<&RunAxes> = runs.iter().collect();
    in_order.sort_by_cached_key(|run| axes.iter().map(|axis| place(run, axis)).collect::<Vec<_>>());
    in_order
}

/// Checks that the results of a point differ in the axis that they are averaged over, and in no other.
fn check_repetitions(runs: &[(&RunAxes, &FigureRecord)], mean_over: &str) -> Result<(), MetricFigureError> {
    let axes: BTreeSet<&str> =
        runs.iter().flat_map(|(axes, _)| axes.iter()).map(|(axis, _)| axis.as_str()).collect();
    let values =
        |axis: &str| runs.iter().map(|(axes, _)| value_of(axes, axis)).collect::<BTreeSet<_>>().len();
    let differing: Vec<String> =
        axes.into_iter().filter(|axis| *axis != mean_over && values(axis) > 1).map(str::to_owned).collect();
    if !differing.is_empty() {
        return Err(MetricFigureError::SamePoint(differing));
    }
    if values(mean_over) < runs.len() { Err(MetricFigureError::SameAxes) } else { Ok(()) }
}
