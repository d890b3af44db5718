//! Bars of metrics: one group of bars for each value of an axis.

use super::super::PlannedFigure;
use super::super::chart::bars::{Bar, BarChart, BarGroup, BarSection};
use super::super::chart::scale::Bounds;
use super::super::chart::style::{BarStyle, SeriesStyle};
use super::points::{Point, Points};
use super::{
    FigureX, IntervalKind, MetricFigure, MetricFigureContext, MetricFigureError, number, plain_title,
};
use pipe_ml::metric::marked::Marked;
use pipe_ml::metric::spread::SeedSpread;

/// Plans a bar chart with one section for each metric and value of the axis of panels.
pub(super) fn plan(
    figure: &MetricFigure,
    context: MetricFigureContext,
    points: &Points,
) -> Result<PlannedFigure, MetricFigureError> {
    let axis = match &figure.x {
        FigureX::Axis(axis) => axis.as_str(),
        FigureX::Value(_) => "",
    };
    let has_series = points.groups.len() > 1;
    let mut sections = Vec::new();
    for (metric, title) in figure.y.iter().map(|metric| context.metric_title(metric)).enumerate() {
        for (panel, value) in points.panels.iter().enumerate() {
            let mut ends = Vec::new();
            let mut groups = Vec::new();
            for (x_index, x) in points.x_values.iter().enumerate() {
                let here = |point: &&Point| point.panel == panel && point.x_index == Some(x_index);
                let mut bars = Vec::new();
                for point in points.points.iter().filter(here) {
                    let Some(spread) = &point.y[metric] else { continue };
                    let bar = Bar {
                        style: if has_series {
                            BarStyle::of_series(point.group)
                        } else {
                            BarStyle::solid(SeriesStyle::nth(x_index).colour)
                        },
                        value: spread.mean,
                        interval: figure.interval.of(spread),
                        text: text(figure.interval, spread),
                    };
                    ends.extend(bar.ends());
                    bars.push(Marked::new(point.protocol, bar));
                }
                if !bars.is_empty() {
                    groups.push(BarGroup { name: context.full_value_title(axis, x), bars });
                }
            }
            let bounds = Bounds { include: Some(0.0), ..Bounds::NONE };
            sections.push(BarSection {
                heading: figure.panels.as_ref().map(|axis| context.full_value_title(axis, value)),
                x_label: title.clone(),
                scale: figure.y_axis.scale(ends, bounds, 4),
                groups,
            });
        }
    }
    let series = points.groups.iter().enumerate();
    let series = series.map(|(group, name)| (name.clone(), BarStyle::of_series(group)));
    let metrics: Vec<String> = figure.y.iter().map(|metric| plain_title(metric)).collect();
    let chart = BarChart {
        title: format!("{} by {}", metrics.join(", "), context.axis_title(axis)),
        sections,
        series: if has_series { series.collect() } else { Vec::new() },
        notes: vec![points.mean_note.clone()],
    };
    Ok(PlannedFigure::new(chart, points.data(figure)))
}

fn text(interval: IntervalKind, spread: &SeedSpread) -> String {
    let mean = number(spread.mean);
    match (interval, interval.of(spread)) {
        (IntervalKind::Range, Some((low, high))) => format!("{mean} [{}, {}]", number(low), number(high)),
        (_, Some((_, high))) => format!("{mean} ± {}", number(high - spread.mean)),
        (_, None) => mean,
    }
}
