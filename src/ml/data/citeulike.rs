//! The files of the citeulike data sets.
//!
//! `mult.dat` has a line per article, `n word:count ...`; `tag-item.dat` has a line per tag, `n article ...`. All indices
//! count from 0.

use std::path::Path;

use super::artifact::{DataSet, DataSetDir, DataSetPart, DataSetSummary, RowBatch};
use super::attributes::NominalValues;
use super::compress::InputFile;
use super::csr::Features;
use super::error::{DataError, Fault};
use super::format::Format;
use super::libsvm::LARGEST_INDEX;
use super::lines::{TextChunk, TextLines};
use super::name_list::read_name_list;
use super::number::{NumberFault, float, integer};
use super::read::ReadJob;
use super::read_report::{ReadReport, Repair, Repairs};

/// The articles of one chunk of `mult.dat`.
#[derive(Default)]
struct WordCounts {
    rows: RowBatch,
    sorted: u64,
    zeros: u64,
    largest: u32,
}

/// The tags of one chunk of `tag-item.dat`.
#[derive(Default)]
struct TaggedArticles {
    /// The number of articles of each tag.
    lengths: Vec<u32>,
    /// The articles of all tags, one tag after the other.
    articles: Vec<u32>,
}

/// Reads `mult.dat` and `tag-item.dat` into a data set.
pub(crate) fn read_citeulike(job: ReadJob) -> Result<DataSet, DataError> {
    let ReadJob { source, inputs, options, directory, threads } = job;
    let ([part], Ok([input])) = (&source.parts[..], <[InputFile; 1]>::try_from(inputs)) else {
        return Err(DataError::Request(
            "a citeulike data set has one file of words and one file of tags".into(),
        ));
    };
    let path = input.path().to_owned();
    let tags = part.labels.as_deref().ok_or_else(|| {
        DataError::file(&path, "its file of tags (`tag-item.dat`) is missing; give it as the file of labels")
    })?;
    let target = DataSetDir::create(directory)?;
    let mut features = target.sparse_features()?;
    let mut repairs = Repairs::default();
    let mut largest = None;
    TextLines::new(input)?.parse(threads, parse_bags, |bags: &mut WordCounts| {
        features.append(&bags.rows)?;
        repairs.add(Repair::FeatureRowsSorted, bags.sorted);
        repairs.add(Repair::ZerosDropped, bags.zeros);
        if !bags.rows.indices.is_empty() {
            largest = largest.max(Some(bags.largest));
        }
        Ok(())
    })?;
    let rows = features.rows();
    let (tag_count, by_row) = read_tags(tags, rows, threads, &mut repairs)?;
    let label_names = read_name_list(source.label_names.as_deref())?;
    let feature_names = read_name_list(source.feature_names.as_deref())?;
    let needed = largest.map_or(0, |largest| largest as usize + 1);
    let known = options.features.map(|n| n as usize).or(feature_names.as_ref().map(Vec::len));
    let words = known.unwrap_or(needed);
    if needed > words {
        return Err(DataError::file(&path, format!("it has {needed} words, but only {words} are expected")));
    }
    let mut labels = target.labels()?;
    for row in &by_row {
        labels.push(row, &[])?;
    }
    let features = Features::Sparse(features.finish(words)?);
    let labels = labels.finish(tag_count)?;
    let mut report = ReadReport::new(Format::Citeulike);
    report.repairs = repairs;
    let parts = vec![DataSetPart::range(&part.name, 0..rows)];
    target.complete(
        features,
        labels,
        DataSetSummary { label_names, feature_names, nominal_values: NominalValues::new(), parts, report },
    )
}

/// Returns the number of tags and the tags of each article.
fn read_tags(
    path: &Path,
    rows: usize,
    threads: usize,
    repairs: &mut Repairs,
) -> Result<(usize, Vec<Vec<u32>>), DataError> {
    let mut by_row: Vec<Vec<u32>> = vec![Vec::new(); rows];
    let mut count = 0_u32;
    let mut repeated = 0;
    TextLines::new(InputFile::open(path, threads)?)?.parse(
        threads,
        |chunk, tags: &mut TaggedArticles| parse_tags(chunk, rows, tags),
        |tags| {
            let mut articles = tags.articles.iter();
            for &length in &tags.lengths {
                for &article in articles.by_ref().take(length as usize) {
                    let row = &mut by_row[article as usize];
                    if row.last() == Some(&count) {
                        repeated += 1;
                    } else {
                        row.push(count);
                    }
                }
                count += 1;
            }
            Ok(())
        },
    )?;
    repairs.add(Repair::RepeatedLabelsDropped, repeated);
    Ok((count as usize, by_row))
}

/// Calls `entry` with the offset of each field after the count of a line, checks the count, and then calls
/// `end_of_line` with the offset of the line.
fn counted_lines(
    chunk: TextChunk,
    mut entry: impl FnMut(usize) -> Result<(), Fault>,
    mut end_of_line: impl FnMut(usize) -> Result<(), Fault>,
) -> Result<u64, Fault> {
    let mut lines = 0;
    let mut start = 0;
    for line in chunk.padded[..chunk.end].split_inclusive(|&b| b == b'\n') {
        let is_start =
            |i: usize| !line[i].is_ascii_whitespace() && (i == 0 || line[i - 1].is_ascii_whitespace());
        let mut fields = (0..line.len()).filter(|&i| is_start(i));
        let first = fields.next().unwrap_or(0);
        let (count, end) = integer(line, first);
        if end == first || !line.get(end).is_none_or(u8::is_ascii_whitespace) {
            return Err(Fault::new(start + first, "a line must start with the number of its entries"));
        }
        let mut found = 0;
        for at in fields {
            entry(start + at)?;
            found += 1;
        }
        if count != Some(found) {
            let reason = format!("this line has {found} entries, which is not what its first number says");
            return Err(Fault::new(start + first, reason));
        }
        end_of_line(start)?;
        lines += 1;
        start += line.len();
    }
    Ok(lines)
}

fn parse_bags(chunk: TextChunk, bags: &mut WordCounts) -> Result<u64, Fault> {
    bags.rows.clear();
    (bags.sorted, bags.zeros, bags.largest) = (0, 0, 0);
    let text = chunk.padded;
    let bags = std::cell::RefCell::new(bags);
    let mut first = 0;
    counted_lines(
        chunk,
        |at| {
            let bags = &mut **bags.borrow_mut();
            let (word, end) = integer(text, at);
            if text.get(end) != Some(&b':') {
                return Err(Fault::new(at, "an entry is written as `word:count`"));
            }
            let word = word.filter(|&word| word <= LARGEST_INDEX);
            let word =
                word.ok_or_else(|| Fault::new(at, format!("a word index is larger than {LARGEST_INDEX}")))?;
            let (value, _) = float(text, end + 1, |b| b.is_ascii_whitespace()).map_err(|why| {
                Fault::new(
                    end + 1,
                    match why {
                        NumberFault::Syntax => "a count is expected here",
                        NumberFault::NotFinite => "this count is not a finite number",
                    },
                )
            })?;
            bags.largest = bags.largest.max(word);
            if value == 0.0 {
                bags.zeros += 1;
            } else {
                bags.rows.indices.push(word);
                bags.rows.values.push(value);
            }
            Ok(())
        },
        |start| {
            let bags = &mut **bags.borrow_mut();
            let sorted = bags.rows.sort_row(first, 0);
            let moved = sorted
                .map_err(|word| Fault::new(start, format!("the word {word} occurs twice in this line")))?;
            bags.sorted += u64::from(moved);
            bags.rows.lengths.push((bags.rows.indices.len() - first) as u32);
            first = bags.rows.indices.len();
            Ok(())
        },
    )
}

fn parse_tags(chunk: TextChunk, rows: usize, tags: &mut TaggedArticles) -> Result<u64, Fault> {
    tags.lengths.clear();
    tags.articles.clear();
    let text = chunk.padded;
    let TaggedArticles { lengths, articles } = tags;
    let articles = std::cell::RefCell::new(articles);
    let mut before = 0;
    counted_lines(
        chunk,
        |at| {
            let (article, end) = integer(text, at);
            match article {
                Some(article) if end > at && text[end].is_ascii_whitespace() && (article as usize) < rows => {
                    articles.borrow_mut().push(article);
                    Ok(())
                }
                _ => {
                    Err(Fault::new(at, format!("an article from 0 to {} is expected here", rows.max(1) - 1)))
                }
            }
        },
        |_| {
            let now = articles.borrow().len();
            lengths.push((now - before) as u32);
            before = now;
            Ok(())
        },
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::data::read::read;
    use crate::data::source::{DataSource, RawData, ReadOptions};

    fn read_pair(words: &[u8], tags: &[u8]) -> Result<DataSet, DataError> {
        let temp = tempfile::tempdir().unwrap();
        let mut source = DataSource::file(temp.path().join("mult.dat"));
        fs::write(&source.parts[0].data, words).unwrap();
        source.parts[0].labels = Some(temp.path().join("tag-item.dat"));
        fs::write(temp.path().join("tag-item.dat"), tags).unwrap();
        let options = ReadOptions { format: Some(Format::Citeulike), ..Default::default() };
        match read(&source, &options, &temp.path().join("set"), 1)? {
            RawData::Set(set) => Ok(set),
            RawData::Text(_) => panic!("numbers were expected"),
        }
    }

    #[test]
    fn articles_per_tag_become_tags_per_article() {
        let set = read_pair(b"2 9:1 3:2\n0\n1 4:1", b"2 2 0\n0\n1 2\n2 0 0").unwrap();
        let Features::Sparse(features) = &set.features else { panic!("dense") };
        assert_eq!((features.row(0), features.row_values(0)), (&[3, 9][..], &[2.0, 1.0][..]));
        assert_eq!((set.rows(), features.cols, set.labels.cols), (3, 10, 4));
        assert_eq!(
            (set.labels.row(0), set.labels.row(1), set.labels.row(2)),
            (&[0, 3][..], &[][..], &[0, 2][..])
        );
        assert_eq!(set.report.repairs.get(Repair::RepeatedLabelsDropped), 1);
        assert_eq!(set.report.repairs.get(Repair::FeatureRowsSorted), 1);
    }

    #[test]
    fn each_fault_is_reported() {
        for (words, tags, part) in [
            ("3 1:1\n", "1 0\n", "1 entries, which is not"),
            ("1 1\n", "1 0\n", "`word:count`"),
            ("1 1:\n", "1 0\n", "a count is expected"),
            ("1 1:inf\n", "1 0\n", "not a finite"),
            ("2 1:1 1:2\n", "1 0\n", "occurs twice"),
            ("1 1:1\n", "1 1\n", "an article from 0 to 0"),
            ("1 1:1\n", "x\n", "number of its entries"),
            ("\n", "1 0\n", "number of its entries"),
        ] {
            let message = read_pair(words.as_bytes(), tags.as_bytes()).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_bytes_are_read_or_refused_without_panicking(
            words in "([0-9]{0,2} ?:?){0,8}\n?",
            tags in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let _ = read_pair(words.as_bytes(), &tags);
            let _ = read_pair(&tags, words.as_bytes());
            let _ = read_pair(b"0\n0\n", words.as_bytes());
        }
    }
}
