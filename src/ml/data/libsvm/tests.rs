use std::fs;

use proptest::prelude::*;

use super::*;
use crate::data::csr::Csr;
use crate::data::read::read;
use crate::data::source::{DataSource, RawData, ReadOptions};

fn read_with(text: &[u8], options: &ReadOptions, threads: usize) -> Result<DataSet, DataError> {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("x.svm");
    fs::write(&path, text).unwrap();
    match read(&DataSource::file(&path), options, &temp.path().join("set"), threads)? {
        RawData::Set(set) => Ok(set),
        RawData::Text(_) => panic!("numbers were expected"),
    }
}

fn read_text(text: &str) -> DataSet {
    read_with(text.as_bytes(), &ReadOptions::default(), 1).unwrap()
}

fn reason(text: &[u8]) -> (u64, u64, String) {
    let options = ReadOptions { format: Some(Format::Libsvm), ..Default::default() };
    match read_with(text, &options, 1).unwrap_err() {
        DataError::Text(bad) => (bad.line, bad.column, bad.reason.clone()),
        other => panic!("{other}"),
    }
}

fn features(set: &DataSet) -> &Csr {
    let Features::Sparse(csr) = &set.features else { panic!("dense") };
    csr
}

#[test]
fn labels_and_features_of_each_row_are_kept() {
    let set = read_text("1,3 1:0.5 4:-2\n2 2:1e-3\n");
    assert_eq!((set.labels.row(0), set.labels.row(1), set.labels.cols), (&[0, 2][..], &[1][..], 3));
    assert_eq!((features(&set).row(0), features(&set).row(1)), (&[0, 3][..], &[1][..]));
    assert_eq!(
        (features(&set).row_values(0), features(&set).row_values(1)),
        (&[0.5, -2.0][..], &[0.001][..])
    );
    assert_eq!(set.report.label_base, Base { first: 1, because: BaseReason::ZeroNeverOccurs });
    assert_eq!(set.parts, [DataSetPart::range("all", 0..2)]);
}

#[test]
fn an_index_zero_anywhere_makes_the_indices_count_from_zero() {
    let set = read_text("5 3:1 7:1\n0,5 0:1\n");
    assert_eq!((set.labels.row(0), set.labels.row(1), set.labels.cols), (&[5][..], &[0, 5][..], 6));
    assert_eq!((features(&set).row(0), features(&set).row(1)), (&[3, 7][..], &[0][..]));
    assert_eq!(features(&set).cols, 8);
    assert_eq!(set.report.feature_base, Base { first: 0, because: BaseReason::ZeroOccurs });
}

#[test]
fn a_known_number_of_columns_determines_the_base() {
    let options = ReadOptions { labels: Some(4), ..Default::default() };
    let zero = read_with(b"3 1:1\n", &options, 1).unwrap();
    assert_eq!((zero.report.label_base.first, zero.labels.row(0), zero.labels.cols), (0, &[3][..], 4));
    let one = read_with(b"4 1:1\n", &options, 1).unwrap();
    assert_eq!((one.report.label_base.first, one.labels.row(0), one.labels.cols), (1, &[3][..], 4));
    assert!(read_with(b"0,4 1:1\n", &options, 1).unwrap_err().to_string().contains("only 4"));
    assert!(read_with(b"5 1:1\n", &options, 1).unwrap_err().to_string().contains("larger than 4"));
}

#[test]
fn a_given_base_is_used_and_enforced() {
    let given = |base| ReadOptions { feature_base: Some(base), ..Default::default() };
    assert_eq!(features(&read_with(b"1 2:1\n", &given(0), 1).unwrap()).row(0), [2]);
    assert_eq!(features(&read_with(b"1 2:1\n", &given(1), 1).unwrap()).row(0), [1]);
    let message = read_with(b"1 0:1\n", &given(1), 1).unwrap_err().to_string();
    assert!(message.contains("counts features from 1"), "{message}");
    assert!(read_with(b"1 1:1\n", &given(2), 1).is_err());
}

#[test]
fn rows_without_labels_and_rows_without_features_are_kept() {
    let set = read_text("1 1:1\n 2:1\n3:1\n2\n\t1:1\n2,1 \t \n");
    assert_eq!(set.rows(), 6);
    assert_eq!((set.report.rows_without_labels, set.report.rows_without_features), (3, 2));
}

#[test]
fn blank_lines_carriage_returns_and_a_byte_order_mark_are_repaired_and_counted() {
    let set = read_text("\u{feff}1\t1:1  3:2 \t\r\n\r\n2 1:1 # a note\n\n# only a note\n1 2:1");
    assert_eq!((set.rows(), features(&set).entries()), (3, 4));
    let repairs = &set.report.repairs;
    assert_eq!(repairs.get(Repair::BlankLinesSkipped), 3);
    assert_eq!(repairs.get(Repair::CarriageReturns), 2);
    assert_eq!(repairs.get(Repair::ByteOrderMarks), 1);
}

#[test]
fn unsorted_rows_are_sorted_and_repeated_labels_and_zeros_dropped() {
    let set = read_text("3,1,3 5:5 0:9 2:2\n0,0 1:0 2:1\n");
    assert_eq!((set.labels.row(0), set.labels.row(1)), (&[1, 3][..], &[0][..]));
    assert_eq!((features(&set).row(0), features(&set).row_values(0)), (&[0, 2, 5][..], &[9.0, 2.0, 5.0][..]));
    assert_eq!(features(&set).row(1), [2]);
    let repairs = &set.report.repairs;
    assert_eq!(repairs.get(Repair::LabelRowsSorted), 1);
    assert_eq!(repairs.get(Repair::FeatureRowsSorted), 1);
    assert_eq!(repairs.get(Repair::RepeatedLabelsDropped), 2);
    assert_eq!(repairs.get(Repair::ZerosDropped), 1);
}

#[test]
fn each_fault_is_reported_at_its_position() {
    for (text, line, column, part) in [
        (&b"1 1:1\n1 2:nan\n"[..], 2, 5, "`nan` is not a finite 32-bit number"),
        (b"1 1:inf\n", 1, 5, "finite"),
        (b"1 1:1e99\n", 1, 5, "finite"),
        (b"1 1:x\n", 1, 5, "`x` is not a number"),
        (b"1 1:\n", 1, 5, "a value is missing"),
        (b"1 1: 2:1\n", 1, 5, "a value is missing"),
        (b"1 1\n", 1, 4, "`index:value`"),
        (b"1 2,3 1:1\n", 1, 4, "labels must be at the very start"),
        (b" 2,3 1:1\n", 1, 3, "labels must be at the very start"),
        (b"1, 1:1\n", 1, 3, "a label index is expected"),
        (b"1,,2 1:1\n", 1, 3, "a label index is expected"),
        (b"1.5 1:1\n", 1, 2, "a label is a whole number"),
        (b"1,2:3\n", 1, 4, "a label is a whole number"),
        (b"-1 1:1\n", 1, 1, "cannot be negative"),
        (b"1 -1:1\n", 1, 3, "cannot be negative"),
        (b"+1 1:1\n", 1, 1, "neither labels nor"),
        (b"1 4294967296:1\n", 1, 3, "32 bits"),
        (b"1 4294967295:1\n", 1, 3, "larger than"),
        (b"99999999999999999999 1:1\n", 1, 1, "32 bits"),
        (b"1 3:1 4:1 3:2\n", 1, 11, "the feature 3 occurs twice"),
        (b"1 qid:3 1:1\n", 1, 3, "query ids"),
        (b"1 1:1\r2 1:1\n", 1, 6, "neither labels nor"),
        (b"\0\0\0", 1, 1, "neither labels nor"),
    ] {
        let (l, c, reason) = reason(text);
        assert!(reason.contains(part), "{reason}");
        assert_eq!((l, c), (line, column), "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn a_file_without_rows_is_refused() {
    let message = |text: &[u8]| read_with(text, &ReadOptions::default(), 1).unwrap_err().to_string();
    assert!(message(b"").contains("it is empty"));
    let libsvm = ReadOptions { format: Some(Format::Libsvm), ..Default::default() };
    assert!(read_with(b"\n \n", &libsvm, 1).unwrap_err().to_string().contains("no rows"));
    assert!(message(b"<html>\n").contains("not recognised"));
}

#[test]
fn train_and_test_share_base_and_sizes() {
    let temp = tempfile::tempdir().unwrap();
    let (train, test) = (temp.path().join("train"), temp.path().join("test"));
    fs::write(&train, "1 2:1\n2 3:1\n").unwrap();
    fs::write(&test, "0 9:1\n").unwrap();
    let source = DataSource::parts([("train", train), ("test", test)]);
    let RawData::Set(set) = read(&source, &ReadOptions::default(), &temp.path().join("out"), 2).unwrap()
    else {
        panic!()
    };
    assert_eq!((set.rows(), set.labels.cols, set.features.cols()), (3, 3, 9));
    assert_eq!((set.labels.row(0), set.report.label_base.first), (&[1][..], 0));
    assert_eq!(set.parts, [DataSetPart::range("train", 0..2), DataSetPart::range("test", 2..3)]);
}

#[test]
fn xmc_text_is_checked_against_its_header() {
    let set = read_text("3 5 4\n0,3 0:1 4:0.5\n\n 1:1\n");
    assert_eq!((set.rows(), set.features.cols(), set.labels.cols), (3, 5, 4));
    assert_eq!((set.report.format, set.report.label_base), (Format::Xmc, Base::by_format(0)));
    for (text, part) in [
        ("3 5 4\n0 0:1\n", "says 3 rows, but 1 follow"),
        ("1 5 4\n0 5:1\n", "index 5 is larger than 4"),
        ("1 5 4\n4 0:1\n", "index 4 is larger than 3"),
    ] {
        let message = read_with(text.as_bytes(), &ReadOptions::default(), 1).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
    let xmc = ReadOptions { format: Some(Format::Xmc), ..Default::default() };
    assert!(read_with(b"0 1:1\n", &xmc, 1).unwrap_err().to_string().contains("three numbers"));
    assert!(read_with(b"99999999999999 99 99\n", &xmc, 1).is_err());
}

#[test]
fn split_index_files_define_the_parts() {
    let temp = tempfile::tempdir().unwrap();
    let path = |name: &str| temp.path().join(name);
    fs::write(path("all.txt"), "3 2 2\n0 0:1\n1 1:1\n0,1 0:1\n").unwrap();
    fs::write(path("tr.txt"), "3 1\n1 2\n").unwrap();
    fs::write(path("te.txt"), "2 3\n").unwrap();
    let mut source = DataSource::file(path("all.txt"));
    source.splits = vec![("train".into(), path("tr.txt")), ("test".into(), path("te.txt"))];
    let RawData::Set(set) = read(&source, &ReadOptions::default(), &path("out"), 1).unwrap() else {
        panic!()
    };
    let parts: Vec<_> = set.parts.iter().map(|p| (p.name.as_str(), p.rows.as_slice())).collect();
    assert_eq!(parts, [("train", &[0, 2][..]), ("train.1", &[0, 1]), ("test", &[1]), ("test.1", &[2])]);
}

/// Labels, and features with their values.
type Row = (Vec<u32>, Vec<(u32, f32)>);

/// Generates rows that LIBSVM text can represent: not empty, without zero values.
fn rows() -> impl Strategy<Value = Vec<Row>> {
    let value = prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL;
    let labels = prop::collection::btree_set(0_u32..50, 0..6);
    let features = prop::collection::btree_map(0_u32..2000, value, 1..20);
    let row = (labels, features).prop_map(|(l, f)| (l.into_iter().collect(), f.into_iter().collect()));
    prop::collection::vec(row, 1..60)
}

fn written(rows: &[Row]) -> Vec<u8> {
    let mut text = String::new();
    for (labels, features) in rows {
        text.push_str(&labels.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
        for (index, value) in features {
            text.push_str(&format!(" {index}:{value}"));
        }
        text.push('\n');
    }
    text.into_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn written_rows_are_read_back(rows in rows()) {
        let options = ReadOptions { label_base: Some(0), feature_base: Some(0), format: Some(Format::Libsvm), ..Default::default() };
        let set = read_with(&written(&rows), &options, 2).unwrap();
        prop_assert_eq!(set.rows(), rows.len());
        for (row, (labels, pairs)) in rows.iter().enumerate() {
            prop_assert_eq!(set.labels.row(row), labels.as_slice());
            let stored = features(&set).row(row).iter().copied().zip(features(&set).row_values(row).iter().copied());
            prop_assert_eq!(stored.collect::<Vec<_>>(), pairs.clone());
        }
    }

    #[test]
    fn a_corrupted_file_is_read_or_refused_without_panicking(
        rows in rows(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        xmc: bool,
    ) {
        let mut text = written(&rows);
        for (at, byte) in changes {
            let at = at.index(text.len());
            text[at] = byte;
        }
        let format = Some(if xmc { Format::Xmc } else { Format::Libsvm });
        let options = ReadOptions { format, ..Default::default() };
        if let Ok(set) = read_with(&text, &options, 1) {
            prop_assert_eq!(features(&set).check(), Ok(()));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused_without_panicking(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for format in [None, Some(Format::Libsvm), Some(Format::Xmc)] {
            let _ = read_with(&bytes, &ReadOptions { format, ..Default::default() }, 1);
        }
    }
}
