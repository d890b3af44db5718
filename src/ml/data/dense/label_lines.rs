//! Label indices as text, one line per row.

use super::super::artifact::{CsrWriter, RowBatch};
use super::super::compress::InputFile;
use super::super::error::{DataError, Fault};
use super::super::libsvm::LARGEST_INDEX;
use super::super::lines::{TextChunk, TextLines};
use super::super::number::integer;
use super::super::read_report::{Repair, Repairs};

/// The rows of one chunk of text.
#[derive(Default)]
struct LabelLines {
    rows: RowBatch,
    repeated: u64,
    largest: Option<u32>,
}

/// Appends at most `rows` rows. Returns the largest index, counted from 0.
pub(super) fn read(
    input: InputFile,
    base: u32,
    rows: u64,
    threads: usize,
    labels: &mut CsrWriter,
    repairs: &mut Repairs,
) -> Result<Option<u32>, DataError> {
    let path = input.path().to_owned();
    let mut largest = None;
    let mut left = rows;
    TextLines::new(input)?.parse(
        threads,
        |chunk, block: &mut LabelLines| parse_chunk(chunk, base, block),
        |block| {
            let found = block.rows.lengths.len() as u64;
            left = left.checked_sub(found).ok_or_else(|| {
                DataError::file(&path, format!("it has more lines than the {rows} rows of features"))
            })?;
            largest = largest.max(block.largest);
            repairs.add(Repair::RepeatedLabelsDropped, block.repeated);
            labels.append(&block.rows)
        },
    )?;
    Ok(largest)
}

fn parse_chunk(chunk: TextChunk, base: u32, block: &mut LabelLines) -> Result<u64, Fault> {
    *block = LabelLines::default();
    let mut start = 0;
    for line in chunk.padded[..chunk.end].split_inclusive(|&b| b == b'\n') {
        let first = block.rows.indices.len();
        let is_separator = |b: &u8| *b == b',' || b.is_ascii_whitespace();
        let mut at = 0;
        while at < line.len() {
            if is_separator(&line[at]) {
                at += 1;
                continue;
            }
            let (index, end) = integer(line, at);
            let index = index.filter(|_| end > at && line.get(end).is_none_or(is_separator));
            let index =
                index.and_then(|index| index.checked_sub(base)).filter(|&index| index <= LARGEST_INDEX);
            let index = index.ok_or_else(|| {
                Fault::new(start + at, format!("a label index from {base} is expected here"))
            })?;
            block.largest = block.largest.max(Some(index));
            block.rows.indices.push(index);
            at = end;
        }
        // A repeated label is not an error: it is dropped below.
        let _ = block.rows.sort_row(first, 0);
        block.repeated += block.rows.drop_repeats(first);
        block.rows.lengths.push((block.rows.indices.len() - first) as u32);
        start += line.len();
    }
    Ok(block.rows.lengths.len() as u64)
}
