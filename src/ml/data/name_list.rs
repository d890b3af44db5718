//! Files with one name per line.

use std::path::Path;

use super::compress::InputFile;
use super::error::DataError;

/// Reads the lines of a file; `None` without a file.
pub(crate) fn read_name_list(path: Option<&Path>) -> Result<Option<Vec<String>>, DataError> {
    let Some(path) = path else { return Ok(None) };
    let bytes = InputFile::open(path, 1)?.read_all()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    Ok(Some(text.lines().map(|line| line.trim_end_matches('\r').to_owned()).collect()))
}
