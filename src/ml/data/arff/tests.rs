use std::fs;

use proptest::prelude::*;

use super::*;
use crate::data::csr::Csr;
use crate::data::read::read;
use crate::data::source::{DataSource, RawData, ReadOptions};

fn read_with(text: &[u8], xml: Option<&str>) -> Result<DataSet, DataError> {
    read_encoded(text, xml, None)
}

fn read_encoded(
    text: &[u8],
    xml: Option<&str>,
    nominal: Option<NominalEncoding>,
) -> Result<DataSet, DataError> {
    let temp = tempfile::tempdir().unwrap();
    let mut source = DataSource::file(temp.path().join("x.arff"));
    fs::write(&source.parts[0].data, text).unwrap();
    if let Some(xml) = xml {
        let path = temp.path().join("x.xml");
        fs::write(&path, xml).unwrap();
        source.label_xml = Some(path);
    }
    let options = ReadOptions { format: Some(Format::Arff), nominal, ..Default::default() };
    match read(&source, &options, &temp.path().join("set"), 1)? {
        RawData::Set(set) => Ok(set),
        RawData::Text(_) => panic!("numbers were expected"),
    }
}

fn features(set: &DataSet) -> &Csr {
    let Features::Sparse(csr) = &set.features else { panic!("dense") };
    csr
}

const HEAD: &str = "% a comment\n@RELATION 'x: -C 2'\n\n@attribute a {0,1}\n@attribute 'b c' {0,1}\n\
                    @attribute f numeric\n@attribute g {no,yes}\n@attribute h real\n@DATA\n";

#[test]
fn dense_and_sparse_rows_are_equivalent() {
    let dense = read_with(format!("{HEAD}1,0,0.5,yes,0\n 0, 1 ,?,'no',-2\t\r\n").as_bytes(), None).unwrap();
    let sparse = read_with(format!("{HEAD}{{0 1,2 0.5,3 yes}}\n{{1 1, 4 -2}}\n").as_bytes(), None).unwrap();
    assert_eq!((&dense.features, &dense.labels), (&sparse.features, &sparse.labels));
    assert_eq!(dense.label_names.as_deref().unwrap(), ["a", "b c"]);
    assert_eq!(dense.feature_names.as_deref().unwrap(), ["f", "g", "h"]);
    assert_eq!((features(&dense).row(0), features(&dense).row_values(0)), (&[0, 1][..], &[0.5, 1.0][..]));
    assert_eq!((dense.labels.row(0), dense.labels.row(1)), (&[0][..], &[1][..]));
    assert_eq!(dense.report.repairs.get(Repair::MissingValuesAsZero), 1);
}

#[test]
fn the_words_of_a_label_say_which_rows_have_it_whatever_their_order() {
    let labels = |values: &str, has: &str, lacks: &str| {
        let head = HEAD.replace("a {0,1}", &format!("a {values}"));
        let rows = format!("{head}{has},0,0.5,yes,0\n{lacks},1,0.5,no,0\n");
        read_with(rows.as_bytes(), None).map(|set| (set.labels.row(0).to_vec(), set.labels.row(1).to_vec()))
    };
    for (values, has, lacks) in [
        ("{no,yes}", "yes", "no"),
        ("{yes,no}", "yes", "no"),
        ("{True,False}", "True", "False"),
        ("{1,0}", "1", "0"),
    ] {
        assert_eq!(labels(values, has, lacks).unwrap(), (vec![0], vec![1]), "{values}");
    }
    let refused = labels("{big,small}", "big", "small").unwrap_err().to_string();
    assert!(refused.contains("label `a`") && refused.contains("`big`, `small`"), "{refused}");
}

#[test]
fn nominal_values_become_one_feature_each_or_a_number_and_never_silently() {
    let head = HEAD.replace("{no,yes}", "{red,green,blue}");
    let rows = format!("{head}1,0,0.5,green,0\n0,1,0,?,2\n{{0 1,3 blue}}\n{{0 1}}\n");
    let refused = read_with(rows.as_bytes(), None).unwrap_err().to_string();
    assert!(refused.contains("`g` has 3 nominal values") && refused.contains("one-hot"), "{refused}");
    let one_hot = read_encoded(rows.as_bytes(), None, Some(NominalEncoding::OneHot)).unwrap();
    assert_eq!(one_hot.feature_names.as_deref().unwrap(), ["f", "g=red", "g=green", "g=blue", "h"]);
    let row = |set: &DataSet, row| (features(set).row(row).to_vec(), features(set).row_values(row).to_vec());
    assert_eq!(row(&one_hot, 0), (vec![0, 2], vec![0.5, 1.0]));
    assert_eq!(row(&one_hot, 1), (vec![4], vec![2.0]));
    assert_eq!(row(&one_hot, 2), (vec![3], vec![1.0]));
    assert_eq!(row(&one_hot, 3), (vec![1], vec![1.0]), "an omitted value is the first one");
    let ordinal = read_encoded(rows.as_bytes(), None, Some(NominalEncoding::Ordinal)).unwrap();
    assert_eq!(row(&ordinal, 2), (vec![1], vec![2.0]));
    let wrong = format!("{head}1,0,0.5,pink,0\n");
    assert!(read_encoded(wrong.as_bytes(), None, Some(NominalEncoding::OneHot)).is_err());
}

#[test]
fn a_negative_count_selects_the_last_attributes_and_an_xml_file_takes_precedence() {
    let last = HEAD.replace("-C 2", "-C -1").replace("@attribute h real", "@attribute h {0,1}");
    let set = read_with(format!("{last}{{4 1}}\n").as_bytes(), None).unwrap();
    assert_eq!(set.label_names.as_deref().unwrap(), ["h"]);
    let xml = "<labels><label name=\"b c\"/></labels>";
    let set = read_with(format!("{HEAD}{{0 1}}\n").as_bytes(), Some(xml)).unwrap();
    assert_eq!(set.label_names.as_deref().unwrap(), ["b c"]);
    assert_eq!(features(&set).row(0), [0]);
}

#[test]
fn each_fault_is_reported_at_its_position() {
    for (row, line, column, part) in [
        ("1,0,0.5,yes\n", 10, 1, "4 values for 5 attributes"),
        ("1,0,0.5,yes,1,2\n", 10, 15, "more values"),
        ("1,0,x,yes,1\n", 10, 5, "`x` is not a number"),
        ("1,0,nan,yes,1\n", 10, 5, "finite"),
        ("1,0,1,maybe,1\n", 10, 7, "not a declared value of the attribute `g`"),
        ("?,0,1,no,1\n", 10, 1, "has no value"),
        ("{0 1\n", 10, 1, "must end with"),
        ("{9 1}\n", 10, 2, "only 5 attributes"),
        ("{0 1,-1 1}\n", 10, 6, "`index value`"),
        ("{0 1,2 1,0 1}\n", 10, 1, "occurs twice"),
        ("{2 }\n", 10, 3, "a value is missing"),
        ("{2 'x}\n", 10, 4, "quote"),
    ] {
        let error = read_with(format!("{HEAD}{row}").as_bytes(), None).unwrap_err();
        let DataError::Text(bad) = error else { panic!("{row}: {error}") };
        assert!(bad.reason.contains(part), "{row}: {}", bad.reason);
        assert_eq!((bad.line, bad.column), (line, column), "{row}");
    }
}

#[test]
fn an_unusable_header_is_refused() {
    let xml = "<labels><label name=\"z\"/></labels>";
    for (text, xml, part) in [
        (HEAD.replace("-C 2", ""), None, "which attributes are labels"),
        (HEAD.replace("-C 2", "-C 9"), None, "there are 5 attributes"),
        (HEAD.replace("@DATA\n", ""), None, "no line `@data`"),
        (HEAD.replace("h real", "h string"), None, "type `string`"),
        (HEAD.into(), None, "no rows"),
        (HEAD.into(), Some(xml), "no attribute for the label `z`"),
    ] {
        let message = read_with(text.as_bytes(), xml).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_sparse_row_may_not_omit_a_value_that_is_not_zero() {
    let head = HEAD.replace("@attribute a {0,1}", "@attribute a {1,0}");
    assert!(read_with(format!("{head}{{0 0}}\n").as_bytes(), None).is_err());
    assert!(read_with(format!("{head}1,0,0,no,0\n").as_bytes(), None).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn written_rows_are_read_back(rows in prop::collection::vec((0_u8..4, prop::num::f32::NORMAL, any::<bool>()), 1..20)) {
        let mut text = HEAD.to_owned();
        for (labels, value, dense) in &rows {
            let (a, b) = (labels & 1, labels >> 1);
            text.push_str(&if *dense {
                format!("{a},{b},{value},no,0\n")
            } else {
                format!("{{0 {a},1 {b},2 {value}}}\n")
            });
        }
        let set = read_with(text.as_bytes(), None).unwrap();
        for (row, (labels, value, _)) in rows.iter().enumerate() {
            let read = set.labels.row(row).iter().fold(0, |sum, &label| sum | 1_u8 << label);
            prop_assert_eq!((read, features(&set).row_values(row)), (*labels, &[*value][..]));
        }
    }

    #[test]
    fn a_corrupted_file_is_read_or_refused_without_panicking(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut: prop::sample::Index,
        xml in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut text = format!("{HEAD}1,0,0.5,yes,0\n{{0 1,2 'a b',3 \"no\"}}\n").into_bytes();
        for (at, byte) in changes {
            let at = at.index(text.len());
            text[at] = byte;
        }
        text.truncate(cut.index(2 * text.len()));
        let _ = read_with(&text, None);
        let _ = mulan::label_names(&[b"<labels><label name=", &xml[..]].concat());
    }
}
