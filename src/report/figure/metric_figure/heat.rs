//! Heat maps of metrics: the values of an axis across, groups down.

use super::super::PlannedFigure;
use super::super::chart::curves::{Chart, HeatCell, Panel};
use super::super::chart::scale::AxisScale;
use super::points::{Point, Points};
use super::{FigureX, MetricFigure, MetricFigureContext, number, plain_title};
use pipe_ml::metric::marked::Marked;

const ROW: f64 = 15.0;
/// With more columns than this, values have two decimals.
const MANY_COLUMNS: usize = 6;

/// Returns the title of a row. If the y axis has the name of an axis, it is not repeated in front of its values.
fn row_title(figure: &MetricFigure, group: &str) -> String {
    let value = match figure.group.as_deref() {
        Some([axis]) => group.strip_prefix(axis.as_str()).and_then(|rest| rest.strip_prefix('=')),
        _ => None,
    };
    value.unwrap_or(group).to_owned()
}

/// Plans a heat map with one panel for each metric, value of the axis of panels and protocol.
pub(super) fn plan(figure: &MetricFigure, context: MetricFigureContext, points: &Points) -> PlannedFigure {
    let axis = match &figure.x {
        FigureX::Axis(axis) => axis.as_str(),
        FigureX::Value(_) => "",
    };
    let x = AxisScale::cells(points.x_values.iter().map(|value| context.value_title(axis, value)));
    // The first group is at the top.
    let y = AxisScale::cells(points.groups.iter().rev().map(|group| row_title(figure, group)));
    let protocols = points.protocols();
    let mut panels = Vec::new();
    for (at, metric) in figure.y.iter().enumerate() {
        let means = points.points.iter().filter_map(|point| point.y[at].as_ref()).map(|y| y.mean);
        let (low, high) = means
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), mean| (low.min(mean), high.max(mean)));
        for (panel, value) in points.panels.iter().enumerate() {
            for &protocol in &protocols {
                let here = |point: &&Point| point.panel == panel && point.protocol == protocol;
                let cell = |point: &Point| {
                    let mean = point.y[at].as_ref()?.mean;
                    let shade = if high > low { (mean - low) / (high - low) } else { 0.5 };
                    let is_narrow = points.x_values.len() > MANY_COLUMNS && mean.abs() < 10.0;
                    Some(HeatCell {
                        column: point.x_index?,
                        row: points.groups.len() - 1 - point.group,
                        // The highest value is not quite the darkest, and the lowest is not white like an empty cell.
                        shade: 0.08 + 0.87 * shade,
                        text: if is_narrow { format!("{mean:.2}") } else { number(mean) },
                    })
                };
                let cells = points.points.iter().filter(here).filter_map(cell).collect();
                let title = Some(context.metric_title(metric));
                let value = figure.panels.as_ref().map(|axis| context.full_value_title(axis, value));
                let protocol_name = (protocols.len() > 1).then(|| protocol.name().to_owned());
                let parts: Vec<String> = [title, value, protocol_name].into_iter().flatten().collect();
                let mut drawn = Panel::new(x.clone(), y.clone(), Vec::new());
                drawn.heading = Some(parts.join(", "));
                drawn.cells = Some(Marked::new(protocol, cells));
                panels.push(Some(drawn));
            }
        }
    }
    let group_axes = figure.group.iter().flatten().map(|axis| context.axis_title(axis));
    let metrics: Vec<String> = figure.y.iter().map(|metric| plain_title(metric)).collect();
    let chart = Chart {
        title: format!("{} by {}", metrics.join(", "), context.axis_title(axis)),
        x_label: context.axis_title(axis),
        y_label: group_axes.collect::<Vec<_>>().join(", "),
        panels,
        columns: 1,
        share_x: true,
        share_y: true,
        height: ROW * points.groups.len().max(1) as f64,
        notes: vec![points.mean_note.clone()],
    };
    PlannedFigure::new(chart, points.data(figure))
}
