//! The distribution of thresholds: for entries whose label is true, and for entries whose label is false.

use super::Figure;
use super::chart::curves::{Chart, Curve, CurveLine, Panel, values};
use super::chart::scale::{AxisScale, Bounds};
use super::chart::style::SeriesStyle;
use super::data_table::{DataCell, DataTable};
use super::naming::{Naming, RunAxes, SameAxesError};
use pipe_ml::metric::curves::{Curves, ThresholdHistogram};
use pipe_ml::metric::marked::Marked;

/// The number of bins if the histograms of several runs are merged.
const COMMON_BINS: usize = 50;

/// Draws the histograms of the thresholds.
pub fn thresholds(naming: &Naming, curves: &[(RunAxes, Curves)]) -> Result<Figure, SameAxesError> {
    let run = |curves: &'_ Curves| Some(Marked::new(curves.protocol, curves.thresholds.clone()?));
    let runs = curves.iter().filter_map(|(axes, curves)| Some((axes, run(curves)?)));
    let groups = naming.groups(runs.collect())?;
    let mut rows = Vec::new();
    let mut panels: Vec<(String, Vec<Marked<Curve>>)> = Vec::new();
    for group in &groups {
        let (protocol, runs) = group.runs.as_ref().reveal();
        let pooled = pool(runs);
        let sides = [
            ("true", &pooled.of_true, SeriesStyle::nth(0)),
            ("false", &pooled.of_false, SeriesStyle::nth(1)),
        ];
        let mut curves = Vec::new();
        for (label, counts, style) in sides {
            let total: f64 = counts.iter().sum();
            let shares: Vec<f64> = counts.iter().map(|count| count / total.max(1.0)).collect();
            for (bin, (share, count)) in pooled.edges.windows(2).zip(shares.iter().zip(counts)) {
                let mut cells = vec![DataCell::from(group.name.as_str()), DataCell::from(label)];
                cells.extend([bin[0], bin[1], *count, *share].map(DataCell::from));
                rows.push(Marked::new(protocol, cells));
            }
            let mut curve = Curve::new(&format!("entries whose label is {label}"), style);
            if total > 0.0 {
                curve.lines.push(CurveLine { points: outline(&pooled.edges, &shares), thin: false });
            }
            curves.push(Marked::new(protocol, curve));
        }
        panels.push((group.name.clone(), curves));
    }
    if panels.is_empty() {
        panels.push((String::new(), Vec::new()));
    }
    let all: Vec<f64> = panels.iter().flat_map(|(_, curves)| values(curves, |(x, _)| x)).collect();
    let columns = if panels.len() > 3 { 2 } else { 1 };
    let panel = |(name, curves): (String, Vec<Marked<Curve>>)| Panel {
        heading: Some(name),
        x: AxisScale::linear(all.iter().copied(), Bounds::NONE, if columns == 1 { 6 } else { 3 }),
        y: AxisScale::linear(values(&curves, |(_, y)| y), Bounds::SHARE_FROM_ZERO, 3),
        curves,
        guide: None,
    };
    let chart = Chart {
        title: "Thresholds of true and of false labels".to_owned(),
        x_label: "threshold θ".to_owned(),
        y_label: "share of entries".to_owned(),
        panels: panels.into_iter().map(panel).collect(),
        columns,
        height: if groups.len() > 6 { 42.0 } else { 56.0 },
        notes: vec![naming.mean_note(&groups, "their entries are put together.")],
    };
    let columns = ["name", "label", "from", "to", "entries", "share"];
    Ok(Figure::new(chart.draw(), DataTable::of_results(&columns, rows)))
}

/// A merged histogram. Its counts may be fractions, because a bin may be split.
struct Pooled {
    edges: Vec<f64>,
    of_true: Vec<f64>,
    of_false: Vec<f64>,
}

/// Merges the histograms of all runs. If their bins differ, the entries of each bin are spread evenly over common bins.
fn pool(runs: &[ThresholdHistogram]) -> Pooled {
    let same = runs.windows(2).all(|pair| pair[0].edges == pair[1].edges);
    let edges = match runs.first() {
        Some(first) if same => first.edges.clone(),
        _ => common_edges(runs),
    };
    let sum = |of: fn(&ThresholdHistogram) -> &[u64]| {
        let mut counts = vec![0.0; edges.len().saturating_sub(1)];
        for run in runs {
            for (bin, &count) in run.edges.windows(2).zip(of(run)) {
                spread(&edges, (bin[0], bin[1]), count as f64, &mut counts);
            }
        }
        counts
    };
    let (of_true, of_false) = (sum(|run| &run.of_true), sum(|run| &run.of_false));
    Pooled { edges, of_true, of_false }
}

fn common_edges(runs: &[ThresholdHistogram]) -> Vec<f64> {
    let all = || runs.iter().flat_map(|run| run.edges.iter().copied()).filter(|edge| edge.is_finite());
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    if low >= high {
        return if low.is_finite() { vec![low, high] } else { Vec::new() };
    }
    let at = |n| low + (high - low) * n as f64 / COMMON_BINS as f64;
    (0..=COMMON_BINS).map(at).collect()
}

/// Adds the entries of a bin to the bins that it overlaps with.
fn spread(edges: &[f64], (from, to): (f64, f64), count: f64, counts: &mut [f64]) {
    let bins = edges.windows(2).enumerate();
    if to <= from {
        // All entries of a bin without width have the same value.
        let last = counts.len().saturating_sub(1);
        let bin = bins.into_iter().position(|(_, bin)| bin[0] <= from && from < bin[1]).unwrap_or(last);
        if let Some(total) = counts.get_mut(bin) {
            *total += count;
        }
        return;
    }
    for (index, bin) in bins {
        let common = bin[1].min(to) - bin[0].max(from);
        if common > 0.0 {
            counts[index] +=
                if (bin[0], bin[1]) == (from, to) { count } else { count * common / (to - from) };
        }
    }
}

/// Returns the outline of a histogram, which starts and ends at zero.
fn outline(edges: &[f64], shares: &[f64]) -> Vec<(f64, f64)> {
    let steps = edges.windows(2).zip(shares).flat_map(|(bin, &share)| [(bin[0], share), (bin[1], share)]);
    let ends = |edge: Option<&f64>| edge.map(|&edge| (edge, 0.0));
    ends(edges.first()).into_iter().chain(steps).chain(ends(edges.last())).collect()
}
