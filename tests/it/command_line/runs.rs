//! `pipe runs` and `pipe diff`.

use super::{FITS, fits};
use crate::support::PipelineTest;

#[test]
fn past_runs_are_listed_and_shown() {
    let test = PipelineTest::new(FITS);
    test.typed("runs").ok().prints_nothing().reports("nothing has been run");
    test.typed("runs -q").ok().prints_nothing().reports_nothing();
    assert_eq!(test.typed("runs --json").ok().stdout, "[]\n");
    test.run().ok();
    test.run_with(&["--set", "vars.lr=7"]).ok();
    let runs = test.typed("runs").ok().prints("--set vars.lr=7").reports_nothing();
    assert_eq!(runs.stdout.lines().count(), 3, "{}", runs.stdout);
    assert_eq!(test.typed("runs --limit 1").ok().stdout.lines().count(), 2);
    test.typed("runs show").ok().prints("computed").prints("--set vars.lr=7");
    let id = test.typed("runs --json").ok().json()[1]["run"].as_str().unwrap().to_owned();
    test.typed(&format!("runs show {id}")).ok().prints(&id).prints("fit[static]");
}

#[test]
fn a_note_is_kept_with_its_run() {
    let test = PipelineTest::new(FITS);
    test.run_with(&["--note", "before the rewrite"]).ok();
    test.typed("runs").ok().prints("before the rewrite");
    test.typed("runs show").ok().prints("before the rewrite");
    assert_eq!(test.typed("runs --json").ok().json()[0]["note"], "before the rewrite");
    test.typed("runs --metric macrof1").refuses("did you mean `macro_f1`?");
    test.typed("runs --sort").refuses("--metric");
}

#[test]
fn a_run_that_does_not_exist_is_refused() {
    let test = PipelineTest::new(FITS);
    test.typed("runs show").refuses("pipe run");
    test.typed("diff").refuses("pipe run");
    test.run().ok();
    test.typed("runs show latest~1").refuses("only 1 time");
    test.typed("runs show 1999").refuses("`pipe runs`");
    test.typed("runs shwo").refuses("show");
    test.typed("diff").refuses("latest~1");
}

#[test]
fn a_difference_shows_parameters_and_outputs() {
    let test = fits();
    test.run_with(&["--set", "vars.lr=7"]).ok();
    let diff = test.typed("diff").ok().prints("params.run").prints("0.0001").reports_nothing();
    diff.prints("3 stages changed, 0 the same");
    test.typed("diff latest latest").ok().prints("no difference: 3 stages the same");
    let json = test.typed("diff --json").ok().json();
    assert_eq!(json["changed"].as_array().unwrap().len(), 3, "{json}");
    assert_eq!(test.typed("diff --html diff.html").ok().stdout, "diff.html\n");
    test.typed("diff --html - latest latest").ok().prints("<!DOCTYPE html>");
    test.typed("diff --html x.html --json").exits_with(2).reports("--json");
}

#[test]
fn locks_are_compared_by_file_name() {
    let test = PipelineTest::locked(FITS);
    test.write("old.lock", test.read("pipeline.lock"));
    test.edit("pipeline.yaml", "0.0001", "7");
    test.run().ok();
    test.typed("diff old.lock pipeline.lock").ok().prints("3 stages changed");
    test.typed("diff none.lock latest").refuses("`pipe lock`");
    test.write("bad.lock", "nonsense\n");
    test.typed("diff bad.lock latest").refuses("bad.lock");
    test.typed("diff HEAD:pipeline.lock latest").refuses("git");
}

#[test]
fn a_run_stands_for_its_settings_and_its_pipeline() {
    let test = fits();
    test.run_with(&["--set", "vars.lr=7"]).ok();
    test.typed("get table --run latest").ok().prints("adaptive 7").reports("--set vars.lr=7");
    test.typed("get table --run latest~1").ok().prints("adaptive 0.0001").reports("without --set");
    test.typed("status --run latest").ok().prints("fresh");
    test.write("other.yaml", FITS.replace("name: fits", "name: other"));
    test.typed("run other.yaml --set vars.lr=8").ok();
    test.typed("get table --run latest").ok().prints("adaptive 8");
    test.typed("get pipeline.yaml table --run latest").ok().prints("adaptive 7");
    test.typed("get table -f ./pipeline.yaml --run latest").ok().prints("adaptive 7");
    let id = test.typed("runs --json").ok().json()[1]["run"].as_str().unwrap().to_owned();
    test.typed(&format!("get table --run {id}")).ok().prints("adaptive 7");
    test.typed(&format!("get other.yaml table --run {id}"))
        .refuses("is of the pipeline `fits`, not of other.yaml");
    test.typed("get table --run latest --set vars.lr=1").refuses("--set");
    test.typed("get table --run latest~9").refuses("only 1 time");
}
