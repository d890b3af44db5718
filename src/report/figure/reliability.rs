//! The reliability of probabilities: the share of true labels among entries with about the same predicted probability.

use super::PlannedFigure;
use super::chart::curves::{Chart, Curve, CurveLine, panels_by_protocol};
use super::chart::scale::{AxisScale, Bounds};
use super::data_table::{DataCell, DataTable};
use super::f1_over_epochs::some_of;
use super::naming::{Naming, RunAxes, SameAxesError};
use pipe_ml::metric::calibration::BINS;
use pipe_ml::metric::curves::{Curves, ReliabilityBin};
use pipe_ml::metric::marked::Marked;

/// Draws the share of true labels against the predicted probability.
pub fn reliability(naming: &Naming, curves: &[(RunAxes, Curves)]) -> Result<PlannedFigure, SameAxesError> {
    let run = |curves: &'_ Curves| Marked::new(curves.protocol, curves.reliability.clone());
    let groups = naming.groups(curves.iter().map(|(axes, curves)| (axes, run(curves))).collect())?;
    let (mut drawn, mut rows) = (Vec::new(), Vec::new());
    for group in &groups {
        let (protocol, runs) = group.runs.as_ref().reveal();
        let bins = pool(runs);
        let share = |bin: &ReliabilityBin| bin.positives as f64 / bin.entries as f64;
        let points: Vec<_> = bins.iter().map(|bin| (bin.mean_probability, share(bin))).collect();
        rows.extend(bins.iter().map(|bin| {
            let cells = vec![
                DataCell::from(group.name.as_str()),
                DataCell::from(bin.mean_probability),
                DataCell::from(share(bin)),
                DataCell::from(bin.entries),
                DataCell::from(bin.positives),
            ];
            Marked::new(protocol, cells)
        }));
        let curve = Curve {
            markers: some_of(&points, group.index).copied().collect(),
            lines: vec![CurveLine { points, thin: false }],
            ..Curve::new(&group.name, group.style)
        };
        drawn.push(Marked::new(protocol, curve));
    }
    let share = AxisScale::linear([0.0, 1.0], Bounds::SHARE, 5);
    let mut panels = panels_by_protocol(drawn, &share, &share);
    for panel in panels.iter_mut().flatten() {
        panel.guides.push([(0.0, 0.0), (1.0, 1.0)]);
    }
    let chart = Chart {
        title: "Predicted probability and share of true labels".to_owned(),
        x_label: "predicted probability".to_owned(),
        y_label: "share of true labels".to_owned(),
        columns: panels.len(),
        share_y: true,
        height: if panels.len() > 1 { 98.0 } else { 150.0 },
        panels,
        notes: vec![
            naming.mean_note(&groups, "their entries are pooled."),
            "Dotted: perfectly calibrated probabilities.".to_owned(),
        ],
        ..Chart::default()
    };
    let columns = ["name", "mean_probability", "share_true", "entries", "positives"];
    Ok(PlannedFigure::new(chart, DataTable::of_results(&columns, rows)))
}

/// Merges the entries of all runs, bin by bin.
fn pool(runs: &[Vec<ReliabilityBin>]) -> Vec<ReliabilityBin> {
    if let [only] = runs {
        return only.iter().filter(|bin| bin.entries > 0).copied().collect();
    }
    let mut bins: Vec<Vec<ReliabilityBin>> = vec![Vec::new(); BINS];
    for bin in runs.iter().flatten().filter(|bin| bin.entries > 0) {
        bins[((bin.mean_probability * BINS as f64) as usize).min(BINS - 1)].push(*bin);
    }
    let sum = |mut bins: Vec<ReliabilityBin>| {
        bins.sort_by(|a, b| {
            a.mean_probability.total_cmp(&b.mean_probability).then(a.entries.cmp(&b.entries))
        });
        let entries: u64 = bins.iter().map(|bin| bin.entries).sum();
        let weighted: f64 = bins.iter().map(|bin| bin.mean_probability * bin.entries as f64).sum();
        ReliabilityBin {
            mean_probability: weighted / entries as f64,
            entries,
            positives: bins.iter().map(|bin| bin.positives).sum(),
        }
    };
    bins.into_iter().filter(|bins| !bins.is_empty()).map(sum).collect()
}
