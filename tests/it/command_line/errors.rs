//! Mistakes that every command has to answer: wrong names, missing files, unknown options.

use super::{FITS, fits};
use crate::support::PipelineTest;

#[test]
fn a_script_that_is_not_declared_gets_the_line_to_add() {
    let test = PipelineTest::new(
        "{ name: x, stages: { fit: { command: { run: \"sh scripts/fit.sh > out.txt\", outputs: [out.txt] } } } }",
    );
    test.write("scripts/fit.sh", "echo 1").write("out.txt", "");
    let failed = test.typed("run pipeline.yaml").exits_with(1);
    let failed = failed.reports("`scripts/fit.sh` of the project is not in its working directory");
    let failed = failed.reports("fit: { file: scripts/fit.sh }").reports("`in/fit`");
    assert!(!failed.stderr.contains("`out.txt`"), "{}", failed.stderr);
    test.edit("pipeline.yaml", "sh scripts/fit.sh", "sh in/fit");
    test.edit("pipeline.yaml", "outputs:", "inputs: { fit: { file: scripts/fit.sh } }, outputs:");
    test.typed("run pipeline.yaml").ok();
}

#[test]
fn every_command_suggests_the_stage_that_was_probably_meant() {
    let test = PipelineTest::locked(FITS);
    for line in [
        "run pipeline.yaml tabel",
        "run tabel",
        "run --force tabel",
        "run --until tabel",
        "plan tabel",
        "why tabel",
        "show tabel",
        "logs tabel",
        "get tabel",
        "get tabel.table",
        "table tabel",
        "verify pipeline.yaml --rerun tabel",
        "verify pipeline.yaml --twice tabel",
        "export pipeline.yaml -o bundle --with tabel",
    ] {
        test.typed(line).refuses("did you mean `table`?");
    }
    test.typed("why fit[adaptiv]").refuses("adaptive");
}

#[test]
fn every_command_names_the_pipeline_file_that_is_missing() {
    let test = PipelineTest::new(FITS);
    for line in [
        "run missing.yaml",
        "plan missing.yaml",
        "why missing.yaml table",
        "status missing.yaml",
        "show missing.yaml table",
        "logs missing.yaml table",
        "get missing.yaml table",
        "table missing.yaml",
        "graph missing.yaml",
        "report missing.yaml",
        "lock missing.yaml",
        "verify missing.yaml",
        "export missing.yaml -o bundle",
        "provenance missing.yaml --ro-crate crate",
        "predict table rows.svm -f missing.yaml",
    ] {
        test.typed(line).refuses("missing.yaml");
    }
    for left in ["cache", "results", "bundle", "crate"] {
        assert!(!test.file(left).exists(), "{left} was created");
    }
}

#[test]
fn every_command_without_a_pipeline_says_how_to_get_one() {
    let test = PipelineTest::empty();
    for line in [
        "run",
        "plan",
        "status",
        "graph",
        "report",
        "table",
        "why table",
        "show table",
        "logs table",
        "lock",
        "verify",
        "export -o x",
    ] {
        test.typed(line).refuses("`pipe init`");
    }
    test.typed("run pipelines/mine.yaml").refuses("`pipe init`");
}

#[test]
fn a_pipeline_may_not_be_named_twice() {
    let test = fits();
    for line in ["run", "plan", "status", "graph", "report", "table"] {
        test.typed(&format!("{line} pipeline.yaml -f other.yaml")).refuses("twice");
    }
    for line in ["why", "show", "logs", "get"] {
        test.typed(&format!("{line} pipeline.yaml table -f other.yaml")).refuses("twice");
    }
    for line in ["lock", "verify", "export -o x", "provenance --ro-crate x"] {
        test.typed(&format!("{line} pipeline.yaml -f other.yaml")).exits_with(2).prints_nothing();
    }
}

#[test]
fn unknown_commands_and_options_are_refused_with_a_suggestion() {
    let test = PipelineTest::new(FITS);
    test.typed("stauts").refuses("'status'");
    test.typed("run pipeline.yaml --forec table").refuses("--force");
    test.typed("cache fcsk").refuses("'fsck'");
    test.typed("graph pipeline.yaml --format dto").refuses("dot");
    for command in ["run", "plan", "lock", "verify", "runs", "diff", "report", "metrics", "schema", "init"] {
        test.typed(&format!("{command} --nonsense")).refuses("--nonsense");
    }
    test.typed("").exits_with(2).reports("Usage").prints_nothing();
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    let test = PipelineTest::new(FITS);
    for line in [
        "run pipeline.yaml --jobs 0",
        "run pipeline.yaml --jobs many",
        "verify pipeline.yaml --jobs 0",
        "predict table rows.svm --top 0",
        "predict table rows.svm --feature-base 2",
        "cache gc --grace -1",
        "runs -n x",
        "run pipeline.yaml --serve=99999",
    ] {
        test.typed(line).exits_with(2).reports("error").prints_nothing();
    }
}

#[test]
fn a_wrong_variable_is_refused_with_a_suggestion() {
    let test = PipelineTest::new(FITS);
    test.typed("plan pipeline.yaml --set vars.lrr=1").refuses("did you mean");
    test.typed("plan pipeline.yaml --set lr=1").refuses("--set");
    test.typed("plan pipeline.yaml --set vars.lr").refuses("--set");
}

#[test]
fn every_issue_of_a_pipeline_file_is_shown_at_once_with_its_place() {
    let test = PipelineTest::new(
        "
name: wrong
stages:
  one: { comand: { run: x, outputs: [x] } }
  two: { command: { run: x, outputs: [x], shel: bash } }
  three: { command: { run: x, outputs: [x], inputs: { a: tow } } }
  three: { command: { run: x, outputs: [x] } }
",
    );
    for command in ["run", "plan", "status", "graph", "lock", "verify"] {
        test.typed(&format!("{command} pipeline.yaml"))
            .refuses("did you mean `command`?")
            .reports("did you mean `shell`?")
            .reports("did you mean `two`?")
            .reports("pipeline.yaml:4:")
            .reports("pipeline.yaml:7:")
            .reports("^");
    }
    assert!(!test.file("cache").exists());
}

#[test]
fn a_cycle_names_its_members() {
    let test = PipelineTest::new(
        "
name: round
stages:
  a: { command: { run: x, outputs: [x], inputs: { i: c } } }
  b: { command: { run: x, outputs: [x], inputs: { i: a } } }
  c: { command: { run: x, outputs: [x], inputs: { i: b } } }
",
    );
    for command in ["run", "plan", "graph", "verify"] {
        test.typed(&format!("{command} pipeline.yaml")).refuses("a -> c -> b -> a");
    }
}

#[test]
fn a_reference_to_the_wrong_stage_says_which_ones_are_right() {
    let yaml = "
name: wrong
stages:
  data: { synthetic: { rows: 50, test_rows: 10, features: 20, labels: 5, labels_per_row: 1, features_per_row: 2 } }
  linear: { fit: { data: data, model: { kind: ridge } } }
  idf: { idf: { data: data } }
  train: { matrix: { variant: [adaptiv, static] }, train: { data: data, idf: idf, variant: \"${matrix.variant}\" } }
  cut: { threshold: { data: data, model: data } }
  judged: { evaluate: { data: data, model: \"train[adaptive]\" } }
  t: { table: { from: judged, rows: stage, columns: macro_f1, digits_of: { macro_f9: 2 } } }
";
    let said = PipelineTest::new(yaml).typed("plan pipeline.yaml").exits_with(2);
    let said = said
        .says("`cut.model`")
        .says("pipeline.yaml:8:42")
        .says("`linear`")
        .says("`adaptiv`")
        .says("macro_f9: 2 } } }\n   |")
        .stderr;
    assert_eq!(said.matches("error:").count(), 3, "{said}");
    let caret = said.lines().skip_while(|line| !line.contains("digits_of: {")).nth(1).unwrap();
    assert!(caret.trim_end().ends_with("^^^^^^^^"), "{said}");
}

#[test]
fn a_word_that_a_command_cannot_use_is_explained() {
    let test = fits();
    test.typed("status table").refuses("pipe show table");
    test.typed("why pipeline.yaml").refuses("stage");
    test.typed("table table").refuses("the pipeline has no `table` stage");
}

#[test]
fn a_missing_pipeline_or_file_gets_a_suggestion() {
    let test = PipelineTest::new(
        "name: x\nstages:\n  a: { command: { run: cat in/d > o, inputs: { d: { file: pakages.csv } }, outputs: [o] } }\n",
    );
    test.write("packages.csv", "a\n").write("pipelines/medical.yaml", "name: m\nstages: {}\n");
    test.typed("plan pipline.yaml").exits_with(2).reports("did you mean `pipeline.yaml`?");
    test.typed("plan medical.yml").exits_with(2).reports("did you mean `pipelines/medical.yaml`?");
    test.typed("plan something-else.yaml").exits_with(2).reports("let `pipe init` write one");
    test.typed("run pipeline.yaml").exits_with(2).reports("did you mean `packages.csv`?");
}

#[test]
fn hints_name_what_to_type() {
    let test = PipelineTest::new("name: x\nstages:\n  - a: { command: { run: echo > o, outputs: [o] } }\n");
    test.typed("plan pipeline.yaml").exits_with(2).reports("use the name of each stage as its key");
    test.write(
        "pipeline.yaml",
        "name: x\nstages:\n  m: { fit: { data: d, model: { kind: ridge, penaltie: 3 } } }\n",
    );
    test.typed("plan pipeline.yaml")
        .exits_with(2)
        .reports("`model` has no parameter `penaltie`")
        .reports("pipeline.yaml:3:46");
    test.write("pipeline.yaml", "name: x\nstages:\n  d: { synthetic: { labels: 10 } }\n");
    test.typed("plan pipeline.yaml").exits_with(2).reports("but it is 5.04; set it");
    test.write("pipeline.yaml", "name: x\nstages:\n  a: { command: { run: echo > o, outputs: [o] } }\n");
    test.typed("run pipeline.yaml --cache-dir /proc/cache")
        .exits_with(2)
        .reports("--cache-dir or PIPE_CACHE");
    let shown = test.typed("show pipeline.yaml a").ok().stdout;
    assert!(!shown.contains("{}") && !shown.contains("[]"), "{shown}");
}

#[test]
fn an_unknown_metric_is_reported_before_anything_runs() {
    let data = "synthetic: { rows: 100, test_rows: 50, features: 20, labels: 5, labels_per_row: 2, features_per_row: 4 }";
    let evaluate = "evaluate: { data: data, predictions: { file: p.csv } }";
    let stages = |expect: &str, compare: &str| {
        format!(
            "name: m\nstages:\n  data: {{ {data} }}\n  eval: {{ {evaluate}, expect: {{ {expect} }}, compare: {{ {compare} }} }}\n"
        )
    };
    let test = PipelineTest::new(&stages("macrof1: { min: 0.1 }", ""));
    test.write("p.csv", "row,label\n0,0\n");
    for command in ["plan", "run"] {
        test.typed(&format!("{command} pipeline.yaml"))
            .refuses("the stage records no metric `macrof1`")
            .reports("did you mean `macro_f1`?");
    }
    test.write("pipeline.yaml", stages("", "metrics: { micro_fl: { abs: 0.1 } }, ignore: [curvs]"));
    test.typed("plan pipeline.yaml").refuses("did you mean `micro_f1`?").reports("did you mean `curves`?");
    test.write("pipeline.yaml", stages("macro_f1: { min: 0 }", "metrics: { micro_f1: { abs: 0.1 } }"));
    test.typed("plan pipeline.yaml").ok();
    test.write(
        "pipeline.yaml",
        "name: c\nstages: { c: { command: { run: echo > a, outputs: [a] }, expect: { own: { min: 0 } } } }\n",
    );
    test.typed("plan pipeline.yaml").ok();
}

#[test]
fn the_name_of_a_pipeline_leads_to_its_file() {
    let test = PipelineTest::empty();
    for name in ["fits", "other"] {
        test.write(&format!("pipelines/{name}.yaml"), FITS.replace("name: fits", &format!("name: {name}")));
    }
    for line in ["run fits", "run ftis", "plan fits", "status fits", "graph fits", "verify fits"] {
        test.typed(line).exits_with(2).reports("`pipelines/fits.yaml`");
    }
    test.typed("run pipelines/other.yaml").ok();
    test.typed("run fits").refuses("`pipelines/fits.yaml`");
    test.typed("run fit").ok();
    test.typed("run tabel").refuses("did you mean `table`?");
}

#[test]
fn misspelt_words_of_a_pipeline_get_a_suggestion() {
    let data = "data: { synthetic: { rows: 100, test_rows: 50, features: 20, labels: 5, labels_per_row: 2, features_per_row: 4 } }";
    let fit = "fit: { fit: { data: data, model: { kind: ridge } } }";
    let test = PipelineTest::empty();
    for (stage, hint) in [
        ("threshold: { data: data, model: fit, objective: marco }", "did you mean `macro`?"),
        ("threshold: { data: data, model: fit, objective: \"${var.x}\" }", "did you mean `${vars.x}`?"),
        ("threshold: { data: data, model: fit, rule: { kind: scutt } }", "did you mean `scut`?"),
        ("fit: { data: data, model: { kind: ridge }, device: cpuu }", "did you mean `cpu`?"),
        ("compare: exct, fit: { data: data, model: { kind: ridge } }", "did you mean `exact`?"),
        (
            "matrix: { a: [uno, due], exclude: [{ a: umo }] }, fit: { data: data, model: { kind: ridge } }",
            "did you mean `uno`?",
        ),
        ("load: { dataset: medicla }", "there is no data set `medicla` (did you mean `medical`?); the known"),
        (
            "table: { from: [fit], rows: [stage], columns: [macro_f1], reference: paper-tabel-1 }",
            "did you mean `paper-table-1`?",
        ),
        ("plot: { eval: [fit], figures: [label-frequncy] }", "did you mean `label-frequency`?"),
    ] {
        test.write("p.yaml", format!("name: x\nstages:\n  {data}\n  {fit}\n  x: {{ {stage} }}\n"));
        test.typed("plan p.yaml").refuses(hint);
    }
    test.write("p.yaml", "extends: builtn/recipe\nname: x\n");
    test.typed("plan p.yaml").refuses("did you mean `builtin/recipe`?");
}

#[test]
fn misspelt_words_of_the_command_line_get_a_suggestion() {
    let test = fits();
    for (line, hint) in [
        ("runs show lates", "did you mean `latest`?"),
        ("status --run lates~1", "did you mean `latest~1`?"),
        ("whence results/fits/tabel.txt", "did you mean `results/fits/table.txt`?"),
        ("run --set var.lr=1", "`vars.lr=value`"),
        ("get table.tabel", "did you mean `table`?"),
        ("why fit[adaptve]", "did you mean `adaptive`?"),
        ("show fit[varaint=static]", "did you mean `variant`?"),
    ] {
        test.typed(line).exits_with(2).reports(hint);
    }
}
