use std::fs;

use proptest::prelude::*;

use super::*;
use crate::data::csr::DenseMatrix;
use crate::data::read::read;
use crate::data::source::{DataSource, RawData};

fn read_pair(data: &[u8], labels: Option<&[u8]>, options: &ReadOptions) -> Result<DataSet, DataError> {
    let temp = tempfile::tempdir().unwrap();
    let mut source = DataSource::file(temp.path().join("x"));
    fs::write(&source.parts[0].data, data).unwrap();
    if let Some(labels) = labels {
        fs::write(temp.path().join("y"), labels).unwrap();
        source.parts[0].labels = Some(temp.path().join("y"));
    }
    match read(&source, options, &temp.path().join("set"), 1)? {
        RawData::Set(set) => Ok(set),
        RawData::Text(_) => panic!("numbers were expected"),
    }
}

fn npy(descr: &str, fortran: &str, shape: &str, numbers: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': ({shape}), }}\n");
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), numbers].concat()
}

fn floats(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

fn dense(set: &DataSet) -> &DenseMatrix {
    let Features::Dense(dense) = &set.features else { panic!("sparse") };
    dense
}

#[test]
fn an_array_and_lines_of_label_indices_make_a_data_set() {
    let data = npy("<f4", "False", "3, 2", &floats(&[1., 2., 3., 4., 5., 6.]));
    let set = read_pair(&data, Some(b"0,2\n\n2 1 2"), &ReadOptions::default()).unwrap();
    assert_eq!((dense(&set).row(0), dense(&set).row(2)), (&[1., 2.][..], &[5., 6.][..]));
    assert_eq!(
        (set.labels.row(0), set.labels.row(1), set.labels.row(2)),
        (&[0, 2][..], &[][..], &[1, 2][..])
    );
    assert_eq!((set.labels.cols, set.report.format), (3, Format::Npy));
}

#[test]
fn the_memory_order_and_the_byte_order_do_not_matter() {
    let plain = npy("<f4", "False", "3, 2", &floats(&[1., 2., 3., 4., 5., 6.]));
    let fortran = npy("<f4", "True", "3, 2", &floats(&[1., 3., 5., 2., 4., 6.]));
    let big: Vec<u8> = [1., 2., 3., 4., 5., 6.].iter().flat_map(|n: &f64| n.to_be_bytes()).collect();
    let big = npy(">f8", "False", "3,2", &big);
    let labels = npy("|b1", "False", "3, 2", &[1, 0, 0, 0, 1, 1]);
    let expected = read_pair(&plain, Some(&labels), &ReadOptions::default()).unwrap();
    assert_eq!((expected.labels.row(0), expected.labels.row(2)), (&[0][..], &[0, 1][..]));
    for other in [fortran, big] {
        assert_eq!(read_pair(&other, Some(&labels), &ReadOptions::default()).unwrap(), expected);
    }
}

fn tensors(labels: &[f32]) -> Vec<u8> {
    let header = r#"{"__metadata__":{"a":"b"},"features":{"dtype":"F32","shape":[2,2],"data_offsets":[16,32]},"labels":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}"#;
    let numbers = [floats(labels), floats(&[1., 2., 3., 4.])].concat();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &numbers].concat()
}

#[test]
fn tensors_are_found_by_name_in_any_order() {
    let set = read_pair(&tensors(&[0., 1., 1., 1.]), None, &ReadOptions::default()).unwrap();
    assert_eq!((dense(&set).row(1), set.labels.row(0)), (&[3., 4.][..], &[1][..]));
    let options = ReadOptions { input_column: Some("x".into()), ..Default::default() };
    let message = read_pair(&tensors(&[0.; 4]), None, &options).unwrap_err().to_string();
    assert!(message.contains("no tensor `x`; it has: features, labels"), "{message}");
}

#[test]
fn each_fault_is_reported() {
    let good = floats(&[1., 2., 3., 4.]);
    for (data, labels, part) in [
        (npy("<f4", "False", "2, 2", &good[..15]), &b"0\n1\n"[..], "ends after 3 of the 4 numbers"),
        (
            npy("<f4", "False", "2, 2", &floats(&[1., 2., f32::NAN, 4.])),
            b"0\n1\n",
            "row 1, column 0 is not a finite",
        ),
        (npy("<f4", "False", "4", &good), b"0\n1\n", "must have two dimensions"),
        (npy("<c8", "False", "2, 2", &good), b"0\n1\n", "type `<c8`"),
        (npy("<f4", "False", "99999999999, 99999999999", &good), b"0\n", "impossible shape"),
        (npy("<f4", "False", "2, 2", &good), b"0\n", "2 rows of features, but there are labels for 1"),
        (npy("<f4", "False", "2, 2", &good), b"0\n1\n2\n", "more lines than the 2 rows"),
        (npy("<f4", "False", "2, 2", &good), b"0\nx\n", "y:2:1: a label index from 0"),
        (
            npy("<f4", "False", "2, 2", &good),
            &npy("<f4", "False", "2, 1", &floats(&[1., 0.5])),
            "row 1, column 0 is 0.5",
        ),
        (b"\x93NUMPY\x01\x00\xff\xff{".to_vec(), b"0\n", "cut off"),
        (npy("<f4", "False", "1000000000000, 0", &[]), b"0\n", "it has no columns"),
        (npy("<f4", "True", "1000000000000, 0", &[]), b"0\n", "it has no columns"),
        (npy("<f4", "False", "2, 2", &good), &npy("<f4", "True", "2, 0", &[]), "it has no columns"),
    ] {
        let message = read_pair(&data, Some(labels), &ReadOptions::default()).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
    let message = read_pair(&npy("<f4", "False", "2, 2", &good), None, &ReadOptions::default());
    assert!(message.unwrap_err().to_string().contains("needs a second file with the labels"));
}

#[test]
fn rows_without_columns_are_refused_before_anything_is_allocated_for_them() {
    for order in ["False", "True"] {
        let options = ReadOptions { unlabelled: true, ..Default::default() };
        let refused = read_pair(&npy("<f4", order, "1000000000000, 0", &[]), None, &options).unwrap_err();
        assert!(refused.to_string().contains("it has no columns"), "{refused}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_corrupted_file_is_read_or_refused_without_panicking(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
        cut: prop::sample::Index,
        tensor: bool,
        labels in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut data = if tensor {
            tensors(&[0., 1., 1., 1.])
        } else {
            npy("<f4", "False", "2, 2", &floats(&[1., 2., 3., 4.]))
        };
        for (at, byte) in changes {
            let at = at.index(data.len());
            data[at] = byte;
        }
        data.truncate(cut.index(2 * data.len()));
        let format = Some(if tensor { Format::Safetensors } else { Format::Npy });
        let options = ReadOptions { format, ..Default::default() };
        let _ = read_pair(&data, Some(&labels), &options);
        let _ = read_pair(&data, None, &options);
    }

    #[test]
    fn any_finite_array_is_read_back(numbers in prop::collection::vec(prop::num::f32::NORMAL, 1..50)) {
        let data = npy("<f4", "False", &format!("{}, 1", numbers.len()), &floats(&numbers));
        let labels = "0\n".repeat(numbers.len());
        let set = read_pair(&data, Some(labels.as_bytes()), &ReadOptions::default()).unwrap();
        prop_assert_eq!(&*dense(&set).values, numbers.as_slice());
    }
}
