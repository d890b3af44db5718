//! Figure 2 of the paper: macro-F1 of each variant. A second figure compares both protocols.

use super::PlannedFigure;
use super::chart::bars::{Bar, BarChart, BarGroup, BarSection};
use super::chart::scale::{AxisScale, Bounds};
use super::chart::style::BarStyle;
use super::data_table::{DataCell, DataTable};
use super::naming::{Naming, RunAxes, RunGroup, SameAxesError, summary};
use pipe_ml::metric::marked::{Marked, Protocol};
use pipe_ml::metric::record::EvaluationRecord;
use pipe_ml::metric::registry::Metric;

/// Draws macro-F1 on the evaluated rows.
pub fn final_f1(
    naming: &Naming,
    records: &[(RunAxes, EvaluationRecord)],
) -> Result<PlannedFigure, SameAxesError> {
    let title = format!("Macro-F1 on the {} rows", parts(records));
    Ok(bars(naming, &groups(naming, records)?, title, records))
}

/// Draws macro-F1 under both protocols, for the runs that were evaluated under both.
pub fn oracle_versus_honest(
    naming: &Naming,
    records: &[(RunAxes, EvaluationRecord)],
) -> Result<PlannedFigure, SameAxesError> {
    let groups = groups(naming, records)?;
    let has = |index: usize, protocol: Protocol| {
        groups.iter().any(|group| group.index == index && group.runs.protocol() == protocol)
    };
    let both =
        |group: &&RunGroup<f64>| has(group.index, Protocol::Honest) && has(group.index, Protocol::Oracle);
    let compared: Vec<RunGroup<f64>> = groups.iter().filter(both).cloned().collect();
    let title = format!("Macro-F1 on the {} rows under both protocols", parts(records));
    Ok(bars(naming, &compared, title, records))
}

fn groups(
    naming: &Naming,
    records: &[(RunAxes, EvaluationRecord)],
) -> Result<Vec<RunGroup<f64>>, SameAxesError> {
    let values = records.iter().filter_map(|(axes, record)| Some((axes, record.get(Metric::MacroF1)?)));
    naming.groups(values.collect())
}

/// Returns the names of the evaluated parts: `test`, `validation`, or both.
fn parts(records: &[(RunAxes, EvaluationRecord)]) -> String {
    let mut parts: Vec<_> = records.iter().map(|(_, record)| record.part).collect();
    parts.sort_unstable();
    parts.dedup();
    match parts.iter().map(|part| part.name()).collect::<Vec<_>>().join(" and ") {
        none if none.is_empty() => "evaluated".to_owned(),
        some => some,
    }
}

fn bars(
    naming: &Naming,
    groups: &[RunGroup<f64>],
    title: String,
    records: &[(RunAxes, EvaluationRecord)],
) -> PlannedFigure {
    let (mut rows, mut ends) = (Vec::new(), Vec::new());
    let mut drawn: Vec<(usize, BarGroup)> = Vec::new();
    for group in groups {
        let summary = group.runs.as_ref().map(|values| summary(values.iter().copied()));
        let (protocol, Some(spread)) = summary.reveal() else { continue };
        let deviation = spread.standard_deviation;
        let bar = Bar {
            style: BarStyle::solid(group.style.colour),
            value: spread.mean,
            interval: deviation.map(|deviation| (spread.mean - deviation, spread.mean + deviation)),
            text: match deviation {
                Some(deviation) => format!("{:.3} ± {deviation:.3}", spread.mean),
                None => format!("{:.3}", spread.mean),
            },
        };
        ends.extend(bar.ends());
        rows.push(Marked::new(
            protocol,
            vec![
                DataCell::from(group.name.as_str()),
                DataCell::from(spread.mean),
                DataCell::from(spread.standard_deviation),
                DataCell::from(u64::from(spread.seeds)),
                DataCell::from(spread.min),
                DataCell::from(spread.max),
            ],
        ));
        if drawn.last().is_none_or(|(index, _)| *index != group.index) {
            drawn.push((group.index, BarGroup { name: group.name.clone(), bars: Vec::new() }));
        }
        if let Some((_, last)) = drawn.last_mut() {
            last.bars.push(Marked::new(protocol, bar));
        }
    }
    let chart = BarChart {
        title,
        sections: vec![BarSection {
            heading: None,
            x_label: format!("{} macro-F1", parts(records)),
            scale: AxisScale::linear(ends, Bounds::SHARE_FROM_ZERO, 5),
            groups: drawn.into_iter().map(|(_, group)| group).collect(),
        }],
        series: Vec::new(),
        notes: vec![naming.mean_note(groups, "error bars: ± 1 standard deviation.")],
    };
    let columns = ["name", "macro_f1", "standard_deviation", "runs", "min", "max"];
    PlannedFigure::new(chart, DataTable::of_results(&columns, rows))
}
