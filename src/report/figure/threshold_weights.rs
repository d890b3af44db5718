//! Figure 3 of the paper: the weights of eq. 1 over training.

use std::collections::BTreeMap;

use super::PlannedFigure;
use super::chart::curves::{Chart, Curve, CurveLine, Panel, values};
use super::chart::scale::{AxisScale, Bounds};
use super::data_table::{DataCell, DataTable};
use super::f1_over_epochs::some_of;
use super::naming::{Naming, RunAxes, RunGroup, SameAxesError, summary};
use pipe_ml::history::{Epoch, History, LabelSpread};
use pipe_ml::metric::marked::{Marked, Protocol};

/// One of the weights.
struct SignalWeight {
    name: &'static str,
    heading: &'static str,
    of: fn(&Epoch) -> LabelSpread,
}

const WEIGHTS: [SignalWeight; 3] = [
    SignalWeight { name: "alpha", heading: "α, weight of the global signal", of: |epoch| epoch.alpha },
    SignalWeight { name: "beta", heading: "β, weight of the local signal", of: |epoch| epoch.beta },
    SignalWeight {
        name: "lambda",
        heading: "λ, from the local signal (0) to the global one (1)",
        of: |epoch| epoch.lambda,
    },
];

const LEFT_OUT: &str = "Weights that a variant does not learn are left out.";

/// Draws the weights of the two signals, epoch by epoch.
pub fn threshold_weights(
    naming: &Naming,
    histories: &[(RunAxes, History)],
) -> Result<PlannedFigure, SameAxesError> {
    // The learned weights do not depend on the protocol of the evaluation.
    let run = |history| Marked::new(Protocol::Honest, history);
    let groups = naming.groups(histories.iter().map(|(axes, history)| (axes, run(history))).collect())?;
    let (mut panels, mut rows) = (Vec::new(), Vec::new());
    for weight in &WEIGHTS {
        let mut curves = Vec::new();
        for group in groups.iter().filter(|group| is_learned(group, weight.of)) {
            let epochs = by_epoch(group, weight.of);
            rows.extend(epochs.iter().map(|(epoch, spread, runs)| {
                vec![
                    DataCell::from(weight.name),
                    DataCell::from(group.name.as_str()),
                    DataCell::from(*epoch),
                    DataCell::from(spread.mean),
                    DataCell::from(spread.std),
                    DataCell::from(*runs),
                ]
            }));
            curves.push(Marked::new(Protocol::Honest, curve(group, &epochs)));
        }
        if curves.is_empty() {
            continue;
        }
        let (x, mut y) = (values(&curves, |(x, _)| x), values(&curves, |(_, y)| y));
        let last = x.iter().copied().fold(1.0, f64::max);
        let mut guides = Vec::new();
        if weight.name == "lambda" {
            // λ mixes the two signals between these, but is not limited to them.
            y.extend([0.0, 1.0]);
            guides.extend([0.0, 1.0].map(|at| [(1.0, at), (last, at)]));
        }
        let (x, y) = (AxisScale::whole(x, 6), AxisScale::linear(y, Bounds::NONE, 3));
        let heading = Some(weight.heading.to_owned());
        panels.push(Some(Panel { heading, guides, ..Panel::new(x, y, curves) }));
    }
    if panels.is_empty() {
        let (x, y) = (AxisScale::whole([], 6), AxisScale::linear([], Bounds::NONE, 3));
        panels.push(Some(Panel::new(x, y, Vec::new())));
    }
    let mean = naming.mean_note(&groups, "means and deviations are averaged.");
    let chart = Chart {
        title: "Weights of the thresholds over epochs".to_owned(),
        x_label: "epoch".to_owned(),
        y_label: "mean ± standard deviation over labels".to_owned(),
        panels,
        share_x: true,
        height: 60.0,
        notes: vec![mean, LEFT_OUT.to_owned()],
        ..Chart::default()
    };
    let columns = ["weight", "name", "epoch", "mean", "standard_deviation", "runs"];
    Ok(PlannedFigure::new(chart, DataTable::of_facts(&columns, rows)))
}

/// Returns whether a weight is learned in any run of a group. A weight that has no influence on the loss stays as it was
/// initialised, or is only scaled by weight decay, which keeps the ratio of mean and deviation.
fn is_learned(group: &RunGroup<&History>, of: fn(&Epoch) -> LabelSpread) -> bool {
    const ROUNDING: f64 = 1e-3;
    let differs = |a: f64, b: f64| (a - b).abs() > ROUNDING * a.abs().max(b.abs());
    let is_learned = |history: &&History| {
        let mut epochs = history.epochs.iter().map(of);
        let Some(first) = epochs.next() else { return false };
        let changes = |at: LabelSpread| {
            if first.std == 0.0 && at.std == 0.0 {
                differs(at.mean, first.mean)
            } else {
                differs(at.mean * first.std, first.mean * at.std)
            }
        };
        // A single epoch does not tell.
        history.epochs.len() == 1 || epochs.any(changes)
    };
    group.runs.as_ref().reveal().1.iter().any(is_learned)
}

/// Returns, for each epoch, the mean of the means and of the deviations over runs, and the number of runs.
fn by_epoch(group: &RunGroup<&History>, of: fn(&Epoch) -> LabelSpread) -> Vec<(u64, LabelSpread, u64)> {
    let mut spreads: BTreeMap<u64, Vec<LabelSpread>> = BTreeMap::new();
    for history in group.runs.as_ref().reveal().1 {
        for epoch in &history.epochs {
            spreads.entry(epoch.epoch).or_default().push(of(epoch));
        }
    }
    let mean = |(epoch, spreads): (u64, Vec<LabelSpread>)| {
        let mean = summary(spreads.iter().map(|spread| spread.mean))?;
        let std = summary(spreads.iter().map(|spread| spread.std))?.mean;
        Some((epoch, LabelSpread { mean: mean.mean, std }, u64::from(mean.seeds)))
    };
    spreads.into_iter().filter_map(mean).collect()
}

fn curve(group: &RunGroup<&History>, epochs: &[(u64, LabelSpread, u64)]) -> Curve {
    let point = |(epoch, spread, _): &(u64, LabelSpread, u64)| (*epoch as f64, spread.mean);
    let band = |(epoch, spread, _): &(u64, LabelSpread, u64)| {
        (*epoch as f64, spread.mean - spread.std, spread.mean + spread.std)
    };
    // A single weight for all labels has no deviation.
    let has_spread = epochs.iter().any(|(_, spread, _)| spread.std > 0.0);
    Curve {
        band: if has_spread { epochs.iter().map(band).collect() } else { Vec::new() },
        band_edges: true,
        lines: vec![CurveLine { points: epochs.iter().map(point).collect(), thin: false }],
        markers: some_of(epochs, group.index).map(point).collect(),
        ..Curve::new(&group.name, group.style)
    }
}
