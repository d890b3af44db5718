//! Text files in pieces that end at line ends, parsed on several threads, delivered in order.
//!
//! At most one piece per thread is in memory. A thread takes the next piece under a lock, parses it,
//! waits until all pieces before it were delivered, and delivers its own; so neither the result
//! nor the error that is reported (the first in the file) depends on the number of threads.

use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::compress::Input;
use super::error::{BadText, DataError, Fault};

const PIECE: usize = 1 << 20;
/// Line ends behind a piece, so that a parser may look ahead.
const PADDING: usize = 32;
/// What has no line end in so much text is no text of rows.
const LONGEST_LINE: usize = 256 << 20;

/// Whole lines; behind them follows a line end in any case.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    /// The lines and some line ends behind them.
    pub padded: &'a [u8],
    /// Where the lines end.
    pub end: usize,
}

/// A text file that is read piece by piece.
pub(crate) struct Lines {
    input: Input,
    /// The start of a line whose end was not read yet.
    carry: Vec<u8>,
    at_end: bool,
    /// Lines that were taken off the front.
    first_line: u64,
    pub byte_order_mark: bool,
}

impl Lines {
    pub(crate) fn new(mut input: Input) -> Result<Self, DataError> {
        let wide = [&[0xff, 0xfe][..], &[0xfe, 0xff]].iter().any(|mark| input.head().starts_with(mark));
        if wide {
            return Err(DataError::file(input.path(), "it is UTF-16 text; convert it to UTF-8 first"));
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

    /// Takes one line, without its end; for headers. `None` at the end of the file.
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
        if before > LONGEST_LINE {
            let megabytes = LONGEST_LINE >> 20;
            return Err(DataError::file(self.path(), format!("a line is longer than {megabytes} MB")));
        }
        self.carry.resize(before + count, 0);
        let read = self.input.fill(&mut self.carry[before..])?;
        self.carry.truncate(before + read);
        self.at_end = read < count;
        Ok(())
    }

    /// Fills `buffer` with whole lines and padding; says where the lines end, `None` at the end of the file.
    fn next_piece(&mut self, buffer: &mut Vec<u8>) -> Result<Option<usize>, DataError> {
        let mut filled = self.carry.len();
        if buffer.len() < filled + PIECE {
            buffer.resize(filled + PIECE, 0);
        }
        buffer[..filled].copy_from_slice(&self.carry);
        self.carry.clear();
        let mut searched = 0;
        loop {
            if !self.at_end {
                let target = (filled + 1).next_multiple_of(PIECE).min(buffer.len());
                let read = self.input.fill(&mut buffer[filled..target])?;
                self.at_end = filled + read < target;
                filled += read;
            }
            let line_end = buffer[searched..filled].iter().rposition(|&b| b == b'\n');
            let end = match line_end {
                _ if self.at_end => filled,
                Some(at) => searched + at + 1,
                None if filled > LONGEST_LINE => {
                    let megabytes = LONGEST_LINE >> 20;
                    return Err(DataError::file(
                        self.path(),
                        format!("a line is longer than {megabytes} MB"),
                    ));
                }
                None => {
                    searched = filled;
                    buffer.resize(filled + PIECE, 0);
                    continue;
                }
            };
            self.carry.extend_from_slice(&buffer[end..filled]);
            buffer.resize(buffer.len().max(end + PADDING), 0);
            buffer[end..end + PADDING].fill(b'\n');
            return Ok((end > 0).then_some(end));
        }
    }

    /// Parses the rest of the file. `parse` turns a piece into a `T`, which it finds as some earlier
    /// call left it, and says how many lines it had; `take` gets them in order. Returns the number
    /// of lines of the whole file.
    pub(crate) fn parse<T: Default + Send>(
        self,
        threads: usize,
        parse: impl Fn(Piece, &mut T) -> Result<u64, Fault> + Sync,
        take: impl FnMut(&mut T) -> Result<(), DataError> + Send,
    ) -> Result<u64, DataError> {
        let path = self.path().to_owned();
        let lines = self.first_line;
        let work = Work {
            path,
            source: Mutex::new((self, 0)),
            sink: Mutex::new(Sink { delivered: 0, lines, take, outcome: Ok(()) }),
            turn: Condvar::new(),
            parse,
        };
        match threads {
            0 | 1 => work.run(),
            _ => std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| work.run());
                }
            }),
        }
        let sink = work.sink.into_inner().unwrap_or_else(PoisonError::into_inner);
        sink.outcome.map(|()| sink.lines)
    }
}

struct Work<P, F> {
    path: PathBuf,
    /// The file and the number of pieces taken from it.
    source: Mutex<(Lines, u64)>,
    sink: Mutex<Sink<F>>,
    turn: Condvar,
    parse: P,
}

struct Sink<F> {
    delivered: u64,
    lines: u64,
    take: F,
    outcome: Result<(), DataError>,
}

impl<P, F> Work<P, F> {
    fn run<T: Default>(&self)
    where
        P: Fn(Piece, &mut T) -> Result<u64, Fault>,
        F: FnMut(&mut T) -> Result<(), DataError>,
    {
        let mut buffer = Vec::new();
        let mut parsed = T::default();
        loop {
            let (number, piece) = {
                let mut source = lock(&self.source);
                if lock(&self.sink).outcome.is_err() {
                    return;
                }
                let piece = source.0.next_piece(&mut buffer);
                source.1 += 1;
                (source.1 - 1, piece)
            };
            let end = match piece {
                Ok(None) => return,
                Ok(Some(end)) => Ok(end),
                Err(e) => Err(e),
            };
            let outcome = end.map(|end| (end, (self.parse)(Piece { padded: &buffer, end }, &mut parsed)));
            if !self.deliver(number, outcome, &buffer, &mut parsed) {
                return;
            }
        }
    }

    /// Waits for its turn. Says whether to go on.
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

    fn lines(text: &[u8]) -> Lines {
        Lines::new(Input::from_reader(Path::new("x.txt"), Cursor::new(text.to_vec())).unwrap()).unwrap()
    }

    fn collect(text: &[u8], threads: usize) -> (u64, Vec<u8>) {
        let mut all = Vec::new();
        let copy = |piece: Piece, out: &mut Vec<u8>| {
            assert!(piece.padded[piece.end..piece.end + 8].iter().all(|&b| b == b'\n'));
            out.clear();
            out.extend_from_slice(&piece.padded[..piece.end]);
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
    fn pieces_come_in_order_on_any_number_of_threads() {
        let text: Vec<u8> = (0..600_000).flat_map(|i| format!("{i}\n").into_bytes()).collect();
        for threads in [1, 2, 7] {
            assert_eq!(collect(&text, threads), (600_000, text.clone()));
        }
    }

    #[test]
    fn a_line_longer_than_a_piece_and_a_missing_line_end_are_no_trouble() {
        let mut text = vec![b'a'; 3 * PIECE + 5];
        text.extend_from_slice(b"\nshort");
        assert_eq!(collect(&text, 2), (2, text.clone()));
        assert_eq!(collect(&vec![b'\n'; PIECE], 2).0, PIECE as u64);
        assert_eq!(collect(b"", 2), (0, Vec::new()));
    }

    #[test]
    fn the_first_fault_of_the_file_is_reported_with_its_line() {
        let mut text: Vec<u8> = (0..600_000).flat_map(|i| format!("{i}\n").into_bytes()).collect();
        let second = text.len() - 3;
        text[second] = b'x';
        let first = text.iter().position(|&b| b == b'8').unwrap() + 2_000_000;
        text[first] = b'x';
        let expected = 1 + text[..first].iter().filter(|&&b| b == b'\n').count() as u64;
        let find = |piece: Piece, _: &mut ()| match piece.padded.iter().position(|&b| b == b'x') {
            Some(at) => Err(Fault::new(at, "an x")),
            None => Ok(piece.padded[..piece.end].iter().filter(|&&b| b == b'\n').count() as u64),
        };
        for threads in [1, 2, 5] {
            let error = lines(&text).parse(threads, find, |_| Ok(())).unwrap_err();
            let DataError::Text(bad) = error else { panic!("{error}") };
            assert_eq!((bad.line, bad.reason.as_str()), (expected, "an x"));
        }
    }

    #[test]
    fn lines_taken_off_the_front_count() {
        let mut lines = lines(b"\xef\xbb\xbfone\r\ntwo");
        assert!(lines.byte_order_mark);
        assert_eq!(lines.next_line().unwrap().unwrap(), b"one\r");
        assert_eq!(lines.next_line().unwrap().unwrap(), b"two");
        assert_eq!(lines.next_line().unwrap(), None);
        assert_eq!(lines.first_line, 2);
    }
}
