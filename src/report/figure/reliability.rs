//! The reliability of probabilities: the share of true labels among entries with about the same predicted probability.

use super::Figure;
use super::chart::curves::{Chart, Curve, CurveLine, Panel};
use super::chart::scale::{AxisScale, Bounds};
use super::data_table::{DataCell, DataTable};
use super::naming::{Naming, RunAxes, SameAxesError};
use pipe_ml::metric::calibration::BINS;
use pipe_ml::metric::curves::{Curves, ReliabilityBin};
use pipe_ml::metric::marked::Marked;

/// Draws the share of true labels against the predicted probability.
pub fn reliability(naming: &Naming, curves: &[(RunAxes, Curves)]) -> Result<Figure, SameAxesError> {
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
        let line = CurveLine { points: points.clone(), thin: false };
        let curve = Curve { lines: vec![line], markers: points, ..Curve::new(&group.name, group.style) };
        drawn.push(Marked::new(protocol, curve));
    }
    let share = || AxisScale::linear([0.0, 1.0], Bounds::SHARE, 5);
    let chart = Chart {
        title: "Predicted probability and share of true labels".to_owned(),
        x_label: "predicted probability".to_owned(),
        y_label: "share of true labels".to_owned(),
        panels: vec![Panel {
            heading: None,
            x: share(),
            y: share(),
            curves: drawn,
            guide: Some([(0.0, 0.0), (1.0, 1.0)]),
        }],
        columns: 1,
        height: 150.0,
        notes: vec![
            naming.mean_note(&groups, "their entries are put together."),
            "Dotted: probabilities that come true.".to_owned(),
        ],
    };
    let columns = ["name", "mean_probability", "share_true", "entries", "positives"];
    Ok(Figure::new(chart.draw(), DataTable::of_results(&columns, rows)))
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
