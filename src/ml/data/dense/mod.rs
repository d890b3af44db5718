//! Dense features, such as embeddings: NumPy arrays and safetensors.
//!
//! The labels are in a second file or, for safetensors, in a tensor of the same file. They are a two-dimensional array of
//! zeros and ones, or text with one line per row that lists label indices (from 0 unless `label_base` is set), separated by
//! commas or blanks.

pub(crate) mod array;
mod element;
mod label_lines;
pub(crate) mod npy;
mod safetensors;

use std::path::Path;

use self::array::{ArrayLayout, ArrayPosition};
use super::artifact::{CsrWriter, DataSet, DataSetDir, DataSetPart, DataSetSummary, DenseWriter};
use super::attributes::NominalValues;
use super::compress::InputFile;
use super::csr::Features;
use super::error::DataError;
use super::format::Format;
use super::name_list::read_name_list;
use super::read::{ReadJob, no_files};
use super::read_report::{Base, BaseReason, ReadReport, Repairs};
use super::source::{ReadOptions, SourcePart};

/// Reads NumPy arrays into a data set.
pub(crate) fn read_npy(job: ReadJob) -> Result<DataSet, DataError> {
    read_dense(job, Format::Npy, |input, part, options, collector| {
        let (layout, order) = npy::read_header(input)?;
        collector.features(input, &layout, order)?;
        if part.labels.is_none() && !options.unlabelled {
            let reason = "an array of features needs a second file with the labels";
            return Err(DataError::file(input.path(), reason));
        }
        Ok(layout.rows)
    })
}

/// Reads safetensors files into a data set.
pub(crate) fn read_safetensors(job: ReadJob) -> Result<DataSet, DataError> {
    read_dense(job, Format::Safetensors, |input, part, options, collector| {
        safetensors::read(input, options, part.labels.is_none() && !options.unlabelled, collector)
    })
}

/// Reads every part with `read_part`, which returns its number of rows and, if it has no file of labels, also reads the
/// labels, unless the rows need none.
fn read_dense(
    job: ReadJob,
    format: Format,
    read_part: impl Fn(&mut InputFile, &SourcePart, &ReadOptions, &mut DenseCollector) -> Result<u64, DataError>,
) -> Result<DataSet, DataError> {
    let ReadJob { source, inputs, options, directory, threads } = job;
    let target = DataSetDir::create(directory)?;
    let mut collector = DenseCollector {
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
        let rows = read_part(&mut input, part, options, &mut collector)?;
        if let Some(labels) = &part.labels {
            collector.labels_from(labels, rows, options, threads)?;
        } else if options.unlabelled {
            (0..rows).try_for_each(|_| collector.labels.push(&[], &[]))?;
        }
        let labelled = (collector.labels.rows() - start) as u64;
        if labelled != rows {
            let reason = format!("it has {rows} rows of features, but there are labels for {labelled}");
            return Err(DataError::file(input.path(), reason));
        }
        parts.push(DataSetPart::range(&part.name, start..collector.labels.rows()));
    }
    collector.complete(format, options, label_names, read_name_list(source.feature_names.as_deref())?, parts)
}

/// The data set as read so far.
struct DenseCollector {
    target: DataSetDir,
    features: Option<DenseWriter>,
    labels: CsrWriter,
    label_count: Option<KnownLabels>,
    repairs: Repairs,
}

/// What is known about the number of labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KnownLabels {
    /// An array has this many columns.
    Exactly(u64),
    /// Lines of indices need this many.
    AtLeast(u64),
}

impl DenseCollector {
    fn features(
        &mut self,
        input: &mut InputFile,
        layout: &ArrayLayout,
        order: array::ArrayOrder,
    ) -> Result<(), DataError> {
        let cols = usize::try_from(layout.cols).unwrap_or(usize::MAX);
        let writer = match &mut self.features {
            Some(writer) if writer.cols() == cols => writer,
            Some(writer) => {
                let reason = format!("it has {cols} features, but the previous part has {}", writer.cols());
                return Err(DataError::file(input.path(), reason));
            }
            None => self.features.insert(self.target.dense_features(cols)?),
        };
        let path = input.path().to_owned();
        layout.stream(input, order, |position: ArrayPosition, values| {
            match values.iter().position(|value| !value.is_finite()) {
                Some(at) => {
                    let (row, col) = position.after(at as u64);
                    let reason = format!("row {row}, column {col} is not a finite 32-bit number");
                    Err(DataError::file(&path, reason))
                }
                None => writer.append(values),
            }
        })
    }

    /// Reads labels from an array of zeros and ones.
    fn label_array(
        &mut self,
        input: &mut InputFile,
        layout: &ArrayLayout,
        order: array::ArrayOrder,
    ) -> Result<(), DataError> {
        let path = input.path().to_owned();
        let before = self.label_count.replace(KnownLabels::Exactly(layout.cols));
        if before.is_some_and(|before| before != KnownLabels::Exactly(layout.cols)) {
            let reason =
                format!("it has {} labels, but the previous part has a different number", layout.cols);
            return Err(DataError::file(&path, reason));
        }
        let labels = &mut self.labels;
        let mut row = Vec::new();
        let mut filled = 0;
        layout.stream(input, order, |position, values| {
            for (at, &value) in values.iter().enumerate() {
                match value {
                    0.0 => {}
                    1.0 => row.push(filled as u32),
                    _ => {
                        let (row, col) = position.after(at as u64);
                        let reason = format!("row {row}, column {col} is {value}, but labels must be 0 or 1");
                        return Err(DataError::file(&path, reason));
                    }
                }
                filled += 1;
                if filled == layout.cols {
                    labels.push(&row, &[])?;
                    row.clear();
                    filled = 0;
                }
            }
            Ok(())
        })
    }

    /// Reads labels from a file of their own: an array or lines of indices.
    fn labels_from(
        &mut self,
        path: &Path,
        rows: u64,
        options: &ReadOptions,
        threads: usize,
    ) -> Result<(), DataError> {
        let mut input = InputFile::open(path, threads)?;
        if input.head().starts_with(b"\x93NUMPY") {
            let (layout, order) = npy::read_header(&mut input)?;
            return self.label_array(&mut input, &layout, order);
        }
        let base = options.label_base.unwrap_or(0);
        let largest = label_lines::read(input, base, rows, threads, &mut self.labels, &mut self.repairs)?;
        let needed = largest.map_or(0, |largest| u64::from(largest) + 1);
        self.label_count = match self.label_count {
            Some(KnownLabels::Exactly(count)) if count < needed => {
                let reason = format!("it needs {needed} labels, but the previous part has {count}");
                return Err(DataError::file(path, reason));
            }
            Some(KnownLabels::Exactly(count)) => Some(KnownLabels::Exactly(count)),
            Some(KnownLabels::AtLeast(count)) => Some(KnownLabels::AtLeast(count.max(needed))),
            None => Some(KnownLabels::AtLeast(needed)),
        };
        Ok(())
    }

    fn complete(
        self,
        format: Format,
        options: &ReadOptions,
        label_names: Option<Vec<String>>,
        feature_names: Option<Vec<String>>,
        parts: Vec<DataSetPart>,
    ) -> Result<DataSet, DataError> {
        let known = options.labels.map(u64::from).or(label_names.as_ref().map(|names| names.len() as u64));
        let labels = match (self.label_count, known) {
            (Some(KnownLabels::Exactly(count)), _) => count,
            (Some(KnownLabels::AtLeast(needed)), Some(known)) if needed > known => {
                return Err(DataError::Request(format!(
                    "the label indices need {needed} labels, but only {known} are expected"
                )));
            }
            (Some(KnownLabels::AtLeast(needed)), known) => known.unwrap_or(needed),
            (None, _) => 0,
        };
        let features = self.features.ok_or_else(no_files)?;
        let features = Features::Dense(features.finish()?);
        let labels = self.labels.finish(labels as usize)?;
        let mut report = ReadReport::new(format);
        report.repairs = self.repairs;
        if let Some(first) = options.label_base {
            report.label_base = Base { first, because: BaseReason::Given };
        }
        self.target.complete(
            features,
            labels,
            DataSetSummary {
                label_names,
                feature_names,
                nominal_values: NominalValues::new(),
                parts,
                report,
            },
        )
    }
}

#[cfg(test)]
mod tests;
