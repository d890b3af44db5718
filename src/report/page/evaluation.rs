//! Tables of evaluations side by side: the most important metrics, all metrics, and label by label.

use super::grid::{GridCell, GridColumn, GridRow, PageGrid};
use super::number::{decimal, grouped};
use crate::table::Rank;
use pipe_ml::metric::label::LabelRecord;
use pipe_ml::metric::marked::{Marked, Protocol};
use pipe_ml::metric::record::EvaluationRecord;
use pipe_ml::metric::registry::{Direction, Metric};

/// One evaluation, with its axes.
#[derive(Debug, Clone)]
pub struct Evaluated {
    axes: Vec<(String, String)>,
    record: EvaluationRecord,
    labels: Option<Marked<Vec<LabelRecord>>>,
}

impl Evaluated {
    /// Creates an evaluation. The records of the labels have the same protocol.
    pub fn new(
        axes: Vec<(String, String)>,
        record: EvaluationRecord,
        labels: Option<Vec<LabelRecord>>,
    ) -> Self {
        let labels = labels.map(|labels| Marked::new(record.protocol(), labels));
        Self { axes, record, labels }
    }

    fn name(&self) -> String {
        match self.axes.as_slice() {
            [] => self.record.part.name().to_owned(),
            axes => axes.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", "),
        }
    }
}

/// Returns a table of the most important metrics, with a row per evaluation.
pub fn headline(evaluated: &[Evaluated]) -> PageGrid {
    let axes = axes(evaluated);
    let has = |metric: &Metric| evaluated.iter().any(|one| one.record.get(*metric).is_some());
    let metrics: Vec<Metric> = Metric::HEADLINE.into_iter().filter(has).collect();
    let mut columns: Vec<GridColumn> = axes.iter().map(|axis| GridColumn::text(*axis)).collect();
    columns.push(GridColumn::text("part").help("the rows that were evaluated"));
    columns.extend(metrics.iter().map(|&metric| column(metric)));
    let best: Vec<Option<f64>> = metrics.iter().map(|&metric| best(evaluated, metric)).collect();
    let row = |one: &Evaluated| {
        let mut cells: Vec<GridCell> =
            axes.iter().map(|axis| GridCell::text(value_of(&one.axes, axis))).collect();
        cells.push(GridCell::text(one.record.part.name()));
        for (&metric, &best) in metrics.iter().zip(&best) {
            cells.push(cell(&one.record, metric, best));
        }
        GridRow::measured(Marked::new(one.record.protocol(), cells))
    };
    PageGrid { caption: "Evaluations".into(), columns, rows: evaluated.iter().map(row).collect() }
}

/// Returns a table of all metrics, with a row per metric and a column per evaluation.
pub fn all(evaluated: &[Evaluated]) -> PageGrid {
    let mut columns =
        vec![GridColumn::text("metric"), GridColumn::text("better").help("which way it improves")];
    columns.extend(
        evaluated.iter().map(|one| GridColumn::measured(Marked::new(one.record.protocol(), one.name()))),
    );
    let present = |metric: &&Metric| evaluated.iter().any(|one| one.record.get(**metric).is_some());
    let row = |&metric: &Metric| {
        let about = metric.describe();
        let mut cells =
            vec![GridCell::text(about.name).below(about.definition), GridCell::text(arrow(about.direction))];
        let best = best(evaluated, metric);
        cells.extend(evaluated.iter().map(|one| cell(&one.record, metric, best)));
        GridRow::plain(cells)
    };
    let rows = Metric::ALL.iter().filter(present).map(row).collect();
    PageGrid { caption: "Every metric".into(), columns, rows }
}

/// Returns a table with a row per label: all values of a single evaluation, or F1 of several side by side.
pub fn labels(evaluated: &[Evaluated], names: Option<&[String]>) -> Option<PageGrid> {
    let with: Vec<(&Evaluated, Marked<&Vec<LabelRecord>>)> =
        evaluated.iter().filter_map(|one| Some((one, one.labels.as_ref()?.as_ref()))).collect();
    let (_, first) = with.first()?;
    let (_, first) = first.reveal();
    let mut order: Vec<usize> = (0..first.len()).collect();
    let frequency = |label: &usize| first[*label].training_positives.unwrap_or(first[*label].support);
    order.sort_by_key(|label| (std::cmp::Reverse(frequency(label)), *label));
    let name = |label: u32| names.and_then(|names| names.get(label as usize)).cloned().unwrap_or_default();
    let mut columns = vec![
        GridColumn::text("label"),
        GridColumn::number("no."),
        GridColumn::number("train").help("training rows that have it"),
        GridColumn::number("support").help("evaluated rows that have it"),
    ];
    let head = |record: &LabelRecord| {
        let title = name(record.label);
        let title = if title.is_empty() { format!("label {}", record.label) } else { title };
        vec![
            GridCell::text(title),
            count(Some(record.label)),
            count(record.training_positives),
            count(Some(record.support)),
        ]
    };
    let rows = match with.as_slice() {
        [(one, records)] => {
            let protocol = one.record.protocol();
            let measured = |name: &str| GridColumn::measured(Marked::new(protocol, name.to_owned()));
            columns.extend(["TP", "FP", "FN", "precision", "recall", "F1"].map(measured));
            columns.push(
                GridColumn::number("threshold").help("the cut that decided, where there is one per label"),
            );
            let (_, records) = records.reveal();
            let row = |&label: &usize| {
                let record = &records[label];
                let mut cells = head(record);
                cells.extend([record.tp, record.fp, record.fn_].map(|n| count(Some(n))));
                cells.extend([record.precision, record.recall, record.f1].map(value_cell));
                cells.push(record.threshold.map_or_else(GridCell::none, |cut| value_cell(f64::from(cut))));
                GridRow::measured(Marked::new(protocol, cells))
            };
            order.iter().map(row).collect()
        }
        several => {
            let heading = |(one, _): &(&Evaluated, _)| {
                GridColumn::measured(Marked::new(one.record.protocol(), format!("F1 {}", one.name())))
            };
            columns.extend(several.iter().map(heading));
            let row = |&label: &usize| {
                let mut cells = head(&first[label]);
                for (_, records) in several {
                    let (_, records) = records.reveal();
                    cells
                        .push(records.get(label).map_or_else(GridCell::none, |record| value_cell(record.f1)));
                }
                GridRow::plain(cells)
            };
            order.iter().map(row).collect()
        }
    };
    Some(PageGrid { caption: "Label by label, the most frequent first".into(), columns, rows })
}

/// Whether any of the evaluations is an oracle one.
pub fn any_oracle(evaluated: &[Evaluated]) -> bool {
    evaluated.iter().any(|one| one.record.protocol() == Protocol::Oracle)
}

fn count(n: Option<u32>) -> GridCell {
    n.map_or_else(GridCell::none, |n| GridCell::number(grouped(u64::from(n)), f64::from(n)))
}

fn value_cell(value: f64) -> GridCell {
    GridCell::number(decimal(value), value)
}

fn column(metric: Metric) -> GridColumn {
    let about = metric.describe();
    GridColumn::number(format!("{} {}", about.name, arrow(about.direction)).trim_end().to_owned())
        .help(about.definition)
}

fn arrow(direction: Direction) -> &'static str {
    match direction {
        Direction::Higher => "↑",
        Direction::Lower => "↓",
        Direction::Neither => "",
    }
}

/// Returns the value and, if rows were resampled, the interval below it. The row or the column has the mark.
fn cell(record: &EvaluationRecord, metric: Metric, best: Option<f64>) -> GridCell {
    let Some((protocol, value)) = record.get(metric).map(Marked::reveal) else { return GridCell::none() };
    let is_best = protocol == Protocol::Honest && best == Some(value);
    let cell = value_cell(value).rank(is_best.then_some(Rank::Best));
    match record.interval(metric).map(Marked::reveal) {
        Some((_, interval)) => cell.below(format!("{} – {}", decimal(interval.low), decimal(interval.high))),
        None => cell,
    }
}

/// Returns the best of the honest values, if they differ. Oracle values do not compete.
fn best(evaluated: &[Evaluated], metric: Metric) -> Option<f64> {
    let honest = evaluated.iter().filter_map(|one| one.record.get(metric)?.honest());
    let values: Vec<f64> = honest.collect();
    if values.iter().all(|value| *value == values[0]) {
        return None;
    }
    match metric.direction() {
        Direction::Higher => values.into_iter().reduce(f64::max),
        Direction::Lower => values.into_iter().reduce(f64::min),
        Direction::Neither => None,
    }
}

/// Returns the names of all axes, in order of appearance.
fn axes(evaluated: &[Evaluated]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (axis, _) in evaluated.iter().flat_map(|one| &one.axes) {
        if !names.contains(&axis.as_str()) {
            names.push(axis);
        }
    }
    names
}

fn value_of(axes: &[(String, String)], axis: &str) -> String {
    axes.iter().find(|(name, _)| name == axis).map_or_else(|| "–".to_owned(), |(_, value)| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_ml::metric::label::LabelCount;

    fn evaluated(variant: &str, protocol: Protocol, macro_f1: f64) -> Evaluated {
        let record = serde_json::json!({
            "part": "test",
            "evaluation": {
                "protocol": protocol, "rows": 10, "labels": 2,
                "values": { "macro_f1": macro_f1, "bce": 0.1 },
            },
            "intervals": null,
        });
        let labels = [(1, 5), (4, 9)]
            .map(|(tp, actual)| LabelCount { tp, predicted: 4, actual })
            .into_iter()
            .enumerate();
        let labels = labels.map(|(label, count)| LabelRecord::new(label as u32, count)).collect();
        let axes = vec![("variant".to_owned(), variant.to_owned())];
        Evaluated::new(axes, serde_json::from_value(record).unwrap(), Some(labels))
    }

    #[test]
    fn an_oracle_value_is_marked_in_every_table_and_never_the_best() {
        let all_of = [
            evaluated("adaptive", Protocol::Honest, 0.4),
            evaluated("static", Protocol::Honest, 0.3),
            evaluated("paper", Protocol::Oracle, 0.7),
        ];
        for grid in [headline(&all_of), all(&all_of), labels(&all_of, None).unwrap()] {
            let html = grid.html().into_string();
            assert_eq!(html.matches(">oracle</abbr>").count(), 1, "{html}");
            assert!(!html.contains("<strong>0.7"), "{html}");
        }
        assert!(headline(&all_of).html().into_string().contains("<strong>0.4000</strong>"));
    }

    #[test]
    fn labels_are_named_and_the_most_frequent_comes_first() {
        let names = ["<b>rare</b>".to_owned(), "common".to_owned()];
        let one = [evaluated("paper", Protocol::Oracle, 0.7)];
        let html = labels(&one, Some(&names)).unwrap().html().into_string();
        let (common, rare) = (html.find("common").unwrap(), html.find("&lt;b&gt;rare").unwrap());
        assert!(common < rare);
        assert_eq!(html.matches("<tr class=\"oracle\">").count(), 2, "{html}");
    }
}
