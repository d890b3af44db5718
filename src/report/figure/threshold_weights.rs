//! Figure 3 of the paper: the weights of eq. 1 over training.

use std::collections::BTreeMap;

use super::Figure;
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
    SignalWeight { name: "lambda", heading: "λ, share of the global signal", of: |epoch| epoch.lambda },
];

/// Draws the weights of the two signals, epoch by epoch.
pub fn threshold_weights(naming: &Naming, histories: &[(RunAxes, History)]) -> Result<Figure, SameAxesError> {
    // The learned weights do not depend on the protocol of the evaluation.
    let run = |history| Marked::new(Protocol::Honest, history);
    let groups = naming.groups(histories.iter().map(|(axes, history)| (axes, run(history))).collect())?;
    let (mut panels, mut rows) = (Vec::new(), Vec::new());
    for weight in &WEIGHTS {
        let mut curves = Vec::new();
        for group in &groups {
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
        panels.push(Panel {
            heading: Some(weight.heading.to_owned()),
            x: AxisScale::whole(values(&curves, |(x, _)| x), 6),
            y: AxisScale::linear(values(&curves, |(_, y)| y), Bounds::NONE, 3),
            curves,
            guide: None,
        });
    }
    let mean = naming.mean_note(&groups, "mean and deviation are each averaged.");
    let chart = Chart {
        title: "Weights of the thresholds over epochs".to_owned(),
        x_label: "epoch".to_owned(),
        y_label: "mean ± standard deviation over labels".to_owned(),
        panels,
        columns: 1,
        height: 56.0,
        notes: vec![mean],
    };
    let columns = ["weight", "name", "epoch", "mean", "standard_deviation", "runs"];
    Ok(Figure::new(chart.draw(), DataTable::of_facts(&columns, rows)))
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
    Curve {
        band: epochs.iter().map(band).collect(),
        lines: vec![CurveLine { points: epochs.iter().map(point).collect(), thin: false }],
        markers: some_of(epochs, group.index).map(point).collect(),
        ..Curve::new(&group.name, group.style)
    }
}
