//! Reads the golden vectors of `tests/fixtures/golden`, which PyTorch computed in f64.

use serde_json::Value;

use super::signal::sparse_rows::SparseRows;

pub(crate) fn read(name: &str) -> Value {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/golden");
    serde_json::from_slice(&std::fs::read(directory.join(format!("{name}.json"))).unwrap()).unwrap()
}

pub(crate) fn vector(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

pub(crate) fn matrix(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().unwrap().iter().map(vector).collect()
}

/// Row-major.
pub(crate) fn flat(value: &Value) -> Vec<f64> {
    matrix(value).concat()
}

/// The nonzero entries of a dense matrix.
pub(crate) fn sparse(dense: &[Vec<f64>]) -> SparseRows {
    let mut rows = SparseRows::default();
    for row in dense {
        let entries = row.iter().enumerate().filter(|(_, value)| **value != 0.0);
        rows.push(entries.map(|(column, &value)| (column as u32, value)));
    }
    rows
}

pub(crate) fn dense(rows: &SparseRows, columns: usize) -> Vec<Vec<f64>> {
    let spread = |row: &[(u32, f64)]| {
        let mut dense = vec![0.0; columns];
        row.iter().for_each(|&(column, value)| dense[column as usize] = value);
        dense
    };
    rows.iter().map(spread).collect()
}

/// Each within `tolerance` of its size, or of a tenth of the largest entry's where it is smaller.
#[track_caller]
pub(crate) fn assert_close(what: &str, ours: &[f64], golden: &[f64], tolerance: f64) {
    assert_eq!(ours.len(), golden.len(), "{what}");
    let scale = golden.iter().fold(0f64, |largest, value| largest.max(value.abs()));
    for (i, (&ours, &golden)) in ours.iter().zip(golden).enumerate() {
        let allowed = tolerance * golden.abs().max(scale * 0.1);
        assert!((ours - golden).abs() <= allowed, "{what}[{i}]: ours {ours:e}, golden {golden:e}");
    }
}
