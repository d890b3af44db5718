//! Any bytes as a bundle: the members of a tar, which the target compresses.

#![no_main]

use pipe_engine::bundle;
use pipe_engine::store::Store;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let store = Store::open(temp.path()).expect("a new store");
    let compressed = zstd::encode_all(bytes, 0).expect("compressing in memory");
    if let Ok(read) = bundle::read(&compressed[..], &store) {
        for path in read.index.files.keys() {
            assert!(
                !path.starts_with('/') && path.split('/').all(|part| part != ".." && !part.starts_with('.'))
            );
        }
        for record in &read.records {
            let _ = store.adopt_record(record);
        }
    }
});
