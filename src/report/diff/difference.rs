//! Compares two snapshots.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::snapshot::{Cell, Snapshot, StageSnapshot};
use pipe_core::digest::BlobId;
use pipe_ml::metric::marked::Marked;
use pipe_ml::metric::registry::{Direction, Metric};

/// The differences between two snapshots.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    pub old: String,
    pub new: String,
    /// Instances that only the old side has.
    pub only_old: Vec<String>,
    /// Instances that only the new side has.
    pub only_new: Vec<String>,
    /// Instances that differ.
    pub changed: Vec<StageDifference>,
    /// The number of instances that are the same on both sides.
    pub same: usize,
}

/// The differences of one instance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageDifference {
    pub stage: String,
    pub params: Vec<ParamChange>,
    pub metrics: Vec<MetricChange>,
    /// The cells of a table whose stored values differ.
    pub cells: Vec<CellChange>,
    pub outputs: Vec<OutputChange>,
}

/// A cell of a table that changed. Its name is made of the titles of its row and column; its values are means as they are
/// stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellChange {
    pub metric: Metric,
    #[serde(flatten)]
    pub change: MetricChange,
    /// The numbers of runs.
    pub old_n: Option<u32>,
    pub new_n: Option<u32>,
    /// The change as the table prints values.
    #[serde(skip)]
    pub printed: PrintedChange,
}

/// The change of a cell in print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrintedChange {
    /// The name, with the unit.
    pub name: String,
    /// The value with its interval, and with the number of runs if it changed.
    pub old: Option<String>,
    pub new: Option<String>,
    /// The difference of the means, with its sign.
    pub change: Option<String>,
}

/// A parameter that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ParamChange {
    pub name: String,
    pub old: Option<String>,
    pub new: Option<String>,
}

/// A metric that changed. Its values keep their protocol.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricChange {
    pub name: String,
    pub old: Option<Marked<f64>>,
    pub new: Option<Marked<f64>>,
    /// New minus old; `None` if one is missing, or if the two have different protocols.
    pub change: Option<f64>,
    pub verdict: MetricVerdict,
}

/// Whether a change is an improvement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricVerdict {
    Better,
    Worse,
    /// Neither: the metric has no direction, or the values cannot be compared.
    Other,
}

/// An output whose content changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutputChange {
    pub name: String,
    pub old: Option<BlobId>,
    pub new: Option<BlobId>,
}

impl Difference {
    /// Compares two snapshots.
    pub fn between(old: &Snapshot, new: &Snapshot) -> Self {
        let only = |one: &Snapshot, other: &Snapshot| {
            one.stages.keys().filter(|name| !other.stages.contains_key(*name)).cloned().collect()
        };
        let mut changed = Vec::new();
        let mut same = 0;
        for (name, before) in &old.stages {
            let Some(after) = new.stages.get(name) else { continue };
            match StageDifference::between(name, before, after) {
                Some(difference) => changed.push(difference),
                None => same += 1,
            }
        }
        Self {
            old: old.name.clone(),
            new: new.name.clone(),
            only_old: only(old, new),
            only_new: only(new, old),
            changed,
            same,
        }
    }

    /// Leaves only the changes of metrics that `is_wanted` accepts by name, in results and in the cells of tables.
    pub fn retain_metrics(&mut self, is_wanted: &dyn Fn(&str) -> bool) {
        let before = self.changed.len();
        for stage in &mut self.changed {
            stage.params.clear();
            stage.outputs.clear();
            stage.metrics.retain(|metric| is_wanted(&metric.name));
            stage.cells.retain(|cell| is_wanted(cell.metric.name()));
        }
        self.changed.retain(|stage| !stage.is_empty());
        self.same += before - self.changed.len();
    }

    /// Whether there is no difference.
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.only_old.is_empty() && self.only_new.is_empty()
    }
}

impl StageDifference {
    /// Compares two states of an instance. The key itself is not compared: whatever changes it shows up in a parameter,
    /// a metric or an output.
    fn between(stage: &str, old: &StageSnapshot, new: &StageSnapshot) -> Option<Self> {
        let params = pairs(&old.params, &new.params).map(|(name, old, new)| ParamChange {
            name: name.clone(),
            old: old.cloned(),
            new: new.cloned(),
        });
        let metrics = pairs(&old.metrics, &new.metrics)
            .map(|(name, old, new)| MetricChange::new(name, direction(name), old.copied(), new.copied()));
        let cells = old.cells.iter().zip(&new.cells).flat_map(|(old, new)| pairs(old, new));
        let cells = cells.filter_map(|(name, old, new)| CellChange::new(name, old, new));
        let outputs = pairs(&old.outputs, &new.outputs).map(|(name, old, new)| OutputChange {
            name: name.clone(),
            old: old.copied(),
            new: new.copied(),
        });
        let difference = Self {
            stage: stage.to_owned(),
            params: params.collect(),
            metrics: metrics.collect(),
            cells: cells.collect(),
            outputs: outputs.collect(),
        };
        (!difference.is_empty()).then_some(difference)
    }

    fn is_empty(&self) -> bool {
        self.params.is_empty() && self.metrics.is_empty() && self.cells.is_empty() && self.outputs.is_empty()
    }
}

impl CellChange {
    fn new(name: &str, old: Option<&Cell>, new: Option<&Cell>) -> Option<Self> {
        let (one, metric) = (new.or(old)?, new.or(old)?.metric());
        let change = MetricChange::new(name, metric.direction(), old.map(Cell::mean), new.map(Cell::mean));
        let (old_n, new_n) = (old.map(Cell::runs), new.map(Cell::runs));
        // Values that differ are printed with as many decimals as it takes to see it.
        let text = |cell: Option<&Cell>, digits: u8| cell.map(|cell| cell.text(digits));
        let differs = |digits: &u8| text(old, *digits) != text(new, *digits);
        let is_only_n = old_n != new_n && change.change == Some(0.0);
        let more = (one.digits()..=MOST_DIGITS).find(differs).filter(|_| !is_only_n);
        let digits = more.unwrap_or(one.digits());
        let with_n = |cell: Option<&Cell>| {
            let text = cell?.text(digits);
            Some(if old_n == new_n { text } else { format!("{text} (n={})", cell?.runs()) })
        };
        let printed = PrintedChange {
            name: if one.is_percent() { format!("{name} (%)") } else { name.to_owned() },
            old: with_n(old),
            new: with_n(new),
            change: change
                .change
                .filter(|change| *change != 0.0)
                .map(|change| one.change_text(change, digits)),
        };
        Some(Self { metric, change, old_n, new_n, printed })
    }
}

/// No value is printed with more decimals.
const MOST_DIGITS: u8 = 16;

/// Returns which values of a metric are better, as far as it is known.
fn direction(metric: &str) -> Direction {
    metric.parse::<Metric>().map_or(Direction::Neither, Metric::direction)
}

impl MetricChange {
    fn new(name: &str, direction: Direction, old: Option<Marked<f64>>, new: Option<Marked<f64>>) -> Self {
        let both = old.zip(new).and_then(|(old, new)| Marked::gather([old, new]).ok().flatten());
        let change = both.map(|both| both.map(|values| values[1] - values[0]).reveal().1);
        let verdict = match (direction, change) {
            (Direction::Higher, Some(change)) if change > 0.0 => MetricVerdict::Better,
            (Direction::Higher, Some(change)) if change < 0.0 => MetricVerdict::Worse,
            (Direction::Lower, Some(change)) if change < 0.0 => MetricVerdict::Better,
            (Direction::Lower, Some(change)) if change > 0.0 => MetricVerdict::Worse,
            _ => MetricVerdict::Other,
        };
        Self { name: name.to_owned(), old, new, change, verdict }
    }

    /// Returns `▲` or `▼` for the direction of the change.
    pub fn arrow(&self) -> &'static str {
        match self.change {
            Some(change) if change > 0.0 => "▲",
            Some(change) if change < 0.0 => "▼",
            _ => "",
        }
    }
}

impl MetricVerdict {
    /// Returns the verdict as a word; empty for `Other`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Other => "",
        }
    }
}

/// Returns the entries in which two maps differ, by name.
fn pairs<'a, V: PartialEq>(
    old: &'a BTreeMap<String, V>,
    new: &'a BTreeMap<String, V>,
) -> impl Iterator<Item = (&'a String, Option<&'a V>, Option<&'a V>)> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    names.into_iter().map(|name| (name, old.get(name), new.get(name))).filter(|(_, old, new)| old != new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::display::{TableDisplay, TableScale};
    use pipe_core::digest::{Digest, StageKey};
    use pipe_ml::metric::marked::Protocol;

    fn stage(lr: &str, metrics: &[(&str, Protocol, f64)], output: &str) -> StageSnapshot {
        StageSnapshot {
            key: StageKey::new(Digest::of(lr.as_bytes())),
            params: [("params.lr".to_owned(), lr.to_owned())].into(),
            metrics: metrics
                .iter()
                .map(|&(name, protocol, value)| (name.to_owned(), Marked::new(protocol, value)))
                .collect(),
            outputs: [("model".to_owned(), BlobId::new(Digest::of(output.as_bytes())))].into(),
            cells: None,
        }
    }

    fn snapshot(stages: Vec<(&str, StageSnapshot)>) -> Snapshot {
        let stages = stages.into_iter().map(|(name, stage)| (name.to_owned(), stage)).collect();
        Snapshot { name: "run".to_owned(), stages }
    }

    #[test]
    fn changes_have_a_direction_and_a_verdict() {
        use Protocol::Honest;
        let old = snapshot(vec![
            ("gone", stage("1", &[], "a")),
            ("same", stage("1", &[], "a")),
            (
                "train",
                stage("1", &[("macro_f1", Honest, 0.4), ("bce", Honest, 0.2), ("epochs", Honest, 3.0)], "a"),
            ),
        ]);
        let new = snapshot(vec![
            ("come", stage("1", &[], "a")),
            ("same", stage("1", &[], "a")),
            (
                "train",
                stage("2", &[("macro_f1", Honest, 0.5), ("bce", Honest, 0.3), ("epochs", Honest, 4.0)], "b"),
            ),
        ]);
        let difference = Difference::between(&old, &new);
        assert_eq!((difference.only_old, difference.only_new), (vec!["gone".into()], vec!["come".into()]));
        assert_eq!((difference.same, difference.changed.len()), (1, 1));
        let train = &difference.changed[0];
        assert_eq!(train.params[0].new.as_deref(), Some("2"));
        let verdicts: Vec<_> =
            train.metrics.iter().map(|m| (m.name.as_str(), m.arrow(), m.verdict)).collect();
        assert_eq!(
            verdicts,
            [
                ("bce", "▲", MetricVerdict::Worse),
                ("epochs", "▲", MetricVerdict::Other),
                ("macro_f1", "▲", MetricVerdict::Better)
            ]
        );
        assert_eq!(train.outputs.len(), 1);
        assert!(Difference::between(&old, &old).is_empty());
    }

    fn table(cells: &[(&str, Metric, f64)]) -> StageSnapshot {
        let cells = cells.iter().map(|&(name, metric, value)| {
            (name.to_owned(), Cell::test(metric, &[value], TableDisplay::default(), 4))
        });
        StageSnapshot { cells: Some(cells.collect()), ..stage("1", &[], "same") }
    }

    #[test]
    fn a_cell_changes_with_its_stored_values_and_is_shown_as_the_table_prints_it() {
        let f1: Metric = "macro_f1".parse().unwrap();
        let percent = TableDisplay { scale: TableScale::Percent, ..TableDisplay::default() };
        let cell = |values: &[f64]| Cell::test(f1, values, percent, 1);
        let change = |old: &[f64], new: &[f64]| {
            let change = CellChange::new("a, F1", Some(&cell(old)), Some(&cell(new))).unwrap();
            let PrintedChange { name, old, new, change: by } = change.printed;
            assert_eq!(name, "a, F1 (%)");
            (old.unwrap(), new.unwrap(), by.unwrap_or_default())
        };
        let texts = |old: &str, new: &str, by: &str| (old.to_owned(), new.to_owned(), by.to_owned());
        assert_eq!(change(&[0.25], &[0.5]), texts("25.0", "50.0", "+25.0"));
        assert_eq!(change(&[0.25, 0.75], &[0.25, 0.5]), texts("50.0 ± 35.4", "37.5 ± 17.7", "-12.5"));
        assert_eq!(change(&[0.5, 0.5], &[0.5]), texts("50.0 ± 0.0 (n=2)", "50.0 (n=1)", ""));
        assert_eq!(
            change(&[0.25], &[0.250_02]),
            texts("25.000", "25.002", "+0.002"),
            "more decimals than the table"
        );
        let (old, new) = (table(&[("a", f1, 0.25)]), table(&[("a", f1, 0.250_000_01)]));
        assert!(StageDifference::between("table", &old, &new).is_some(), "they look the same in print");
    }

    #[test]
    fn a_table_differs_in_its_cells_and_a_filter_leaves_those_of_one_metric() {
        let (f1, bce): (Metric, Metric) = ("macro_f1".parse().unwrap(), "bce".parse().unwrap());
        let old = snapshot(vec![
            ("eval", stage("1", &[("bce", Protocol::Honest, 0.2)], "a")),
            ("table", table(&[("a, F1", f1, 0.4), ("a, BCE", bce, 0.2), ("b, F1", f1, 0.3)])),
        ]);
        let new = snapshot(vec![
            ("eval", stage("2", &[("bce", Protocol::Honest, 0.1)], "b")),
            ("table", table(&[("a, F1", f1, 0.5), ("a, BCE", bce, 0.1), ("b, F1", f1, 0.3)])),
        ]);
        let mut difference = Difference::between(&old, &new);
        let cells = |difference: &Difference, at: usize| -> Vec<(String, MetricVerdict)> {
            let cells = difference.changed[at].cells.iter();
            cells.map(|cell| (cell.change.name.clone(), cell.change.verdict)).collect()
        };
        let better = |name: &str| (name.to_owned(), MetricVerdict::Better);
        assert_eq!(cells(&difference, 1), [better("a, BCE"), better("a, F1")]);
        difference.retain_metrics(&|name| name == "macro_f1");
        assert_eq!((difference.changed.len(), difference.same), (1, 1));
        assert_eq!(cells(&difference, 0), [better("a, F1")]);
    }

    #[test]
    fn an_oracle_value_is_not_compared_with_an_honest_one() {
        let honest = snapshot(vec![("eval", stage("1", &[("macro_f1", Protocol::Honest, 0.4)], "a"))]);
        let oracle = snapshot(vec![("eval", stage("1", &[("macro_f1", Protocol::Oracle, 0.7)], "a"))]);
        let change = &Difference::between(&honest, &oracle).changed[0].metrics[0];
        assert_eq!((change.change, change.verdict, change.arrow()), (None, MetricVerdict::Other, ""));
        let json = serde_json::to_string(change).unwrap();
        assert!(json.contains(r#"{"protocol":"oracle","value":0.7}"#), "{json}");
    }
}
