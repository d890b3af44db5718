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
fn rows_that_are_to_be_predicted_are_joined_and_filtered_like_training_rows() {
    let options = ReadOptions {
        unlabelled: true,
        join_column: Some("stay".into()),
        id_column: Some("stay".into()),
        only: [("kind".to_owned(), "summary".to_owned()), ("seq".to_owned(), "1".to_owned())].into(),
        ..Default::default()
    };
    let notes =
        b"stay,kind,text\n7,summary,one\n9,plan,two\n8,summary,three\n7,summary,four\n,summary,five\n";
    let text = read_with(notes, &options).unwrap();
    assert_eq!(
        (text.texts, text.ids.unwrap()),
        (vec!["one\nfour".into(), "three".into()], vec!["7".into(), "8".into()])
    );
    assert!(text.warnings[0].contains("rows without a `stay`") && text.warnings[0].ends_with(": 1"));
    assert!(text.warnings[1].contains("there is no column `seq`"), "{:?}", text.warnings);
    let error = |content: &[u8]| read_with(content, &options).unwrap_err().to_string();
    assert!(error(b"key,text\n7,one\n").contains("there is no column `stay`; the columns are: key, text"));
    assert!(error(b"stay,kind,text\n7,plan,one\n").contains("no row has a `stay` and the values of `only`"));
    assert!(error(b"{\"stay\": 7, \"text\": \"one\"}\n").contains("needs CSV with this column"));
}

#[test]
fn labels_of_rows_that_are_to_be_predicted_are_ignored_whatever_they_are() {
    let options = ReadOptions { unlabelled: true, ..Default::default() };
    assert_eq!(read_with(b"{\"text\": \"a\", \"labels\": {\"x\": 1}}\n", &options).unwrap().texts, ["a"]);
    assert_eq!(read_with(b"text,labels,labels\na,b,c\n", &options).unwrap().texts, ["a"]);
}

#[test]
fn utf_16_is_called_by_its_name() {
    let text: Vec<u8> = "\u{feff}text,labels\na,b\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for options in [ReadOptions::default(), ReadOptions { format: Some(Format::Csv), ..Default::default() }] {
        let error = read_with(&text, &options).unwrap_err().to_string();
        assert!(error.contains("UTF-16") && error.contains("iconv"), "{error}");
    }
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
    let refused = read_with(
        b"{\"text\": \"a\", \"labels\": \"b|c\"}",
        &ReadOptions { input_column: None, label_column: None, ..options },
    );
    assert!(refused.unwrap_err().to_string().contains("a separator of labels is for CSV"));
}

#[test]
fn each_fault_is_reported_at_its_position() {
    for (content, format, part) in [
        ("text,tags\na,b\n", Format::Csv, "x:1:1: there is no column `labels`; the columns are: text, tags"),
        ("text,tags\na,b\n", Format::Csv, "; `read: { label_column: NAME }` names another one"),
        ("body,labels\na,b\n", Format::Csv, "; `read: { input_column: NAME }` names another one"),
        ("text,labels\na,b\nc\n", Format::Csv, "x:3:1: this row has 1 columns, but the first row has 2"),
        ("text,labels\r\n\r\na,b\r\nc\r\n", Format::Csv, "x:4:1: this row has 1 columns"),
        (
            "text,labels\na,b\n\"c,d\ne,f\n",
            Format::Csv,
            "x:3:1: a quote that is opened in this row is not closed",
        ),
        ("text,labels\na,\"b", Format::Csv, "x:2:1: a quote that is opened in this row is not closed"),
        ("\"text,labels\n", Format::Csv, "x:1:1: a quote that is opened in this row is not closed"),
        ("\n\r\n", Format::Csv, "it contains only blank lines, but the first row has to name the columns"),
        ("text,labels\n", Format::Csv, "contains no rows"),
        (
            "{\"text\": \"a\", \"labels\": []}\n{\"text\": 3, \"labels\": []}\n",
            Format::Jsonl,
            "x:2:1: the field `text`",
        ),
        ("{\"text\": \"a\"}\n", Format::Jsonl, "no field `labels`; `read: { label_column: NAME }`"),
        ("{\"text\": \"a\", \"labels\": [1.5]}\n", Format::Jsonl, "not a list"),
        (
            "{\"text\": \"a\", \"labels\": [\"b\", \" c\"]}\n",
            Format::Jsonl,
            "x:1:1: the label \" c\" is empty, or has blanks",
        ),
        ("{\"text\": \"a\", \"labels\": \"\"}\n", Format::Jsonl, "the label \"\" is empty"),
        ("{\"text\": \"a\",\n", Format::Jsonl, "x:1:"),
        ("[]\n", Format::Jsonl, "x:1:1: invalid type: sequence, expected an object with a text and labels"),
        (
            "{\"text\": \"a\", \"labels\": [], \"text\": \"b\"}\n",
            Format::Jsonl,
            "more than one field is named `text`",
        ),
    ] {
        let message = message(content, format);
        assert!(message.contains(part), "{message}");
    }
    let broken =
        read_with(b"text,labels\n\xff,a\n", &ReadOptions { format: Some(Format::Csv), ..Default::default() });
    assert!(broken.unwrap_err().to_string().contains("x:2:1: this is not UTF-8"));
}

#[test]
fn a_column_whose_name_is_not_unique_or_not_there_is_refused() {
    for (content, part) in [
        ("text,labels,text\na,b,c\n", "x:1:1: more than one column is named `text`: rename the others"),
        ("labels,text,labels\na,b,c\n", "more than one column is named `labels`"),
        (
            "red apple,fruit\nblue sky,weather\n",
            "the columns are: red apple, fruit (the first row names them)",
        ),
    ] {
        let message = message(content, Format::Csv);
        assert!(message.contains(part), "{message}");
    }
    let many = "word ".repeat(20) + ",y" + &",z".repeat(30) + "\na,b\n";
    let message = message(&many, Format::Csv);
    assert!(message.contains("are: word word word word word word word word ..., y, z"), "{message}");
    assert!(message.contains("z and 12 more"), "{message}");
    // A column that is not read may be there twice.
    assert_eq!(read_text("text,note,note,labels\na,b,c,d\n").label_names, ["d"]);
}

/// Text without an end, which must not be read to its end.
struct Endless<'a> {
    start: &'a [u8],
    rest: u8,
    read: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl std::io::Read for Endless<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut read = std::io::Read::read(&mut self.start, buffer)?;
        if read == 0 {
            buffer.fill(self.rest);
            read = buffer.len();
        }
        self.read.fetch_add(read, std::sync::atomic::Ordering::Relaxed);
        Ok(read)
    }
}

#[test]
fn a_row_that_is_too_long_is_refused_before_it_is_read_to_its_end() {
    let columns = TextColumns {
        text: "text",
        labels: "labels",
        id: None,
        label_separator: ";",
        labels_are_optional: false,
    };
    for (start, format) in [
        ("text,labels\nshort,a\nxx", Format::Csv),
        ("text,labels\nshort,a\n\"xx", Format::Csv),
        ("{\"text\": \"short\", \"labels\": []}\n{\"text\": \"xx", Format::Jsonl),
    ] {
        let read = std::sync::Arc::default();
        let endless = Endless { start: start.as_bytes(), rest: b'x', read: std::sync::Arc::clone(&read) };
        let input =
            crate::data::compress::InputFile::from_reader(std::path::Path::new("x"), endless).unwrap();
        let text = TableText::with_longest_row(input, 1 << 20).unwrap();
        let rows =
            if format == Format::Csv { csv::rows(text, &columns) } else { jsonl::rows(text, &columns) };
        assert_eq!(rows.unwrap_err().to_string(), format!("x: {}", stream::TOO_LONG));
        let read = read.load(std::sync::atomic::Ordering::Relaxed);
        assert!(read < 2 << 20, "{read} bytes were read");
    }
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("x.csv");
    let long = "x".repeat(200_000);
    let many = "text,labels\n".to_owned() + &"short,a\n".repeat(50_000);
    let lines = "x\n".repeat(100_000);
    let read = |content: &str| {
        fs::write(&path, content).unwrap();
        let input = crate::data::compress::InputFile::open(&path, 1).unwrap();
        csv::rows(TableText::with_longest_row(input, 100_000).unwrap(), &columns)
    };
    assert_eq!(read(&many).unwrap().len(), 50_000);
    for row in [format!("{long},b\n"), format!("\"{long}\",b\n"), format!("\"{lines}\",b\n")] {
        for end in ["\n", "\r\n", "\n\n\n"] {
            let line = 2 + end.matches('\n').count();
            let message = read(&format!("text,labels\nshort,a{end}{row}short,c\n")).unwrap_err().to_string();
            assert!(
                message.contains(&format!("x.csv:{line}:1: this row is longer than 64 MB\n  | ")),
                "{message}"
            );
        }
    }
}

#[test]
fn text_that_is_not_utf8_is_found_wherever_it_is() {
    // Around the size of the pieces that are read, also inside of a character.
    for at in [0, 65_534, 65_535, 65_536, 65_537, 131_072] {
        for (bad, after) in [(&b"\xff"[..], "x"), (b"\xe4\xb8", "x"), (b"\xe4\xb8", "")] {
            let header = b"text,labels\n";
            let mut content = header.to_vec();
            content.extend("\u{e4}".repeat(at / 2 + 1).bytes().take(at / 2 * 2));
            content.extend(bad);
            content.extend(after.bytes());
            let options = ReadOptions { format: Some(Format::Csv), ..Default::default() };
            let message = read_with(&content, &options).unwrap_err().to_string();
            let column = at / 2 * 2 + 1;
            assert!(message.contains(&format!("x:2:{column}: this is not UTF-8 text")), "{at}: {message}");
        }
    }
    let whole = "text,labels\n".to_owned() + &"\u{e4}\u{4e2d}".repeat(60_000) + ",a\n";
    assert_eq!(read_text(&whole).texts[0].chars().count(), 120_000);
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
    let left_out =
        "the join by `hadm_id` leaves out texts without labels (1) and keys of labels without a text (0)";
    assert_eq!(text.warnings, [left_out]);
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

#[test]
fn a_file_of_labels_is_not_ignored() {
    let options = ReadOptions { join_column: None, ..Default::default() };
    let error = joined("text,labels\na b,x\n", "id,labels\n1,y\n", &options).unwrap_err();
    assert!(error.contains("add `read: { join_column: NAME }`"), "{error}");
}
