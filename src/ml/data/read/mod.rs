//! From files to a data set: recognises the format and hands over to its reader.

use std::path::Path;

use super::arff::read_arff;
use super::citeulike::read_citeulike;
use super::compress::Input;
use super::dense::read_dense;
use super::detect::{detect, first_line};
use super::error::DataError;
use super::libsvm::{read_libsvm, read_xmc};
use super::report::Format;
use super::source::{Raw, ReadOptions, Source};
use super::table::read_table;

/// Reads a data set. Numbers go straight to `directory`, as the artifact that [`super::artifact`]
/// describes; raw text comes back in memory. The result does not depend on where the files
/// lie, on their compression or on `threads`.
pub fn read(
    source: &Source,
    options: &ReadOptions,
    directory: &Path,
    threads: usize,
) -> Result<Raw, DataError> {
    let inputs = source.parts.iter().map(|part| Input::open(&part.data, threads));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let format = match options.format {
        Some(format) => format,
        None => common_format(source, &inputs)?,
    };
    match format {
        Format::Libsvm => read_libsvm(source, inputs, options, directory, threads).map(Raw::Set),
        Format::Xmc => read_xmc(source, inputs, options, directory, threads).map(Raw::Set),
        Format::Arff => read_arff(source, inputs, options, directory, threads).map(Raw::Set),
        Format::Citeulike => read_citeulike(source, inputs, options, directory, threads).map(Raw::Set),
        Format::Npy | Format::Safetensors => {
            read_dense(source, inputs, format, options, directory, threads).map(Raw::Set)
        }
        Format::Csv | Format::Jsonl => read_table(source, inputs, format, options).map(Raw::Text),
        Format::Generated => Err(DataError::Request("`format: generated` is not a format of files".into())),
    }
}

/// The format of all parts.
fn common_format(source: &Source, inputs: &[Input]) -> Result<Format, DataError> {
    let mut common: Option<(Format, &Path)> = None;
    for (part, input) in source.parts.iter().zip(inputs) {
        if input.head().is_empty() {
            return Err(DataError::file(input.path(), "it is empty"));
        }
        let format = detect(input.head(), part.labels.is_some()).ok_or_else(|| {
            let reason = format!(
                "its format is not recognised; if you know it, say so with `read: {{ format: ... }}`. It starts with `{}`",
                first_line(input.head())
            );
            DataError::file(input.path(), reason)
        })?;
        match common {
            Some((earlier, path)) if earlier != format => {
                return Err(DataError::Request(format!(
                    "{} looks like {} but {} like {}; if that is wrong, say which with `read: {{ format: ... }}`",
                    path.display(),
                    earlier.name(),
                    input.path().display(),
                    format.name()
                )));
            }
            _ => common = Some((format, input.path())),
        }
    }
    common
        .map(|(format, _)| format)
        .ok_or_else(|| DataError::Request("a data set needs at least one file".into()))
}

#[cfg(test)]
mod tests;
