//! LIBSVM multi-label text and the XMC repository's variant of it.
//!
//! One row per line: label indices separated by commas, then `index:value` pairs, all separated by spaces or tabs. A line
//! that starts with a blank or with a pair has no labels. `#` starts a comment. XMC text has a first line
//! `rows features labels` and indices from 0, and every further line is a row, even an empty one.
//!
//! `docs/data.md` lists what is repaired and what is refused.

use super::artifact::{CsrWriter, DataSet, DataSetDir, DataSetPart, DataSetSummary, RowBatch};
use super::attributes::NominalValues;
use super::csr::Features;
use super::error::{DataError, Fault};
use super::format::Format;
use super::lines::{TextChunk, TextLines};
use super::name_list::read_name_list;
use super::number::{NumberFault, float, integer};
use super::read::{ReadJob, no_files};
use super::read_report::{Base, BaseReason, ReadReport, Repair, Repairs};
use super::xmc_splits::read_splits;

/// The largest index of a feature or label. Column numbers then fit in i32, which libtorch needs.
pub(crate) const LARGEST_INDEX: u32 = i32::MAX as u32 - 1;

/// What a row may contain.
#[derive(Debug, Clone, Copy)]
struct LibsvmRules {
    labels: IndexRange,
    features: IndexRange,
    /// True if an empty line is a row.
    blank_is_row: bool,
}

/// The permitted indices of labels or of features.
#[derive(Debug, Clone, Copy)]
struct IndexRange {
    /// The base that is subtracted while reading. If it proves wrong, the indices are shifted at the end.
    assumed_base: u32,
    smallest: u32,
    largest: u32,
}

impl IndexRange {
    fn new(what: &str, base: Option<u32>, count: Option<u32>) -> Result<Self, DataError> {
        if let Some(base @ 2..) = base {
            return Err(DataError::Request(format!("`{what}_base` is {base}, but it must be 0 or 1")));
        }
        let assumed_base = base.unwrap_or(1);
        let largest = match count {
            // While the base is unknown, this is one more than the last index of a file that counts from 0.
            Some(count) => count.checked_add(assumed_base).and_then(|n| n.checked_sub(1)),
            None => Some(LARGEST_INDEX),
        };
        let largest = largest.unwrap_or(0).min(LARGEST_INDEX);
        Ok(Self { assumed_base, smallest: base.unwrap_or(0), largest })
    }

    #[cold]
    fn fault(&self, what: &str, index: Option<u32>, at: usize) -> Fault {
        Fault::new(
            at,
            match index {
                Some(index) if index < self.smallest => {
                    format!(
                        "the {what} index {index} occurs in a file that counts {what}s from {}",
                        self.smallest
                    )
                }
                Some(index) => format!("the {what} index {index} is larger than {}", self.largest),
                None => format!("the {what} index does not fit in 32 bits"),
            },
        )
    }
}

/// The rows of one chunk of text.
#[derive(Default)]
struct LibsvmRows {
    labels: RowBatch,
    features: RowBatch,
    seen_labels: SeenIndices,
    seen_features: SeenIndices,
    repairs: RepairCounts,
}

/// What is known about the indices that occurred.
#[derive(Debug, Default, Clone, Copy)]
struct SeenIndices {
    zero: bool,
    largest: Option<u32>,
}

impl SeenIndices {
    fn merge(&mut self, other: Self) {
        self.zero |= other.zero;
        self.largest = self.largest.max(other.largest);
    }
}

/// How often each repair was made in one chunk. Plain fields, because this is the hot loop.
#[derive(Default)]
struct RepairCounts {
    blank_lines: u64,
    carriage_returns: u64,
    sorted_labels: u64,
    sorted_features: u64,
    repeated_labels: u64,
    zeros: u64,
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn parse_chunk(chunk: TextChunk, rules: &LibsvmRules, block: &mut LibsvmRows) -> Result<u64, Fault> {
    block.labels.clear();
    block.features.clear();
    (block.seen_labels, block.seen_features) = Default::default();
    block.repairs = RepairCounts::default();
    let mut parser = LibsvmParser { text: chunk.padded, at: 0, rules, block };
    let mut lines = 0;
    while parser.at < chunk.end {
        parser.row()?;
        lines += 1;
    }
    Ok(lines)
}

struct LibsvmParser<'a> {
    text: &'a [u8],
    at: usize,
    rules: &'a LibsvmRules,
    block: &'a mut LibsvmRows,
}

impl LibsvmParser<'_> {
    /// Returns the byte at the cursor. The line ends behind the chunk keep the cursor inside the text.
    #[inline(always)]
    fn byte(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(b'\n')
    }

    fn row(&mut self) -> Result<(), Fault> {
        let row_start = self.at;
        let (labels, features) = (self.block.labels.indices.len(), self.block.features.indices.len());
        if self.byte().is_ascii_digit() {
            self.labels(labels)?;
        }
        let stored_anything = self.features(row_start, features)?;
        let label_count = self.block.labels.indices.len() - labels;
        let is_row = self.rules.blank_is_row && self.text.get(row_start) != Some(&b'#');
        if label_count == 0 && !stored_anything && !is_row {
            self.block.repairs.blank_lines += 1;
            return Ok(());
        }
        self.block.labels.lengths.push(label_count as u32);
        self.block.features.lengths.push((self.block.features.indices.len() - features) as u32);
        Ok(())
    }

    /// Parses labels such as `3,17,204`. Reads nothing if the first number belongs to a pair.
    fn labels(&mut self, first: usize) -> Result<(), Fault> {
        let row_start = self.at;
        let column = self.rules.labels;
        let indices = &mut self.block.labels.indices;
        let mut ascending = true;
        let mut previous = None;
        loop {
            let token = self.at;
            let (index, end) = integer(self.text, token);
            let next = self.text.get(end).copied().unwrap_or(b'\n');
            if next == b':' && token == row_start {
                return Ok(());
            }
            if end == token {
                return Err(Fault::new(token, "a label index is expected here"));
            }
            if !(next == b',' || is_separator(next)) {
                let reason = "a label is a whole number, and labels are separated by commas without blanks";
                return Err(Fault::new(end, reason));
            }
            let index = match index {
                Some(index) if (column.smallest..=column.largest).contains(&index) => index,
                _ => return Err(column.fault("label", index, token)),
            };
            self.block.seen_labels.merge(SeenIndices { zero: index == 0, largest: Some(index) });
            ascending &= previous < Some(index);
            previous = Some(index);
            indices.push(index.wrapping_sub(column.assumed_base));
            self.at = end;
            if next != b',' {
                break;
            }
            self.at += 1;
        }
        if !ascending {
            let moved = !indices[first..].is_sorted_by_key(|&i| i.wrapping_add(column.assumed_base));
            self.block.repairs.sorted_labels += u64::from(moved);
            // A repeated label is not an error: it is dropped below.
            let _ = self.block.labels.sort_row(first, column.assumed_base);
            self.block.repairs.repeated_labels += self.block.labels.drop_repeats(first);
        }
        Ok(())
    }

    /// Parses the pairs up to the end of the line. Returns whether there were any, including zeros.
    fn features(&mut self, row_start: usize, first: usize) -> Result<bool, Fault> {
        let text = self.text;
        let column = self.rules.features;
        let block = &mut *self.block;
        let mut at = self.at;
        let mut ascending = true;
        let mut previous = -1_i64;
        let mut zero = false;
        let mut largest = -1_i64;
        loop {
            let byte = text.get(at).copied().unwrap_or(b'\n');
            if byte == b' ' || byte == b'\t' {
                at += 1;
                continue;
            }
            if !byte.is_ascii_digit() {
                self.at = end_of_row(text, at, &mut block.repairs)?;
                break;
            }
            let token = at;
            let (index, end) = integer(text, token);
            if text.get(end) != Some(&b':') {
                let reason = if previous < 0 && text[end..].starts_with(b",") {
                    "labels must be at the very start of the line"
                } else {
                    "a feature is written as `index:value`"
                };
                return Err(Fault::new(end, reason));
            }
            let index = match index {
                Some(index) if (column.smallest..=column.largest).contains(&index) => index,
                _ => return Err(column.fault("feature", index, token)),
            };
            let (value, end) =
                float(text, end + 1, is_separator).map_err(|why| value_fault(text, end + 1, why))?;
            at = end;
            zero |= index == 0;
            ascending &= previous < i64::from(index);
            previous = i64::from(index);
            largest = largest.max(previous);
            if value == 0.0 {
                block.repairs.zeros += 1;
                continue;
            }
            block.features.indices.push(index.wrapping_sub(column.assumed_base));
            block.features.values.push(value);
        }
        block.seen_features.merge(SeenIndices { zero, largest: u32::try_from(largest).ok() });
        if !ascending {
            self.sort_features(row_start, first)?;
        }
        Ok(previous >= 0)
    }

    #[cold]
    fn sort_features(&mut self, row_start: usize, first: usize) -> Result<(), Fault> {
        let base = self.rules.features.assumed_base;
        let moved = self.block.features.sort_row(first, base).map_err(|index| {
            let index = index.wrapping_add(base);
            let at = second_occurrence(&self.text[row_start..self.at], index);
            Fault::new(row_start + at, format!("the feature {index} occurs twice in this row"))
        })?;
        self.block.repairs.sorted_features += u64::from(moved);
        Ok(())
    }
}

/// Returns where the next line starts if the row ends at `at`; otherwise the text at `at` is the error.
#[inline(always)]
fn end_of_row(text: &[u8], at: usize, repairs: &mut RepairCounts) -> Result<usize, Fault> {
    match text.get(at) {
        None => Ok(at),
        Some(b'\n') => Ok(at + 1),
        Some(b'\r') if text.get(at + 1) == Some(&b'\n') => {
            repairs.carriage_returns += 1;
            Ok(at + 2)
        }
        Some(b'#') => Ok(text[at..].iter().position(|&b| b == b'\n').map_or(text.len(), |n| at + n + 1)),
        Some(_) => Err(odd_token(text, at)),
    }
}

fn token(text: &[u8], at: usize) -> String {
    let rest = &text[at.min(text.len())..];
    let length = rest.iter().position(|&b| is_separator(b)).unwrap_or(rest.len()).min(40);
    String::from_utf8_lossy(&rest[..length]).into_owned()
}

#[cold]
fn value_fault(text: &[u8], at: usize, why: NumberFault) -> Fault {
    let token = token(text, at);
    Fault::new(
        at,
        match why {
            NumberFault::Syntax if token.is_empty() => "a value is missing here".to_owned(),
            NumberFault::Syntax => format!("`{token}` is not a number"),
            NumberFault::NotFinite => format!("`{token}` is not a finite 32-bit number"),
        },
    )
}

#[cold]
fn odd_token(text: &[u8], at: usize) -> Fault {
    let token = token(text, at);
    let reason = match token.as_bytes() {
        [b'-', ..] => format!("`{token}`: an index cannot be negative"),
        [b'q', b'i', b'd', b':', ..] => format!("`{token}`: ranking data with query ids are not supported"),
        _ => format!("`{token}` is neither labels nor `index:value`"),
    };
    Fault::new(at, reason)
}

/// Returns the offset of the second pair with this index in a row.
fn second_occurrence(row: &[u8], index: u32) -> usize {
    let starts = (0..row.len()).filter(|&i| row[i].is_ascii_digit() && (i == 0 || is_separator(row[i - 1])));
    let pairs = starts.filter(|&i| {
        let (found, end) = integer(row, i);
        found == Some(index) && row.get(end) == Some(&b':')
    });
    pairs.take(2).last().unwrap_or(0)
}

/// Writes the parsed rows and remembers which indices occurred.
struct LibsvmCollector {
    features: CsrWriter,
    labels: CsrWriter,
    seen_features: SeenIndices,
    seen_labels: SeenIndices,
    repairs: Repairs,
}

impl LibsvmCollector {
    fn read(&mut self, lines: TextLines, rules: &LibsvmRules, threads: usize) -> Result<(), DataError> {
        self.repairs.add(Repair::ByteOrderMarks, u64::from(lines.byte_order_mark));
        lines.parse(
            threads,
            |chunk, block: &mut LibsvmRows| parse_chunk(chunk, rules, block),
            |block| self.take(block),
        )?;
        Ok(())
    }

    fn take(&mut self, block: &LibsvmRows) -> Result<(), DataError> {
        self.features.append(&block.features)?;
        self.labels.append(&block.labels)?;
        self.seen_features.merge(block.seen_features);
        self.seen_labels.merge(block.seen_labels);
        for (repair, count) in [
            (Repair::BlankLinesSkipped, block.repairs.blank_lines),
            (Repair::CarriageReturns, block.repairs.carriage_returns),
            (Repair::LabelRowsSorted, block.repairs.sorted_labels),
            (Repair::FeatureRowsSorted, block.repairs.sorted_features),
            (Repair::RepeatedLabelsDropped, block.repairs.repeated_labels),
            (Repair::ZerosDropped, block.repairs.zeros),
        ] {
            self.repairs.add(repair, count);
        }
        Ok(())
    }
}

/// Decides from which number the indices count, given the indices that occurred and, if known, their count.
fn decide_base(given: Option<u32>, seen: SeenIndices, count: Option<u32>) -> Base {
    let largest = seen.largest.unwrap_or(0);
    match (given, count) {
        (Some(first), _) => Base { first, because: BaseReason::Given },
        _ if seen.zero => Base { first: 0, because: BaseReason::ZeroOccurs },
        (None, Some(count)) if count == largest + 1 => Base { first: 0, because: BaseReason::CountFits },
        (None, Some(count)) if count == largest => Base { first: 1, because: BaseReason::CountFits },
        (None, _) => Base { first: 1, because: BaseReason::ZeroNeverOccurs },
    }
}

/// Reads LIBSVM text into a data set.
pub(crate) fn read_libsvm(job: ReadJob) -> Result<DataSet, DataError> {
    let ReadJob { source, inputs, options, directory, threads } = job;
    let label_names = read_name_list(source.label_names.as_deref())?;
    let feature_names = read_name_list(source.feature_names.as_deref())?;
    let known = |given: Option<u32>, names: &Option<Vec<String>>| {
        given.or(names.as_ref().and_then(|names| u32::try_from(names.len()).ok()))
    };
    let label_count = known(options.labels, &label_names);
    let feature_count = known(options.features, &feature_names);
    let rules = LibsvmRules {
        labels: IndexRange::new("label", options.label_base, label_count)?,
        features: IndexRange::new("feature", options.feature_base, feature_count)?,
        // Predictions are numbered by line, so every line of rows to be predicted has to be a row.
        blank_is_row: options.unlabelled,
    };
    let target = DataSetDir::create(directory)?;
    let mut collector = LibsvmCollector::new(&target)?;
    let mut parts = Vec::new();
    for (part, input) in source.parts.iter().zip(inputs) {
        let start = collector.labels.rows();
        let path = input.path().to_owned();
        collector.read(TextLines::new(input)?, &rules, threads)?;
        if collector.labels.rows() == start {
            return Err(DataError::file(&path, "it contains no rows"));
        }
        parts.push(DataSetPart::range(&part.name, start..collector.labels.rows()));
    }
    let mut report = ReadReport::new(Format::Libsvm);
    report.label_base = decide_base(options.label_base, collector.seen_labels, label_count);
    report.feature_base = decide_base(options.feature_base, collector.seen_features, feature_count);
    let sizes = MatrixSizes {
        labels: size("label", report.label_base, collector.seen_labels, label_count)?,
        features: size("feature", report.feature_base, collector.seen_features, feature_count)?,
    };
    parts = read_splits(source, parts, collector.labels.rows(), &mut collector.repairs)?;
    let summary =
        DataSetSummary { label_names, feature_names, nominal_values: NominalValues::new(), parts, report };
    collector.complete(target, &rules, sizes, summary)
}

/// Returns the number of columns: the known count, or else what the largest index needs.
fn size(what: &str, base: Base, seen: SeenIndices, count: Option<u32>) -> Result<usize, DataError> {
    let needed = seen.largest.map_or(0, |largest| largest + 1 - base.first.min(largest + 1));
    match count {
        Some(count) if needed > count => Err(DataError::Request(format!(
            "{what}s are counted from {}, so the largest index needs {needed} {what}s, but only {count} are expected",
            base.first
        ))),
        Some(count) => Ok(count as usize),
        None => Ok(needed as usize),
    }
}

/// The numbers of columns of both matrices.
#[derive(Clone, Copy)]
struct MatrixSizes {
    labels: usize,
    features: usize,
}

impl LibsvmCollector {
    fn new(target: &DataSetDir) -> Result<Self, DataError> {
        Ok(Self {
            features: target.sparse_features()?,
            labels: target.labels()?,
            seen_features: SeenIndices::default(),
            seen_labels: SeenIndices::default(),
            repairs: Repairs::default(),
        })
    }

    fn complete(
        self,
        target: DataSetDir,
        rules: &LibsvmRules,
        sizes: MatrixSizes,
        mut summary: DataSetSummary,
    ) -> Result<DataSet, DataError> {
        summary.report.repairs = self.repairs;
        let shift =
            |column: IndexRange, base: Base| column.assumed_base - base.first.min(column.assumed_base);
        let features = self
            .features
            .finish_shifted(sizes.features, shift(rules.features, summary.report.feature_base))?;
        let labels =
            self.labels.finish_shifted(sizes.labels, shift(rules.labels, summary.report.label_base))?;
        target.complete(Features::Sparse(features), labels, summary)
    }
}

/// The first line of XMC text: the numbers of rows, features and labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct XmcHeader {
    pub rows: u64,
    pub features: u32,
    pub labels: u32,
}

impl XmcHeader {
    /// Parses three numbers; `None` if the line is anything else.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?;
        let mut fields = text.split_ascii_whitespace();
        let header = Self {
            rows: fields.next()?.parse().ok()?,
            features: fields.next()?.parse().ok()?,
            labels: fields.next()?.parse().ok()?,
        };
        let fits = header.features.max(header.labels) <= LARGEST_INDEX + 1;
        (fields.next().is_none() && fits).then_some(header)
    }
}

/// Reads XMC text into a data set.
pub(crate) fn read_xmc(job: ReadJob) -> Result<DataSet, DataError> {
    let ReadJob { source, inputs, options, directory, threads } = job;
    let target = DataSetDir::create(directory)?;
    let mut collector = LibsvmCollector::new(&target)?;
    let mut parts = Vec::new();
    let mut known: Option<(XmcHeader, LibsvmRules)> = None;
    for (part, input) in source.parts.iter().zip(inputs) {
        let mut lines = TextLines::new(input)?;
        let path = lines.path().to_owned();
        let first = lines.next_line()?.unwrap_or_default();
        let header = XmcHeader::parse(&first).ok_or_else(|| {
            let reason = "the first line of XMC text must have three numbers: rows, features, labels";
            DataError::from(Fault::new(0, reason).locate(&path, &first, 0))
        })?;
        let rules = match known {
            None => LibsvmRules {
                labels: IndexRange::new("label", options.label_base.or(Some(0)), Some(header.labels))?,
                features: IndexRange::new(
                    "feature",
                    options.feature_base.or(Some(0)),
                    Some(header.features),
                )?,
                blank_is_row: true,
            },
            Some((earlier, rules))
                if (earlier.features, earlier.labels) == (header.features, header.labels) =>
            {
                rules
            }
            Some((earlier, _)) => {
                let (d, l) = (earlier.features, earlier.labels);
                let reason = format!(
                    "its header says {} features and {} labels, but that of the previous part says {d} and {l}",
                    header.features, header.labels
                );
                return Err(DataError::file(&path, reason));
            }
        };
        known = Some((header, rules));
        let start = collector.labels.rows();
        collector.read(lines, &rules, threads)?;
        let rows = (collector.labels.rows() - start) as u64;
        if rows != header.rows {
            let reason = format!("its header says {} rows, but {rows} follow", header.rows);
            return Err(DataError::file(&path, reason));
        }
        parts.push(DataSetPart::range(&part.name, start..collector.labels.rows()));
    }
    let (header, rules) = known.ok_or_else(no_files)?;
    let mut report = ReadReport::new(Format::Xmc);
    let base = |given: Option<u32>| match given {
        Some(first) => Base { first, because: BaseReason::Given },
        None => Base::by_format(0),
    };
    (report.label_base, report.feature_base) = (base(options.label_base), base(options.feature_base));
    parts = read_splits(source, parts, collector.labels.rows(), &mut collector.repairs)?;
    let summary = DataSetSummary {
        label_names: read_name_list(source.label_names.as_deref())?,
        feature_names: read_name_list(source.feature_names.as_deref())?,
        nominal_values: NominalValues::new(),
        parts,
        report,
    };
    let sizes = MatrixSizes { labels: header.labels as usize, features: header.features as usize };
    collector.complete(target, &rules, sizes, summary)
}

#[cfg(test)]
mod tests;
