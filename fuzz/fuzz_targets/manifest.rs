//! Any bytes as a manifest from another store, behind a right seal.

#![no_main]

use pipe_engine::store::Store;

libfuzzer_sys::fuzz_target!(|body: &[u8]| {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let store = Store::open(temp.path()).expect("a new store");
    let seal = format!("{{\"blake3\":\"{}\"}}\n", blake3::hash(body).to_hex());
    if let Ok(Some(manifest)) = store.adopt_record(&[seal.as_bytes(), body].concat()) {
        let _ = store.examine(manifest.key);
        let _ = store.blobs_of(&manifest);
    }
});
