//! The output of `pipe data` as text: the list of known data sets, the details of one, statistics, and the curve of label
//! frequencies.

use std::fmt::Write;
use std::path::Path;

use super::artifact::DataSet;
use super::csr::Features;
use super::error::DataError;
use super::locate::Locator;
use super::read::read;
use super::registry::{self, FileRole, KnownDataSet};
use super::source::{DataSource, RawData, ReadOptions, SourcePart};
use super::split_data::{PartName, SplitData};
use super::stats::{Stats, TAIL_BOUNDS};

/// Returns the known data sets: name, rows, test rows, features, labels, how many of the files exist, and title.
pub fn list(locator: &Locator) -> Vec<[String; 7]> {
    let table_row = |entry: &KnownDataSet| {
        let expected = entry.expected;
        let here = entry.files.iter().filter(|file| is_here(locator, entry, &file.name)).count();
        [
            entry.name.clone(),
            grouped(expected.rows),
            if expected.test_rows == 0 { "-".to_owned() } else { grouped(expected.test_rows) },
            grouped(expected.features),
            grouped(expected.labels),
            if here == entry.files.len() {
                "yes".to_owned()
            } else {
                format!("{here}/{}", entry.files.len())
            },
            entry.title.clone(),
        ]
    };
    registry::entries().iter().map(table_row).collect()
}

fn is_here(locator: &Locator, entry: &KnownDataSet, file: &str) -> bool {
    matches!(locator.find(&entry.name, file), Ok(Some(_)))
}

/// Returns the registry entry of a data set, with the paths of its files.
pub fn info(entry: &KnownDataSet, locator: &Locator) -> String {
    let expected = entry.expected;
    let mut text = format!("{}: {}\n\n", entry.name, entry.title);
    let rows = match expected.test_rows {
        0 => format!("{} rows without a published split", grouped(expected.rows)),
        test => format!("{} training and {} test rows", grouped(expected.rows), grouped(test)),
    };
    let (features, labels) = (grouped(expected.features), grouped(expected.labels));
    let _ = writeln!(text, "published   {rows}, {features} features, {labels} labels");
    let _ = writeln!(text, "format      {}", entry.format.name());
    let _ = writeln!(text, "cite        {}", entry.citation);
    let _ = writeln!(text, "licence     {}", entry.licence);
    if let Some(note) = &entry.note {
        let _ = writeln!(text, "note        {note}");
    }
    text.push_str("\nfiles\n");
    for file in &entry.files {
        let size = file.bytes.map(|bytes| format!(", {} bytes", grouped(bytes))).unwrap_or_default();
        let place = match locator.find(&entry.name, &file.name) {
            Ok(Some(path)) => path.display().to_string(),
            _ => format!("not in {}", locator.directory().display()),
        };
        let _ = writeln!(text, "  {}{size}\n    {place}", file.name);
        for url in file.sources() {
            let _ = writeln!(text, "    {url}");
        }
    }
    text
}

/// Computes the statistics of a data set; `None` if one of its files is missing. Rows are streamed through `scratch`.
pub fn measure(
    entry: &KnownDataSet,
    locator: &Locator,
    scratch: &Path,
    threads: usize,
) -> Result<Option<Vec<(String, Stats)>>, DataError> {
    let file = |role| entry.file(role).and_then(|file| locator.find(&entry.name, &file.name).ok().flatten());
    if entry.files.iter().any(|file| !is_here(locator, entry, &file.name)) {
        return Ok(None);
    }
    let part = |name: &str, role| {
        let labels = if role == FileRole::All { file(FileRole::Labels) } else { None };
        file(role).map(|data| SourcePart { name: name.to_owned(), data, labels })
    };
    let parts = [part("train", FileRole::Train), part("test", FileRole::Test), part("all", FileRole::All)];
    let source = DataSource {
        parts: parts.into_iter().flatten().collect(),
        label_xml: file(FileRole::LabelXml),
        label_names: file(FileRole::LabelNames),
        feature_names: file(FileRole::FeatureNames),
        splits: Vec::new(),
    };
    let options = ReadOptions { format: Some(entry.format), ..ReadOptions::default() };
    match read(&source, &options, scratch, threads)? {
        RawData::Set(data) => Ok(Some(part_stats(&data))),
        RawData::Text(_) => Ok(None),
    }
}

fn part_stats(data: &DataSet) -> Vec<(String, Stats)> {
    let Features::Sparse(features) = &data.features else { return Vec::new() };
    let parts = data
        .parts
        .iter()
        .map(|part| (part.name.clone(), Stats::of_rows(features, &data.labels, part.rows.iter().copied())));
    parts.collect()
}

/// Computes the statistics of the parts of a data set that a stage has made. Parts with dense features are skipped.
pub fn dataset_stats(data: &SplitData) -> Result<Vec<(String, Stats)>, DataError> {
    let mut all = Vec::new();
    for part in PartName::ALL.into_iter().filter(|&part| data.has(part)) {
        if let Features::Sparse(features) = data.features(part)? {
            all.push((part.name().to_owned(), Stats::of(&features, &data.labels(part)?)));
        }
    }
    Ok(all)
}

/// Returns a table of the statistics of some parts, and the label-frequency curve of the first one.
pub fn statistics(parts: &[(String, Stats)]) -> String {
    type Statistic = fn(&Stats) -> String;
    let statistics: [(&str, Statistic); 9] = [
        ("rows", |s| grouped(s.rows)),
        ("features", |s| grouped(s.features)),
        ("labels", |s| grouped(s.labels)),
        ("labels that occur", |s| grouped(s.labels - s.labels_under(1))),
        ("labels per row", |s| format!("{:.2}", s.labels_per_row())),
        ("features per row", |s| format!("{:.1}", s.features_per_row())),
        ("rows per label", |s| format!("{:.2}", s.rows_per_label())),
        ("rows without labels", |s| grouped(s.rows_without_labels)),
        ("rows without features", |s| grouped(s.rows_without_features)),
    ];
    let table_row = |name: &str, statistic: &dyn Fn(&Stats) -> String| -> Vec<String> {
        std::iter::once(name.to_owned()).chain(parts.iter().map(|(_, stats)| statistic(stats))).collect()
    };
    let mut rows =
        vec![std::iter::once(String::new()).chain(parts.iter().map(|(name, _)| name.clone())).collect()];
    rows.extend(statistics.iter().map(|(name, statistic)| table_row(name, statistic)));
    for bound in TAIL_BOUNDS {
        let share = |s: &Stats| format!("{:.1} %", 100.0 * s.share_under(bound));
        rows.push(table_row(&format!("labels on fewer than {bound} rows"), &share));
    }
    rows.push(table_row("highest possible macro-F1", &|s| format!("{:.3}", s.macro_f1_cap())));
    let right: Vec<usize> = (1..=parts.len()).collect();
    let mut text = aligned(&rows, &right);
    if let Some((name, stats)) = parts.first() {
        let _ = write!(text, "\nrows per label, {name}, by rank\n{}", curve(&stats.curve(), 60, 10));
    }
    text
}

/// Draws descending counts over their ranks with braille dots. Both axes are logarithmic.
///
/// The drawing has `width` by `height` characters of 2 by 4 dots, and a frame with numbers. Counts of zero are omitted.
pub fn curve(counts: &[u64], width: usize, height: usize) -> String {
    let counts: Vec<u64> = counts.iter().copied().filter(|&count| count > 0).collect();
    let (Some(&largest), ranks) = (counts.first(), counts.len()) else {
        return "(no label occurs)\n".to_owned();
    };
    let (across, up) = (2 * width, 4 * height);
    let log_position = |value: f64, most: f64, steps: usize| {
        if most > 1.0 { (value.ln() / most.ln() * (steps - 1) as f64).round() as usize } else { 0 }
    };
    let mut cells = vec![0u8; width * height];
    let mut previous = 0;
    for x in 0..across {
        let rank = (ranks as f64).powf(x as f64 / (across - 1) as f64).round() as usize;
        let y = up - 1 - log_position(counts[rank.clamp(1, ranks) - 1] as f64, largest as f64, up);
        for y in (previous + 1).min(y)..=y {
            cells[y / 4 * width + x / 2] |= DOTS[y % 4][x % 2];
        }
        previous = y;
    }
    let (top, bottom) = (grouped(largest), "1");
    let margin = top.len();
    let mut text = String::new();
    for (row, cells) in cells.chunks(width).enumerate() {
        let number = match row {
            0 => top.as_str(),
            row if row == height - 1 => bottom,
            _ => "",
        };
        let dots: String = cells.iter().map(|&dots| braille(dots)).collect();
        let _ = writeln!(text, "{}", format!("{number:>margin$} ┤{dots}").trim_end());
    }
    let _ = writeln!(text, "{:margin$} └{}", "", "─".repeat(width));
    let last = grouped(ranks as u64);
    let _ = writeln!(text, "{:margin$}  1{last:>1$}", "", width - 1);
    text
}

/// The bits of the dots of a braille character, by row and column.
const DOTS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

fn braille(dots: u8) -> char {
    if dots == 0 { ' ' } else { char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' ') }
}

/// Formats a number with thousands separators: `1,186,239`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a table. The columns in `right` are aligned to the right.
fn aligned<R: AsRef<[String]>>(rows: &[R], right: &[usize]) -> String {
    let columns = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or(0);
    let cell = |row: &R, column: usize| row.as_ref().get(column).cloned().unwrap_or_default();
    let width = |column| rows.iter().map(|row| cell(row, column).chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let line: Vec<String> = widths
            .iter()
            .enumerate()
            .map(|(column, &width)| {
                let text = cell(row, column);
                if right.contains(&column) { format!("{text:>width$}") } else { format!("{text:<width$}") }
            })
            .collect();
        let _ = writeln!(text, "{}", line.join("  ").trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::test_matrix::ones;
    use super::*;

    #[test]
    fn the_list_contains_every_data_set_and_the_number_of_its_files() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("bibtex.xml"), "x").unwrap();
        let rows = list(&Locator::new(temp.path(), true));
        assert_eq!(rows.len(), registry::entries().len());
        let row = |name: &str| rows.iter().find(|row| row[0] == name).unwrap();
        assert_eq!((row("bibtex")[1].as_str(), row("bibtex")[5].as_str()), ("4,880", "1/3"));
        assert_eq!(row("amazoncat-13k")[1], "1,186,239");
    }

    #[test]
    fn the_details_of_a_data_set_contain_its_files_and_its_citation() {
        let text = info(registry::find("medical").unwrap(), &Locator::new("mirror", true));
        for part in ["333 training and 645 test rows", "medical-train.arff", "not in mirror", "Pestian"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn statistics_are_printed_with_the_tail_and_the_curve() {
        let labels = ones(3, &[vec![0], vec![0, 1], vec![0], vec![]]);
        let stats = Stats::of(&ones(7, &[vec![1], vec![2, 3], vec![], vec![4]]), &labels);
        insta::assert_snapshot!(statistics(&[("train".to_owned(), stats)]));
    }

    #[test]
    fn a_data_set_is_measured_if_all_of_its_files_exist() {
        let temp = tempfile::tempdir().unwrap();
        let (set, scratch) = (temp.path().join("eurlex-4k"), temp.path().join("scratch"));
        std::fs::create_dir(&set).unwrap();
        let locator = Locator::new(temp.path(), true);
        let measured = || measure(registry::find("eurlex-4k").unwrap(), &locator, &scratch, 1).unwrap();
        std::fs::write(set.join("eurlex_tfidf_train.svm"), "0,2 1:0.5\n1 2:1 3:1\n").unwrap();
        assert_eq!(measured(), None);
        std::fs::write(set.join("eurlex_tfidf_test.svm"), "2 3:1\n").unwrap();
        let [(train, first), (test, second)] = measured().unwrap().try_into().unwrap();
        assert_eq!((train.as_str(), first.rows, first.curve()), ("train", 2, vec![1, 1, 1]));
        assert_eq!((test.as_str(), second.rows, second.label_counts), ("test", 1, vec![0, 0, 1]));
    }

    #[test]
    fn a_power_law_is_drawn_as_a_straight_line() {
        let counts: Vec<u64> = (1..=1000).map(|rank| 1_000_000 / (rank * rank)).collect();
        let text = curve(&counts, 20, 5);
        let rows: Vec<&str> = text.lines().collect();
        assert!(rows[0].starts_with("1,000,000 ┤⠉") && rows[4].ends_with('⣀'), "{text}");
        let ends = |row: &str| row.chars().count();
        assert!(rows[..5].windows(2).all(|pair| ends(pair[0]) < ends(pair[1])), "{text}");
        assert_eq!(ends(rows[4]), ends(rows[5]), "{text}");
        assert_eq!(curve(&[0, 0], 20, 5), "(no label occurs)\n");
        assert_eq!(curve(&[1], 20, 5).lines().count(), 7);
    }

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!([0, 999, 1000, 1_186_239].map(grouped), ["0", "999", "1,000", "1,186,239"]);
    }
}
