//! Any bytes as the listing of a directory. What is placed must not lead out of the directory.

#![no_main]

use std::fs;
use std::path::Path;

use pipe_core::digest::{BlobId, Digest};
use pipe_engine::store::Store;
use pipe_engine::store::manifest::Stored;

libfuzzer_sys::fuzz_target!(|lines: &[u8]| {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let store = Store::open(&temp.path().join("cache")).expect("a new store");
    let empty = BlobId::new(Digest::of(b""));
    store.adopt_blob(empty, &mut &b""[..]).expect("an empty blob");
    // The fuzzer cannot guess a digest, so `@` stands for the one of an empty file.
    let text = [b"pipe tree 1\n", lines].concat();
    let text = String::from_utf8_lossy(&text).replace('@', &empty.to_string());
    let blob = BlobId::new(Digest::of(text.as_bytes()));
    store.adopt_blob(blob, &mut text.as_bytes()).expect("the listing is a blob");
    let target = temp.path().join("placed");
    if store.place(&Stored { blob, bytes: 0, directory: true }, &target).is_ok() {
        stays_inside(&target, &target.canonicalize().expect("it was placed"));
    }
});

fn stays_inside(directory: &Path, root: &Path) {
    for entry in fs::read_dir(directory).expect("a placed directory") {
        let path = entry.expect("a placed file").path();
        if let Ok(real) = path.canonicalize() {
            assert!(real.starts_with(root), "{} leads to {}", path.display(), real.display());
        }
        if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            stays_inside(&path, root);
        }
    }
}
