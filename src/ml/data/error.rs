//! Errors in data. They say what is wrong, where (file, line, column, excerpt), and what to do next.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// An error in the files of a data set or in the options for reading them.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    #[error("cannot {doing} {}: {source}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    /// A position in a text that cannot be read.
    #[error(transparent)]
    Text(Box<BadText>),
    /// A file that is wrong as a whole or at a position that is not a line.
    #[error("{}: {reason}", path.display())]
    File { path: PathBuf, reason: String },
    /// A compressed file that is truncated or has a wrong checksum.
    #[error("{}: the {compression} data is truncated or damaged: {reason}; download the file again", path.display())]
    Archive { path: PathBuf, compression: &'static str, reason: String },
    /// A file written by `pipe` that has been changed or damaged.
    #[error("{}: not a readable artifact: {reason}", path.display())]
    Artifact { path: PathBuf, reason: String },
    /// Options or files that contradict each other.
    #[error("{0}")]
    Request(String),
}

impl DataError {
    /// Returns a function that wraps an I/O error: "cannot {doing} {path}".
    pub fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }

    /// Creates an error about a whole file.
    pub fn file(path: &Path, reason: impl Into<String>) -> Self {
        Self::File { path: path.to_owned(), reason: reason.into() }
    }

    /// Creates an error about a file written by `pipe`.
    pub fn artifact(path: &Path, reason: impl Into<String>) -> Self {
        Self::Artifact { path: path.to_owned(), reason: reason.into() }
    }
}

/// A fault at a position in a text file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadText {
    pub path: PathBuf,
    /// Counted from 1.
    pub line: u64,
    /// In bytes, counted from 1.
    pub column: u64,
    /// The part of the line around the column.
    pub excerpt: LineExcerpt,
    pub reason: String,
}

impl std::error::Error for BadText {}

impl fmt::Display for BadText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, column, excerpt, reason } = self;
        writeln!(f, "{}:{line}:{column}: {reason}", path.display())?;
        writeln!(f, "  | {}", excerpt.text)?;
        write!(f, "  | {:1$}^", "", excerpt.caret)
    }
}

impl From<BadText> for DataError {
    fn from(bad: BadText) -> Self {
        Self::Text(Box::new(bad))
    }
}

/// A printable part of a line, with the position of the fault in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineExcerpt {
    pub text: String,
    /// The position in characters from the start of `text`.
    pub caret: usize,
}

impl LineExcerpt {
    const BEFORE: usize = 40;
    const AFTER: usize = 36;

    /// Returns the text around `at`, a byte offset into `line`. Characters that are not printable become `·` or `�`.
    pub fn of(line: &[u8], at: usize) -> Self {
        let at = at.min(line.len());
        let from = at.saturating_sub(Self::BEFORE);
        let to = line.len().min(at + Self::AFTER);
        let mut text = String::from(if from > 0 { "..." } else { "" });
        text.push_str(&printable(&line[from..at]));
        let caret = text.chars().count();
        text.push_str(&printable(&line[at..to]));
        if to < line.len() {
            text.push_str("...");
        }
        Self { text, caret }
    }
}

fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars()
        .map(|c| match c {
            '\t' => ' ',
            c if c.is_control() => '·',
            c => c,
        })
        .collect()
}

/// A fault at a byte offset of a text. [`Fault::locate`] turns it into a [`BadText`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub at: usize,
    pub reason: String,
}

impl Fault {
    /// Creates a fault at a byte offset.
    pub fn new(at: usize, reason: impl Into<String>) -> Self {
        Self { at, reason: reason.into() }
    }

    /// Computes line and column. The offset counts from the start of `text`, before which the file has `lines_before`
    /// lines.
    pub fn locate(self, path: &Path, text: &[u8], lines_before: u64) -> BadText {
        let at = self.at.min(text.len());
        let start = text[..at].iter().rposition(|&b| b == b'\n').map_or(0, |i| i + 1);
        let end = text[at..].iter().position(|&b| b == b'\n').map_or(text.len(), |i| at + i);
        let line = text[..start].iter().filter(|&&b| b == b'\n').count() as u64;
        let end = if end > start && text[end - 1] == b'\r' { (end - 1).max(at) } else { end };
        BadText {
            path: path.to_owned(),
            line: lines_before + line + 1,
            column: (at - start) as u64 + 1,
            excerpt: LineExcerpt::of(&text[start..end], at - start),
            reason: self.reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_shown_with_its_line_and_a_caret() {
        let text = b"1 2:3\r\n4 5:x 6:1\r\n";
        let bad = Fault::new(11, "`x` is not a number").locate(Path::new("a.svm"), text, 10);
        assert_eq!(bad.to_string(), "a.svm:12:5: `x` is not a number\n  | 4 5:x 6:1\n  |     ^");
    }

    #[test]
    fn a_long_line_is_shortened_on_both_sides() {
        let line = [b'7'; 1000];
        let excerpt = LineExcerpt::of(&line, 500);
        assert_eq!(excerpt.caret, 43);
        assert_eq!(excerpt.text.len(), 3 + 40 + 36 + 3);
    }

    #[test]
    fn a_fault_behind_the_end_does_not_panic() {
        let bad = Fault::new(99, "cut off").locate(Path::new("a"), b"", 0);
        assert_eq!((bad.line, bad.column), (1, 1));
    }
}
