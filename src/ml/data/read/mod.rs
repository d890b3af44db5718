//! Reads the files of a data set: detects their format and calls its reader.

use std::path::Path;

use super::arff::read_arff;
use super::citeulike::read_citeulike;
use super::compress::InputFile;
use super::dense::{read_npy, read_safetensors};
use super::detect::{detect, first_line, unreadable};
use super::error::DataError;
use super::format::Format;
use super::libsvm::{read_libsvm, read_xmc};
use super::source::{DataSource, RawData, ReadOptions};
use super::table::{read_csv, read_jsonl};

/// Everything that the reader of a format needs to know.
pub(crate) struct ReadJob<'a> {
    pub source: &'a DataSource,
    /// The opened files of `source.parts`, in the same order.
    pub inputs: Vec<InputFile>,
    pub options: &'a ReadOptions,
    /// Where the data set is written.
    pub directory: &'a Path,
    pub threads: usize,
}

/// Reads a data set.
///
/// Numbers are written to `directory` as the artifact that [`super::artifact`] describes; raw text is returned in memory.
/// The result does not depend on where the files are, how they are compressed, or on `threads`.
pub fn read(
    source: &DataSource,
    options: &ReadOptions,
    directory: &Path,
    threads: usize,
) -> Result<RawData, DataError> {
    let inputs = source.parts.iter().map(|part| InputFile::open(&part.data, threads));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    if let Some(empty) = inputs.iter().find(|input| input.head().is_empty()) {
        return Err(DataError::file(empty.path(), "it is empty"));
    }
    let format = match options.format {
        Some(format) => format,
        None => common_format(source, &inputs)?,
    };
    let job = ReadJob { source, inputs, options, directory, threads };
    match format {
        Format::Libsvm => read_libsvm(job).map(RawData::Set),
        Format::Xmc => read_xmc(job).map(RawData::Set),
        Format::Arff => read_arff(job).map(RawData::Set),
        Format::Citeulike => read_citeulike(job).map(RawData::Set),
        Format::Npy => read_npy(job).map(RawData::Set),
        Format::Safetensors => read_safetensors(job).map(RawData::Set),
        Format::Csv => read_csv(job).map(RawData::Text),
        Format::Jsonl => read_jsonl(job).map(RawData::Text),
        Format::Generated => {
            Err(DataError::Request("`format: generated` is not a format that files can have".into()))
        }
    }
}

/// Detects the format of every part, which must be the same.
fn common_format(source: &DataSource, inputs: &[InputFile]) -> Result<Format, DataError> {
    let mut common: Option<(Format, &Path)> = None;
    for (part, input) in source.parts.iter().zip(inputs) {
        let format = detect(input.head(), part.labels.is_some()).ok_or_else(|| {
            let unknown = || {
                format!(
                    "its format is not recognised; if you know the format, set `read: {{ format: ... }}`. It starts with `{}`",
                    first_line(input.head())
                )
            };
            DataError::file(input.path(), unreadable(input.head()).map_or_else(unknown, str::to_owned))
        })?;
        match common {
            Some((earlier, path)) if earlier != format => {
                return Err(DataError::Request(format!(
                    "{} looks like {}, but {} looks like {}; if that is wrong, set `read: {{ format: ... }}`",
                    path.display(),
                    earlier.name(),
                    input.path().display(),
                    format.name()
                )));
            }
            _ => common = Some((format, input.path())),
        }
    }
    common.map(|(format, _)| format).ok_or_else(no_files)
}

/// Returns the error for a source without files.
pub(crate) fn no_files() -> DataError {
    DataError::Request("a data set needs at least one file".into())
}

#[cfg(test)]
mod tests;
