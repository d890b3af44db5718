//! Tests with real data sets, and tests of what must not change an artifact.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::data::artifact::DataSet;
use crate::data::compress::tests::{bzip2, gzip, sample, zstd};
use crate::data::csr::Features;
use crate::data::source::SourcePart;

/// Returns the path of a file of a real data set; prints a message and returns `None` if it does not exist.
fn real(set: &str, file: &str) -> Option<PathBuf> {
    let fallback = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let directory = std::env::var_os("PIPE_DATA_DIR").map_or_else(fallback, PathBuf::from);
    let path = directory.join(set).join(file);
    if !path.exists() {
        println!("skipped: {set}/{file} is not in the data directory (set PIPE_DATA_DIR)");
        return None;
    }
    Some(path)
}

fn read_mulan(set: &str) -> Option<(DataSet, tempfile::TempDir)> {
    let part = |name: &str| Some((name.to_owned(), real(set, &format!("{set}-{name}.arff"))?));
    let mut source = DataSource::parts([part("train")?, part("test")?]);
    source.label_xml = Some(real(set, &format!("{set}.xml"))?);
    let temp = tempfile::tempdir().unwrap();
    match read(&source, &ReadOptions::default(), temp.path(), 2).unwrap() {
        RawData::Set(data) => Some((data, temp)),
        RawData::Text(_) => panic!("numbers were expected"),
    }
}

/// Returns the numbers of training rows, test rows, features and labels.
fn counts(set: &DataSet) -> (usize, usize, usize, usize) {
    let rows = |name| set.part(name).unwrap().rows.len();
    (rows("train"), rows("test"), set.features.cols(), set.labels.cols)
}

#[test]
fn bibtex_has_its_published_counts() {
    let Some((set, _temp)) = read_mulan("bibtex") else { return };
    assert_eq!(counts(&set), (4880, 2515, 1836, 159));
    let per_row = set.labels.entries() as f64 / set.rows() as f64;
    assert_eq!(format!("{per_row:.2}"), "2.40");
}

#[test]
fn delicious_has_all_of_its_983_labels_and_14_rows_without_any() {
    let Some((set, _temp)) = read_mulan("delicious") else { return };
    assert_eq!(counts(&set), (12_920, 3185, 500, 983));
    assert_eq!(set.report.rows_without_labels, 14);
    let names = set.label_names.as_deref().unwrap();
    assert!(
        names.iter().any(|name| name == r"TAG_m\'usica") && names.iter().any(|name| name == "TAG_musica")
    );
    let per_row = set.labels.entries() as f64 / set.rows() as f64;
    assert_eq!(format!("{per_row:.2}"), "19.02");
}

#[test]
fn medical_has_the_labels_of_the_xml_file_and_not_those_of_the_relation() {
    let Some((set, _temp)) = read_mulan("medical") else { return };
    assert_eq!(counts(&set), (333, 645, 1449, 45));
    assert_eq!(set.label_names.as_deref().unwrap()[0], "Class-0-593_70");
}

#[test]
fn citeulike_has_its_published_counts() {
    let file = |name| real("citeulike-t", name);
    let (Some(data), Some(labels), Some(tags), Some(words)) =
        (file("mult.dat"), file("tag-item.dat"), file("tags.dat"), file("vocabulary.dat"))
    else {
        return;
    };
    let source = DataSource {
        parts: vec![SourcePart { name: "all".into(), data, labels: Some(labels) }],
        label_names: Some(tags),
        feature_names: Some(words),
        ..DataSource::default()
    };
    let temp = tempfile::tempdir().unwrap();
    let RawData::Set(set) = read(&source, &ReadOptions::default(), temp.path(), 2).unwrap() else { panic!() };
    assert_eq!((set.rows(), set.features.cols(), set.labels.cols), (25_975, 20_000, 52_946));
    let mut uses = vec![0; set.labels.cols];
    for &label in set.labels.indices.iter() {
        uses[label as usize] += 1;
    }
    assert_eq!(uses.iter().filter(|&&count| count >= 3).count(), 13_883);
}

/// Returns the bytes of every file of an artifact.
fn bytes(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(directory).unwrap().map(|entry| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    });
    let mut files: Vec<_> = files.collect();
    files.sort();
    files
}

#[test]
fn path_compression_and_thread_count_do_not_change_the_artifact() {
    let text = sample().repeat(6);
    let temp = tempfile::tempdir().unwrap();
    let artifact = |name: &str, content: &[u8], threads: usize| {
        let path = temp.path().join(name);
        let out = temp.path().join(format!("{name}.out"));
        fs::write(&path, content).unwrap();
        read(&DataSource::file(path), &ReadOptions::default(), &out, threads).unwrap();
        bytes(&out)
    };
    let plain = artifact("plain.svm", &text, 1);
    assert_eq!(artifact("other-name", &text, 3), plain);
    assert_eq!(artifact("a.gz", &gzip(&text), 2), plain);
    assert_eq!(artifact("a.bz2", &bzip2(&text), 2), plain);
    assert_eq!(artifact("a.zst", &zstd(&text), 5), plain);
}

#[test]
fn missing_files_and_parts_in_different_formats_are_errors() {
    let temp = tempfile::tempdir().unwrap();
    let path = |name: &str| temp.path().join(name);
    fs::write(path("a"), "1 1:1\n").unwrap();
    fs::write(path("b"), "@relation x\n").unwrap();
    let message = |source: &DataSource| {
        let out = path("out");
        read(source, &ReadOptions::default(), &out, 1).unwrap_err().to_string()
    };
    assert!(message(&DataSource::file(path("none"))).contains("cannot open"));
    assert!(message(&DataSource::file(temp.path())).contains("directory"));
    assert!(message(&DataSource::default()).contains("at least one file"));
    let unlike = message(&DataSource::parts([("train", path("a")), ("test", path("b"))]));
    assert!(unlike.contains("looks like LIBSVM, but") && unlike.contains("looks like ARFF"), "{unlike}");
}

#[test]
fn a_data_set_that_was_read_can_be_opened() {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("a"), "1,2 1:0.5\n2 7:1\n").unwrap();
    let out = temp.path().join("out");
    let RawData::Set(set) =
        read(&DataSource::file(temp.path().join("a")), &ReadOptions::default(), &out, 1).unwrap()
    else {
        panic!()
    };
    assert!(matches!(set.features, Features::Sparse(_)));
    let opened = DataSet::open(&out, crate::data::artifact::ArtifactCheck::Deep).unwrap();
    assert_eq!(opened, set);
}
