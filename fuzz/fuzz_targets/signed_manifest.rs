//! Any bytes as a manifest on a remote: as the whole file, which no trusted writer has signed, and as a manifest behind a right
//! seal on a remote whose project trusts anyone.

#![no_main]

use std::fs;
use std::sync::LazyLock;

use pipe_core::digest::{Digest, StageKey};
use pipe_engine::remote::{Anyone, Remote, RemoteSettings, SigningKey, TrustedWriters};
use pipe_engine::runner::Stop;
use pipe_engine::store::manifest::Manifest;
use pipe_engine::store::{Claim, Store};

static WRITER: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::generate("writer").expect("a new key"));

/// Takes the result of a key from a remote where the writer has stored this file for it.
fn take(file: &[u8], key: StageKey, trusted: TrustedWriters) -> Option<Manifest> {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let hex = key.digest().to_hex();
    let directory = temp.path().join("remote/actions").join(&hex[..2]).join(&hex);
    fs::create_dir_all(&directory).expect("a directory");
    fs::write(directory.join("writer.json"), file).expect("a file");
    let settings = RemoteSettings { trusted, ..RemoteSettings::of_url("remote".to_owned()) };
    let remote = Remote::open(&settings, temp.path(), &|_| None, None, Stop::new()).expect("a remote");
    let store = Store::open(&temp.path().join("cache")).expect("a new store");
    let Ok(Some(Claim::Miss(mut right))) = store.try_claim(&key) else { panic!("the store is empty") };
    remote.take(&store, &mut right, "stage")
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let other = StageKey::new(Digest::of(b"fuzz"));
    let trusted = TrustedWriters::Keys(vec![WRITER.public().to_string()]);
    assert!(take(bytes, other, trusted).is_none(), "nobody has signed it");

    let seal = format!("{{\"blake3\":\"{}\"}}\n", blake3::hash(bytes).to_hex());
    let sealed = [seal.as_bytes(), bytes].concat();
    let key = Store::read_record(&sealed).map_or(other, |manifest| manifest.key);
    let file = [b"{\"signatures\":{}}\n", sealed.as_slice()].concat();
    if let Some(manifest) = take(&file, key, TrustedWriters::Anyone(Anyone::Anyone)) {
        assert_eq!(manifest.key, key);
    }
});
