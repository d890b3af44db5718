//! Helpers for tests of the store: small results, small trees, small disks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::manifest::Manifest;
use super::{Claim, Draft, Lookup, Store, WriteRight};
use pipe_core::digest::StageKey;
use pipe_core::key::KeyParts;

pub(super) fn parts(name: &str) -> KeyParts {
    KeyParts::new(BTreeMap::from([("params.name".to_owned(), name.to_owned())]))
}

pub(super) fn key(name: &str) -> StageKey {
    parts(name).key()
}

pub(super) fn draft(name: &str) -> Draft {
    Draft {
        kind: "test".into(),
        instance: name.into(),
        parts: parts(name),
        outputs: BTreeMap::new(),
        volatile: BTreeSet::new(),
        stdout: None,
        stderr: None,
        metrics: BTreeMap::new(),
        seconds: 0.25,
        cpu_seconds: 0.125,
        max_rss_bytes: 1 << 20,
        environment: BTreeMap::new(),
        warnings: Vec::new(),
    }
}

pub(super) fn claim<'store>(store: &'store Store, name: &str) -> WriteRight<'store> {
    match store.try_claim(&key(name)).unwrap().expect("nobody else holds the key") {
        Claim::Miss(right) => right,
        Claim::Hit(_) => panic!("{name} is there already"),
    }
}

/// Commits a result with one output, `out`, that `make` writes at the path it is given.
pub(super) fn commit(store: &Store, name: &str, make: impl FnOnce(&Path)) -> Manifest {
    let right = claim(store, name);
    let scratch = store.scratch().unwrap();
    let out = scratch.join("out");
    make(&out);
    right.commit(Draft { outputs: BTreeMap::from([("out".into(), out)]), ..draft(name) }).unwrap()
}

pub(super) fn commit_text(store: &Store, name: &str, text: &str) -> Manifest {
    commit(store, name, |out| fs::write(out, text).unwrap())
}

pub(super) fn hit(store: &Store, name: &str) -> Option<Manifest> {
    match store.lookup(&key(name)) {
        Lookup::Hit(manifest) => Some(*manifest),
        _ => None,
    }
}

/// Creates a directory with every kind of entry.
pub(super) fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("deep/er")).unwrap();
    fs::create_dir_all(root.join("empty/inside")).unwrap();
    fs::write(root.join("plain"), "plain").unwrap();
    fs::write(root.join("twin"), "plain").unwrap();
    fs::write(root.join("deep/er/a file\nwith \\ odd names"), "odd").unwrap();
    fs::write(root.join("run.sh"), "#!/bin/sh\necho ran\n").unwrap();
    fs::set_permissions(root.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("../plain", root.join("deep/link")).unwrap();
}

/// Returns a directory in memory where possible, for tests that create thousands of files.
pub(super) fn fast_directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(super) fn flip_bit(path: &Path, offset: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[offset] ^= 0x10;
    let mode = path.metadata().unwrap().permissions();
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, mode).unwrap();
}

/// A file system of its own, unmounted when dropped.
pub(super) struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Mounts a small disk; `None`, and a message, where mounting is not permitted.
    pub(super) fn mount(size: &str) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let disk = Self(directory);
        if mount(&["-t", "tmpfs", "-o", &format!("size={size}"), "none"], disk.path()) {
            return Some(disk);
        }
        eprintln!("skipped: mounting a small disk is not permitted here");
        None
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn make_read_only(&self) {
        assert!(mount(&["-o", "remount,ro"], self.path()));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ =
            Command::new("umount").arg("-l").arg(self.path()).stderr(std::process::Stdio::null()).status();
    }
}

fn mount(arguments: &[&str], at: &Path) -> bool {
    let quiet = std::process::Stdio::null();
    Command::new("mount").args(arguments).arg(at).stderr(quiet).status().is_ok_and(|s| s.success())
}

/// Runs an `#[ignore]`d test of this binary as a process of its own.
pub(super) fn process(test: &str, root: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", test])
        .env("PIPE_TEST_STORE", root)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns the store of the process that started this one; `None` if it was started by hand.
pub(super) fn process_root() -> Option<PathBuf> {
    std::env::var_os("PIPE_TEST_STORE").map(PathBuf::from)
}
