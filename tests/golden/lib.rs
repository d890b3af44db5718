//! Reads the golden vectors of `tests/fixtures/golden`, which PyTorch computed in f64, and compares with them.
//!
//! For tests only; a failure is a panic.

#![allow(clippy::unwrap_used, reason = "only tests use this crate, and they fail by a panic")]

use serde_json::Value;

/// Reads the file `NAME.json`.
pub fn read(name: &str) -> Value {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/golden");
    serde_json::from_slice(&std::fs::read(directory.join(format!("{name}.json"))).unwrap()).unwrap()
}

/// Returns a JSON array of numbers as a vector.
pub fn vector(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// Returns a JSON array of arrays as rows.
pub fn matrix(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().unwrap().iter().map(vector).collect()
}

/// Returns a JSON array of arrays as one row-major vector.
pub fn flat(value: &Value) -> Vec<f64> {
    matrix(value).concat()
}

/// Asserts that each value is close to the golden one: within `tolerance`, relative to the golden value or to
/// a tenth of the largest golden value, whichever is larger.
#[track_caller]
pub fn assert_close(what: &str, ours: &[f64], golden: &[f64], tolerance: f64) {
    assert_eq!(ours.len(), golden.len(), "{what}");
    let scale = golden.iter().fold(0f64, |largest, value| largest.max(value.abs()));
    for (i, (&ours, &golden)) in ours.iter().zip(golden).enumerate() {
        let allowed = tolerance * golden.abs().max(scale * 0.1);
        assert!((ours - golden).abs() <= allowed, "{what}[{i}]: ours {ours:e}, golden {golden:e}");
    }
}
