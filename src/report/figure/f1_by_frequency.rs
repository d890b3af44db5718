//! Macro-F1 of rare and of frequent labels: labels are grouped by their frequency in training.

use std::collections::{BTreeMap, BTreeSet};

use super::PlannedFigure;
use super::chart::curves::{Chart, Curve, panels_by_protocol, values};
use super::chart::scale::{AxisScale, Bounds};
use super::data_table::{DataCell, DataTable};
use super::naming::{Naming, RunAxes, SameAxesError, summary};
use pipe_ml::metric::curves::{Curves, FrequencyBin};
use pipe_ml::metric::marked::Marked;

/// The smallest and the largest number of training rows.
type FrequencyRange = (u32, Option<u32>);

/// Draws macro-F1 by the frequency of labels.
pub fn f1_by_frequency(
    naming: &Naming,
    curves: &[(RunAxes, Curves)],
) -> Result<PlannedFigure, SameAxesError> {
    let run = |curves: &'_ Curves| Marked::new(curves.protocol, curves.by_frequency.clone());
    let groups = naming.groups(curves.iter().map(|(axes, curves)| (axes, run(curves))).collect())?;
    let shown = || curves.iter().flat_map(|(_, curves)| &curves.by_frequency).filter(|bin| bin.labels > 0);
    let mut bins: Vec<FrequencyRange> = shown().map(bounds).collect();
    // A bin without an upper end comes after the other bins that start at the same number.
    bins.sort_unstable_by_key(|&(from, to)| (from, to.unwrap_or(u32::MAX)));
    bins.dedup();
    let slots: BTreeSet<usize> = groups.iter().map(|group| group.index).collect();
    let distance = (0.8 / slots.len().max(1) as f64).min(0.16);

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
        let slot = slots.range(..group.index).count() as f64;
        let beside = (slot - (slots.len() as f64 - 1.0) / 2.0) * distance;
        let mut curve = Curve::new(&group.name, group.style);
        for (index, (f1, labels)) in by_bin {
            let Some(spread) = summary(f1) else { continue };
            let point = (index as f64 + beside, spread.mean);
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
        drawn.push(Marked::new(protocol, curve));
    }
    let name = |bin: &FrequencyRange| {
        let labels: BTreeSet<u64> = shown().filter(|b| bounds(b) == *bin).map(|bin| bin.labels).collect();
        format!("{}\n{}", bin_name(bin), label_count(&labels))
    };
    let x = AxisScale::cells(bins.iter().map(name));
    let y = AxisScale::linear(values(&drawn, |(_, y)| y), Bounds::SHARE_FROM_ZERO, 5);
    let panels = panels_by_protocol(drawn, &x, &y);
    let chart = Chart {
        title: "Macro-F1 of labels by their frequency in training".to_owned(),
        x_label: "training rows of the label, and number of labels".to_owned(),
        y_label: "macro-F1".to_owned(),
        columns: 1,
        share_x: true,
        height: if panels.len() > 1 { 75.0 } else { 110.0 },
        panels,
        notes: vec![naming.mean_note(&groups, "error bars: ± 1 standard deviation.")],
        ..Chart::default()
    };
    let columns = ["name", "from", "to", "labels", "macro_f1", "standard_deviation", "runs"];
    Ok(PlannedFigure::new(chart, DataTable::of_results(&columns, rows)))
}

fn bounds(bin: &FrequencyBin) -> FrequencyRange {
    (bin.from, bin.to)
}

/// Returns the number of labels, or its range if runs differ in it.
fn label_count(labels: &BTreeSet<u64>) -> String {
    match (labels.first(), labels.last()) {
        (Some(1), Some(1)) => "1 label".to_owned(),
        (Some(least), Some(most)) if least == most => format!("{most} labels"),
        (Some(least), Some(most)) => format!("{least}–{most} labels"),
        _ => String::new(),
    }
}

fn bin_name(&(from, to): &FrequencyRange) -> String {
    match to {
        None => format!("≥{from}"),
        Some(to) if to == from => format!("{from}"),
        Some(to) => format!("{from}–{to}"),
    }
}
