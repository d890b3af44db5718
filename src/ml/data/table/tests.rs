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
