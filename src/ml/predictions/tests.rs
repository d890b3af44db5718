use std::io::Write;

use super::*;

fn expected() -> ExpectedPredictions {
    let label_names = Some(["cat", "dog", "a, b"].map(str::to_owned).to_vec());
    ExpectedPredictions { rows: 3, labels: 3, label_names, threshold: None }
}

fn cut_at(threshold: f32) -> ExpectedPredictions {
    ExpectedPredictions { threshold: Some(threshold), ..expected() }
}

/// Reads predictions and returns one block with all rows.
fn read(expected: &ExpectedPredictions, bytes: &[u8]) -> Result<(DecisionBlock, PredictionSummary), String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let mut whole = DecisionBlock::default();
    let summary = expected.read::<DataError>(file.path(), 1, |block| {
        assert_eq!(block.first, whole.rows);
        whole.rows += block.rows;
        whole.scores.extend(&block.scores);
        whole.probabilities.extend(&block.probabilities);
        whole.predicted.extend(block.predicted.iter().cloned());
        whole.thresholds = block.thresholds.clone();
        Ok(())
    });
    let path = file.path().display().to_string();
    summary.map(|summary| (whole, summary)).map_err(|error| error.to_string().replace(&path, "FILE"))
}

fn fault(expected: &ExpectedPredictions, bytes: &[u8]) -> String {
    read(expected, bytes).unwrap_err()
}

/// Returns an npy file of version 1.
fn npy(kind: &str, shape: &str, numbers: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}\n");
    let length = (header.len() as u16).to_le_bytes();
    [&b"\x93NUMPY\x01\x00"[..], &length, header.as_bytes(), numbers].concat()
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn integers(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn npz(arrays: &[(&str, Vec<u8>)], method: zip::CompressionMethod) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in arrays {
        let options = zip::write::FileOptions::default().compression_method(method);
        archive.start_file(format!("{name}.npy"), options).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

#[test]
fn decisions_are_listed_by_name_or_index_in_any_order() {
    let (block, summary) = read(&expected(), b"row,label\n2,dog\n0,\"a, b\"\n0,0\n").unwrap();
    assert_eq!(block.predicted, [vec![0, 2], vec![], vec![1]]);
    assert_eq!((block.scores.len(), block.thresholds), (0, Thresholds::None));
    assert_eq!(summary.absent_rows, 1);
}

#[test]
fn a_name_that_two_labels_have_is_refused() {
    let names = ["cat", "cat", "dog"].map(str::to_owned);
    let expected = ExpectedPredictions { label_names: Some(names.into()), ..expected() };
    let error = fault(&expected, b"row,label\n0,cat\n");
    assert!(error.contains("several labels are called `cat`"), "{error}");
    assert_eq!(read(&expected, b"row,label\n0,1\n").unwrap().0.predicted[0], [1]);
}

#[test]
fn probabilities_are_cut_at_one_half_and_other_scores_at_the_threshold() {
    let text = b"label,score,row\ncat,0.5,0\ndog,0.75,0\n2,1,1\n0,0.25,2\n";
    let (block, summary) = read(&expected(), text).unwrap();
    assert_eq!(block.predicted, [vec![1], vec![2], vec![]]);
    assert_eq!(block.scores[..3], [0.5, 0.75, f32::NEG_INFINITY]);
    assert_eq!(block.probabilities[..3], [0.5, 0.75, 0.0]);
    assert_eq!((block.thresholds, summary.absent_rows), (Thresholds::PerLabel(vec![0.5; 3]), 0));

    let text = b"row,label,score\n0,0,-1.5\n1,0,0\n2,0,0.125\n";
    let (block, _) = read(&cut_at(0.0), text).unwrap();
    assert_eq!((block.predicted, block.probabilities.len()), (vec![vec![], vec![], vec![0]], 0));
    let error = fault(&expected(), text);
    assert!(error.starts_with("FILE: line 2: the score -1.5 is not a probability"), "{error}");
    assert!(error.contains("`threshold: 0` for margins"), "{error}");
}

#[test]
fn scores_next_to_decisions_only_rank_the_labels() {
    let text = b"row,label,score,predicted\n0,cat,-3,True\n0,dog,7,false\n1,cat,1,0\n2,dog,2,1\n";
    let (block, _) = read(&expected(), text).unwrap();
    assert_eq!(block.predicted, [vec![0], vec![], vec![1]]);
    assert_eq!(block.scores[..2], [-3.0, 7.0]);
    assert_eq!((block.probabilities.len(), block.thresholds), (0, Thresholds::None));
    let (block, _) = read(&expected(), b"row,label,predicted\n0,cat,0\n0,dog,1\n").unwrap();
    assert_eq!(block.predicted, [vec![1], vec![], vec![]]);
}

#[test]
fn what_is_wrong_with_a_csv_file_is_said_with_its_line() {
    for (text, message) in [
        (
            "row,label\n0,cat\n3,cat\n",
            "line 3: there is no row 3: the evaluated part has 3 rows, numbered from 0",
        ),
        ("row,label\n-1,cat\n", "line 2: `-1` is not the number of a row"),
        ("row,label\n0,3\n", "line 2: there is no label 3: the data set has 3 labels, numbered from 0"),
        ("row,label\n0,dgo\n", "line 2: no label is called `dgo`: did you mean `dog`?"),
        ("row,label\n0,cat\n1,dog\n0,0\n", "row 0 has the label `cat` twice"),
        ("row,label,score\n0,cat,nan\n", "line 2: the score NaN is not a finite 32-bit number"),
        ("row,label,score\n0,cat,1e39\n", "line 2: the score inf is not a finite 32-bit number"),
        ("row,label,score\n0,cat,high\n", "line 2: `high` is not a score"),
        (
            "row,label,predicted\n0,cat,2\n",
            "line 2: `predicted` is `2`, but must be `true`, `false`, `1` or `0`",
        ),
        (
            "row,label,scores\n0,cat,1\n",
            "the column `scores` is not known, only `row`, `label`, `score` and `predicted` are",
        ),
        ("0,cat\n1,dog\n", "the column `0` is not known"),
        ("row,score\n0,1\n", "there is no column `label`"),
        ("row,row,label\n0,0,cat\n", "there are two columns `row`"),
        ("row,label\n0,cat,1\n", "line 2: this line has 3 columns, but the first line has 2"),
        ("", "there is no column `row`"),
        (
            "row,label,score\n0,cat,1\n2,cat,0\n",
            "1 of 3 rows have no score, the first of them is row 1: write the score of at least one label for every row",
        ),
    ] {
        let error = fault(&expected(), text.as_bytes());
        assert!(error.starts_with("FILE: ") && error.contains(message), "{text:?}: {error}");
    }
    let error = fault(&expected(), b"row,label\n0,cat\n1,\xff\n");
    assert_eq!(error, "FILE: line 3: this is not UTF-8 text");
    let error = fault(&cut_at(0.5), b"row,label\n0,cat\n");
    assert!(error.contains("it already contains decisions"), "{error}");
    assert!(fault(&expected(), b"row,label\n0,\xff\n").contains("UTF-8"));
}

#[test]
fn a_label_is_never_both_a_name_and_an_index() {
    let numbered = |names: &[&str]| ExpectedPredictions {
        label_names: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        ..expected()
    };
    let (block, _) = read(&numbered(&["1", "2", "3"]), b"row,label\n0,2\n").unwrap();
    assert_eq!(block.predicted[0], [1]);
    let error = fault(&numbered(&["1", "2", "x"]), b"row,label\n0,0\n");
    assert!(error.contains("cannot be given by number"), "{error}");
    // The numbers in an npz file follow the same rule.
    let archive = |label: u8| {
        let arrays = [("row", npy("|u1", "1,", &[0])), ("label", npy("|u1", "1,", &[label]))];
        npz(&arrays, zip::CompressionMethod::Stored)
    };
    assert_eq!(read(&numbered(&["1", "2", "3"]), &archive(2)).unwrap().0.predicted[0], [1]);
    assert!(fault(&numbered(&["1", "2", "3"]), &archive(0)).contains("no label is called `0`"));
    assert_eq!(read(&expected(), &archive(2)).unwrap().0.predicted[0], [2]);
    let unnamed = ExpectedPredictions { label_names: None, ..expected() };
    assert_eq!(read(&unnamed, b"row,label\n0,2\n").unwrap().0.predicted[0], [2]);
    assert!(fault(&unnamed, b"row,label\n0,cat\n").contains("the data set has no label names"));
}

#[test]
fn the_arrays_of_an_npz_file_are_read_like_the_columns_of_csv() {
    let arrays = [
        ("row", npy("<i8", "4,", &integers(&[0, 0, 1, 2]))),
        ("label", npy("|u1", "4,", &[0, 1, 2, 0])),
        ("score", npy("<f4", "4,", &floats(&[0.5, 0.75, 1.0, 0.25]))),
    ];
    for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
        let (block, _) = read(&expected(), &npz(&arrays, method)).unwrap();
        let text = b"row,label,score\n0,0,0.5\n0,1,0.75\n1,2,1\n2,0,0.25\n";
        assert_eq!(block, read(&expected(), text).unwrap().0);
    }
}

#[test]
fn what_is_wrong_with_an_npz_file_is_said_with_its_array() {
    let two = |name, kind, numbers: &[u8]| (name, npy(kind, "2,", numbers));
    let rows = || two("row", "|u1", &[0, 1]);
    let labels = || two("label", "|u1", &[0, 1]);
    for (arrays, message) in [
        (
            vec![two("row", "<i8", &integers(&[0, -1])), labels()],
            "array `row`: number 1 is not a whole number from 0",
        ),
        (
            vec![rows(), two("label", "<f4", &floats(&[0.0, 1.0]))],
            "array `label`: number 0 is not a whole number",
        ),
        (vec![rows(), two("label", "|u1", &[0, 3])], "entry 1: there is no label 3"),
        (vec![rows(), ("label", npy("|u1", "3,", &[0, 1, 2]))], "its arrays must all have the same length"),
        (
            vec![rows(), ("label", npy("|u1", "2, 1", &[0, 1]))],
            "array `label`: its shape is (2, 1), but it must have one",
        ),
        (
            vec![rows(), labels(), two("predicted", "|u1", &[1, 7])],
            "entry 1: `predicted` is 7, but must be 0 or 1",
        ),
        (vec![rows(), labels(), two("weight", "|u1", &[1, 7])], "the array `weight` is not known"),
        (vec![rows()], "there is no array `label`"),
    ] {
        let error = fault(&expected(), &npz(&arrays, zip::CompressionMethod::Stored));
        assert!(error.starts_with("FILE") && error.contains(message), "{message}: {error}");
    }
    assert!(fault(&expected(), b"PK\x03\x04 and no more").contains("it cannot be read as an npz file"));
}

#[test]
fn a_matrix_of_floats_has_scores_and_one_of_whole_numbers_decisions() {
    let scores = [0.9, 0.1, 0.5, 0.0, 1.0, 0.625, 0.25, 0.25, 0.25];
    let (block, summary) = read(&expected(), &npy("<f4", "3, 3", &floats(&scores))).unwrap();
    assert_eq!((&block.scores[..], &block.probabilities[..]), (&scores[..], &scores[..]));
    assert_eq!(block.predicted, [vec![0], vec![1, 2], vec![]]);
    assert_eq!(summary.absent_rows, 0);

    let (block, _) = read(&expected(), &npy("|b1", "3, 3", &[1, 0, 1, 0, 0, 0, 0, 1, 0])).unwrap();
    assert_eq!(block.predicted, [vec![0, 2], vec![], vec![1]]);
    assert_eq!((block.scores.len(), block.thresholds), (0, Thresholds::None));

    for (bytes, message) in [
        (npy("|b1", "3, 2", &[0; 6]), "its shape is (3, 2), but the evaluated part has 3 rows and 3 labels"),
        (npy("|u1", "3, 3", &[2; 9]), "row 0, label 0: the decision 2 must be 0 or 1"),
        (npy("<f4", "3, 3", &floats(&[f32::NAN; 9])), "row 0, label 0: the score NaN is not a finite"),
        (
            npy("<f4", "3, 3", &floats(&[0.0, 0.0, 0.0, 0.0, 7.0, 0.0, 0.0, 0.0, 0.0])),
            "row 1, label 1: the score 7 is not a probability",
        ),
        (npy("<f4", "3, 3", &floats(&[0.0])), "it ends after 1 of the 9 numbers"),
    ] {
        let error = fault(&expected(), &bytes);
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn large_matrices_are_passed_on_in_blocks_of_whole_rows() {
    let labels = SCORES_AT_ONCE / 2 + 1;
    let expected = ExpectedPredictions { rows: 3, labels, label_names: None, threshold: None };
    let mut decisions = vec![0; 3 * labels];
    decisions[labels + 5] = 1;
    decisions[3 * labels - 1] = 1;
    let (block, _) = read(&expected, &npy("|u1", &format!("3, {labels}"), &decisions)).unwrap();
    assert_eq!(block.predicted, [vec![], vec![5], vec![labels as u32 - 1]]);
}
