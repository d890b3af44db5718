//! Lines and scatter plots of metrics.

use super::super::PlannedFigure;
use super::super::chart::curves::{Chart, Curve, CurveLine, Panel, values};
use super::super::chart::scale::{AxisScale, Bounds};
use super::points::{Point, Points};
use super::{ChartKind, FigureX, MetricFigure, MetricFigureContext, MetricFigureError, plain_title};
use pipe_ml::metric::marked::{Marked, Protocol};

/// The largest number of x values that all get a tick.
const MOST_TICKS: usize = 9;
/// A figure that is wider than this, in inches, has up to four panels side by side.
const WIDE: f64 = 5.0;

/// Plans a figure with one panel for each metric, value of the axis of panels and, for lines, protocol.
pub(super) fn plan(
    figure: &MetricFigure,
    context: MetricFigureContext,
    points: &Points,
) -> Result<PlannedFigure, MetricFigureError> {
    let x_of = Positions::new(figure, points)?;
    // Lines of two protocols in one panel would be hard to tell apart without colour.
    let split: Vec<Option<Protocol>> = match (figure.chart, points.protocols()) {
        (ChartKind::Line, protocols) if protocols.len() > 1 => protocols.into_iter().map(Some).collect(),
        _ => vec![None],
    };
    let mut drafts: Vec<(Option<String>, usize, Vec<Marked<Curve>>)> = Vec::new();
    for (metric, title) in figure.y.iter().map(|metric| context.metric_title(metric)).enumerate() {
        for (panel, value) in points.panels.iter().enumerate() {
            for protocol in &split {
                let shown = |point: &&Point| {
                    point.panel == panel && protocol.is_none_or(|protocol| point.protocol == protocol)
                };
                let shown: Vec<&Point> = points.points.iter().filter(shown).collect();
                let curves = curves(figure, points, &shown, metric, &x_of);
                let value = figure.panels.as_ref().map(|axis| context.full_value_title(axis, value));
                let title = (figure.y.len() > 1).then(|| title.clone());
                let protocol = protocol.map(|protocol| protocol.name().to_owned());
                let parts: Vec<String> = [title, value, protocol].into_iter().flatten().collect();
                let heading = (!parts.is_empty()).then(|| parts.join(", "));
                drafts.push((heading, metric, curves));
            }
        }
    }
    let all = || drafts.iter().flat_map(|(_, _, curves)| curves);
    let x = x_of.scale(figure, context, points, values(all(), |(x, _)| x));
    // Panels of one metric have the same y axis, so that they can be compared.
    let y_scales: Vec<AxisScale> = (0..figure.y.len())
        .map(|metric| {
            let of_metric = drafts.iter().filter(|(_, of, _)| *of == metric).flat_map(|(_, _, c)| c);
            figure.y_axis.scale(values(of_metric, |(_, y)| y), Bounds::NONE, 4)
        })
        .collect();
    let is_wide = context.format.width > WIDE;
    let columns = match drafts.len() {
        panels if is_wide => panels.min(4),
        _ if split.len() > 1 || points.panels.len() > 1 => 2,
        _ => 1,
    };
    let x_label = match &figure.x {
        FigureX::Axis(axis) => context.axis_title(axis),
        FigureX::Value(name) => context.metric_title(name),
    };
    let y_label = match figure.y.as_slice() {
        [only] => context.metric_title(only),
        _ => String::new(),
    };
    let panel = |(heading, metric, curves): (Option<String>, usize, Vec<Marked<Curve>>)| {
        Some(Panel { heading, ..Panel::new(x.clone(), y_scales[metric].clone(), curves) })
    };
    let chart = Chart {
        title: format!(
            "{} by {x_label}",
            figure.y.iter().map(|metric| plain_title(metric)).collect::<Vec<_>>().join(", ")
        ),
        x_label: x_label.clone(),
        y_label,
        height: if drafts.len() > columns || columns > 1 { 80.0 } else { 110.0 },
        panels: drafts.into_iter().map(panel).collect(),
        columns,
        share_x: true,
        share_y: figure.y.len() == 1,
        notes: vec![points.mean_note.clone()],
    };
    Ok(PlannedFigure::new(chart, points.data(figure)))
}

/// The positions of points on the x axis.
enum Positions {
    /// The values of an axis whose values are numbers.
    Numbers(Vec<f64>),
    /// The values of any other axis, at 0, 1, and so on.
    Names,
    /// A metric.
    Metric,
}

impl Positions {
    fn new(figure: &MetricFigure, points: &Points) -> Result<Self, MetricFigureError> {
        let FigureX::Axis(axis) = &figure.x else { return Ok(Self::Metric) };
        let Some(numbers) = points.x_numbers() else {
            let text = points.x_values.iter().find(|value| value.parse::<f64>().is_err());
            return match text {
                Some(value) if figure.x_axis.log || figure.x_axis.range.is_some() => {
                    Err(MetricFigureError::NotANumber { axis: axis.clone(), value: value.clone() })
                }
                _ => Ok(Self::Names),
            };
        };
        let limit = figure.x_axis.range.map_or(f64::NEG_INFINITY, |[low, _]| low);
        if let Some(value) =
            numbers.iter().find(|value| figure.x_axis.log && **value <= 0.0 && **value >= limit)
        {
            return Err(MetricFigureError::NoLogarithm { axis: axis.clone(), value: value.to_string() });
        }
        Ok(Self::Numbers(numbers))
    }

    fn of(&self, point: &Point) -> Option<f64> {
        match self {
            Self::Numbers(numbers) => point.x_index.map(|index| numbers[index]),
            Self::Names => point.x_index.map(|index| index as f64),
            Self::Metric => point.x_metric.as_ref().map(|x| x.mean),
        }
    }

    fn scale(
        &self,
        figure: &MetricFigure,
        context: MetricFigureContext,
        points: &Points,
        values: Vec<f64>,
    ) -> AxisScale {
        match (self, &figure.x) {
            (Self::Names, FigureX::Axis(axis)) => {
                AxisScale::cells(points.x_values.iter().map(|value| context.value_title(axis, value)))
            }
            (Self::Numbers(numbers), _) if figure.x_axis.range.is_none() && numbers.len() <= MOST_TICKS => {
                AxisScale::at_values(numbers, figure.x_axis.log)
            }
            _ => figure.x_axis.scale(values, Bounds::NONE, 4),
        }
    }
}

/// Returns the curves of one panel.
fn curves(
    figure: &MetricFigure,
    points: &Points,
    shown: &[&Point],
    metric: usize,
    x_of: &Positions,
) -> Vec<Marked<Curve>> {
    let mut curves = Vec::new();
    for (group, name) in points.groups.iter().enumerate() {
        for protocol in points.protocols() {
            let of_curve = |point: &&&Point| point.group == group && point.protocol == protocol;
            let mut of_curve: Vec<&Point> = shown.iter().filter(of_curve).copied().collect();
            of_curve.sort_by_key(|point| point.x_index);
            let mut curve = Curve::new(name, Points::style(group));
            // On an axis of names, the markers of groups stand beside each other.
            let beside = match x_of {
                Positions::Names => (group as f64 - (points.groups.len() as f64 - 1.0) / 2.0) * 0.06,
                Positions::Numbers(_) | Positions::Metric => 0.0,
            };
            for point in of_curve {
                let (Some(x), Some(y)) = (x_of.of(point), &point.y[metric]) else { continue };
                curve.markers.push((x + beside, y.mean));
                if let Some((low, high)) = figure.interval.of(y) {
                    curve.whiskers.push((x + beside, low, high));
                }
                if let Some((low, high)) = point.x_metric.as_ref().and_then(|x| figure.interval.of(x)) {
                    curve.side_whiskers.push((y.mean, low, high));
                }
            }
            if curve.markers.is_empty() {
                continue;
            }
            if figure.chart == ChartKind::Line {
                curve.lines.push(CurveLine { points: curve.markers.clone(), thin: false });
            }
            curves.push(Marked::new(protocol, curve));
        }
    }
    curves
}
