//! Text files in chunks of whole lines, parsed on several threads and delivered in order.
//!
//! At most one chunk per thread is in memory. A thread takes the next chunk under a lock, parses it, waits until all
//! earlier chunks are delivered, and delivers its own. So neither the result nor the reported error (the first in the file)
//! depends on the number of threads.

use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::compress::InputFile;
use super::detect::unreadable;
use super::error::{BadText, DataError, Fault};

const CHUNK: usize = 1 << 20;
/// The number of line ends behind a chunk, which let a parser look ahead without bounds checks.
const PADDING: usize = 32;
/// A file with a longer line is not a text file with one row per line.
pub(super) const MAX_LINE: usize = 256 << 20;

/// Whole lines, always followed by line ends.
#[derive(Clone, Copy)]
pub(crate) struct TextChunk<'a> {
    /// The lines, followed by [`PADDING`] line ends.
    pub padded: &'a [u8],
    /// The end of the lines in `padded`.
    pub end: usize,
}

/// A text file that is read chunk by chunk.
pub(crate) struct TextLines {
    input: InputFile,
    /// The start of a line whose end has not been read yet.
    carry: Vec<u8>,
    at_end: bool,
    /// The number of lines that [`TextLines::next_line`] has taken.
    first_line: u64,
    pub byte_order_mark: bool,
}

impl TextLines {
    /// Skips a byte-order mark. UTF-16 text is an error.
    pub(crate) fn new(mut input: InputFile) -> Result<Self, DataError> {
        if let Some(reason) = unreadable(input.head()) {
            return Err(DataError::file(input.path(), reason));
        }
        let byte_order_mark = input.head().starts_with(b"\xef\xbb\xbf");
        if byte_order_mark {
            input.fill(&mut [0; 3])?;
        }
        Ok(Self { input, carry: Vec::new(), at_end: false, first_line: 0, byte_order_mark })
    }

    pub(crate) fn path(&self) -> &Path {
        self.input.path()
    }

    /// Takes one line of a header, without its end; `None` at the end of the file.
    pub(crate) fn next_line(&mut self) -> Result<Option<Vec<u8>>, DataError> {
        loop {
            if let Some(end) = self.carry.iter().position(|&b| b == b'\n') {
                let mut line: Vec<u8> = self.carry.drain(..=end).collect();
                line.pop();
                self.first_line += 1;
                return Ok(Some(line));
            }
            if self.at_end {
                let rest = std::mem::take(&mut self.carry);
                self.first_line += u64::from(!rest.is_empty());
                return Ok((!rest.is_empty()).then_some(rest));
            }
            self.read_into_carry(1 << 16)?;
        }
    }

    fn read_into_carry(&mut self, count: usize) -> Result<(), DataError> {
        let before = self.carry.len();
        if before > MAX_LINE {
            let megabytes = MAX_LINE >> 20;
            return Err(DataError::file(self.path(), format!("a line is longer than {megabytes} MB")));
        }
        self.carry.resize(before + count, 0);
        let read = self.input.fill(&mut self.carry[before..])?;
        self.carry.truncate(before + read);
        self.at_end = read < count;
        Ok(())
    }

    /// Fills `buffer` with whole lines and padding. Returns the end of the lines; `None` at the end of the file.
    fn next_chunk(&mut self, buffer: &mut Vec<u8>) -> Result<Option<usize>, DataError> {
        let mut filled = self.carry.len();
        if buffer.len() < filled + CHUNK {
            buffer.resize(filled + CHUNK, 0);
        }
        buffer[..filled].copy_from_slice(&self.carry);
        self.carry.clear();
        let mut searched = 0;
        loop {
            if !self.at_end {
                let target = (filled + 1).next_multiple_of(CHUNK).min(buffer.len());
                let read = self.input.fill(&mut buffer[filled..target])?;
                self.at_end = filled + read < target;
                filled += read;
            }
            let line_end = buffer[searched..filled].iter().rposition(|&b| b == b'\n');
            let end = match line_end {
                _ if self.at_end => filled,
                Some(at) => searched + at + 1,
                None if filled > MAX_LINE => {
                    let megabytes = MAX_LINE >> 20;
                    return Err(DataError::file(
                        self.path(),
                        format!("a line is longer than {megabytes} MB"),
                    ));
                }
                None => {
                    searched = filled;
                    buffer.resize(filled + CHUNK, 0);
                    continue;
                }
            };
            self.carry.extend_from_slice(&buffer[end..filled]);
            buffer.resize(buffer.len().max(end + PADDING), 0);
            buffer[end..end + PADDING].fill(b'\n');
            return Ok((end > 0).then_some(end));
        }
    }

    /// Parses the rest of the file and returns the number of lines of the whole file.
    ///
    /// `parse` writes the content of a chunk into a `T`, which still has the content of an earlier chunk, and returns the
    /// number of lines. `take` receives the results in the order of the file.
    pub(crate) fn parse<T: Default + Send>(
        self,
        threads: usize,
        parse: impl Fn(TextChunk, &mut T) -> Result<u64, Fault> + Sync,
        take: impl FnMut(&mut T) -> Result<(), DataError> + Send,
    ) -> Result<u64, DataError> {
        let path = self.path().to_owned();
        let lines = self.first_line;
        let job = ParseJob {
            path,
            source: Mutex::new((self, 0)),
            sink: Mutex::new(ParseSink { delivered: 0, lines, take, outcome: Ok(()) }),
            turn: Condvar::new(),
            parse,
        };
        if threads <= 1 {
            job.run();
        } else {
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| job.run());
                }
            });
        }
        let sink = job.sink.into_inner().unwrap_or_else(PoisonError::into_inner);
        sink.outcome.map(|()| sink.lines)
    }
}

/// What the parsing threads share.
struct ParseJob<P, F> {
    path: PathBuf,
    /// The file and the number of chunks taken from it.
    source: Mutex<(TextLines, u64)>,
    sink: Mutex<ParseSink<F>>,
    turn: Condvar,
    parse: P,
}

/// The receiving end: delivers chunks in the order of the file.
struct ParseSink<F> {
    delivered: u64,
    lines: u64,
    take: F,
    outcome: Result<(), DataError>,
}

impl<P, F> ParseJob<P, F> {
    fn run<T: Default>(&self)
    where
        P: Fn(TextChunk, &mut T) -> Result<u64, Fault>,
        F: FnMut(&mut T) -> Result<(), DataError>,
    {
        let mut buffer = Vec::new();
        let mut parsed = T::default();
        loop {
            let (number, chunk) = {
                let mut source = lock(&self.source);
                if lock(&self.sink).outcome.is_err() {
                    return;
                }
                let chunk = source.0.next_chunk(&mut buffer);
                source.1 += 1;
                (source.1 - 1, chunk)
            };
            let end = match chunk {
                Ok(None) => return,
                Ok(Some(end)) => Ok(end),
                Err(e) => Err(e),
            };
            let outcome = end.map(|end| (end, (self.parse)(TextChunk { padded: &buffer, end }, &mut parsed)));
            if !self.deliver(number, outcome, &buffer, &mut parsed) {
                return;
            }
        }
    }

    /// Waits until all earlier chunks are delivered and delivers this one. Returns false if parsing has failed.
    fn deliver<T>(
        &self,
        number: u64,
        outcome: Result<(usize, Result<u64, Fault>), DataError>,
        buffer: &[u8],
        parsed: &mut T,
    ) -> bool
    where
        F: FnMut(&mut T) -> Result<(), DataError>,
    {
        let mut sink = lock(&self.sink);
        while sink.delivered < number && sink.outcome.is_ok() {
            sink = self.turn.wait(sink).unwrap_or_else(PoisonError::into_inner);
        }
        if sink.outcome.is_err() {
            return false;
        }
        sink.outcome = match outcome {
            Ok((_, Ok(lines))) => {
                sink.lines += lines;
                (sink.take)(parsed)
            }
            Ok((end, Err(fault))) => {
                let bad: BadText = fault.locate(&self.path, &buffer[..end], sink.lines);
                Err(bad.into())
            }
            Err(e) => Err(e),
        };
        sink.delivered += 1;
        self.turn.notify_all();
        sink.outcome.is_ok()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn lines(text: &[u8]) -> TextLines {
        TextLines::new(InputFile::from_reader(Path::new("x.txt"), Cursor::new(text.to_vec())).unwrap())
            .unwrap()
    }

    fn collect(text: &[u8], threads: usize) -> (u64, Vec<u8>) {
        let mut all = Vec::new();
        let copy = |chunk: TextChunk, out: &mut Vec<u8>| {
            assert!(chunk.padded[chunk.end..chunk.end + 8].iter().all(|&b| b == b'\n'));
            out.clear();
            out.extend_from_slice(&chunk.padded[..chunk.end]);
            Ok(out.split_inclusive(|&b| b == b'\n').count() as u64)
        };
        let count = lines(text)
            .parse(threads, copy, |out| {
                all.extend_from_slice(out);
                Ok(())
            })
            .unwrap();
        (count, all)
    }

    #[test]
    fn chunks_come_in_order_on_any_number_of_threads() {
        let text: Vec<u8> = (0..600_000).flat_map(|i| format!("{i}\n").into_bytes()).collect();
        for threads in [1, 2, 7] {
            assert_eq!(collect(&text, threads), (600_000, text.clone()));
        }
    }

    #[test]
    fn long_lines_and_a_missing_last_line_end_are_read() {
        let mut text = vec![b'a'; 3 * CHUNK + 5];
        text.extend_from_slice(b"\nshort");
        assert_eq!(collect(&text, 2), (2, text.clone()));
        assert_eq!(collect(&vec![b'\n'; CHUNK], 2).0, CHUNK as u64);
        assert_eq!(collect(b"", 2), (0, Vec::new()));
    }

    #[test]
    fn the_first_fault_of_the_file_is_reported_with_its_line_number() {
        let mut text: Vec<u8> = (0..600_000).flat_map(|i| format!("{i}\n").into_bytes()).collect();
        let second = text.len() - 3;
        text[second] = b'x';
        let first = text.iter().position(|&b| b == b'8').unwrap() + 2_000_000;
        text[first] = b'x';
        let expected = 1 + text[..first].iter().filter(|&&b| b == b'\n').count() as u64;
        let find = |chunk: TextChunk, _: &mut ()| match chunk.padded.iter().position(|&b| b == b'x') {
            Some(at) => Err(Fault::new(at, "an x")),
            None => Ok(chunk.padded[..chunk.end].iter().filter(|&&b| b == b'\n').count() as u64),
        };
        for threads in [1, 2, 5] {
            let error = lines(&text).parse(threads, find, |_| Ok(())).unwrap_err();
            let DataError::Text(bad) = error else { panic!("{error}") };
            assert_eq!((bad.line, bad.reason.as_str()), (expected, "an x"));
        }
    }

    #[test]
    fn header_lines_are_counted() {
        let mut lines = lines(b"\xef\xbb\xbfone\r\ntwo");
        assert!(lines.byte_order_mark);
        assert_eq!(lines.next_line().unwrap().unwrap(), b"one\r");
        assert_eq!(lines.next_line().unwrap().unwrap(), b"two");
        assert_eq!(lines.next_line().unwrap(), None);
        assert_eq!(lines.first_line, 2);
    }
}
