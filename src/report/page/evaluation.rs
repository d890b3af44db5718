//! Tables of evaluations side by side: the most important metrics, all metrics, and label by label.

use super::grid::{GridCell, GridColumn, GridRow, PageGrid};
use super::number::{decimal, grouped};
use crate::table::Rank;
use pipe_ml::metric::label::LabelRecord;
use pipe_ml::metric::marked::{Marked, Protocol};
use pipe_ml::metric::record::EvaluationRecord;
use pipe_ml::metric::registry::{Direction, Metric};
use pipe_ml::metric::spread::SeedSpread;

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

    fn part(&self) -> &'static str {
        self.record.part.name()
    }

    /// Returns the records of the labels. Whoever shows them marks them with the protocol of the evaluation.
    fn label_records(&self) -> &[LabelRecord] {
        self.labels.as_ref().map_or(&[], |labels| labels.as_ref().reveal().1)
    }

    fn axes_without(&self, left_out: &str) -> Vec<(&str, &str)> {
        let axes = self.axes.iter().map(|(axis, value)| (axis.as_str(), value.as_str()));
        axes.filter(|(axis, _)| *axis != left_out).collect()
    }
}

/// The axis whose values are repetitions.
const SEED: &str = "seed";

/// Evaluations that are shown together: one, or several that differ only in their seed.
struct EvaluationGroup<'a> {
    axes: Vec<(&'a str, &'a str)>,
    members: Vec<&'a Evaluated>,
}

impl<'a> EvaluationGroup<'a> {
    /// Returns each evaluation by itself.
    fn singles(evaluated: &'a [Evaluated]) -> Vec<Self> {
        let single = |one: &'a Evaluated| Self { axes: one.axes_without(""), members: vec![one] };
        evaluated.iter().map(single).collect()
    }

    /// Groups the evaluations that differ only in their seed.
    fn over_seeds(evaluated: impl IntoIterator<Item = &'a Evaluated>) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for one in evaluated {
            let axes = one.axes_without(SEED);
            let is_its_group = |group: &&mut Self| {
                group.axes == axes && group.protocol() == one.record.protocol() && group.part() == one.part()
            };
            match groups.iter_mut().find(is_its_group) {
                Some(group) => group.members.push(one),
                None => groups.push(Self { axes, members: vec![one] }),
            }
        }
        groups
    }

    fn name(&self) -> String {
        match self.axes.as_slice() {
            [] => self.part().to_owned(),
            axes => {
                // A number says nothing without its axis.
                let part = |(axis, value): &(&str, &str)| match value.parse::<f64>() {
                    Ok(_) => format!("{axis}={value}"),
                    Err(_) => (*value).to_owned(),
                };
                axes.iter().map(part).collect::<Vec<_>>().join(", ")
            }
        }
    }

    fn part(&self) -> &'static str {
        self.members[0].part()
    }

    fn protocol(&self) -> Protocol {
        self.members[0].record.protocol()
    }

    /// Returns mean and spread of a metric; `None` if an evaluation does not have it.
    fn spread(&self, metric: Metric) -> Option<SeedSpread> {
        // The protocol is that of the group, whose row or column is marked.
        let value = |one: &&Evaluated| Some(one.record.get(metric)?.reveal().1);
        SeedSpread::over(&self.members.iter().map(value).collect::<Option<Vec<f64>>>()?)
    }

    /// Returns the value and, below it, its interval if rows were resampled, or the standard deviation of several seeds.
    fn cell(&self, metric: Metric, best: Option<f64>) -> GridCell {
        let Some(spread) = self.spread(metric) else { return GridCell::none() };
        let is_best = self.protocol() == Protocol::Honest && best == Some(spread.mean);
        let cell = value_cell(spread.mean).rank(is_best.then_some(Rank::Best));
        if let Some(deviation) = spread.standard_deviation {
            return cell.below(format!("± {}", decimal(deviation)));
        }
        match self.members[0].record.interval(metric).map(Marked::reveal) {
            Some((_, interval)) => {
                cell.below(format!("{} – {}", decimal(interval.low), decimal(interval.high)))
            }
            None => cell,
        }
    }
}

/// Returns a table of the most important metrics, with a row per evaluation.
pub fn headline(evaluated: &[Evaluated]) -> PageGrid {
    table("Evaluations", &EvaluationGroup::singles(evaluated))
}

/// Returns the same with means over seeds; `None` if no two evaluations differ only in their seed.
pub fn means(evaluated: &[Evaluated]) -> Option<PageGrid> {
    let groups = EvaluationGroup::over_seeds(evaluated);
    let most = groups.iter().map(|group| group.members.len()).max()?;
    let caption = if groups.iter().all(|group| group.members.len() == most) {
        format!("Means of {most} seeds")
    } else {
        format!("Means of up to {most} seeds")
    };
    (most > 1).then(|| table(&caption, &groups))
}

fn table(caption: &str, groups: &[EvaluationGroup]) -> PageGrid {
    let metrics: Vec<Metric> = Metric::HEADLINE.into_iter().filter(|metric| has(groups, *metric)).collect();
    // What all rows have in common is not repeated in each of them: a phone shows few columns.
    let mut headings: Vec<RowHeading> = Vec::new();
    let mut common = Vec::new();
    for heading in axes(groups).into_iter().map(RowHeading::Axis).chain([RowHeading::Part]) {
        let first = groups.first().map(|group| heading.of(group)).unwrap_or_default();
        let is_shared = groups.len() > 1 && groups.iter().all(|group| heading.of(group) == first);
        match heading {
            _ if !is_shared => headings.push(heading),
            RowHeading::Axis(axis) => common.push(format!("{axis} {first}")),
            // The rows of two protocols may have nothing else that tells them apart.
            RowHeading::Part if headings.is_empty() => headings.push(heading),
            RowHeading::Part => common.push(format!("{first} rows")),
        }
    }
    let caption =
        if common.is_empty() { caption.to_owned() } else { format!("{caption}: {}", common.join(", ")) };
    let best: Vec<Option<f64>> = metrics.iter().map(|&metric| best(groups, metric)).collect();
    let row = |group: &EvaluationGroup| {
        let mut cells: Vec<GridCell> =
            headings.iter().map(|heading| GridCell::text(heading.of(group))).collect();
        cells.extend(metrics.iter().zip(&best).map(|(&metric, &best)| group.cell(metric, best)));
        GridRow::measured(Marked::new(group.protocol(), cells))
    };
    let rows = groups.iter().map(row).collect();
    let mut columns: Vec<GridColumn> = headings.iter().map(RowHeading::column).collect();
    columns.extend(metrics.iter().map(|&metric| column(metric)));
    PageGrid { caption, columns, rows }
}

/// What stands at the beginning of a row.
#[derive(Clone, Copy)]
enum RowHeading<'a> {
    Axis(&'a str),
    Part,
}

impl RowHeading<'_> {
    fn of(self, group: &EvaluationGroup) -> String {
        match self {
            Self::Axis(axis) => value_of(&group.axes, axis),
            Self::Part => group.part().to_owned(),
        }
    }

    fn column(&self) -> GridColumn {
        match self {
            Self::Axis(axis) => GridColumn::text(*axis),
            Self::Part => GridColumn::text("part").help("the rows that were evaluated"),
        }
    }
}

/// Returns a table of all metrics, with a row per metric and a column per evaluation, or per mean over seeds.
pub fn all(evaluated: &[Evaluated]) -> PageGrid {
    let groups = EvaluationGroup::over_seeds(evaluated);
    let mut columns =
        vec![GridColumn::text("metric"), GridColumn::text("better").help("which way it improves")];
    columns.extend(groups.iter().map(|one| GridColumn::measured(Marked::new(one.protocol(), one.name()))));
    let row = |&metric: &Metric| {
        let about = metric.describe();
        let mut cells =
            vec![GridCell::text(about.name).below(about.definition), GridCell::text(arrow(about.direction))];
        let best = best(&groups, metric);
        cells.extend(groups.iter().map(|one| one.cell(metric, best)));
        GridRow::plain(cells)
    };
    let rows = Metric::ALL.iter().filter(|metric| has(&groups, **metric)).map(row).collect();
    PageGrid { caption: "Every metric".into(), columns, rows }
}

/// A page about more labels than this shows the more frequent half of this number, and some of the others.
const MOST_LABELS: usize = 2000;
/// The same for the number of cells.
const MOST_CELLS: usize = 100_000;

/// Returns the labels to show, of labels that are in the order of their frequency, and a sentence about the others.
fn shown_labels(order: Vec<usize>, columns: usize) -> (Vec<usize>, String) {
    let (all, most) = (order.len(), MOST_LABELS.min(MOST_CELLS / columns.max(1)).max(100));
    if all <= most {
        return (order, String::new());
    }
    let (frequent, others) = order.split_at(most / 2);
    let step = others.len().div_ceil(most / 2);
    let shown = frequent.iter().chain(others.iter().step_by(step)).copied().collect();
    let which = match step {
        1 => String::new(),
        2 => " second".to_owned(),
        3 => " third".to_owned(),
        step => format!(" {step}th"),
    };
    let [all, half] = [all, most / 2].map(|count| grouped(count as u64));
    (shown, format!(": the {half} most frequent of {all} labels, and every{which} one of the others"))
}

/// Returns a table with a row per label: all values of a single evaluation, or F1 of several side by side. It has at most
/// [`MOST_LABELS`] rows.
pub fn labels(evaluated: &[Evaluated], names: Option<&[String]>) -> Option<PageGrid> {
    let with: Vec<&Evaluated> = evaluated.iter().filter(|one| one.labels.is_some()).collect();
    let first = with.first()?.label_records();
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
    let mut caption = "Label by label, the most frequent first".to_owned();
    let rows = match with.as_slice() {
        [one] => {
            let protocol = one.record.protocol();
            let measured = |name: &str| GridColumn::measured(Marked::new(protocol, name.to_owned()));
            columns.extend(["TP", "FP", "FN", "precision", "recall", "F1"].map(measured));
            columns.push(
                GridColumn::number("threshold").help("the cut that decided, where there is one per label"),
            );
            let row = |&label: &usize| {
                let record = &first[label];
                let mut cells = head(record);
                cells.extend([record.tp, record.fp, record.fn_].map(|n| count(Some(n))));
                cells.extend([record.precision, record.recall, record.f1].map(value_cell));
                cells.push(record.threshold.map_or_else(GridCell::none, |cut| value_cell(f64::from(cut))));
                GridRow::measured(Marked::new(protocol, cells))
            };
            let (shown, bound) = shown_labels(order, columns.len());
            caption.push_str(&bound);
            shown.iter().map(row).collect()
        }
        several => {
            let groups = EvaluationGroup::over_seeds(several.iter().copied());
            let heading = |group: &EvaluationGroup| {
                GridColumn::measured(Marked::new(group.protocol(), format!("F1 {}", group.name())))
            };
            columns.extend(groups.iter().map(heading));
            if groups.len() < several.len() {
                caption.push_str(", with means over seeds");
            }
            let row = |&label: &usize| {
                let mut cells = head(&first[label]);
                for group in &groups {
                    let of_member = |one: &&Evaluated| Some(one.label_records().get(label)?.f1);
                    let values: Vec<f64> = group.members.iter().filter_map(of_member).collect();
                    let spread = SeedSpread::over(&values);
                    cells.push(spread.map_or_else(GridCell::none, |spread| value_cell(spread.mean)));
                }
                GridRow::plain(cells)
            };
            let (shown, bound) = shown_labels(order, columns.len());
            caption.push_str(&bound);
            shown.iter().map(row).collect()
        }
    };
    Some(PageGrid { caption, columns, rows })
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

/// Whether one of the groups has a metric.
fn has(groups: &[EvaluationGroup], metric: Metric) -> bool {
    groups.iter().any(|group| group.spread(metric).is_some())
}

/// Returns the best of the honest values, if they differ. Oracle values do not compete.
fn best(groups: &[EvaluationGroup], metric: Metric) -> Option<f64> {
    let honest = groups.iter().filter(|group| group.protocol() == Protocol::Honest);
    let values: Vec<f64> = honest.filter_map(|group| Some(group.spread(metric)?.mean)).collect();
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
fn axes<'a>(groups: &[EvaluationGroup<'a>]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for (axis, _) in groups.iter().flat_map(|group| &group.axes) {
        if !names.contains(axis) {
            names.push(axis);
        }
    }
    names
}

fn value_of(axes: &[(&str, &str)], axis: &str) -> String {
    axes.iter()
        .find(|(name, _)| *name == axis)
        .map_or_else(|| "–".to_owned(), |(_, value)| (*value).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_ml::metric::label::LabelCount;

    fn seeded(variant: &str, seed: &str, macro_f1: f64) -> Evaluated {
        let mut one = evaluated(variant, Protocol::Honest, macro_f1);
        one.axes.push((SEED.to_owned(), seed.to_owned()));
        one
    }

    #[test]
    fn means_over_seeds_come_with_their_deviations() {
        let all_of = [seeded("a", "0", 0.25), seeded("a", "1", 0.75), seeded("b", "0", 0.375)];
        let html = means(&all_of).unwrap().html().into_string();
        assert!(html.contains("<caption>Means of up to 2 seeds: test rows</caption>"), "{html}");
        assert!(html.contains("<strong>0.5000</strong><small>± 0.3536</small>"), "{html}");
        assert_eq!(html.matches("<tr>").count(), 3, "a heading, a and b: {html}");
        let by_label = labels(&all_of, None).unwrap().html().into_string();
        assert!(by_label.contains("F1 a<") && by_label.contains("with means over seeds"), "{by_label}");
        assert!(means(&all_of[1..]).is_none(), "there is nothing to average");
        let singles = headline(&all_of[..2]).html().into_string();
        assert!(singles.contains("<caption>Evaluations: variant a, test rows</caption>"), "{singles}");
    }

    #[test]
    fn a_page_shows_a_bounded_number_of_labels() {
        let (all, sentence) = shown_labels((0..2000).collect(), 10);
        assert_eq!((all.len(), sentence.as_str()), (2000, ""));
        let (shown, sentence) = shown_labels((0..13_330).collect(), 10);
        assert_eq!(&shown[998..1003], [998, 999, 1000, 1013, 1026]);
        assert_eq!(shown.len(), 1949);
        assert!(
            sentence.ends_with("most frequent of 13\u{202f}330 labels, and every 13th one of the others"),
            "{sentence}"
        );
        assert!(shown_labels((0..13_330).collect(), 500).0.len() <= 200, "200 rows of 500 cells");
    }

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
