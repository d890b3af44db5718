use std::fs;

use proptest::prelude::*;

use super::*;
use crate::data::read::read;
use crate::data::source::{DataSource, RawData, ReadOptions};

fn read_with(content: &[u8], options: &ReadOptions) -> Result<RawText, DataError> {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("x");
    fs::write(&path, content).unwrap();
    match read(&DataSource::file(path), options, &temp.path().join("set"), 1)? {
        RawData::Text(text) => Ok(text),
        RawData::Set(_) => panic!("text was expected"),
    }
}

fn read_text(content: &str) -> RawText {
    read_with(content.as_bytes(), &ReadOptions::default()).unwrap()
}

fn message(content: &str, format: Format) -> String {
    let options = ReadOptions { format: Some(format), ..Default::default() };
    read_with(content.as_bytes(), &options).unwrap_err().to_string()
}

#[test]
fn an_empty_text_in_a_file_with_one_column_is_a_row() {
    let options = ReadOptions { format: Some(Format::Csv), unlabelled: true, ..Default::default() };
    let text = read_with(b"text\r\nperl\r\n\"\"\r\n\r\npython\r\n\"\"", &options).unwrap();
    assert_eq!(text.texts, ["perl", "", "python", ""]);
}

#[test]
fn the_same_rows_as_csv_and_as_json_lines_are_read_the_same() {
    let csv = read_text(
        "id,text,labels\r\n1,\"He said \"\"no\"\",\nthen left\",b; a\r\n2,plain,\r\n\r\n3,x,a;a\r\n",
    );
    let json = read_text(
        "{\"text\": \"He said \\\"no\\\",\\nthen left\", \"labels\": [\"b\", \"a\"]}\n\n\
         {\"text\": \"plain\", \"labels\": []}\n{\"labels\": [\"a\", \"a\"], \"text\": \"x\"}",
    );
    assert_eq!((&csv.texts, &csv.labels, &csv.label_names), (&json.texts, &json.labels, &json.label_names));
    assert_eq!(csv.texts, ["He said \"no\",\nthen left", "plain", "x"]);
    assert_eq!(csv.label_names, ["b", "a"]);
    assert_eq!((csv.labels.row(0), csv.labels.row(1), csv.labels.row(2)), (&[0, 1][..], &[][..], &[1][..]));
    assert_eq!(csv.report.rows_without_labels, 1);
    assert_eq!(csv.report.repairs.get(Repair::RepeatedLabelsDropped), 1);
}

#[test]
fn columns_and_separators_can_be_chosen_and_labels_can_be_numbers() {
    let options = ReadOptions {
        input_column: Some("body".into()),
        label_column: Some("tags".into()),
        label_separator: Some("|".into()),
        ..Default::default()
    };
    let text = read_with(b"tags\tbody\nx|y\thello, world\n", &options).unwrap();
    assert_eq!(
        (text.texts[0].as_str(), text.label_names.as_slice()),
        ("hello, world", &["x".into(), "y".into()][..])
    );
    assert_eq!(read_text("{\"text\": \"a\", \"labels\": [3, 7]}").label_names, ["3", "7"]);
    assert_eq!(read_text("{\"text\": \"a\", \"labels\": \"one\"}").label_names, ["one"]);
}

#[test]
fn each_fault_is_reported_at_its_position() {
    for (content, format, part) in [
        ("text,tags\na,b\n", Format::Csv, "x:1:1: there is no column `labels`; the columns are: text, tags"),
        ("text,labels\na,b\nc\n", Format::Csv, "x:3:1: this row has 1 columns, but the first row has 2"),
        ("text,labels\r\n\r\na,b\r\nc\r\n", Format::Csv, "x:4:1: this row has 1 columns"),
        (
            "text,labels\na,b\n\"c,d\ne,f\n",
            Format::Csv,
            "x:3:1: a quote that is opened in this row is not closed",
        ),
        ("text,labels\na,\"b", Format::Csv, "x:2:1: a quote that is opened in this row is not closed"),
        ("\"text,labels\n", Format::Csv, "x:1:1: a quote that is opened in this row is not closed"),
        ("\n\n", Format::Csv, "there is no column `text`"),
        ("text,labels\n", Format::Csv, "contains no rows"),
        (
            "{\"text\": \"a\", \"labels\": []}\n{\"text\": 3, \"labels\": []}\n",
            Format::Jsonl,
            "x:2:1: the field `text`",
        ),
        ("{\"text\": \"a\"}\n", Format::Jsonl, "no field `labels`"),
        ("{\"text\": \"a\", \"labels\": [1.5]}\n", Format::Jsonl, "not a list"),
        ("{\"text\": \"a\",\n", Format::Jsonl, "x:1:"),
        ("[]\n", Format::Jsonl, "no field `text`"),
    ] {
        let message = message(content, format);
        assert!(message.contains(part), "{message}");
    }
    let broken =
        read_with(b"text,labels\n\xff,a\n", &ReadOptions { format: Some(Format::Csv), ..Default::default() });
    assert!(broken.unwrap_err().to_string().contains("x:2:1: this is not UTF-8"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_quoted_text_is_read_back_from_csv(rows in prop::collection::vec(("[ -~\n\u{e4}\u{4e2d}]{1,20}", "[a-z]{1,5}"), 1..10)) {
        let mut csv = "text,labels\n".to_owned();
        for (text, label) in &rows {
            csv.push_str(&format!("\"{}\",{label}\n", text.replace('"', "\"\"")));
        }
        let options = ReadOptions { format: Some(Format::Csv), ..Default::default() };
        let read = read_with(csv.as_bytes(), &options).unwrap();
        prop_assert_eq!(read.texts, rows.into_iter().map(|(text, _)| text).collect::<Vec<_>>());
    }

    #[test]
    fn any_bytes_are_read_or_refused_without_panicking(
        bytes in prop::collection::vec(any::<u8>(), 0..80),
        text in "text,labels\n[\",;\r\na\u{e4}]{0,30}",
    ) {
        for format in [Format::Csv, Format::Jsonl] {
            let options = ReadOptions { format: Some(format), ..Default::default() };
            let _ = read_with(&bytes, &options);
            let _ = read_with(text.as_bytes(), &options);
            let _ = read_with(&[b"{\"text\":", &bytes[..]].concat(), &options);
        }
    }
}

const NOTES: &str = "\
\"ROW_ID\",\"SUBJECT_ID\",\"HADM_ID\",\"CHARTDATE\",\"CHARTTIME\",\"STORETIME\",\"CATEGORY\",\"DESCRIPTION\",\"CGID\",\"ISERROR\",\"TEXT\"
1,10,100,2150-01-02,,,\"Discharge summary\",\"Report\",,,\"Chest pain,\nno fever.\"
2,10,100,2150-01-01,,,\"Nursing\",\"Report\",,,\"slept well\"
3,11,101,2150-02-02,,,\"Discharge summary\",\"Report\",,,\"Fracture.\"
4,10,100,2150-01-03,,,\"Discharge summary\",\"Addendum\",,,\"Aspirin given.\"
5,12,,2150-03-03,,,\"Discharge summary\",\"Report\",,,\"no admission\"
6,13,103,2150-04-04,,,\"Discharge summary\",\"Report\",,,\"no code\"
";
const DIAGNOSES: &str = "\
\"ROW_ID\",\"SUBJECT_ID\",\"HADM_ID\",\"SEQ_NUM\",\"ICD9_CODE\"
1,11,101,1,\"8208\"
2,10,100,1,\"41401\"
3,10,100,2,\"4019\"
4,13,103,1,\"\"
5,11,101,2,\"4019\"
6,14,104,1,\"V3000\"
";

fn joined(notes: &str, diagnoses: &str, options: &ReadOptions) -> Result<RawText, String> {
    let temp = tempfile::tempdir().unwrap();
    let path = |name: &str| temp.path().join(name);
    fs::write(path("notes.csv"), notes).unwrap();
    fs::write(path("codes.csv"), diagnoses).unwrap();
    let mut source = DataSource::file(path("notes.csv"));
    source.parts[0].labels = Some(path("codes.csv"));
    match read(&source, options, &path("set"), 1).map_err(|error| error.to_string())? {
        RawData::Text(text) => Ok(text),
        RawData::Set(_) => panic!("text was expected"),
    }
}

fn mimic(text: &str, label: &str, key: &str, only: &[(&str, &str)]) -> ReadOptions {
    ReadOptions {
        input_column: Some(text.into()),
        label_column: Some(label.into()),
        join_column: Some(key.into()),
        only: only.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        ..Default::default()
    }
}

#[test]
fn notes_and_codes_of_an_admission_become_one_row() {
    let options = mimic("TEXT", "ICD9_CODE", "HADM_ID", &[("CATEGORY", "Discharge summary")]);
    let text = joined(NOTES, DIAGNOSES, &options).unwrap();
    assert_eq!(text.texts, ["Chest pain,\nno fever.\nAspirin given.", "Fracture."]);
    assert_eq!(text.label_names, ["41401", "4019", "8208"]);
    assert_eq!((text.labels.row(0), text.labels.row(1)), (&[0, 1][..], &[1, 2][..]));

    let notes = "note_id,subject_id,hadm_id,note_type,note_seq,charttime,storetime,text\n\
                 a,1,20,DS,1,,,one\nb,1,21,DS,2,,,two\n";
    let codes = "subject_id,hadm_id,seq_num,icd_code,icd_version\n1,20,1,I10,10\n1,21,1,4019,9\n";
    let options = mimic("text", "icd_code", "hadm_id", &[("icd_version", "10")]);
    let text = joined(notes, codes, &options).unwrap();
    assert_eq!((text.texts, text.label_names), (vec!["one".to_owned()], vec!["I10".to_owned()]));
}

#[test]
fn a_wrong_column_of_a_join_is_named_with_its_file() {
    let error = |options| joined(NOTES, DIAGNOSES, &options).unwrap_err();
    let wrong_key = error(mimic("TEXT", "ICD9_CODE", "HADM", &[]));
    assert!(wrong_key.contains("codes.csv") && wrong_key.contains("no column `HADM`"), "{wrong_key}");
    let wrong_text = error(mimic("NOTE", "ICD9_CODE", "HADM_ID", &[]));
    assert!(wrong_text.contains("notes.csv") && wrong_text.contains("no column `NOTE`"), "{wrong_text}");
    let wrong_filter = error(mimic("TEXT", "ICD9_CODE", "HADM_ID", &[("KIND", "x")]));
    assert!(wrong_filter.contains("`KIND` of `only`"), "{wrong_filter}");
    let none = error(mimic("TEXT", "ICD9_CODE", "HADM_ID", &[("CATEGORY", "Radiology")]));
    assert!(none.contains("no rows"), "{none}");
    let alone = read_with(NOTES.as_bytes(), &mimic("TEXT", "ICD9_CODE", "HADM_ID", &[])).unwrap_err();
    assert!(alone.to_string().contains("needs a file of labels"), "{alone}");
}
