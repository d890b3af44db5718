//! `pipe lock`.

use super::{FITS, fits};
use crate::support::PipelineTest;

#[test]
fn a_lock_is_written_once_and_replaced_only_on_request() {
    let test = fits();
    test.typed("lock pipeline.yaml").ok().prints_nothing().reports("3 stages, 1 placed file");
    let lock = test.read("pipeline.lock");
    test.typed("lock pipeline.yaml").ok().reports("up to date");
    test.edit("pipeline.lock", "compare exact", "compare ignore=model");
    test.typed("lock pipeline.yaml").refuses("--rebuild");
    test.typed("lock pipeline.yaml --rebuild").ok();
    assert_eq!(test.read("pipeline.lock"), lock);
}

#[test]
fn a_lock_needs_the_results() {
    let test = PipelineTest::new(FITS);
    test.typed("lock pipeline.yaml").refuses("pipe run pipeline.yaml");
    assert!(!test.file("pipeline.lock").exists());
}

#[test]
fn a_merge_needs_three_locks() {
    let test = PipelineTest::locked(FITS);
    test.write("base", "")
        .write("ours", test.read("pipeline.lock"))
        .write("theirs", test.read("pipeline.lock"));
    test.typed("lock --merge base ours theirs").ok().prints_nothing();
    assert_eq!(test.read("ours"), test.read("pipeline.lock"));
    test.typed("lock --merge base ours").exits_with(2).reports("--merge").prints_nothing();
    test.typed("lock --merge base ours missing").refuses("--merge");
    test.typed("lock --merge base ours theirs pipeline.yaml").exits_with(2).prints_nothing();
}
