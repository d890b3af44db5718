//! Figure 1 of the paper: macro-F1 on the validation rows over training.

use std::collections::BTreeMap;

use super::PlannedFigure;
use super::chart::curves::{Chart, Curve, CurveLine, Panel, values};
use super::chart::scale::{AxisScale, Bounds};
use super::data_table::{DataCell, DataTable};
use super::naming::{Naming, RunAxes, RunGroup, SameAxesError, summary};
use pipe_ml::history::{EpochMetrics, History};
use pipe_ml::metric::marked::Marked;
use pipe_ml::metric::spread::SeedSpread;

/// Epochs and macro-F1 of a run.
type F1ByEpoch = Vec<(u64, f64)>;

/// The values of the runs of a group at one epoch.
struct EpochValues {
    epoch: u64,
    spread: SeedSpread,
    /// The values of runs that end at this epoch, before others.
    ended: Vec<f64>,
}

/// Draws macro-F1 on the validation rows, epoch by epoch.
pub fn f1_over_epochs(
    naming: &Naming,
    histories: &[(RunAxes, History)],
) -> Result<PlannedFigure, SameAxesError> {
    let run = |history: &History| {
        let macro_f1 = |(epoch, validation): &(u64, EpochMetrics)| (*epoch, validation.macro_f1);
        history.validations().map(|epochs| epochs.iter().map(macro_f1).collect::<F1ByEpoch>())
    };
    let groups = naming.groups(histories.iter().map(|(axes, history)| (axes, run(history))).collect())?;
    let last =
        groups.iter().flat_map(|group| group.runs.as_ref().reveal().1.iter().filter_map(last_epoch)).max();
    let marked: Vec<(&RunGroup<F1ByEpoch>, Marked<Vec<EpochValues>>)> =
        groups.iter().map(|group| (group, group.runs.as_ref().map(|runs| by_epoch(runs, last)))).collect();

    let curves: Vec<Marked<Curve>> =
        marked.iter().map(|(group, epochs)| epochs.as_ref().map(|epochs| curve(group, epochs))).collect();
    let mut notes = vec![naming.mean_note(&groups, "band: ± 1 standard deviation.")];
    if curves.iter().any(|curve| !curve.as_ref().reveal().1.ends.is_empty()) {
        notes.push("× a run that stopped early; thin: mean of the remaining runs.".to_owned());
    }
    let x = AxisScale::whole(values(&curves, |(x, _)| x), 6);
    let y = AxisScale::linear(values(&curves, |(_, y)| y), Bounds::SHARE, 5);
    let chart = Chart {
        title: "Macro-F1 on the validation rows over epochs".to_owned(),
        x_label: "epoch".to_owned(),
        y_label: "validation macro-F1".to_owned(),
        panels: vec![Some(Panel::new(x, y, curves))],
        height: 120.0,
        notes,
        ..Chart::default()
    };
    let columns = ["name", "epoch", "macro_f1", "standard_deviation", "runs", "ended_early"];
    let rows = marked.iter().flat_map(|(group, epochs)| rows(&group.name, epochs));
    Ok(PlannedFigure::new(chart, DataTable::of_results(&columns, rows)))
}

fn last_epoch(run: &F1ByEpoch) -> Option<u64> {
    run.last().map(|(epoch, _)| *epoch)
}

/// Returns the values by epoch. `last` is the last epoch of any run.
fn by_epoch(runs: &[F1ByEpoch], last: Option<u64>) -> Vec<EpochValues> {
    let mut values: BTreeMap<u64, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for run in runs {
        for &(epoch, value) in run {
            let (all, ended) = values.entry(epoch).or_default();
            all.push(value);
            if Some(epoch) == last_epoch(run) && Some(epoch) != last {
                ended.push(value);
            }
        }
    }
    let at = |(epoch, (all, mut ended)): (u64, (Vec<f64>, Vec<f64>))| {
        ended.sort_by(f64::total_cmp);
        Some(EpochValues { epoch, spread: summary(all)?, ended })
    };
    values.into_iter().filter_map(at).collect()
}

fn curve(group: &RunGroup<F1ByEpoch>, epochs: &[EpochValues]) -> Curve {
    let point = |at: &EpochValues| (at.epoch as f64, at.spread.mean);
    let complete = epochs.iter().take_while(|at| at.spread.seeds as usize == group.len()).count();
    // The thin line starts where the full one ends.
    let rest = &epochs[complete.saturating_sub(1).min(epochs.len())..];
    let line = |epochs: &[EpochValues], thin| CurveLine { points: epochs.iter().map(point).collect(), thin };
    let with_spread = |at: &EpochValues| {
        let spread = at.spread.standard_deviation?;
        let clamp = |value: f64| value.clamp(0.0, 1.0);
        Some((at.epoch as f64, clamp(at.spread.mean - spread), clamp(at.spread.mean + spread)))
    };
    Curve {
        band: epochs.iter().filter_map(with_spread).collect(),
        lines: vec![line(&epochs[..complete], false), line(rest, true)],
        markers: some_of(epochs, group.index).map(point).collect(),
        ends: epochs.iter().flat_map(|at| at.ended.iter().map(|&value| (at.epoch as f64, value))).collect(),
        ..Curve::new(&group.name, group.style)
    }
}

/// Returns a few of many points, at other positions for each curve, so that markers do not cover each other.
pub(super) fn some_of<T>(all: &[T], index: usize) -> impl Iterator<Item = &T> {
    const MARKERS: usize = 7;
    let step = all.len().div_ceil(MARKERS).max(1);
    all.iter().skip((index * step / 3) % step).step_by(step)
}

fn rows(name: &str, epochs: &Marked<Vec<EpochValues>>) -> Vec<Marked<Vec<DataCell>>> {
    let row = |at: &EpochValues| {
        let ended: Vec<String> = at.ended.iter().map(f64::to_string).collect();
        vec![
            DataCell::from(name),
            DataCell::from(at.epoch),
            DataCell::from(at.spread.mean),
            DataCell::from(at.spread.standard_deviation),
            DataCell::from(u64::from(at.spread.seeds)),
            DataCell::from(ended.join(" ").as_str()),
        ]
    };
    let (protocol, epochs) = epochs.as_ref().reveal();
    epochs.iter().map(|at| Marked::new(protocol, row(at))).collect()
}
