//! `pipe export`, `pipe import` and `pipe provenance`.

use super::{FITS, fits};
use crate::support::PipelineTest;

#[test]
fn a_bundle_goes_from_one_project_to_another() {
    let here = PipelineTest::locked(FITS);
    here.typed("export pipeline.yaml -o bundle.tar.zst")
        .ok()
        .prints_nothing()
        .reports("3 results and 2 files");
    let there = PipelineTest::empty();
    let bundle = here.file("bundle.tar.zst");
    let import = there.pipe(&["import", bundle.to_str().unwrap()]).ok().prints_nothing();
    import.reports("3 results").reports("2 files written").reports("`pipe run pipeline.yaml`");
    there.typed("plan pipeline.yaml --check").ok();
}

#[test]
fn an_export_needs_an_output_a_lock_and_the_results() {
    let test = fits();
    test.typed("export pipeline.yaml").exits_with(2).reports("--output").prints_nothing();
    test.typed("export pipeline.yaml -o bundle").refuses("`pipe lock pipeline.yaml`");
    test.typed("lock pipeline.yaml").ok();
    test.typed("export pipeline.yaml -o missing/bundle").refuses("missing/bundle");
    test.remove("cache");
    test.typed("export pipeline.yaml -o bundle").refuses("not in the cache");
    assert!(!test.file("bundle").exists());
}

#[test]
fn only_bundles_can_be_imported() {
    let test = PipelineTest::empty();
    test.typed("import").exits_with(2).reports("<BUNDLE>");
    test.typed("import missing.tar.zst").refuses("missing.tar.zst");
    test.write("notes.txt", "no archive at all");
    test.typed("import notes.txt").refuses("notes.txt: it was not written by `pipe export`");
}

#[test]
fn a_crate_needs_a_place_and_a_lock() {
    let test = fits();
    test.typed("provenance pipeline.yaml").exits_with(2).reports("--ro-crate").prints_nothing();
    test.typed("provenance pipeline.yaml --ro-crate crate").refuses("lock");
    test.typed("lock pipeline.yaml").ok();
    test.typed("provenance pipeline.yaml --ro-crate crate").ok();
    assert!(test.file("crate/ro-crate-metadata.json").exists());
    test.typed("provenance pipeline.yaml --ro-crate crate").refuses("crate");
    test.typed("provenance pipeline.yaml --ro-crate other --agent https://example.org/me")
        .refuses("--agent-name");
}
