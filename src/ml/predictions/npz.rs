//! Predictions in an npz file: a zip archive of NumPy arrays `row`, `label`, `score` and `predicted`.

use std::io::{Cursor, Read};
use std::path::Path;

use zip::ZipArchive;
use zip::result::ZipError;

use super::ExpectedPredictions;
use super::entries::{Columns, Entry, ListedPredictions};
use crate::data::compress::InputFile;
use crate::data::dense::array::ArrayOrder;
use crate::data::dense::npy;
use crate::data::error::DataError;

pub(super) fn read(
    expected: &ExpectedPredictions,
    input: &mut InputFile,
) -> Result<ListedPredictions, DataError> {
    let bytes = input.read_all()?;
    let path = input.path();
    let archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| not_npz(path, error))?;
    let files: Vec<String> = archive.file_names().map(str::to_owned).collect();
    let names: Vec<&str> = files.iter().map(|file| array_name(file)).collect();
    let columns = Columns::find(&names, "array").map_err(|reason| DataError::file(path, reason))?;
    let mut arrays = NpzArrays { path, files: &files, archive };
    let rows = arrays.indices(columns.row)?;
    let labels = arrays.indices(columns.label)?;
    let predicted = columns.predicted.map(|column| arrays.indices(column)).transpose()?;
    let scores = columns.score.map(|column| arrays.numbers(column)).transpose()?;
    let lengths = [
        Some(rows.len()),
        Some(labels.len()),
        scores.as_ref().map(Vec::len),
        predicted.as_ref().map(Vec::len),
    ];
    if lengths.into_iter().flatten().any(|length| length != rows.len()) {
        return Err(DataError::file(path, "its arrays must all have the same length"));
    }

    let mut listed = ListedPredictions::new(columns, expected, path)?;
    let finder = expected.label_finder();
    for at in 0..rows.len() {
        let entry = || {
            let score = scores.as_ref().map_or(Ok(0.0), |scores| listed.check_score(expected, scores[at]))?;
            let predicted = match predicted.as_ref().map(|predicted| predicted[at]) {
                None | Some(1) => true,
                Some(0) => false,
                Some(other) => return Err(format!("`predicted` is {other}, but must be 0 or 1")),
            };
            let (row, label) = (expected.check_row(rows[at])?, finder.find_number(labels[at])?);
            Ok(Entry { row, label, score, predicted })
        };
        let entry = entry().map_err(|reason| DataError::file(path, format!("entry {at}: {reason}")))?;
        listed.entries.push(entry);
    }
    Ok(listed)
}

/// The arrays of an open archive.
struct NpzArrays<'a> {
    path: &'a Path,
    files: &'a [String],
    archive: ZipArchive<Cursor<Vec<u8>>>,
}

impl NpzArrays<'_> {
    fn open(&mut self, file: usize) -> Result<InputFile, DataError> {
        let file = &self.files[file];
        let mut bytes = Vec::new();
        let mut entry = self.archive.by_name(file).map_err(|error| not_npz(self.path, error))?;
        entry.read_to_end(&mut bytes).map_err(DataError::io("read", self.path))?;
        let name = format!("{}, array `{}`", self.path.display(), array_name(file));
        InputFile::from_reader(Path::new(&name), Cursor::new(bytes))
    }

    fn indices(&mut self, file: usize) -> Result<Vec<u64>, DataError> {
        let mut input = self.open(file)?;
        npy::read_list_header(&mut input)?.read_indices(&mut input)
    }

    fn numbers(&mut self, file: usize) -> Result<Vec<f32>, DataError> {
        let mut input = self.open(file)?;
        let mut numbers = Vec::new();
        npy::read_list_header(&mut input)?.stream(&mut input, ArrayOrder::Rows, |_, run| {
            numbers.extend_from_slice(run);
            Ok::<(), DataError>(())
        })?;
        Ok(numbers)
    }
}

fn array_name(file: &str) -> &str {
    file.strip_suffix(".npy").unwrap_or(file)
}

fn not_npz(path: &Path, error: ZipError) -> DataError {
    DataError::file(path, format!("it cannot be read as an npz file: {error}"))
}
