//! Any bytes as a matrix file, which must be valid or refused.

#![no_main]

#[path = "../directory.rs"]
mod directory;

use pipe_ml::data::artifact::{ArtifactCheck, open_csr, open_dense};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let path = temp.path().join("matrix");
    directory::replace(&path, bytes);
    if let Ok(csr) = open_csr(&path, ArtifactCheck::Deep) {
        for row in 0..csr.rows() {
            assert!(csr.row(row).len() <= csr.cols);
        }
    }
    let _ = open_dense(&path, ArtifactCheck::Deep);
});
