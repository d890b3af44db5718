//! Inspects the files of a user, to propose how they can be read.

mod choice;
mod roles;
mod separator;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::artifact::{DataSet, DataSetPart};
use super::compress::InputFile;
use super::csr::{Csr, Features, bytes_of};
use super::detect::{detect, first_line, unreadable};
use super::duplicates::{Duplicates, LabelledRows};
use super::error::DataError;
use super::format::{Format, FormatContent};
use super::read::read;
use super::source::{DEFAULT_LABEL_SEPARATOR, DataSource, NominalEncoding, RawData, ReadOptions, SourcePart};
use super::stats::column_counts;
use super::table::columns::TableColumn;
use super::text::RawText;

use choice::{JoinedFile, TableChoice};
pub use roles::{FileRole, GivenFile};

/// What a user says about the files instead of leaving it to [`inspect`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wishes {
    /// The column of the text.
    pub text: Option<String>,
    /// The column of the labels.
    pub labels: Option<String>,
    /// What separates the labels inside the column.
    pub separator: Option<String>,
    /// The column by which texts and labels in two files are joined.
    pub join: Option<String>,
}

/// What was found in the files of a user.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspection {
    pub format: Format,
    pub files: Vec<(FileRole, PathBuf)>,
    /// The options that are needed to read the files.
    pub read: ReadOptions,
    /// The names of all columns, for a table of texts.
    pub columns: Vec<String>,
    /// The number of rows of each part.
    pub parts: Vec<(String, u64)>,
    pub rows: u64,
    pub input: InputSummary,
    /// The number of rows of each label that occurs, in descending order.
    pub label_counts: Vec<u64>,
    pub rows_without_labels: u64,
    /// Rows with an empty text or without features.
    pub empty_rows: u64,
    /// Rows whose text or features equal those of an earlier row.
    pub duplicates: u64,
    /// What probably separates labels, although they were not separated by it.
    pub missed_separator: Option<char>,
}

/// What the rows consist of, apart from their labels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum InputSummary {
    Texts { mean_words: f64 },
    Sparse { features: u64, counts: bool },
    Dense { features: u64 },
}

impl Inspection {
    /// Returns the mean number of labels per row.
    pub fn labels_per_row(&self) -> f64 {
        self.label_counts.iter().sum::<u64>() as f64 / self.rows.max(1) as f64
    }

    /// Returns whether no row has more than one label.
    pub fn is_single_label(&self) -> bool {
        self.label_counts.iter().sum::<u64>() == self.rows - self.rows_without_labels
    }

    /// Returns the median number of rows per label.
    pub fn median_rows_per_label(&self) -> u64 {
        self.label_counts.get(self.label_counts.len() / 2).copied().unwrap_or(0)
    }

    /// Returns the number of labels that occur in fewer than `bound` rows.
    pub fn labels_under(&self, bound: u64) -> u64 {
        self.label_counts.iter().filter(|&&count| count < bound).count() as u64
    }

    /// Returns whether the files say which rows are for testing.
    pub fn has_test_part(&self) -> bool {
        self.parts.iter().any(|(name, _)| name == "test")
    }
}

/// Inspects files. Numbers are buffered in `scratch`.
///
/// Fails if the files cannot be read, or if it is unclear what they contain; the message then says what decides.
pub fn inspect(
    files: &[GivenFile],
    wishes: &Wishes,
    scratch: &Path,
    threads: usize,
) -> Result<Inspection, DataError> {
    let files = roles::assign(files)?;
    let source = source(&files);
    let format = format(&source)?;
    let is_table = format.content() == FormatContent::Text;
    if !is_table && *wishes != Wishes::default() {
        let name = format.name();
        return Err(DataError::Request(format!(
            "`--text`, `--labels`, `--separator` and `--join` are for CSV and JSON lines, but the format is {name}"
        )));
    }
    if format == Format::Npy && source.parts.iter().any(|part| part.labels.is_none()) {
        return Err(DataError::file(
            &source.parts[0].data,
            "a NumPy array has no labels: name the file that has them too, for example `--data rows=X.npy labels=Y.npy`",
        ));
    }
    if wishes.join.is_some() && source.parts[0].labels.is_none() {
        return Err(DataError::Request(
            "`--join` is for texts and labels in two files: `--data rows=TEXTS.csv labels=LABELS.csv`".into(),
        ));
    }
    if source.parts.iter().all(|part| part.name == "test") {
        return Err(DataError::Request(
            "there are only test rows: name the training rows too, `--data train=FILE test=FILE`, or all rows, `--data rows=FILE`"
                .into(),
        ));
    }
    let mut columns = Vec::new();
    let mut options = ReadOptions::default();
    let mut missed_in_json = None;
    if is_table {
        let SourcePart { data, labels, .. } = &source.parts[0];
        let table = TableColumn::read_all(data)?;
        options = match labels {
            Some(labels) => {
                let chosen = choice::joined(&table, &TableColumn::read_all(labels)?, wishes);
                chosen.map_err(|(file, reason)| match file {
                    JoinedFile::Texts => DataError::file(data, reason),
                    JoinedFile::Labels => DataError::file(labels, reason),
                })?
            }
            None => {
                let chosen = TableChoice::of(&table, format, wishes);
                let chosen = chosen.map_err(|reason| DataError::file(data, reason))?;
                missed_in_json = chosen.missed_separator;
                chosen.read_options()
            }
        };
        columns = table.into_iter().map(|column| column.name).collect();
    }
    let raw = match read(&source, &options, scratch, threads) {
        // Nominal values have no order, so of the two ways to read them only one can be assumed.
        Err(_) if format == Format::Arff => {
            options.nominal = Some(NominalEncoding::OneHot);
            let _ = std::fs::remove_dir_all(scratch);
            read(&source, &options, scratch, threads)?
        }
        raw => raw?,
    };
    let found = match &raw {
        RawData::Text(text) => Found::of_text(text),
        RawData::Set(set) => Found::of_set(set),
    };
    let mut label_counts = column_counts(found.labels, 0..found.labels.rows() as u32);
    label_counts.retain(|&count| count > 0);
    label_counts.sort_unstable_by(|a, b| b.cmp(a));
    let without_labels = |row: &usize| found.labels.row(*row).is_empty();
    let inspection = Inspection {
        format,
        columns,
        parts: found.parts.iter().map(|part| (part.name.clone(), part.rows.len() as u64)).collect(),
        rows: found.labels.rows() as u64,
        rows_without_labels: (0..found.labels.rows()).filter(without_labels).count() as u64,
        input: found.input,
        empty_rows: found.empty_rows,
        duplicates: found.duplicates,
        missed_separator: match &raw {
            RawData::Text(text) if format == Format::Csv => text.missed_separator(),
            _ => missed_in_json,
        },
        label_counts,
        files,
        read: options,
    };
    if inspection.label_counts.is_empty() {
        let reason = "no row has a label";
        return Err(DataError::file(&source.parts[0].data, reason));
    }
    Ok(inspection)
}

/// What is counted differently for texts and for numbers.
struct Found<'a> {
    input: InputSummary,
    labels: &'a Csr,
    parts: &'a [DataSetPart],
    empty_rows: u64,
    duplicates: u64,
}

impl<'a> Found<'a> {
    fn of_text(text: &'a RawText) -> Self {
        let words: usize = text.texts.iter().map(|text| text.split_whitespace().count()).sum();
        let texts = || text.texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
        let distinct = texts().collect::<HashSet<_>>().len();
        Self {
            input: InputSummary::Texts { mean_words: words as f64 / text.texts.len().max(1) as f64 },
            labels: &text.labels,
            parts: &text.parts,
            empty_rows: (text.texts.len() - texts().count()) as u64,
            duplicates: (texts().count() - distinct) as u64,
        }
    }

    fn of_set(set: &'a DataSet) -> Self {
        let rows: Vec<u32> = (0..set.rows() as u32).collect();
        let (input, empty_rows, duplicates) = match &set.features {
            Features::Sparse(features) => {
                let all = LabelledRows { features, labels: &set.labels, rows: &rows };
                let duplicates = Duplicates::between(all, LabelledRows { rows: &[], ..all }).within_train;
                let empty = rows.iter().filter(|&&row| features.row(row as usize).is_empty()).count();
                let counts = features.values.iter().all(|value| *value > 0.0 && value.fract() == 0.0);
                (InputSummary::Sparse { features: features.cols as u64, counts }, empty, duplicates)
            }
            Features::Dense(features) => {
                let digest = |&row: &u32| blake3::hash(bytes_of(features.row(row as usize)));
                let distinct = rows.iter().map(digest).collect::<HashSet<_>>().len();
                let input = InputSummary::Dense { features: set.features.cols() as u64 };
                (input, 0, (rows.len() - distinct) as u64)
            }
        };
        Self { input, labels: &set.labels, parts: &set.parts, empty_rows: empty_rows as u64, duplicates }
    }
}

fn source(files: &[(FileRole, PathBuf)]) -> DataSource {
    let file = |role: FileRole| files.iter().find(|(found, _)| *found == role).map(|(_, path)| path.clone());
    let part = |name: &str, data: FileRole, labels: FileRole| {
        file(data).map(|data| SourcePart { name: name.to_owned(), data, labels: file(labels) })
    };
    let parts = [
        part("train", FileRole::Train, FileRole::TrainLabels),
        part("test", FileRole::Test, FileRole::TestLabels),
        part("all", FileRole::Rows, FileRole::Labels),
    ];
    let splits = [("train", FileRole::TrainSplit), ("test", FileRole::TestSplit)];
    DataSource {
        parts: parts.into_iter().flatten().collect(),
        label_xml: file(FileRole::LabelXml),
        label_names: file(FileRole::LabelNames),
        feature_names: file(FileRole::FeatureNames),
        splits: splits.into_iter().filter_map(|(name, role)| Some((name.to_owned(), file(role)?))).collect(),
    }
}

/// Returns the format of the rows.
fn format(source: &DataSource) -> Result<Format, DataError> {
    let first = source.parts.first().ok_or_else(super::read::no_files)?;
    let input = InputFile::open(&first.data, 1)?;
    if input.head().is_empty() {
        return Err(DataError::file(&first.data, "it is empty"));
    }
    detect(input.head(), first.labels.is_some()).ok_or_else(|| {
        let unknown = || {
            format!(
                "its format is not recognised. `pipe` reads CSV, JSON lines, LIBSVM and XMC text, ARFF, NumPy arrays and \
                 safetensors; this file starts with `{}`",
                first_line(input.head())
            )
        };
        DataError::file(&first.data, unreadable(input.head()).map_or_else(unknown, str::to_owned))
    })
}

#[cfg(test)]
mod tests;
