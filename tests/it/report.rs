//! `pipe report`, `pipe runs`, `pipe diff` and the `report` stage.

use serde_json::Value;

use crate::fake_worker::FakeWorker;
use crate::support::PipelineTest;

const SLOPES: &str = "
name: slopes
vars: { slope: 3 }
stages:
  fit:
    matrix: { variant: [adaptive, static] }
    command: { run: \"echo ${matrix.variant},0.${vars.slope} > fit.csv\", outputs: [fit.csv] }
  table:
    command:
      run: (echo '<script>alert(1)</script>,f1'; cat in/fits/*) > table.csv
      inputs: { fits: [\"fit[*]\"] }
      outputs: [table.csv]
  curve:
    command:
      run: echo '<svg xmlns=\"http://www.w3.org/2000/svg\"><title>Slope ${vars.slope}</title></svg>' > curve.svg
      outputs: [curve.svg]
  page:
    report: { title: Slopes, tables: [table], figures: [curve] }
outputs: [table, curve, page]
";

fn run_twice() -> PipelineTest {
    let test = PipelineTest::new(SLOPES);
    test.run().ok();
    test.run_with(&["--set", "vars.slope=5"]).ok();
    test
}

#[test]
fn the_stage_writes_the_same_page_wherever_and_whenever_it_runs() {
    let page = |jobs: &str| {
        let test = PipelineTest::new(SLOPES);
        test.run_with(&["--jobs", jobs]).ok();
        test.read("results/slopes/report.html")
    };
    let html = page("1");
    assert_eq!(html, page("4"));
    assert!(html.contains("<h1>Slopes</h1>") && html.contains("<figcaption>Slope 3</figcaption>"), "{html}");
    assert!(html.contains("&lt;script&gt;alert(1)") && !html.contains("<script>alert"), "{html}");
}

#[test]
fn the_report_shows_the_graph_the_results_and_how_to_reproduce_them() {
    let test = run_twice();
    test.pipe(&["report", "pipeline.yaml", "--set", "vars.slope=5"]).ok().says("results/slopes.html");
    let html = test.read("results/slopes.html");
    for part in [
        "<svg class=\"dag\"",
        "all 5 stages fresh",
        "<figcaption>Slope 5</figcaption>",
        "&lt;script&gt;alert(1)",
        "Where the instances of fit differ",
        "pipe run pipeline.yaml --set vars.slope=5",
        "How to reproduce this",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("<script>alert"));
    assert!(!html.contains(test.path().to_str().unwrap()), "it contains no path of this machine");
}

#[test]
fn the_report_marks_stages_that_failed_or_never_ran() {
    let test = PipelineTest::new(
        "
name: partly
stages:
  bad: { command: { run: exit 7, outputs: [x] } }
  after: { command: { run: cp in/x y, inputs: { x: bad }, outputs: [y] } }
",
    );
    test.pipe(&["report", "pipeline.yaml", "-o", "-"]).ok().says("data-status=\"waiting\"");
    test.run().exits_with(1);
    let ran = test.pipe(&["report", "pipeline.yaml", "-o", "-"]).ok();
    let ran = ran.says("data-status=\"failed\"").says("0 of 2 stages fresh, 2 to run");
    assert!(ran.stdout.starts_with("<!DOCTYPE html>"));
}

#[test]
fn runs_are_listed_newest_first_with_the_number_of_stages() {
    let test = run_twice();
    let runs = test.pipe(&["runs", "--json"]).ok().json();
    let counts: Vec<_> =
        runs.as_array().unwrap().iter().map(|run| (run["computed"].clone(), run["cached"].clone())).collect();
    assert_eq!(counts, [(5.into(), 0.into()), (5.into(), 0.into())]);
    assert_eq!((&runs[0]["pipeline"], &runs[0]["state"]), (&"slopes".into(), &"done".into()));
    test.run_with(&["--set", "vars.slope=5"]).ok();
    let newest = test.pipe(&["runs", "--json", "-n", "1"]).ok().json();
    assert_eq!((newest.as_array().unwrap().len(), &newest[0]["cached"]), (1, &5.into()));
    test.pipe(&["runs"]).ok().says("computed").says("slopes");

    let shown = test.pipe(&["runs", "show", "latest~2", "--json"]).ok().json();
    let note = |value: &Value| value["note"].as_str().unwrap_or_default().to_owned();
    assert!(
        shown["stages"].as_array().unwrap().iter().all(|stage| note(stage) == "never run before"),
        "{shown}"
    );
    let id = shown["run"].as_str().unwrap();
    test.pipe(&["runs", "show", id]).ok().says("fit[adaptive]").says(id);
    test.pipe(&["runs", "show", "latest~9"]).exits_with(2).says("was run only 3 times here");
    test.pipe(&["runs", "show", "1999"]).exits_with(2).says("there is no run `1999`");
}

#[test]
fn a_failed_run_shows_what_failed() {
    let test = PipelineTest::new("name: bad\nstages:\n  bad: { command: { run: exit 7, outputs: [x] } }\n");
    test.pipe(&["runs"]).ok().says("nothing has been run here yet");
    test.run().exits_with(1);
    test.pipe(&["runs"]).ok().says("failed");
    let shown = test.pipe(&["runs", "show", "--json"]).ok().json();
    assert_eq!((&shown["stages"][0]["outcome"], &shown["failed"]), (&"failed".into(), &1.into()));
}

#[test]
fn two_runs_are_compared_by_parameters_and_outputs() {
    let test = run_twice();
    let difference = test.pipe(&["diff", "--json"]).ok().json();
    let changed: Vec<_> =
        difference["changed"].as_array().unwrap().iter().map(|stage| stage["stage"].clone()).collect();
    assert_eq!(changed, ["curve", "fit[adaptive]", "fit[static]", "page", "table"]);
    assert_eq!(difference["changed"][0]["params"][0]["name"], "params.run");
    assert_eq!(difference["changed"][0]["outputs"].as_array().unwrap().len(), 1);
    test.pipe(&["diff"]).ok().says("params.run").says("5 stages changed, 0 the same");
    test.pipe(&["diff", "latest", "latest"]).ok().says("no difference: 5 stages the same");

    test.pipe(&["diff", "--html", "diff.html"]).ok();
    let html = test.read("diff.html");
    assert!(
        html.contains("<figcaption>Slope 3</figcaption>")
            && html.contains("<figcaption>Slope 5</figcaption>")
    );
    assert!(html.contains("class=\"side-by-side\""));
}

#[test]
fn a_slot_that_takes_any_fitting_output_refuses_the_others() {
    let two = SLOPES.replace("outputs: [curve.svg]", "outputs: [curve.svg, more.txt]");
    PipelineTest::new(&two).pipe(&["plan", "pipeline.yaml"]).exits_with(2).says("`curve");
    let data = "stages:\n  data: { synthetic: { rows: 50, test_rows: 10, features: 20, labels: 5, labels_per_row: 1, features_per_row: 2 } }\n";
    let wrong = SLOPES.replace("stages:\n", data).replace("tables: [table]", "tables: [data]");
    PipelineTest::new(&wrong).pipe(&["plan", "pipeline.yaml"]).exits_with(2).says("`table`");
}

#[test]
fn evaluations_have_their_labels_and_an_oracle_one_is_marked() {
    let test = PipelineTest::new(
        "
name: judged
stages:
  data: { synthetic: { rows: 50, test_rows: 10, features: 20, labels: 5, labels_per_row: 1, features_per_row: 2 } }
  idf: { idf: { data: data } }
  train: { train: { data: data, idf: idf } }
  eval:
    matrix: { protocol: [honest, oracle] }
    evaluate: { data: data, model: train, protocol: \"${matrix.protocol}\" }
  table: { table: { from: eval, rows: protocol, columns: [macro_f1, bce] } }
  page: { report: { evaluations: [eval], tables: [table], data: [data] } }
outputs: [page]
",
    );
    test.write("go", "");
    let worker = FakeWorker::of(&test);
    let run = |arguments: &[&str]| {
        let output = worker.command(&test, arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    run(&["run", "pipeline.yaml"]);
    let stage = test.read("results/judged/report.html");
    let whole = run(&["report", "pipeline.yaml", "-o", "-"]);
    for html in [stage, whole] {
        let section = |id: &str| {
            let (_, from) =
                html.split_once(&format!("<section id=\"{id}\"")).unwrap_or_else(|| panic!("{id}"));
            from.split_once("</section>").unwrap().0.to_owned()
        };
        let (results, labels) = (section("results"), section("labels"));
        let (tables, evaluations) = results.split_once("Every evaluation by itself").unwrap();
        assert!(
            tables.contains(">oracle</abbr> Oracle protocol: the labels of the evaluated rows"),
            "{tables}"
        );
        assert!(evaluations.contains("Oracle protocol: the true labels"), "{evaluations}");
        assert!(evaluations.contains("<tr class=\"oracle\">"), "{evaluations}");
        assert!(labels.contains("F1 oracle</span> <abbr") && labels.contains("label 4"), "{labels}");
        assert!(tables.contains("0.7000") && tables.contains(">oracle</abbr>"), "{tables}");
        assert!(section("data").contains("rows per label"));
    }
    run(&["run", "pipeline.yaml", "--force", "table"]);
    assert!(run(&["diff"]).contains("no difference: 7 stages the same"));
}

#[test]
fn locks_are_compared_as_files_and_in_revisions() {
    let test = PipelineTest::new(SLOPES);
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"];
        let output = std::process::Command::new("git")
            .current_dir(test.path())
            .args(identity)
            .args(arguments)
            .output();
        assert!(output.unwrap().status.success(), "{arguments:?}");
    };
    test.run().ok();
    test.pipe(&["lock", "pipeline.yaml"]).ok();
    git(&["init", "-q"]);
    git(&["add", "pipeline.lock"]);
    git(&["commit", "-qm", "lock"]);
    test.write("pipeline.yaml", SLOPES.replace("slope: 3", "slope: 5"));
    test.run().ok();
    test.pipe(&["lock", "pipeline.yaml"]).ok();
    let old = "HEAD:pipeline.lock";
    test.pipe(&["diff", old, "pipeline.lock"]).ok().says("fit[static]").says("5 stages changed, 0 the same");
    test.pipe(&["diff", "latest", "pipeline.lock"]).ok().says("no difference: 5 stages the same");
    test.pipe(&["diff", old, "pipeline.lock", "--html", "diff.html"]).ok();
    assert!(test.read("diff.html").contains("<figcaption>Slope 3</figcaption>"));
    test.pipe(&["diff", "HEAD~7:pipeline.lock", "latest"]).exits_with(2).says("git has no");
    test.pipe(&["diff", "none.lock", "latest"]).exits_with(2).says("`pipe lock` writes one");
}
