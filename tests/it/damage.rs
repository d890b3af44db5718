//! A damaged store, a full disk, a read-only cache.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::PipelineTest;

const SMALL: &str = "
name: small
stages:
  make: { command: { run: \"seq 1 100 > numbers.txt; mkdir tree; echo a > tree/a; echo b > tree/b; echo noise >&2\", outputs: [numbers.txt, tree] } }
  sum: { command: { run: \"cksum < in/numbers > sum.txt; cat in/tree/a in/tree/b >> sum.txt\", inputs: { numbers: make.numbers, tree: make.tree }, outputs: [sum.txt] } }
outputs: [sum]
";

#[test]
fn a_flipped_bit_in_any_file_of_the_store_is_noticed_and_repaired() {
    let test = PipelineTest::new(SMALL);
    test.run().ok();
    let expected = test.read("results/small/sum.txt");
    let files = test.files_below("cache/v2");
    assert!(files.len() > 6, "{:?}", files.keys());
    for (name, content) in files {
        let path = test.file("cache/v2").join(&name);
        // A repaired store may have other files than the first one had.
        if content.is_empty() || !path.exists() {
            continue;
        }
        let mut flipped = std::fs::read(&path).unwrap();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 1;
        overwrite(&path, &flipped);
        std::fs::remove_dir_all(test.file("results")).unwrap();
        let ran = test.pipe(&["run", "pipeline.yaml"]);
        assert_eq!(ran.code, Some(0), "{}: {}", name.display(), ran.stderr);
        assert_eq!(test.read("results/small/sum.txt"), expected, "{}", name.display());
        // Files that no result depends on, such as the log of an old run, are left to fsck.
        test.pipe(&["cache", "fsck", "--repair"]).ok();
        let check = test.pipe(&["cache", "fsck"]);
        assert_eq!(
            check.code,
            Some(0),
            "{} was not repaired: {}{}",
            name.display(),
            check.stdout,
            check.stderr
        );
    }
}

#[test]
fn fsck_finds_damaged_results_and_removes_them() {
    let test = PipelineTest::new(SMALL);
    test.run().ok();
    let blobs = test.files_below("cache/v2/blobs");
    let (name, content) = blobs.iter().find(|(_, content)| content.starts_with(b"1\n2\n")).unwrap();
    let mut flipped = content.clone();
    flipped[0] ^= 1;
    overwrite(&test.file("cache/v2/blobs").join(name), &flipped);
    test.pipe(&["cache", "fsck"]).exits_with(3);
    let codes = ["1/2", "2/2"].map(|part| test.pipe(&["cache", "fsck", "--subset", part]).code);
    assert!(codes.contains(&Some(3)), "one of the parts has the damaged blob: {codes:?}");
    test.pipe(&["cache", "fsck", "--subset", "3/2"]).exits_with(2).says("`7/7`");
    test.pipe(&["cache", "fsck", "--budget", "soon"]).exits_with(2).says("`10m`");
    test.pipe(&["cache", "fsck", "--budget", "1h"]).exits_with(3);
    test.pipe(&["cache", "fsck", "--repair"]).ok();
    test.pipe(&["cache", "fsck"]).ok();
    assert_eq!(test.run().ok().computed(), ["make"]);
}

fn overwrite(path: &Path, content: &[u8]) {
    let mode = std::fs::metadata(path).unwrap().permissions();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::write(path, content).unwrap();
    std::fs::set_permissions(path, mode).unwrap();
}

/// A mounted file system, unmounted at the end.
struct Tmpfs<'a>(&'a Path);

impl<'a> Tmpfs<'a> {
    /// Mounts it; `None` if mounting is not allowed.
    fn mount(at: &'a Path, size: &str) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        let options = format!("size={size}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        if !mounted {
            eprintln!("skipped: this needs the right to mount a tmpfs");
        }
        mounted.then_some(Self(at))
    }

    fn make_read_only(&self) {
        assert!(Command::new("mount").args(["-o", "remount,ro"]).arg(self.0).status().unwrap().success());
    }
}

impl Drop for Tmpfs<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_gives_a_clear_error_and_a_usable_store() {
    let test = PipelineTest::new(
        "
name: full
stages:
  small: { command: { run: echo fine > small.txt, outputs: [small.txt] } }
  large: { command: { run: \"cat in/small; head -c 8000000 /dev/zero > large.bin\", inputs: { small: small }, outputs: [large.bin] } }
",
    );
    let cache = test.file("tiny");
    let Some(_mount) = Tmpfs::mount(&cache, "2m") else { return };
    let arguments = ["run", "pipeline.yaml", "--json", "--cache-dir", "tiny"];
    let failed = test.pipe(&arguments).exits_with(1).says("no space left");
    assert_eq!(failed.computed(), ["small"]);
    assert_eq!(test.pipe(&arguments).exits_with(1).instances("hit"), ["small"]);
    test.pipe(&["cache", "fsck", "--cache-dir", "tiny"]).ok();
}

#[test]
fn a_cache_that_cannot_be_written_gives_a_clear_error() {
    let test = PipelineTest::new(SMALL);
    let cache = test.file("frozen");
    let Some(mount) = Tmpfs::mount(&cache, "8m") else { return };
    mount.make_read_only();
    let failed = test.pipe(&["run", "pipeline.yaml", "--cache-dir", "frozen"]).exits_with(2);
    let failed = failed.says("frozen").says("--cache-dir");
    assert!(!failed.stderr.contains("panicked"), "{}", failed.stderr);
    test.pipe(&["plan", "pipeline.yaml", "--cache-dir", "frozen"]).ok();
}
