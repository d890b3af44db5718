//! The text of a table, read piece by piece, so that a row that is too long is refused before it fills the memory.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::data::compress::InputFile;
use crate::data::detect::unreadable;
use crate::data::error::{BadText, DataError, Fault};

/// The largest number of bytes of a row.
pub(super) const LONGEST_ROW: usize = 64 << 20;
pub(super) const TOO_LONG: &str = "this row is longer than 64 MB";

const NOT_UTF8: &str =
    "this is not UTF-8 text: convert the file, for example with `iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW`";
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// How much of a line is read behind a fault, to show it.
const BEHIND_FAULT: usize = 4096;

/// The text of a table without its byte-order mark. Reading fails if it is not UTF-8, and if a row is too long.
pub(super) struct TableText {
    input: InputFile,
    pub(super) has_byte_order_mark: bool,
    longest_row: usize,
    /// How many bytes may still be read for the current row.
    left: usize,
    /// How many bytes were read.
    position: usize,
    /// The start of a character whose end has not been read yet.
    incomplete: Vec<u8>,
    refusal: Option<Refusal>,
}

/// Why reading failed, if the file itself could be read.
enum Refusal {
    RowTooLong,
    NotUtf8 { at: usize },
}

impl TableText {
    pub(super) fn new(input: InputFile) -> Result<Self, DataError> {
        Self::with_longest_row(input, LONGEST_ROW)
    }

    pub(super) fn with_longest_row(mut input: InputFile, longest_row: usize) -> Result<Self, DataError> {
        if let Some(reason) = unreadable(input.head()) {
            return Err(DataError::file(input.path(), reason));
        }
        let has_byte_order_mark = skip_byte_order_mark(&mut input)?;
        Ok(Self {
            input,
            has_byte_order_mark,
            longest_row,
            left: longest_row,
            position: 0,
            incomplete: Vec::new(),
            refusal: None,
        })
    }

    /// Returns the first bytes of the file, without the byte-order mark.
    pub(super) fn head(&self) -> &[u8] {
        let head = self.input.head();
        head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head)
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> &Path {
        self.input.path()
    }

    /// Says that another row starts.
    pub(super) fn start_row(&mut self) {
        self.left = self.longest_row;
    }

    /// Returns the error for a fault. The file is read again up to it, because its text is not kept.
    pub(super) fn fault(&self, fault: Fault) -> DataError {
        let path = self.input.path();
        if !path.is_file() {
            return DataError::file(path, fault.reason);
        }
        self.locate(fault).map_or_else(|error| error, DataError::from)
    }

    /// Returns the error for a failure to read the row that starts at an offset.
    pub(super) fn read_error(&self, error: io::Error, row_start: usize) -> DataError {
        match self.refusal {
            Some(Refusal::RowTooLong) => self.fault(Fault::new(row_start, TOO_LONG)),
            Some(Refusal::NotUtf8 { at }) => self.fault(Fault::new(at, NOT_UTF8)),
            None => self.input.error(error),
        }
    }

    /// Finds the line of a fault. An offset between two lines belongs to the second one.
    fn locate(&self, fault: Fault) -> Result<BadText, DataError> {
        let path = self.input.path();
        let mut input = InputFile::open(path, 1)?;
        skip_byte_order_mark(&mut input)?;
        let mut text = BufReader::new(input.take((fault.at + BEHIND_FAULT) as u64));
        let (mut lines, mut start, mut at) = (0, 0, fault.at);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = text.read_until(b'\n', &mut line).map_err(DataError::io("read", path))?;
            let content = line.strip_suffix(b"\n").unwrap_or(&line);
            let content = content.strip_suffix(b"\r").unwrap_or(content).len();
            if read == 0 || (content > 0 && at <= start + content) {
                return Ok(Fault::new(at - start, fault.reason).locate(path, &line, lines));
            }
            lines += 1;
            start += read;
            at = at.max(start);
        }
    }

    fn check_utf8(&mut self, bytes: &[u8]) -> io::Result<()> {
        let joined;
        let start = self.position - self.incomplete.len();
        let text = if self.incomplete.is_empty() {
            bytes
        } else {
            joined = [&self.incomplete, bytes].concat();
            &joined
        };
        let rest = match std::str::from_utf8(text) {
            Ok(_) => text.len(),
            Err(error) if error.error_len().is_none() && !bytes.is_empty() => error.valid_up_to(),
            Err(error) => {
                self.refusal = Some(Refusal::NotUtf8 { at: start + error.valid_up_to() });
                return Err(io::Error::other("not UTF-8"));
            }
        };
        self.incomplete = text[rest..].to_vec();
        Ok(())
    }
}

impl Read for TableText {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.check_utf8(&buffer[..read])?;
        self.position += read;
        match self.left.checked_sub(read) {
            Some(left) => self.left = left,
            None => {
                self.refusal = Some(Refusal::RowTooLong);
                return Err(io::Error::other(TOO_LONG));
            }
        }
        Ok(read)
    }
}

fn skip_byte_order_mark(input: &mut InputFile) -> Result<bool, DataError> {
    let is_marked = input.head().starts_with(BYTE_ORDER_MARK);
    if is_marked {
        input.fill(&mut [0; BYTE_ORDER_MARK.len()])?;
    }
    Ok(is_marked)
}
