//! bzip2 decompression on several threads.
//!
//! A bzip2 stream is a sequence of independent blocks, which start at any bit. The scanner looks for the 48-bit marks of
//! blocks and stream ends. Each block is wrapped into a stream of its own for the `bzip2` crate, which checks the CRC of
//! the block. The decoder puts the results in order and checks the CRC of the stream.
//!
//! A mark can also occur by chance inside a block. The data before it then does not decompress, and the decoder joins it
//! with the data after it until it does.
//!
//! Hand-written because `bzip2::read::MultiBzDecoder` uses one thread: on two cores, `make bench-data` measured this decoder
//! to be 2.35 times as fast as `bzip2 -dc`.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

const BLOCK_MARK: u64 = 0x3141_5926_5359;
const END_MARK: u64 = 0x1772_4538_5090;
const MARK_BITS: usize = 48;
/// The maximum length of a compressed block: 900,000 symbols of at most 20 bits, and tables.
const MAX_BLOCK_BYTES: usize = 4 << 20;

/// The bits from one mark to the next. Usually a compressed block; see the module on marks that occur by chance.
#[derive(Debug, Clone)]
struct PackedBlock {
    bytes: Vec<u8>,
    /// The bit of the first byte at which the mark starts.
    start: usize,
    bits: usize,
}

impl PackedBlock {
    /// Returns `count` bits as a number; `None` behind the end.
    fn bits(&self, at: usize, count: usize) -> Option<u64> {
        (at + count <= self.bits).then(|| {
            (self.start + at..self.start + at + count)
                .fold(0, |value, bit| value << 1 | u64::from(self.bytes[bit / 8] >> (7 - bit % 8) & 1))
        })
    }

    /// Joins this with `next`, which must follow immediately.
    fn join(mut self, next: &Self) -> Self {
        // Both contain the byte in which `next` starts.
        self.bytes.truncate((self.start + self.bits) / 8);
        self.bytes.extend_from_slice(&next.bytes);
        self.bits += next.bits;
        self
    }

    /// Returns a bzip2 stream that consists of this block only; `None` if the block is truncated.
    fn wrapped(&self) -> Option<Vec<u8>> {
        let crc = self.bits(MARK_BITS, 32)?;
        let mut stream = Vec::with_capacity(self.bytes.len() + 20);
        stream.extend_from_slice(b"BZh9");
        let shift = self.start;
        stream.extend(self.bytes.iter().enumerate().map(|(i, &byte)| {
            let next = self.bytes.get(i + 1).copied().unwrap_or(0);
            ((u16::from(byte) << 8 | u16::from(next)) << shift >> 8) as u8
        }));
        stream.truncate(4 + self.bits.div_ceil(8));
        let mut used = self.bits % 8;
        if used > 0
            && let Some(last) = stream.last_mut()
        {
            *last &= !0 << (8 - used);
        }
        let footer = u128::from(END_MARK) << 32 | u128::from(crc);
        for bit in (0..MARK_BITS + 32).rev() {
            if used == 0 {
                stream.push(0);
            }
            if let Some(last) = stream.last_mut() {
                *last |= ((footer >> bit & 1) as u8) << (7 - used);
            }
            used = (used + 1) % 8;
        }
        Some(stream)
    }

    fn unpack(&self) -> io::Result<Vec<u8>> {
        let stream = self.wrapped().ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut text = Vec::with_capacity(1 << 20);
        ::bzip2::read::BzDecoder::new(stream.as_slice()).read_to_end(&mut text)?;
        Ok(text)
    }
}

/// Splits a compressed file at its marks.
struct BlockScanner<R> {
    reader: R,
    /// The data from the byte in which the current block starts.
    bytes: Vec<u8>,
    start: usize,
    /// The first bit at which the next mark can start.
    scanned: usize,
    state: ScanState,
}

#[derive(PartialEq, Eq)]
enum ScanState {
    AtHeader,
    Between,
    AtEndOfFile,
    Done,
}

impl<R: Read> BlockScanner<R> {
    fn new(reader: R) -> Self {
        Self { reader, bytes: Vec::new(), start: 0, scanned: 0, state: ScanState::AtHeader }
    }

    fn next_block(&mut self) -> io::Result<Option<PackedBlock>> {
        if self.state == ScanState::AtHeader {
            self.read_more(1 << 18)?;
            let header = self.bytes.first_chunk::<4>().filter(|h| is_header(*h));
            header.ok_or_else(|| invalid("there is no bzip2 header"))?;
            self.bytes.drain(..4);
            self.scanned = MARK_BITS;
        }
        loop {
            if let Some(mark) = find_mark(&self.bytes, self.scanned) {
                return Ok(Some(self.cut(mark)));
            }
            match self.state {
                ScanState::Done => return Ok(None),
                ScanState::AtEndOfFile => {
                    self.state = ScanState::Done;
                    let end = self.bytes.len() * 8;
                    return Ok((end > self.start).then(|| self.cut(end)));
                }
                _ if self.bytes.len() > MAX_BLOCK_BYTES => {
                    return Err(invalid("a block is longer than possible"));
                }
                _ => {}
            }
            // The last bits may be the start of a mark.
            self.scanned = self.scanned.max((self.bytes.len() * 8).saturating_sub(MARK_BITS - 1));
            self.read_more(1 << 18)?;
        }
    }

    /// Takes the bits up to the bit offset `end` of `bytes`.
    fn cut(&mut self, end: usize) -> PackedBlock {
        let block = PackedBlock {
            bytes: self.bytes[..end.div_ceil(8)].to_vec(),
            start: self.start,
            bits: end - self.start,
        };
        self.bytes.drain(..end / 8);
        self.start = end % 8;
        self.scanned = self.start + MARK_BITS;
        block
    }

    fn read_more(&mut self, count: u64) -> io::Result<()> {
        let read = (&mut self.reader).take(count).read_to_end(&mut self.bytes)?;
        self.state = if (read as u64) < count { ScanState::AtEndOfFile } else { ScanState::Between };
        Ok(())
    }
}

fn is_header(bytes: &[u8]) -> bool {
    matches!(bytes, [b'B', b'Z', b'h', b'1'..=b'9'])
}

/// Returns the bit offset of the first mark at or after bit `from`.
fn find_mark(bytes: &[u8], from: usize) -> Option<usize> {
    // At every alignment, the second byte that a mark touches consists of bits of the mark only: there are sixteen values
    // to look for.
    const SECOND: [bool; 256] = {
        let mut table = [false; 256];
        let mut shift = 0;
        while shift < 8 {
            table[(BLOCK_MARK >> (32 + shift) & 0xff) as usize] = true;
            table[(END_MARK >> (32 + shift) & 0xff) as usize] = true;
            shift += 1;
        }
        table
    };
    let first = from / 8;
    for (at, &byte) in bytes.iter().enumerate().skip(first + 1) {
        if !SECOND[usize::from(byte)] {
            continue;
        }
        // The mark starts in the previous byte and ends at most six bytes after that.
        let window = bytes[at - 1..]
            .iter()
            .take(7)
            .fold((0_u64, 56), |(value, left), &b| (value | u64::from(b) << (left - 8), left - 8));
        for bit in 0..8 {
            let mark = window.0 >> (8 - bit) & ((1 << MARK_BITS) - 1);
            let offset = (at - 1) * 8 + bit;
            if (mark == BLOCK_MARK || mark == END_MARK)
                && offset >= from
                && offset + MARK_BITS <= bytes.len() * 8
            {
                return Some(offset);
            }
        }
    }
    None
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// A block for the threads, and where the result goes.
struct UnpackJob {
    block: Arc<PackedBlock>,
    answer: Sender<io::Result<Vec<u8>>>,
}

/// A block that is being decompressed.
struct PendingBlock {
    block: Arc<PackedBlock>,
    /// `None` for the end of a stream, which has no content.
    answer: Option<Receiver<io::Result<Vec<u8>>>>,
}

/// Reads the content of a bzip2 file with one or more streams.
pub(super) struct ParallelDecoder<R> {
    scanner: BlockScanner<R>,
    pending: VecDeque<PendingBlock>,
    scan_error: Option<io::Error>,
    jobs: Option<Sender<UnpackJob>>,
    threads: Vec<JoinHandle<()>>,
    /// The CRC of the stream so far; `None` after the end of a stream.
    crc: Option<u32>,
    text: Vec<u8>,
    taken: usize,
}

impl<R: Read> ParallelDecoder<R> {
    pub(super) fn new(reader: R, threads: usize) -> Self {
        let (jobs, queue) = mpsc::channel::<UnpackJob>();
        let queue = Arc::new(Mutex::new(queue));
        let threads = (0..threads.max(1)).map(|_| {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || {
                loop {
                    let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(UnpackJob { block, answer }) = job else { return };
                    // The receiver is gone after an error in an earlier block.
                    let _ = answer.send(block.unpack());
                }
            })
        });
        Self {
            scanner: BlockScanner::new(reader),
            pending: VecDeque::new(),
            scan_error: None,
            jobs: Some(jobs),
            threads: threads.collect(),
            crc: Some(0),
            text: Vec::new(),
            taken: 0,
        }
    }

    /// Queues blocks so that the threads have work.
    fn look_ahead(&mut self) {
        while self.scan_error.is_none() && self.pending.len() < 2 * self.threads.len() + 1 {
            match self.scanner.next_block() {
                Ok(Some(block)) => self.queue(block),
                Ok(None) => return,
                Err(e) => self.scan_error = Some(e),
            }
        }
    }

    fn queue(&mut self, block: PackedBlock) {
        let block = Arc::new(block);
        let (answer, receiver) = mpsc::channel();
        let is_block = block.bits(0, MARK_BITS) == Some(BLOCK_MARK);
        if let (true, Some(jobs)) = (is_block, &self.jobs) {
            // This cannot fail: the threads end only after the queue is dropped.
            let _ = jobs.send(UnpackJob { block: Arc::clone(&block), answer });
        }
        self.pending.push_back(PendingBlock { block, answer: is_block.then_some(receiver) });
    }

    /// Returns the content of the next block; `None` at the end.
    fn next_text(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            self.look_ahead();
            let Some(PendingBlock { block, answer }) = self.pending.pop_front() else {
                return match (self.scan_error.take(), self.crc) {
                    (Some(e), _) => Err(e),
                    (None, Some(_)) => Err(io::ErrorKind::UnexpectedEof.into()),
                    (None, None) => Ok(None),
                };
            };
            let Some(answer) = answer else {
                self.end_stream(&block)?;
                continue;
            };
            let unpacked =
                answer.recv().map_err(|_| invalid("a decompression thread has ended unexpectedly"))?;
            let (block, text) = match unpacked {
                Ok(text) => (Arc::unwrap_or_clone(block), text),
                Err(e) => self.unpack_joined(Arc::unwrap_or_clone(block), e)?,
            };
            let crc = block.bits(MARK_BITS, 32).unwrap_or(0) as u32;
            let before = self.crc.ok_or_else(|| invalid("a block follows the end of a stream"))?;
            self.crc = Some(before.rotate_left(1) ^ crc);
            return Ok(Some(text));
        }
    }

    /// Joins a block that does not decompress with those that follow, because the mark behind it may have occurred by
    /// chance.
    fn unpack_joined(
        &mut self,
        mut block: PackedBlock,
        first: io::Error,
    ) -> io::Result<(PackedBlock, Vec<u8>)> {
        loop {
            self.look_ahead();
            match self.pending.pop_front() {
                Some(next) if block.bytes.len() + next.block.bytes.len() <= MAX_BLOCK_BYTES => {
                    block = block.join(&next.block);
                    if let Ok(text) = block.unpack() {
                        return Ok((block, text));
                    }
                }
                _ => return Err(first),
            }
        }
    }

    fn end_stream(&mut self, block: &PackedBlock) -> io::Result<()> {
        let behind_crc = MARK_BITS + 32;
        let expected = block.bits(MARK_BITS, 32).ok_or(io::ErrorKind::UnexpectedEof)?;
        if block.bits(0, MARK_BITS) != Some(END_MARK) {
            return Err(invalid("there is no block mark where a block must start"));
        }
        match self.crc.take() {
            Some(crc) if u64::from(crc) == expected => {}
            _ => return Err(invalid("the checksum of the stream is wrong")),
        }
        let padding = (8 - (block.start + behind_crc) % 8) % 8;
        let rest = block.bits - (behind_crc + padding).min(block.bits);
        let header = block.bits(behind_crc + padding, 32).map(|h| (h as u32).to_be_bytes());
        match (rest, header) {
            (0, _) => Ok(()),
            (32, Some(header)) if is_header(&header) => {
                self.crc = Some(0);
                Ok(())
            }
            _ => Err(invalid("there is data after the end of the stream")),
        }
    }
}

impl<R: Read> Read for ParallelDecoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.text.len() {
            match self.next_text()? {
                Some(text) => (self.text, self.taken) = (text, 0),
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.text.len() - self.taken);
        buffer[..count].copy_from_slice(&self.text[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

impl<R> Drop for ParallelDecoder<R> {
    fn drop(&mut self) {
        self.jobs = None;
        self.pending.clear();
        for thread in self.threads.drain(..) {
            // A panic of the thread has already been reported through its missing answer.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{bzip2, sample};
    use super::*;

    fn unpack(packed: &[u8], threads: usize) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        ParallelDecoder::new(packed, threads).read_to_end(&mut text)?;
        Ok(text)
    }

    #[test]
    fn blocks_are_in_order_on_any_number_of_threads() {
        let text = sample();
        let packed = bzip2(&text);
        for threads in [1, 2, 5] {
            assert_eq!(unpack(&packed, threads).unwrap(), text);
        }
    }

    #[test]
    fn a_mark_that_occurs_by_chance_is_ignored() {
        let text = sample();
        let packed = bzip2(&text);
        let mut decoder = ParallelDecoder::new(packed.as_slice(), 2);
        // Splits a block in three, as two marks inside it would.
        let whole = decoder.scanner.next_block().unwrap().unwrap();
        let cuts = [0, 1003, 5001, whole.bits];
        for ends in cuts.windows(2) {
            let (from, to) = (whole.start + ends[0], whole.start + ends[1]);
            let bytes = whole.bytes[from / 8..to.div_ceil(8)].to_vec();
            decoder.queue(PackedBlock { bytes, start: from % 8, bits: to - from });
        }
        let mut unpacked = Vec::new();
        decoder.read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, text);
    }

    #[test]
    fn every_mark_is_found_at_every_bit_offset() {
        for shift in 0..8 {
            for mark in [BLOCK_MARK, END_MARK] {
                let mut bytes = vec![0; 3];
                bytes.extend_from_slice(&(mark << 16 >> shift).to_be_bytes());
                assert_eq!(find_mark(&bytes, 0), Some(24 + shift));
                assert_eq!(find_mark(&bytes, 24 + shift), Some(24 + shift));
                assert_eq!(find_mark(&bytes, 25 + shift), None);
                let whole = (24 + shift + MARK_BITS).div_ceil(8);
                assert_eq!(find_mark(&bytes[..whole], 0), Some(24 + shift));
                assert_eq!(find_mark(&bytes[..whole - 1], 0), None);
            }
        }
    }

    #[test]
    fn data_after_the_end_and_a_missing_end_are_errors() {
        let packed = bzip2(b"some text\n");
        assert!(unpack(&[&packed[..], b"x"].concat(), 1).is_err());
        assert!(unpack(b"BZh9", 1).is_err());
        assert!(unpack(&packed[..packed.len() - 10], 1).is_err());
    }
}
