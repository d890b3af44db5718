//! `pipe verify`.

use super::{FITS, fits};
use crate::support::PipelineTest;

#[test]
fn the_exit_code_is_the_answer() {
    let test = PipelineTest::locked(FITS);
    let same = test.typed("verify pipeline.yaml").ok().reports_nothing();
    assert_eq!(same.stdout, "pipeline.yaml: 4 checks: 4 same\n");
    test.write("results/fits/table.txt", "better\n");
    test.typed("verify pipeline.yaml")
        .exits_with(1)
        .prints("drift  results/fits/table.txt")
        .prints("+better");
    test.remove("results/fits/table.txt");
    test.typed("verify pipeline.yaml").exits_with(2).prints("3 same, 1 undetermined");
    test.typed("verify pipeline.yaml --strict").exits_with(1).prints("3 same, 1 drifted");
    test.typed("verify pipeline.yaml --allow-missing").ok().prints("3 same, 1 not checked");
    test.remove("cache");
    test.typed("verify pipeline.yaml --cache").exits_with(2).prints("4 undetermined");
    test.remove("pipeline.lock");
    test.typed("verify pipeline.yaml").exits_with(2).prints("`pipe lock pipeline.yaml`");
}

#[test]
fn verbose_lists_every_check() {
    let test = PipelineTest::locked(FITS);
    test.remove("results/fits/table.txt");
    let all = test.typed("verify pipeline.yaml -v --allow-missing").ok();
    all.prints("same  fit[adaptive]\n").prints("not checked  results/fits/table.txt: it is missing");
}

#[test]
fn stages_are_computed_again_with_rerun_and_twice() {
    let test = PipelineTest::locked(FITS);
    let rerun = test.typed("verify pipeline.yaml --rerun").ok().reports("verify: rerun");
    assert_eq!(rerun.stdout, "pipeline.yaml: 4 checks: 4 same\n");
    test.typed("verify pipeline.yaml --rerun fit[static]").ok().prints("2 checks: 2 same");
    test.typed("verify pipeline.yaml --rerun sample=2").ok().prints("3 checks: 3 same");
    test.typed("verify pipeline.yaml --rerun budget=1h --jobs 1").ok().prints("4 same");
    test.typed("verify pipeline.yaml --twice -q").ok().prints("3 checks: 3 same").reports_nothing();
    test.typed("verify pipeline.yaml --rerun --scratch scratch").ok();
    assert_eq!(test.files_below("scratch").len(), 0, "nothing is left if all is the same");
}

#[test]
fn a_selection_that_makes_no_sense_is_refused() {
    let test = PipelineTest::locked(FITS);
    test.typed("verify pipeline.yaml --rerun sampel=3").refuses("did you mean `sample=3`?");
    test.typed("verify pipeline.yaml --rerun sample=0").refuses("sample=3");
    test.typed("verify pipeline.yaml --rerun budget=soon").refuses("budget=20m");
    test.typed("verify pipeline.yaml --rerun budget=0s").refuses("more time");
    test.write("file", "");
    test.typed("verify pipeline.yaml --rerun --scratch file").refuses("--scratch");
    test.typed("verify pipeline.yaml --junit missing/report.xml").refuses("missing/report.xml");
}

#[test]
fn checks_are_available_as_json_and_junit() {
    let test = PipelineTest::locked(FITS);
    test.edit("pipeline.yaml", "0.0001", "7");
    let report = test.typed("verify pipeline.yaml --json --junit verify.xml").exits_with(1).json();
    assert_eq!(report["outcome"], "drift");
    assert_eq!(report["checks"][0]["name"], "fit[adaptive]", "{report}");
    assert!(test.read("verify.xml").contains("failures=\"2\""), "{}", test.read("verify.xml"));
}

#[test]
fn a_pipeline_without_a_lock_can_be_run_twice() {
    let test = fits();
    test.typed("verify pipeline.yaml --twice table").ok().prints("1 check: 1 same");
    test.typed("verify pipeline.yaml --rerun table").exits_with(2).prints("undetermined  pipeline.lock");
}
