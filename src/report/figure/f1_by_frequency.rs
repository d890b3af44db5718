//! Macro-F1 of rare and of frequent labels: labels are grouped by their frequency in training.

use std::collections::BTreeMap;

use super::Figure;
use super::chart::curves::{Chart, Curve, CurveLine, Panel, values};
use super::chart::scale::{AxisScale, Bounds};
use super::data_table::{DataCell, DataTable};
use super::naming::{Naming, RunAxes, SameAxesError, summary};
use pipe_ml::metric::curves::{Curves, FrequencyBin};
use pipe_ml::metric::marked::Marked;

/// The smallest and the largest number of training rows.
type FrequencyRange = (u32, Option<u32>);

/// Draws macro-F1 by the frequency of labels.
pub fn f1_by_frequency(naming: &Naming, curves: &[(RunAxes, Curves)]) -> Result<Figure, SameAxesError> {
    let run = |curves: &'_ Curves| Marked::new(curves.protocol, curves.by_frequency.clone());
    let groups = naming.groups(curves.iter().map(|(axes, curves)| (axes, run(curves))).collect())?;
    let mut bins: Vec<FrequencyRange> =
        curves.iter().flat_map(|(_, curves)| curves.by_frequency.iter().map(bounds)).collect();
    // A bin without an upper end comes after the other bins that start at the same number.
    bins.sort_unstable_by_key(|&(from, to)| (from, to.unwrap_or(u32::MAX)));
    bins.dedup();

    let (mut drawn, mut rows) = (Vec::new(), Vec::new());
    for group in &groups {
        let (protocol, runs) = group.runs.as_ref().reveal();
        let mut by_bin: BTreeMap<usize, (Vec<f64>, u64)> = BTreeMap::new();
        for bin in runs.iter().flatten().filter(|bin| bin.labels > 0) {
            let index = bins.iter().position(|known| *known == bounds(bin)).unwrap_or(0);
            let (f1, labels) = by_bin.entry(index).or_default();
            f1.push(bin.macro_f1);
            *labels = (*labels).max(bin.labels);
        }
        let mut curve = Curve::new(&group.name, group.style);
        for (index, (f1, labels)) in by_bin {
            let Some(spread) = summary(f1) else { continue };
            let point = (index as f64, spread.mean);
            curve.markers.push(point);
            if let Some(std) = spread.standard_deviation {
                let clamp = |value: f64| value.clamp(0.0, 1.0);
                curve.whiskers.push((point.0, clamp(point.1 - std), clamp(point.1 + std)));
            }
            let (from, to) = bins[index];
            rows.push(Marked::new(
                protocol,
                vec![
                    DataCell::from(group.name.as_str()),
                    DataCell::from(u64::from(from)),
                    to.map_or(DataCell::Number(None), |to| DataCell::from(u64::from(to))),
                    DataCell::from(labels),
                    DataCell::from(spread.mean),
                    DataCell::from(spread.standard_deviation),
                    DataCell::from(u64::from(spread.seeds)),
                ],
            ));
        }
        curve.lines.push(CurveLine { points: curve.markers.clone(), thin: false });
        drawn.push(Marked::new(protocol, curve));
    }
    let chart = Chart {
        title: "Macro-F1 of labels by their frequency in training".to_owned(),
        x_label: "training rows of the label".to_owned(),
        y_label: "macro-F1".to_owned(),
        panels: vec![Panel {
            heading: None,
            x: AxisScale::names(bins.iter().map(bin_name)),
            y: AxisScale::linear(values(&drawn, |(_, y)| y), Bounds::SHARE_FROM_ZERO, 5),
            curves: drawn,
            guide: None,
        }],
        columns: 1,
        height: 120.0,
        notes: vec![naming.mean_note(&groups, "error bars: ± 1 standard deviation.")],
    };
    let columns = ["name", "from", "to", "labels", "macro_f1", "standard_deviation", "runs"];
    Ok(Figure::new(chart.draw(), DataTable::of_results(&columns, rows)))
}

fn bounds(bin: &FrequencyBin) -> FrequencyRange {
    (bin.from, bin.to)
}

fn bin_name(&(from, to): &FrequencyRange) -> String {
    match to {
        None => format!("≥{from}"),
        Some(to) if to == from => format!("{from}"),
        Some(to) => format!("{from}–{to}"),
    }
}
