//! Any bytes as a matrix file: opened and sound, or refused; never a panic.

#![no_main]

use pipe_ml::data::artifact::{Check, open_csr, open_dense};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let path = temp.path().join("matrix");
    std::fs::write(&path, bytes).expect("a temporary file");
    if let Ok(csr) = open_csr(&path, Check::Deep) {
        (0..csr.rows()).for_each(|row| assert!(csr.row(row).len() <= csr.cols));
    }
    let _ = open_dense(&path, Check::Deep);
});
