//! Figure 2 of the paper: macro-F1 of each variant. A second figure compares both protocols.

use super::Figure;
use super::chart::bars::{Bar, BarChart, BarGroup};
use super::chart::scale::Bounds;
use super::data_table::{DataCell, DataTable};
use super::naming::{Naming, RunAxes, RunGroup, SameAxesError, summary};
use pipe_ml::metric::marked::{Marked, Protocol};
use pipe_ml::metric::record::EvaluationRecord;
use pipe_ml::metric::registry::Metric;

/// Draws macro-F1 on the evaluated rows.
pub fn final_f1(naming: &Naming, records: &[(RunAxes, EvaluationRecord)]) -> Result<Figure, SameAxesError> {
    let title = format!("Macro-F1 on the {} rows", parts(records));
    Ok(bars(naming, &groups(naming, records)?, title, records))
}

/// Draws macro-F1 under both protocols, for the runs that were evaluated under both.
pub fn oracle_versus_honest(
    naming: &Naming,
    records: &[(RunAxes, EvaluationRecord)],
) -> Result<Figure, SameAxesError> {
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
) -> Figure {
    let mut rows = Vec::new();
    let mut drawn: Vec<(usize, BarGroup)> = Vec::new();
    for group in groups {
        let summary = group.runs.as_ref().map(|values| summary(values.iter().copied()));
        let (protocol, Some(spread)) = summary.reveal() else { continue };
        let bar = Bar { value: spread.mean, spread: spread.standard_deviation };
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
            let (name, colour) = (group.name.clone(), group.style.colour);
            drawn.push((group.index, BarGroup { name, colour, bars: Vec::new() }));
        }
        if let Some((_, last)) = drawn.last_mut() {
            last.bars.push(Marked::new(protocol, bar));
        }
    }
    let chart = BarChart {
        title,
        x_label: format!("{} macro-F1", parts(records)),
        bounds: Bounds::SHARE_FROM_ZERO,
        groups: drawn.into_iter().map(|(_, group)| group).collect(),
        notes: vec![naming.mean_note(groups, "error bars: ± 1 standard deviation.")],
    };
    let columns = ["name", "macro_f1", "standard_deviation", "runs", "min", "max"];
    Figure::new(chart.draw(), DataTable::of_results(&columns, rows))
}
