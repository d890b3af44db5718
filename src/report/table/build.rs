//! Builds a [`Table`] from evaluation records: finds its rows and columns, and computes the cells.

use std::collections::{BTreeMap, BTreeSet};

use super::display::TableInterval;
use super::measured::{MeasuredRecord, STAGE};
use super::rank;
use super::reference::{self, Reference};
use super::request::{TableLevel, TableRequest};
use super::term::TableTerm;
use super::{AxisEntry, Comparison, METRIC, RecordId, Table, TableAxis, TableCell, TableLine};
use crate::student_t;
use pipe_ml::metric::bootstrap::Bootstrap;
use pipe_ml::metric::marked::{Marked, MixedProtocols};
use pipe_ml::metric::registry::Metric;
use pipe_ml::metric::spread::SeedSpread;

/// Why a table cannot be built.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TableError {
    #[error("`where` leaves no record; the axes are {0}")]
    NothingLeft(String),
    #[error("no record has the axis `{axis}`; the axes are {known}")]
    NoSuchAxis { axis: String, known: String },
    #[error("no record has `{axis}: {value}`, which `where` asks for; there is {known}")]
    NoSuchValue { axis: String, value: String, known: String },
    #[error(
        "no record has a value for `{0}`, because the scores, probabilities or training counts that it needs \
         were not available"
    )]
    NoValue(Metric),
    #[error(
        "several records belong to the cell {place}: they differ in `{axis}` ({values}); \
         show it in `rows` or `columns`, average with `mean_over`, or pick one with `where`"
    )]
    SeveralRecords { place: String, axis: String, values: String },
    #[error("two records of the cell {0} have the same axes")]
    SameAxes(String),
    #[error("{place}: {mixed} (`rows: [protocol, ...]`)")]
    Mixed { place: String, mixed: MixedProtocols },
    #[error(
        "{0}: the value is a mean of several evaluations, each of which has an interval of its own; \
         use `interval: confidence`, or show the axis of `mean_over`"
    )]
    SeveralIntervals(String),
    #[error("no evaluation of the table has intervals, so `interval: bootstrap` has nothing to show")]
    NoIntervals,
    #[error(
        "the intervals of the evaluations were computed in different ways (`bootstrap`), so no caption could explain them"
    )]
    DifferentBootstraps,
    #[error("{0}: values that `pipe` measured and values that a command reported cannot be averaged")]
    PartlyExternal(String),
    #[error("`{file}`: {message}")]
    Reference { file: String, message: String },
}

/// Builds the table, with ranks. Significance is tested afterwards, if it is requested.
pub fn build(request: &TableRequest, measured: &[MeasuredRecord]) -> Result<Table, TableError> {
    check_axes(request, measured)?;
    let mut kept: Vec<&MeasuredRecord> =
        measured.iter().filter(|measured| passes(request, measured)).collect();
    if kept.is_empty() {
        return Err(TableError::NothingLeft(known_axes(measured)));
    }
    if let Some(metric) = request.metrics().find(|&m| kept.iter().all(|kept| kept.record.get(m).is_none())) {
        return Err(TableError::NoValue(metric));
    }
    let rows = TableSide::new(request, &request.rows, &kept);
    let columns = TableSide::new(request, &request.columns, &kept);
    // The order of the inputs must not change the result, but floating-point sums depend on the order of their terms.
    kept.sort_by(|a, b| a.axes.cmp(&b.axes));
    let mut table = TableBuilder { request, kept: &kept, rows, columns }.table()?;
    rank::annotate(&mut table);
    Ok(table)
}

fn known_axes(measured: &[MeasuredRecord]) -> String {
    let axes: BTreeSet<&str> = measured.iter().flat_map(|m| &m.axes).map(|(axis, _)| axis.as_str()).collect();
    let names: Vec<String> = axes.into_iter().chain(["protocol", "part"]).map(|a| format!("`{a}`")).collect();
    names.join(", ")
}

fn check_axes(request: &TableRequest, measured: &[MeasuredRecord]) -> Result<(), TableError> {
    let asked = request.axes().chain(request.mean_over.iter().map(String::as_str));
    for axis in asked.chain(request.only.keys().map(String::as_str)) {
        let values: BTreeSet<&str> = measured.iter().filter_map(|measured| measured.on(axis)).collect();
        if values.is_empty() {
            return Err(TableError::NoSuchAxis { axis: axis.to_owned(), known: known_axes(measured) });
        }
        let wanted = request.only.get(axis).into_iter().flatten();
        if let Some(value) = wanted.into_iter().find(|value| !values.contains(value.as_str())) {
            let known = values.into_iter().collect::<Vec<_>>().join(", ");
            return Err(TableError::NoSuchValue { axis: axis.to_owned(), value: value.clone(), known });
        }
    }
    Ok(())
}

fn passes(request: &TableRequest, measured: &MeasuredRecord) -> bool {
    request.only.iter().all(|(axis, values)| {
        // The filter does not apply to a stage without the axis, such as a baseline beside a matrix.
        measured.on(axis).is_none_or(|value| values.iter().any(|wanted| wanted == value))
    })
}

/// The rows or the columns of a table.
struct TableSide<'a> {
    levels: Vec<TableLevel>,
    /// The values of each level, in the order in which they are shown.
    order: Vec<Vec<String>>,
    /// The lines: for each level, the position of a value in `order`.
    lines: Vec<Vec<usize>>,
    /// Whether the table shows the stage as an axis.
    stage_shown: bool,
    request: &'a TableRequest,
}

impl<'a> TableSide<'a> {
    fn new(request: &'a TableRequest, terms: &[TableTerm], kept: &[&MeasuredRecord]) -> Self {
        let levels = TableRequest::levels(terms);
        let stage_shown = request.axes().any(|axis| axis == STAGE);
        let mut side = Self { levels, order: Vec::new(), lines: Vec::new(), stage_shown, request };
        side.order = side.levels.iter().map(|level| side.values(level, kept)).collect();
        let lines: BTreeSet<Vec<usize>> = kept.iter().flat_map(|measured| side.lines_of(measured)).collect();
        side.lines = lines.into_iter().collect();
        side
    }

    fn values(&self, level: &TableLevel, kept: &[&MeasuredRecord]) -> Vec<String> {
        match level {
            TableLevel::Metrics(metrics) => metrics.iter().map(|metric| metric.name().to_owned()).collect(),
            TableLevel::Axis(axis) => {
                let mut values = self.request.only.get(axis).cloned().unwrap_or_default();
                for measured in kept {
                    let value = self.on(measured, axis);
                    if !values.iter().any(|known| known == value) {
                        values.push(value.to_owned());
                    }
                }
                values
            }
        }
    }

    /// Returns the value of a record on an axis. A record without the axis is named after its stage.
    fn on<'m>(&self, measured: &'m MeasuredRecord, axis: &str) -> &'m str {
        let stage = || measured.on(STAGE).filter(|_| !self.stage_shown);
        measured.on(axis).or_else(stage).unwrap_or_default()
    }

    /// Returns the lines that a record contributes to: one per metric, if metrics are on this side.
    fn lines_of(&self, measured: &MeasuredRecord) -> Vec<Vec<usize>> {
        let mut lines = vec![Vec::new()];
        for (level, order) in self.levels.iter().zip(&self.order) {
            let positions: Vec<usize> = match level {
                TableLevel::Metrics(metrics) => (0..metrics.len()).collect(),
                TableLevel::Axis(axis) => {
                    let value = self.on(measured, axis);
                    order.iter().position(|known| known == value).into_iter().collect()
                }
            };
            let extend = |line: &Vec<usize>| {
                let line = line.clone();
                positions.iter().map(move |&at| [line.as_slice(), &[at]].concat()).collect::<Vec<_>>()
            };
            lines = lines.iter().flat_map(extend).collect();
        }
        lines
    }

    fn line(&self, positions: &[usize]) -> TableLine {
        let value = |((level, order), &at): ((&TableLevel, &Vec<String>), &usize)| match level {
            TableLevel::Metrics(metrics) => AxisEntry {
                axis: METRIC.to_owned(),
                value: metrics[at].name().to_owned(),
                title: self.request.metric_title(metrics[at]),
            },
            TableLevel::Axis(axis) => AxisEntry {
                axis: axis.clone(),
                value: order[at].clone(),
                title: self.request.value_title(axis, &order[at]),
            },
        };
        TableLine { values: self.levels.iter().zip(&self.order).zip(positions).map(value).collect() }
    }

    fn axes(&self) -> Vec<TableAxis> {
        let axis = |level: &TableLevel| match level {
            TableLevel::Metrics(_) => self.request.axis(METRIC),
            TableLevel::Axis(axis) => self.request.axis(axis),
        };
        self.levels.iter().map(axis).collect()
    }

    fn has_metrics(&self) -> bool {
        self.levels.iter().any(|level| matches!(level, TableLevel::Metrics(_)))
    }
}

struct TableBuilder<'a> {
    request: &'a TableRequest,
    kept: &'a [&'a MeasuredRecord],
    rows: TableSide<'a>,
    columns: TableSide<'a>,
}

impl TableBuilder<'_> {
    fn table(&self) -> Result<Table, TableError> {
        let request = self.request;
        let mut members: BTreeMap<(&[usize], &[usize]), Vec<usize>> = BTreeMap::new();
        let (row_lines, column_lines) = (&self.rows.lines, &self.columns.lines);
        for (at, measured) in self.kept.iter().enumerate() {
            for row in self.rows.lines_of(measured) {
                for column in self.columns.lines_of(measured) {
                    let place = (line_in(row_lines, &row), line_in(column_lines, &column));
                    members.entry(place).or_default().push(at);
                }
            }
        }
        let rows: Vec<TableLine> = row_lines.iter().map(|line| self.rows.line(line)).collect();
        let columns: Vec<TableLine> = column_lines.iter().map(|line| self.columns.line(line)).collect();
        let mut cells = Vec::with_capacity(rows.len());
        for (row, row_line) in rows.iter().zip(row_lines) {
            let mut line = Vec::with_capacity(columns.len());
            for (column, column_line) in columns.iter().zip(column_lines) {
                let here = members.get(&(row_line.as_slice(), column_line.as_slice()));
                let place: Vec<&AxisEntry> = row.values.iter().chain(&column.values).collect();
                line.push(here.map(|here| self.cell(&place, here)).transpose()?.flatten());
            }
            cells.push(line);
        }
        let compared = if self.rows.has_metrics() { &request.columns } else { &request.rows };
        let compared = compared.iter().rev().find_map(|term| match term {
            TableTerm::Axis(axis) => Some(axis.clone()),
            TableTerm::Metric(_) => None,
        });
        let record = |measured: &&MeasuredRecord| RecordId {
            axes: measured.axes.clone(),
            protocol: measured.record.protocol(),
            blob: measured.blob,
        };
        Ok(Table {
            name: request.name.clone(),
            caption: request.caption.clone(),
            label: request.label.clone().unwrap_or_else(|| format!("tab:{}", request.name)),
            wide: request.wide,
            display: request.display,
            bootstrap: self.bootstrap()?,
            row_axes: self.rows.axes(),
            column_axes: self.columns.axes(),
            compared: compared.unwrap_or_default(),
            mean_over: request.mean_over.clone(),
            others: reference::others(request, &rows, &columns),
            rows,
            columns,
            cells,
            references: request.references.iter().map(Reference::cited).collect(),
            significance: None,
            different_rows: None,
            records: self.kept.iter().map(record).collect(),
        })
    }

    fn cell(&self, place: &[&AxisEntry], members: &[usize]) -> Result<Option<TableCell>, TableError> {
        let named = || {
            let shown: Vec<String> = place.iter().map(|v| format!("{}={}", v.axis, v.value)).collect();
            format!("[{}]", shown.join(", "))
        };
        let metric: Option<Metric> =
            place.iter().find(|value| value.axis == METRIC).and_then(|value| value.value.parse().ok());
        let Some(metric) = metric else { return Ok(None) };
        self.check_members(members, named)?;
        let values = members.iter().filter_map(|&at| self.kept[at].record.get(metric));
        let gathered = Marked::gather(values).map_err(|mixed| TableError::Mixed { place: named(), mixed })?;
        let Some(gathered) = gathered else { return Ok(None) };
        if members.iter().any(|&at| self.kept[at].external != self.kept[members[0]].external) {
            return Err(TableError::PartlyExternal(named()));
        }
        let part = self.kept[members[0]].part().to_owned();
        let (protocol, values) = gathered.reveal();
        let Some(spread) = SeedSpread::over(&values) else { return Ok(None) };
        let value = Marked::new(protocol, spread);
        let interval = self.interval(metric, &spread, members, named)?;
        Ok(Some(TableCell {
            metric,
            part,
            digits: self.request.digits(metric),
            comparisons: self.comparisons(place, metric, value),
            value,
            interval,
            rank: None,
            test: None,
            records: members.to_vec(),
        }))
    }

    /// Returns the ends of the interval of a cell, unless the standard deviation is printed.
    fn interval(
        &self,
        metric: Metric,
        spread: &SeedSpread,
        members: &[usize],
        named: impl Fn() -> String,
    ) -> Result<Option<(f64, f64)>, TableError> {
        match (self.request.display.interval, members) {
            (TableInterval::Deviation | TableInterval::None, _) => Ok(None),
            (TableInterval::Confidence, _) => Ok(student_t::confidence_interval(spread)),
            (TableInterval::Range, _) => Ok((spread.seeds > 1).then_some((spread.min, spread.max))),
            (TableInterval::Bootstrap, &[only]) => {
                // The protocol of the record is that of the cell, which is marked.
                let found = self.kept[only].record.interval(metric).map(|found| found.reveal().1);
                Ok(found.map(|interval| (interval.low, interval.high)))
            }
            (TableInterval::Bootstrap, _) => Err(TableError::SeveralIntervals(named())),
        }
    }

    /// Returns how the intervals of the evaluations were computed, if the table prints them.
    fn bootstrap(&self) -> Result<Option<Bootstrap>, TableError> {
        if self.request.display.interval != TableInterval::Bootstrap {
            return Ok(None);
        }
        let mut intervals = self.kept.iter().filter_map(|kept| kept.record.intervals.as_ref());
        let first = intervals.next().ok_or(TableError::NoIntervals)?.bootstrap;
        let is_same = intervals.all(|other| Bootstrap { seed: first.seed, ..other.bootstrap } == first);
        if is_same { Ok(Some(first)) } else { Err(TableError::DifferentBootstraps) }
    }

    /// Checks that the records of a cell differ only in axes that are averaged over.
    fn check_members(&self, members: &[usize], named: impl Fn() -> String) -> Result<(), TableError> {
        let mut axes: Vec<&str> = Vec::new();
        for &at in members {
            axes.extend(self.kept[at].axes.iter().map(|(axis, _)| axis.as_str()));
        }
        axes.push(super::measured::PART);
        for axis in axes {
            let values: BTreeSet<Option<&str>> = members.iter().map(|&at| self.kept[at].on(axis)).collect();
            if values.len() > 1 && !self.request.mean_over.iter().any(|over| over == axis) {
                let values: Vec<&str> = values.into_iter().map(|value| value.unwrap_or("none")).collect();
                let axis = axis.to_owned();
                return Err(TableError::SeveralRecords { place: named(), axis, values: values.join(", ") });
            }
        }
        let distinct: BTreeSet<&Vec<(String, String)>> =
            members.iter().map(|&at| &self.kept[at].axes).collect();
        if distinct.len() < members.len() { Err(TableError::SameAxes(named())) } else { Ok(()) }
    }

    fn comparisons(
        &self,
        place: &[&AxisEntry],
        metric: Metric,
        value: Marked<SeedSpread>,
    ) -> Vec<Option<Comparison>> {
        let compare = |reference: &Reference| {
            let published = reference.find(place, metric)?;
            let pair = [value.map(|spread| spread.mean), published.as_ref().map(|published| published.value)];
            // A difference between an oracle value and an honest one would be meaningless.
            let difference =
                Marked::gather(pair).ok().flatten().map(|pair| pair.map(|pair| pair[0] - pair[1]));
            Some(Comparison { published, difference })
        };
        self.request.references.iter().map(compare).collect()
    }
}

/// Returns the slice in `lines`, which are sorted, that equals `line`.
fn line_in<'l>(lines: &'l [Vec<usize>], line: &[usize]) -> &'l [usize] {
    let at = lines.partition_point(|known| known.as_slice() < line);
    &lines[at]
}
