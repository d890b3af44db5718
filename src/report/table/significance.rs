//! Tests whether a row differs from the best one, or from a baseline, with a paired bootstrap over the evaluated rows.
//!
//! Where a cell is a mean over seeds, the means are compared, on the same resampled rows for every seed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DifferenceTest, Rank, SignificanceInfo, Table};
use pipe_ml::metric::bootstrap::{Bootstrap, BootstrapError, Interval};
use pipe_ml::metric::marked::{Marked, MixedProtocols};
use pipe_ml::metric::outcomes::Outcomes;
use pipe_ml::metric::registry::{Direction, Metric};

/// How differences are tested.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SignificanceSettings {
    /// The value of the compared axis to test against; `None` for the best of each contest.
    pub baseline: Option<String>,
    pub bootstrap: Bootstrap,
    pub correction: Correction,
}

/// How several tests against the same row are corrected for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Correction {
    /// The allowed error is divided among the rows that are tested against the same row.
    #[default]
    Bonferroni,
    None,
}

/// Why differences cannot be tested.
#[derive(Debug, thiserror::Error)]
pub enum SignificanceError<E: std::error::Error + 'static> {
    #[error("no row is `{axis}={value}`, which `significance.baseline` names; there is {known}")]
    NoBaseline { axis: String, value: String, known: String },
    #[error(
        "`{0}`, which `significance.baseline` names, reports its values itself: there are no decisions to compare with"
    )]
    ExternalBaseline(String),
    #[error("{row} and {against}: {error}")]
    Bootstrap { row: String, against: String, error: BootstrapError },
    #[error(transparent)]
    Mixed(#[from] MixedProtocols),
    #[error(transparent)]
    Load(E),
}

/// The row and the column of a cell.
type CellPosition = (usize, usize);
/// The records of two cells, and the number of tests against the same cell, which sets the confidence.
type TestedPair = (Vec<usize>, Vec<usize>, usize);

/// Tests every contest of the table. `load` returns the decisions behind one of the table's records.
pub fn test<E: std::error::Error>(
    table: &mut Table,
    settings: &SignificanceSettings,
    mut load: impl FnMut(usize) -> Result<Marked<Outcomes>, E>,
) -> Result<(), SignificanceError<E>> {
    let baseline = settings.baseline.as_deref().map(|value| find_baseline(table, value)).transpose()?;
    let mut known: BTreeMap<TestedPair, Vec<Interval>> = BTreeMap::new();
    let mut untested: Vec<Metric> = Vec::new();
    for contest in table.contests() {
        let Some((against, others)) = tested_cells(table, settings, &contest) else { continue };
        for &place in &others {
            let pair = (records(table, place), records(table, against), others.len());
            if !known.contains_key(&pair) {
                let names = [place, against].map(|(row, column)| name(table, row, column));
                let intervals = compare(settings, &pair, &names, &mut load)?;
                known.insert(pair.clone(), intervals);
            }
            let title = name(table, against.0, against.1);
            let Some(cell) = table.cells[place.0][place.1].as_mut() else { continue };
            let Some(interval) = known[&pair].iter().find(|interval| interval.metric == cell.metric) else {
                untested.push(cell.metric);
                continue;
            };
            let test = DifferenceTest {
                against: title,
                difference: interval.estimate,
                low: interval.low,
                high: interval.high,
                confidence: confidence(settings, others.len()),
                differs: interval.excludes_zero(),
            };
            cell.test = Some(Marked::new(cell.value.protocol(), test));
        }
    }
    untested.sort_unstable();
    untested.dedup();
    table.significance = Some(SignificanceInfo {
        baseline,
        replicates: settings.bootstrap.replicates,
        confidence: settings.bootstrap.confidence,
        corrected: settings.correction == Correction::Bonferroni,
        untested,
    });
    Ok(())
}

/// Returns the title of the baseline.
fn find_baseline<E: std::error::Error>(table: &Table, value: &str) -> Result<String, SignificanceError<E>> {
    let lines = table.rows.iter().chain(&table.columns).flat_map(|line| &line.values);
    let mut known: Vec<&str> = Vec::new();
    for candidate in lines.filter(|candidate| candidate.axis == table.compared) {
        if candidate.value == value {
            let is_its = |row, column| {
                table.entry_on(&table.compared, row, column).is_some_and(|on| on.value == value)
            };
            let mut cells = table.cells().filter(|(row, column, _)| is_its(*row, *column)).peekable();
            if cells.peek().is_some() && cells.all(|(_, _, cell)| cell.is_external()) {
                return Err(SignificanceError::ExternalBaseline(value.to_owned()));
            }
            return Ok(candidate.title.clone());
        }
        known.push(&candidate.value);
    }
    known.sort_unstable();
    known.dedup();
    let (axis, known) = (table.compared.clone(), known.join(", "));
    Err(SignificanceError::NoBaseline { axis, value: value.to_owned(), known })
}

/// Returns the cell that the others of a contest are tested against, and the others. If several cells look best, the
/// first one is taken.
fn tested_cells(
    table: &Table,
    settings: &SignificanceSettings,
    contest: &[CellPosition],
) -> Option<(CellPosition, Vec<CellPosition>)> {
    let cell = |&(row, column): &CellPosition| table.cells[row][column].as_ref();
    if cell(contest.first()?)?.metric.direction() == Direction::Neither {
        return None;
    }
    let is_opponent = |place: &&CellPosition| match &settings.baseline {
        Some(wanted) => {
            table.entry_on(&table.compared, place.0, place.1).is_some_and(|value| value.value == *wanted)
        }
        None => cell(place).is_some_and(|cell| cell.rank == Some(Rank::Best)),
    };
    let against = *contest.iter().find(is_opponent)?;
    let others: Vec<CellPosition> = contest.iter().copied().filter(|place| *place != against).collect();
    (!others.is_empty()).then_some((against, others))
}

/// Returns the intervals of the differences between two cells, by metric.
fn compare<E: std::error::Error>(
    settings: &SignificanceSettings,
    (ours, theirs, family): &TestedPair,
    [row, against]: &[String; 2],
    load: &mut impl FnMut(usize) -> Result<Marked<Outcomes>, E>,
) -> Result<Vec<Interval>, SignificanceError<E>> {
    let mut all = |records: &[usize]| {
        let loaded: Result<Vec<_>, E> = records.iter().map(|&record| load(record)).collect();
        loaded.map_err(SignificanceError::Load)
    };
    let loaded = all(ours)?.into_iter().chain(all(theirs)?);
    let Some(gathered) = Marked::gather(loaded)? else { return Ok(Vec::new()) };
    let (_, outcomes) = gathered.reveal();
    let outcomes: Vec<&Outcomes> = outcomes.iter().collect();
    let (ours, theirs) = outcomes.split_at(ours.len());
    let bootstrap = Bootstrap { confidence: confidence(settings, *family), ..settings.bootstrap };
    bootstrap.mean_differences(ours, theirs).map_err(|error| SignificanceError::Bootstrap {
        row: row.clone(),
        against: against.clone(),
        error,
    })
}

/// Returns the confidence of a single test.
fn confidence(settings: &SignificanceSettings, family: usize) -> f64 {
    match settings.correction {
        Correction::Bonferroni => 1.0 - (1.0 - settings.bootstrap.confidence) / family as f64,
        Correction::None => settings.bootstrap.confidence,
    }
}

fn records(table: &Table, (row, column): CellPosition) -> Vec<usize> {
    table.cells[row][column].as_ref().map(|cell| cell.records.clone()).unwrap_or_default()
}

/// Returns the title of a cell on the compared axis.
fn name(table: &Table, row: usize, column: usize) -> String {
    table.entry_on(&table.compared, row, column).map(|value| value.title.clone()).unwrap_or_default()
}
