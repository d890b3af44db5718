//! `pipe cache`.

use std::os::unix::fs::PermissionsExt;

use super::{FITS, fits};
use crate::support::PipelineTest;

#[test]
fn the_cache_is_described_listed_and_cleaned() {
    let test = fits();
    test.typed("cache du").ok().prints("blobs").prints("total").reports_nothing();
    test.typed("cache ls").ok().prints("fit[adaptive]").prints("command");
    assert_eq!(test.typed("cache ls --json").ok().json().as_array().map(Vec::len), Some(3));
    test.typed("cache gc").ok().prints("nothing was changed; `pipe cache gc --yes`");
    test.typed("cache gc --yes").ok().prints("kept");
    assert_eq!(test.run().ok().computed(), [""; 0], "results that a pipeline needs are kept");
    test.typed("cache gc --yes --grace 0 --keep-runs 1").ok().prints("results to remove");
    assert_eq!(test.typed("runs --json").ok().json().as_array().map(Vec::len), Some(1));
}

#[test]
fn a_missing_cache_is_an_empty_one() {
    let test = PipelineTest::new(FITS);
    test.typed("cache du").ok().prints("total");
    test.typed("cache ls").ok().prints_nothing();
    test.typed("cache fsck").ok().prints("no damage");
    assert!(!test.file("cache").exists(), "looking must not write");
    test.typed("cache").exits_with(2).reports("Usage");
}

#[test]
fn git_leaves_the_cache_out() {
    let test = fits();
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git").current_dir(test.path()).args(arguments).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    let added = git(&["ls-files"]);
    assert!(added.contains("pipeline.yaml") && !added.contains("cache/"), "{added}");
}

#[test]
fn a_mistyped_cache_directory_is_not_taken_for_an_empty_cache() {
    let test = fits();
    for line in ["cache du", "cache ls", "cache fsck", "runs", "status pipeline.yaml", "plan pipeline.yaml"] {
        test.typed(&format!("{line} --cache-dir cahce")).ok().says("there is no cache in `cahce`");
        let right = test.typed(&format!("{line} --cache-dir cache")).ok();
        assert!(!right.stderr.contains("there is no cache"), "{}", right.stderr);
    }
    assert!(!test.file("cahce").exists());
    let made = test.typed("run pipeline.yaml --cache-dir other").ok();
    assert!(!made.stderr.contains("there is no cache"), "{}", made.stderr);
}

#[test]
fn damage_has_an_exit_code_of_its_own_and_can_be_repaired() {
    let test = fits();
    for name in test.files_below("cache/v2/blobs").keys() {
        let path = test.file("cache/v2/blobs").join(name);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        std::fs::write(path, "damaged").unwrap();
    }
    test.typed("cache fsck").exits_with(3).prints("`pipe cache fsck --repair`");
    assert!(!test.typed("cache fsck --json").exits_with(3).json()["problems"].as_array().unwrap().is_empty());
    test.typed("cache fsck --repair").ok().prints("the next run computes them again");
    test.typed("cache fsck").ok().prints("no damage");
    assert_eq!(test.run().ok().computed().len(), 3);
}
