use std::fs;

use super::*;

/// Writes files and inspects them. A name may be preceded by a role: `test=b.csv`.
fn inspected(files: &[(&str, &[u8])], wishes: &Wishes) -> Result<Inspection, String> {
    let temp = tempfile::tempdir().unwrap();
    let mut given = Vec::new();
    for (name, content) in files {
        let (role, name) = match name.split_once('=') {
            Some((role, name)) => (FileRole::named(role), name),
            None => (None, *name),
        };
        let path = temp.path().join(name);
        fs::write(&path, content).unwrap();
        given.push(GivenFile { role, path });
    }
    inspect(&given, wishes, &temp.path().join("scratch"), 1).map_err(|error| error.to_string())
}

fn table(name: &str, text: &str) -> Result<Inspection, String> {
    inspected(&[(name, text.as_bytes())], &Wishes::default())
}

fn columns(inspection: &Inspection) -> (Option<&str>, Option<&str>, Option<&str>) {
    let ReadOptions { input_column, label_column, label_separator, .. } = &inspection.read;
    (input_column.as_deref(), label_column.as_deref(), label_separator.as_deref())
}

const PACKAGES: &str = "package,description,tags
a1,a library for the first thing,\"lang::c, role::lib\"
b2,a program that does a second thing,\"role::program, lang::perl\"
c3,a library for the first thing,\"role::lib, lang::perl\"
d4,another program of this kind,\"lang::c, role::program\"
e5,,\"role::lib, lang::c, lang::perl\"
f6,the last one of them all,
";

#[test]
fn the_columns_and_the_separator_of_a_csv_file_are_found() {
    let found = table("packages.csv", PACKAGES).unwrap();
    assert_eq!(columns(&found), (Some("description"), Some("tags"), Some(",")));
    assert_eq!(found.columns, ["package", "description", "tags"]);
    assert_eq!((found.rows, found.label_counts.as_slice()), (6, &[3, 3, 3, 2][..]));
    assert_eq!((found.rows_without_labels, found.empty_rows, found.duplicates), (1, 1, 1));
    assert_eq!((found.median_rows_per_label(), found.labels_under(3)), (3, 1));
    assert!(!found.has_test_part() && !found.is_single_label());
}

#[test]
fn the_names_that_pipe_expects_need_no_options() {
    let found = table("x.csv", "id,text,labels\n1,one two,a;b\n2,three four,b\n").unwrap();
    assert_eq!(columns(&found), (None, None, None));
    let found =
        table("x.jsonl", "{\"text\": \"one\", \"labels\": [\"a\"]}\n{\"text\": \"two\", \"labels\": []}\n");
    assert_eq!(columns(&found.unwrap()), (None, None, None));
}

#[test]
fn a_list_in_json_is_the_labels_whatever_its_name() {
    let lines = "{\"n\": 3, \"title\": \"a longer text\", \"subject\": [\"x\", 7]}\n{\"title\": \"two\", \"subject\": null}\n";
    let found = table("x.jsonl", lines).unwrap();
    assert_eq!(columns(&found), (Some("title"), Some("subject"), None));
    assert_eq!((found.rows, found.rows_without_labels), (2, 1));
}

#[test]
fn a_column_that_repeats_is_the_labels_if_no_other_does() {
    let rows: String =
        (0..8).map(|n| format!("{n},words of row number {n},{}\n", ["up", "down"][n % 2])).collect();
    let found = table("x.csv", &format!("id,story,direction\n{rows}")).unwrap();
    assert_eq!(columns(&found), (Some("story"), Some("direction"), None));
    assert!(found.is_single_label());
}

#[test]
fn an_unclear_column_is_an_error_that_names_the_option_and_shows_the_columns() {
    let text = "title,tags,category\nwords and words,a;b,x\nmore and more,b,y\n";
    let error = table("x.csv", text).unwrap_err();
    assert!(error.contains("`--labels COLUMN`") && error.contains("`tags`, `category`"), "{error}");
    assert!(error.contains("category  2 different values, 1.0 words on average, such as `x`"), "{error}");
    let labels = Wishes { labels: Some("category".to_owned()), ..Wishes::default() };
    let found = inspected(&[("x.csv", text.as_bytes())], &labels).unwrap();
    assert_eq!(columns(&found), (Some("title"), Some("category"), None));

    let error =
        table("x.csv", "first,second,tags\none two,three four,a\nfive six,seven eight,b\n").unwrap_err();
    assert!(error.contains("`--text COLUMN`") && error.contains("`first`, `second`"), "{error}");
    let wrong = Wishes { text: Some("frist".to_owned()), ..Wishes::default() };
    let error = inspected(&[("x.csv", text.as_bytes())], &wrong).unwrap_err();
    assert!(error.contains("there is no column `frist`"), "{error}");
}

#[test]
fn a_first_row_of_data_and_names_that_are_there_twice_are_refused() {
    let rows = "red apple and pear,\"fruit, food\"\nblue sky at noon,weather\ngreen pear,\"food, fruit\"\n";
    let error = table("x.csv", rows).unwrap_err();
    assert!(error.contains("it seems to be data, because `fruit` also occurs below it"), "{error}");
    assert!(error.contains("Add a first row with names, such as `text,labels`"), "{error}");
    let wishes = Wishes {
        text: Some("red apple and pear".into()),
        labels: Some("fruit, food".into()),
        ..Wishes::default()
    };
    assert_eq!(inspected(&[("x.csv", rows.as_bytes())], &wishes).unwrap().rows, 2);

    // A text that happens to contain the name of its column.
    let rows = "text,labels\n\"this is the text of a row that has the words, text, and labels\",a\nmore,b\n";
    assert_eq!(table("x.csv", rows).unwrap().rows, 2);
    let error = table("x.csv", "text,labels,text\na b,x,c\nd e,y,f\n").unwrap_err();
    assert!(error.contains("more than one column is named `text`"), "{error}");
}

#[test]
fn labels_that_cannot_be_read_are_explained() {
    let error = table("x.csv", "text,tags\none,\"['a', 'b']\"\ntwo,['a']\n").unwrap_err();
    assert!(error.contains("contains lists, such as `['a', 'b']`"), "{error}");
    let error = table("x.csv", "comment,toxic,rude\none two,0,1\nthree four,1,0\n").unwrap_err();
    assert!(error.contains("`toxic`, `rude` contain only 0 and 1"), "{error}");
    let error = table("x.csv", "text,labels\none,\ntwo,\n").unwrap_err();
    assert!(error.contains("no row has a label"), "{error}");
}

#[test]
fn files_that_are_no_tables_at_all_are_refused() {
    for (text, part) in [("", "it is empty"), ("a,b\n", "it contains no rows"), ("hello\n", "not recognised")]
    {
        let error = table("x", text).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    let error = inspected(&[("x.csv", b"text,labels\ncaf\xe9,a\n")], &Wishes::default()).unwrap_err();
    assert!(error.contains("x.csv:2") && error.contains("not UTF-8"), "{error}");
    let error = table("x.csv", "text,labels\na\n").unwrap_err();
    assert!(error.contains("x.csv:2") && error.contains("1 columns"), "{error}");
}

#[test]
fn sparse_numbers_are_summarised() {
    let found = table("x.svm", "0,1 0:1 3:2\n1 0:1\n1 0:1\n 2:1\n").unwrap();
    assert_eq!(
        (found.format, found.input),
        (Format::Libsvm, InputSummary::Sparse { features: 4, counts: true })
    );
    assert_eq!((found.rows, found.duplicates, found.rows_without_labels), (4, 1, 1));
    let found = table("x.txt", "2 5 3\n0,1 0:1 4:0.5\n2 1:1\n").unwrap();
    assert_eq!(
        (found.format, found.input),
        (Format::Xmc, InputSummary::Sparse { features: 5, counts: false })
    );
    let columns = Wishes { labels: Some("tags".to_owned()), ..Wishes::default() };
    let error = inspected(&[("x.svm", b"0 1:1\n")], &columns).unwrap_err();
    assert!(error.contains("`--labels`") && error.contains("LIBSVM"), "{error}");
}

#[test]
fn nominal_attributes_are_read_as_one_feature_for_each_value() {
    let arff =
        "@relation 'x: -C 1'\n@attribute l {0,1}\n@attribute c {red,green,blue}\n@data\n1,red\n0,blue\n";
    let found = table("x.arff", arff).unwrap();
    assert_eq!(found.read.nominal, Some(NominalEncoding::OneHot));
    assert_eq!(found.input, InputSummary::Sparse { features: 3, counts: true });
    let plain = "@relation 'x: -C 1'\n@attribute l {0,1}\n@attribute c numeric\n@data\n1,3\n0,4\n";
    assert_eq!(table("x.arff", plain).unwrap().read.nominal, None);
    let error = table("x.arff", "@relation x\n@attribute c string\n@data\na\n").unwrap_err();
    assert!(!error.contains("one-hot"), "{error}");
}

/// Returns a NumPy file with a two-dimensional array of 32-bit floats.
fn npy(rows: &[&[f32]]) -> Vec<u8> {
    let header = format!(
        "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}\n",
        rows.len(),
        rows[0].len()
    );
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(rows.iter().flat_map(|row| row.iter().flat_map(|value| value.to_le_bytes())));
    bytes
}

#[test]
fn arrays_and_their_labels_are_told_apart_by_name_or_by_role() {
    let features = npy(&[&[0.5, 1.0, 2.0], &[0.5, 1.0, 2.0]]);
    let labels = npy(&[&[1.0, 0.0], &[1.0, 1.0]]);
    for (first, second) in
        [("X.npy", "y.npy"), ("rows=a.npy", "labels=b.npy"), ("X_train.npy", "y_train.npy")]
    {
        let found = inspected(&[(first, &features), (second, &labels)], &Wishes::default()).unwrap();
        assert_eq!(
            found.files.iter().map(|(role, _)| *role).collect::<Vec<_>>(),
            [FileRole::Rows, FileRole::Labels]
        );
        assert_eq!((found.input, found.duplicates), (InputSummary::Dense { features: 3 }, 1));
        assert_eq!(found.label_counts, [2, 1]);
    }
    let error = inspected(&[("X.npy", &features)], &Wishes::default()).unwrap_err();
    assert!(error.contains("`--data rows=X.npy labels=Y.npy`"), "{error}");
}

#[test]
fn training_and_test_files_are_told_apart_by_name_or_by_role() {
    let csv = b"text,labels\none two,a\nthree,b\n";
    let roles = |files: &[(&str, &[u8])]| -> Vec<&str> {
        let found = inspected(files, &Wishes::default()).unwrap();
        found.files.iter().map(|(role, _)| role.name()).collect()
    };
    assert_eq!(roles(&[("train.csv", csv), ("test.csv", csv)]), ["train", "test"]);
    assert_eq!(roles(&[("my_test.csv", csv), ("all.csv", csv)]), ["test", "train"]);
    assert_eq!(roles(&[("train=a.csv", csv), ("test=b.csv", csv)]), ["train", "test"]);
    assert_eq!(roles(&[("training.csv", csv)]), ["rows"]);
    assert_eq!(roles(&[("latest.csv", csv)]), ["rows"]);
    let found = inspected(&[("train.csv", csv), ("test.csv", csv)], &Wishes::default()).unwrap();
    assert!(found.has_test_part());
    assert_eq!(found.parts, [("train".to_owned(), 2), ("test".to_owned(), 2)]);
    let error = inspected(&[("a.csv", csv), ("b.csv", csv)], &Wishes::default()).unwrap_err();
    assert!(error.contains("`--data ROLE=FILE ...`") && error.contains("rows="), "{error}");
}

#[test]
fn only_test_rows_and_two_tables_are_refused() {
    let refused = |files: &[(&str, &[u8])]| inspected(files, &Wishes::default()).unwrap_err();
    let error = refused(&[("test=t.csv", b"text,labels\na b,x\n")]);
    assert!(error.contains("there are only test rows"), "{error}");
}

#[test]
fn texts_and_labels_in_two_tables_are_joined() {
    let texts = ("rows=notes.csv", &b"stay,row,text\n1,0,one two three\n2,1,four five six\n1,2,more\n"[..]);
    let codes = ("labels=codes.csv", &b"stay,code\n1,x\n2,y\n1,z\n"[..]);
    let found = inspected(&[texts, codes], &Wishes::default()).unwrap();
    assert_eq!(found.read.join_column.as_deref(), Some("stay"));
    assert_eq!((columns(&found), found.rows), ((None, Some("code"), None), 2));
    assert_eq!(found.label_counts, [1, 1, 1]);

    let several = ("labels=codes.csv", &b"row,stay,code,count\n0,1,x,1\n1,2,y,2\n"[..]);
    let refused = |codes: (&str, &[u8]), wishes: Wishes| inspected(&[texts, codes], &wishes).unwrap_err();
    let error = refused(several, Wishes::default());
    assert!(
        error.contains("`--join COLUMN`: `stay`, `row`") || error.contains("`stay` and `row`"),
        "{error}"
    );
    let join = |name: &str| Wishes { join: Some(name.into()), ..Wishes::default() };
    let error = refused(several, join("stay"));
    assert!(error.contains("which column contains the labels") && error.contains("count"), "{error}");
    let wishes = Wishes { labels: Some("code".into()), ..join("stay") };
    assert_eq!(inspected(&[texts, several], &wishes).unwrap().read.join_column.as_deref(), Some("stay"));
    let error = refused(("labels=codes.csv", b"visit,code\n1,x\n"), Wishes::default());
    assert!(error.contains("no column in common") && error.contains("visit"), "{error}");
    let error = inspected(&[("a.csv", b"text,labels\na b,x\n")], &join("text")).unwrap_err();
    assert!(error.contains("`--join` is for texts and labels in two files"), "{error}");
}

#[test]
fn a_separator_that_was_missed_is_noted() {
    let wishes = Wishes { separator: Some("|".into()), ..Wishes::default() };
    let found = inspected(&[("a.csv", PACKAGES.as_bytes())], &wishes).unwrap();
    assert_eq!(found.missed_separator, Some(','));
    assert_eq!(table("a.csv", PACKAGES).unwrap().missed_separator, None);
}

#[test]
fn labels_of_json_lines_that_look_like_lists_in_one_text_are_noted_and_a_separator_is_refused() {
    let lines = |labels: [&str; 3]| -> String {
        let line = |label: &&str| format!("{{\"text\": \"some words\", \"tags\": {label}}}\n");
        labels.iter().map(line).collect()
    };
    let missed = |labels| table("a.jsonl", &lines(labels)).unwrap().missed_separator;
    assert_eq!(missed(["\"a; b\"", "\"b\"", "\"a;c\""]), Some(';'));
    assert_eq!(missed(["\"a\"", "\"b\"", "null"]), None);
    assert_eq!(missed(["[\"a; b\"]", "[\"b\"]", "[\"a;c\"]"]), None, "a list needs no separator");
    let wishes = Wishes { separator: Some(";".into()), ..Wishes::default() };
    let error = inspected(&[("a.jsonl", lines(["\"a;b\"", "\"b\"", "\"a\""]).as_bytes())], &wishes);
    assert!(error.unwrap_err().contains("`--separator` is for CSV"));
}

#[test]
fn the_error_of_an_arff_file_is_the_real_one() {
    let text =
        "@relation r\n@attribute c {red,blue}\n@attribute x numeric\n@attribute y {0,1}\n@data\nred,oops,1\n";
    let error = table("a.arff", text).unwrap_err();
    assert!(!error.contains("nominal"), "{error}");
}
