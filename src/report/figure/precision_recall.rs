//! Precision and recall for other thresholds: all of them are moved by the same amount.

use std::collections::BTreeMap;

use super::PlannedFigure;
use super::chart::curves::{Chart, Curve, CurveLine, panels_by_protocol, values};
use super::chart::scale::{AxisScale, Bounds};
use super::data_table::{DataCell, DataTable};
use super::naming::{Naming, RunAxes, SameAxesError, summary};
use pipe_ml::metric::curves::{Curves, ShiftedMetrics};
use pipe_ml::metric::marked::Marked;

/// Draws precision against recall as all thresholds are moved.
pub fn precision_recall(
    naming: &Naming,
    curves: &[(RunAxes, Curves)],
) -> Result<PlannedFigure, SameAxesError> {
    let run = |curves: &'_ Curves| Marked::new(curves.protocol, curves.tradeoff.clone());
    let groups = naming.groups(curves.iter().map(|(axes, curves)| (axes, run(curves))).collect())?;
    let (mut drawn, mut rows) = (Vec::new(), Vec::new());
    for group in &groups {
        let (protocol, runs) = group.runs.as_ref().reveal();
        let points = means(runs);
        rows.extend(points.iter().map(|at| {
            let cells = vec![
                DataCell::from(group.name.as_str()),
                DataCell::from(at.shift),
                DataCell::from(at.micro_precision),
                DataCell::from(at.micro_recall),
                DataCell::from(at.micro_f1),
                DataCell::from(at.macro_f1),
            ];
            Marked::new(protocol, cells)
        }));
        // Precision is undefined where nothing is predicted any more.
        let shown: Vec<&ShiftedMetrics> =
            points.iter().filter(|at| at.micro_precision > 0.0 || at.micro_recall > 0.0).collect();
        let point = |at: &&ShiftedMetrics| (at.micro_recall, at.micro_precision);
        let curve = Curve {
            lines: vec![CurveLine { points: shown.iter().map(point).collect(), thin: false }],
            markers: shown.iter().filter(|at| at.shift == 0.0).map(point).collect(),
            ..Curve::new(&group.name, group.style)
        };
        drawn.push(Marked::new(protocol, curve));
    }
    let x = AxisScale::linear(values(&drawn, |(x, _)| x), Bounds::SHARE, 5);
    let y = AxisScale::linear(values(&drawn, |(_, y)| y), Bounds::SHARE, 5);
    let panels = panels_by_protocol(drawn, &x, &y);
    let chart = Chart {
        title: "Precision and recall as the thresholds are moved".to_owned(),
        x_label: "micro-averaged recall".to_owned(),
        y_label: "micro-averaged precision".to_owned(),
        columns: panels.len(),
        share_y: true,
        height: if panels.len() > 1 { 100.0 } else { 130.0 },
        panels,
        notes: vec![
            "Marker: fitted thresholds; along a curve all move by the same amount.".to_owned(),
            naming.mean_note(&groups, "at equal shifts."),
        ],
        ..Chart::default()
    };
    let columns = ["name", "shift", "micro_precision", "micro_recall", "micro_f1", "macro_f1"];
    Ok(PlannedFigure::new(chart, DataTable::of_results(&columns, rows)))
}

/// Returns the means over runs at the shifts that all runs have.
fn means(runs: &[Vec<ShiftedMetrics>]) -> Vec<ShiftedMetrics> {
    let mut by_shift: BTreeMap<i64, Vec<ShiftedMetrics>> = BTreeMap::new();
    for at in runs.iter().flatten() {
        // As whole billionths, so that 0.1 + 0.2 and 0.3 are one shift.
        by_shift.entry((at.shift * 1e9).round() as i64).or_default().push(*at);
    }
    let mean = |at: Vec<ShiftedMetrics>| {
        let mean = |of: fn(&ShiftedMetrics) -> f64| summary(at.iter().map(of)).map(|spread| spread.mean);
        Some(ShiftedMetrics {
            shift: at[0].shift,
            micro_precision: mean(|at| at.micro_precision)?,
            micro_recall: mean(|at| at.micro_recall)?,
            micro_f1: mean(|at| at.micro_f1)?,
            macro_f1: mean(|at| at.macro_f1)?,
        })
    };
    by_shift.into_values().filter(|at| at.len() == runs.len()).filter_map(mean).collect()
}
