//! Dense features, such as embeddings: NumPy arrays and safetensors, labels in a file beside them
//! or, for safetensors, in a tensor of the same file.
//!
//! Labels are a two-dimensional array of zeros and ones, or text with one line per row that
//! lists label indices (from 0 unless `label_base` says otherwise), parted by commas or blanks.

mod element;
mod grid;
mod label_lines;
mod npy;
mod safetensors;

use std::path::Path;

use self::grid::{Grid, Place};
use super::artifact::{CsrWriter, DataSet, DataSetDir, DenseWriter, Part, Summary};
use super::compress::Input;
use super::csr::Features;
use super::error::DataError;
use super::names::read_name_list;
use super::report::{Base, BaseReason, Format, ReadReport, Repairs};
use super::source::{ReadOptions, Source};

/// Reads `.npy` or `.safetensors` files into a data set in `directory`.
pub fn read_dense(
    source: &Source,
    inputs: Vec<Input>,
    format: Format,
    options: &ReadOptions,
    directory: &Path,
    threads: usize,
) -> Result<DataSet, DataError> {
    let target = DataSetDir::create(directory)?;
    let mut collector = Collector {
        features: None,
        labels: target.labels()?,
        label_count: None,
        target,
        repairs: Repairs::default(),
    };
    let label_names = read_name_list(source.label_names.as_deref())?;
    let mut parts = Vec::new();
    for (part, mut input) in source.parts.iter().zip(inputs) {
        let start = collector.labels.rows();
        let path = input.path().to_owned();
        let rows = match format {
            Format::Npy => {
                let (grid, order) = npy::read_header(&mut input)?;
                collector.features(&mut input, &grid, order)?;
                grid.rows
            }
            _ => safetensors::read(&mut input, options, part.labels.is_none(), &mut collector)?,
        };
        match &part.labels {
            Some(labels) => collector.labels_from(labels, rows, options, threads)?,
            None if options.unlabelled && format == Format::Npy => {
                (0..rows).try_for_each(|_| collector.labels.push(&[], &[]))?;
            }
            None if format == Format::Npy => {
                return Err(DataError::file(&path, "an array of features needs a file of labels beside it"));
            }
            None => {}
        }
        let labelled = (collector.labels.rows() - start) as u64;
        if labelled != rows {
            let reason = format!("it has {rows} rows of features, but there are labels for {labelled}");
            return Err(DataError::file(&path, reason));
        }
        parts.push(Part::range(&part.name, start..collector.labels.rows()));
    }
    collector.complete(format, options, label_names, read_name_list(source.feature_names.as_deref())?, parts)
}

/// What was read so far.
struct Collector {
    target: DataSetDir,
    features: Option<DenseWriter>,
    labels: CsrWriter,
    /// The number of labels where an array says it, otherwise one more than the largest index.
    label_count: Option<LabelCount>,
    repairs: Repairs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LabelCount {
    Exactly(u64),
    AtLeast(u64),
}

impl Collector {
    fn features(&mut self, input: &mut Input, grid: &Grid, order: grid::Order) -> Result<(), DataError> {
        let cols = usize::try_from(grid.cols).unwrap_or(usize::MAX);
        let writer = match &mut self.features {
            Some(writer) if writer.cols() == cols => writer,
            Some(writer) => {
                let reason = format!("it has {cols} features, the part before it {}", writer.cols());
                return Err(DataError::file(input.path(), reason));
            }
            None => self.features.insert(self.target.dense_features(cols)?),
        };
        let path = input.path().to_owned();
        grid.stream(input, order, |place: Place, values| {
            match values.iter().position(|value| !value.is_finite()) {
                Some(at) => {
                    let (row, col) = place.after(at as u64);
                    let reason = format!("row {row}, column {col} is not a finite number of 32 bits");
                    Err(DataError::file(&path, reason))
                }
                None => writer.append(values),
            }
        })
    }

    /// An array of zeros and ones.
    fn label_grid(&mut self, input: &mut Input, grid: &Grid, order: grid::Order) -> Result<(), DataError> {
        let path = input.path().to_owned();
        let before = self.label_count.replace(LabelCount::Exactly(grid.cols));
        if before.is_some_and(|before| before != LabelCount::Exactly(grid.cols)) {
            let reason = format!("it has {} labels, the part before it has another number", grid.cols);
            return Err(DataError::file(&path, reason));
        }
        let labels = &mut self.labels;
        let mut row = Vec::new();
        let mut filled = 0;
        if grid.cols == 0 {
            return Err(DataError::file(&path, "it has no column of labels"));
        }
        grid.stream(input, order, |place, values| {
            for (at, &value) in values.iter().enumerate() {
                match value {
                    0.0 => {}
                    1.0 => row.push(filled as u32),
                    _ => {
                        let (row, col) = place.after(at as u64);
                        let reason = format!("row {row}, column {col} is {value}; labels are 0 or 1");
                        return Err(DataError::file(&path, reason));
                    }
                }
                filled += 1;
                if filled == grid.cols {
                    labels.push(&row, &[])?;
                    row.clear();
                    filled = 0;
                }
            }
            Ok(())
        })
    }

    /// Labels of a file of their own: an array or lines of indices.
    fn labels_from(
        &mut self,
        path: &Path,
        rows: u64,
        options: &ReadOptions,
        threads: usize,
    ) -> Result<(), DataError> {
        let mut input = Input::open(path, threads)?;
        if input.head().starts_with(b"\x93NUMPY") {
            let (grid, order) = npy::read_header(&mut input)?;
            return self.label_grid(&mut input, &grid, order);
        }
        let base = options.label_base.unwrap_or(0);
        let largest = label_lines::read(input, base, rows, threads, &mut self.labels, &mut self.repairs)?;
        let needed = largest.map_or(0, |largest| u64::from(largest) + 1);
        self.label_count = match self.label_count {
            Some(LabelCount::Exactly(count)) if count < needed => {
                let reason = format!("it names {needed} labels, the part before it has {count}");
                return Err(DataError::file(path, reason));
            }
            Some(LabelCount::Exactly(count)) => Some(LabelCount::Exactly(count)),
            Some(LabelCount::AtLeast(count)) => Some(LabelCount::AtLeast(count.max(needed))),
            None => Some(LabelCount::AtLeast(needed)),
        };
        Ok(())
    }

    fn complete(
        self,
        format: Format,
        options: &ReadOptions,
        label_names: Option<Vec<String>>,
        feature_names: Option<Vec<String>>,
        parts: Vec<Part>,
    ) -> Result<DataSet, DataError> {
        let known = options.labels.map(u64::from).or(label_names.as_ref().map(|names| names.len() as u64));
        let labels = match (self.label_count, known) {
            (Some(LabelCount::Exactly(count)), _) => count,
            (Some(LabelCount::AtLeast(needed)), Some(known)) if needed > known => {
                return Err(DataError::Request(format!(
                    "the labels need {needed} columns, but only {known} are expected"
                )));
            }
            (Some(LabelCount::AtLeast(needed)), known) => known.unwrap_or(needed),
            (None, _) => 0,
        };
        let features =
            self.features.ok_or_else(|| DataError::Request("a data set needs at least one file".into()))?;
        let features = Features::Dense(features.finish()?);
        let labels = self.labels.finish(labels as usize)?;
        let mut report = ReadReport::new(format);
        report.repairs = self.repairs;
        if let Some(first) = options.label_base {
            report.label_base = Base { first, because: BaseReason::Given };
        }
        self.target.complete(features, labels, Summary { label_names, feature_names, parts, report })
    }
}

#[cfg(test)]
mod tests;
