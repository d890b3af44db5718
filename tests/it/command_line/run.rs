//! `pipe run`.

use super::{FITS, fits};
use crate::support::{PipelineTest, Ran};

#[test]
fn status_goes_to_standard_error_and_placed_files_to_standard_output() {
    let test = PipelineTest::new(FITS);
    let ran = test.typed("run pipeline.yaml").ok();
    assert_eq!(ran.stdout, "results/fits/table.txt\n");
    ran.reports("fit[adaptive]").reports("done: 3 ran");
    let again = test.typed("run").ok().reports("done: 3 cached");
    assert_eq!(again.stdout, "results/fits/table.txt\n", "the path is printed even if the file was there");
}

#[test]
fn the_events_are_the_only_output_with_json() {
    let test = PipelineTest::new(FITS);
    let ran = test.run().ok().reports_nothing();
    let events = ran.events();
    assert_eq!(events.first().unwrap()["event"], "run_started");
    assert_eq!(events.last().unwrap()["event"], "run_finished");
    assert_eq!(ran.computed(), ["fit[adaptive]", "fit[static]", "table"]);
}

#[test]
fn stages_can_be_chosen_by_name_instance_and_wildcard() {
    let test = PipelineTest::new(FITS);
    assert_eq!(test.run_with(&["fit[static]"]).ok().computed(), ["fit[static]"]);
    assert_eq!(test.run_with(&["fit[*]"]).ok().computed(), ["fit[adaptive]"]);
    assert_eq!(test.run_with(&["fit", "table"]).ok().computed(), ["table"]);
    assert_eq!(test.run_with(&["--force", "fit"]).ok().computed(), ["fit[adaptive]", "fit[static]"]);
    assert_eq!(test.run_with(&["--until", "fit", "--force", "table"]).ok().computed(), [""; 0]);
}

#[test]
fn a_variable_can_be_set_for_one_run() {
    let test = fits();
    test.typed("run pipeline.yaml --set vars.lr=3e-4").ok();
    assert_eq!(test.read("results/fits/table.txt"), "adaptive 0.0003\nstatic 0.0003\n");
    test.run().ok();
    assert_eq!(test.read("results/fits/table.txt"), "adaptive 0.0001\nstatic 0.0001\n");
}

#[test]
fn a_failed_stage_shows_its_exit_code_and_the_end_of_its_standard_error() {
    let test = PipelineTest::new(
        "
name: failing
stages:
  bad: { command: { run: \"echo before; echo the reason >&2; exit 7\", outputs: [x] } }
",
    );
    test.typed("run pipeline.yaml")
        .exits_with(1)
        .reports("bad")
        .reports("7")
        .reports("the reason")
        .prints_nothing();
    test.typed("logs bad").ok().says("before").says("the reason");
    test.typed("run pipeline.yaml -q").exits_with(1).reports("the reason");
}

#[test]
fn keep_going_runs_what_does_not_depend_on_the_failure() {
    let test = PipelineTest::new(
        "
name: partly
stages:
  bad: { command: { run: exit 1, outputs: [x] } }
  after: { command: { run: cp in/x y, inputs: { x: bad }, outputs: [y] } }
  good: { command: { run: sleep 0.3; echo 1 > z, outputs: [z] } }
  more: { command: { run: cp in/z w, inputs: { z: good }, outputs: [w] } }
",
    );
    let ran = test.run_with(&["--keep-going"]).exits_with(1);
    assert_eq!(ran.computed(), ["good", "more"]);
    assert_eq!(ran.instances("skipped"), ["after"]);
    assert_eq!(ran.instances("failed"), ["bad"]);
}

#[test]
fn stages_that_are_skipped_for_one_reason_are_one_line() {
    let test = PipelineTest::new(
        "
name: many
stages:
  bad: { command: { run: exit 1, outputs: [x] } }
  after:
    matrix: { n: [1, 2, 3, 4, 5] }
    command: { run: cp in/x y, inputs: { x: bad }, outputs: [y] }
  last: { command: { run: cat in/y > z, inputs: { y: [\"after[*]\"] }, outputs: [z] } }
",
    );
    let lines = |ran: Ran| ran.stderr.lines().filter(|line| line.contains("skipped after")).count();
    test.typed("run pipeline.yaml").exits_with(1).reports("skipped after[n=1], after[n=2], after[n=3] and ");
    assert_eq!(test.run().exits_with(1).instances("skipped").len(), 6);
    let verbose = test.typed("run pipeline.yaml -v").exits_with(1).reports("after[n=5]");
    assert!(lines(verbose) <= 2, "one line per reason");
}

#[test]
fn a_stage_is_tried_again_as_often_as_it_asks_for() {
    let test = PipelineTest::new(
        "
name: flaky
stages:
  flaky:
    retries: 2
    command:
      run: echo x >> \"$TRIES\"; test $(wc -l < \"$TRIES\") -ge 3; echo ok > ok.txt
      outputs: [ok.txt]
      env: [TRIES]
",
    );
    let mut run = test.command(&["run", "pipeline.yaml"]);
    run.env("TRIES", test.file("tries.txt"));
    Ran::finish(run).ok().reports("attempt 3");
    assert_eq!(test.read("tries.txt").lines().count(), 3);
}

#[test]
fn a_command_gets_a_clean_environment_and_undeclared_files_are_reported() {
    let test = PipelineTest::new(
        "
name: clean
stages:
  env: { command: { run: \"env | sort > env.txt; touch stray.txt\", outputs: [env.txt] } }
  lazy: { command: { run: touch something-else.txt, outputs: [promised.txt] } }
outputs: [env]
",
    );
    let mut run = test.command(&["run", "pipeline.yaml", "--keep-going"]);
    run.env("SECRET", "42");
    Ran::finish(run).exits_with(1).reports("stray.txt").reports("promised.txt").reports("something-else.txt");
    assert!(!test.read("results/clean/env.txt").contains("SECRET"));
}

#[test]
fn a_directory_that_cannot_be_the_cache_is_refused() {
    let test = PipelineTest::new(FITS);
    test.write("file", "");
    test.typed("run pipeline.yaml --cache-dir file").refuses("file");
    test.typed("run pipeline.yaml --cache-dir /proc/nowhere").refuses("/proc/nowhere");
}

#[test]
fn a_locked_run_needs_a_lock_that_matches() {
    let test = fits();
    test.run_with(&["--locked"]).exits_with(2).reports("pipeline.lock");
    test.typed("lock pipeline.yaml").ok();
    test.typed("run pipeline.yaml --locked").ok();
    test.edit("pipeline.yaml", "0.0001", "0.5");
    test.typed("run pipeline.yaml --locked").exits_with(1).reports("fit[adaptive]").prints_nothing();
}

#[test]
fn unused_stages_need_no_data_and_offline_downloads_none() {
    let test = PipelineTest::new(
        "
name: two
stages:
  data: { load: { dataset: bibtex } }
  small: { command: { run: echo 1 > small.txt, outputs: [small.txt] } }
",
    );
    assert_eq!(test.run_with(&["--offline", "small"]).ok().computed(), ["small"]);
    test.typed("run pipeline.yaml --offline").refuses("bibtex");
}

#[test]
fn a_result_that_is_not_what_the_pipeline_expects_fails_the_run_and_verify() {
    let yaml = "
name: expected
stages:
  data:
    expect: { test_rows: { min: 50 } }
    synthetic: { rows: 100, test_rows: 50, features: 300, features_per_row: 20, labels: 40, labels_per_row: 3 }
  list: { command: { run: ls in/data > list, inputs: { data: data.dataset }, outputs: [list] } }
";
    let test = PipelineTest::locked(yaml);
    test.edit("pipeline.yaml", "min: 50", "min: 51");
    let sentence = "test_rows is 50, but it has to be at least 51";
    let failed = test.run().exits_with(1);
    assert!(failed.stdout.contains(sentence) && failed.computed().is_empty(), "{}", failed.stdout);
    test.typed("verify pipeline.yaml").exits_with(1).prints(sentence);
    test.typed("report pipeline.yaml -o page.html").ok();
    assert!(test.read("page.html").contains(sentence), "the page says that a result is not as expected");
    test.edit("pipeline.yaml", "min: 51", "min: 5");
    assert_eq!(test.run().ok().computed(), [""; 0], "the result was kept");
    test.edit("pipeline.yaml", "min: 5 ", "least: 5 ");
    test.run().exits_with(2);
}

/// Runs `pipe run` and fails the test if it does not end.
fn run_to_an_end(test: &PipelineTest, args: &[&str]) -> Ran {
    let pipe = test.command(&[&["run", "pipeline.yaml"], args].concat());
    let mut command = std::process::Command::new("timeout");
    command.current_dir(test.path()).arg("60").arg(pipe.get_program()).args(pipe.get_args());
    command.env_remove("PIPE_CACHE").env("NO_COLOR", "1");
    Ran::finish(command)
}

#[test]
fn a_run_ends_if_stages_with_the_same_key_fail_together() {
    let failing = "name: a\nstages: { a: { matrix: { i: [1, 2, 3] }, command: { run: 'sleep 0.3; false', outputs: [x] } } }\n";
    for args in [&[][..], &["--jobs", "4"], &["--keep-going"]] {
        run_to_an_end(&PipelineTest::new(failing), args).exits_with(1).reports("failed");
    }
    let data = "synthetic: { rows: 100, test_rows: 50, features: 300, features_per_row: 20, labels: 40, labels_per_row: 3 }";
    let unmet = format!(
        "name: b\nstages:\n  a: {{ expect: {{ labels: {{ min: 50 }} }}, {data} }}\n  b: {{ {data} }}\n  c: {{ {data} }}\n"
    );
    let test = PipelineTest::new(&unmet);
    run_to_an_end(&test, &["--jobs", "4"])
        .exits_with(1)
        .reports("labels is 40, but it has to be at least 50");
    test.typed("plan pipeline.yaml --check").exits_with(10).reports("labels is 40");
}
