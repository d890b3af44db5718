//! `pipe show`, `pipe logs` and `pipe table`.

use super::fits;
use crate::support::PipelineTest;

#[test]
fn show_prints_parameters_inputs_and_outputs() {
    let test = fits();
    let shown = test.typed("show fit[adaptive]").ok().reports_nothing();
    shown.prints("echo adaptive 0.0001").prints("model.txt").prints("fresh");
    test.typed("show table").ok().prints("fit[adaptive]").prints("fit[static]");
    let shown = test.typed("show table --json").ok().json();
    assert!(shown.to_string().contains("fit[static]"), "{shown}");
    let both = test.typed("show fit --json").ok().json();
    assert_eq!((&both[0]["instance"], &both[1]["state"]), (&"fit[adaptive]".into(), &"fresh".into()));
    test.typed("show table --set vars.lr=1").ok().prints("table");
}

#[test]
fn built_in_parts_can_be_printed_and_extended_without_a_copy() {
    let test = PipelineTest::new("extends: builtin/recipe\nname: mine\n");
    for (part, stages) in [("recipe", "data"), ("long-tail", "data"), ("grid", "data weighted")] {
        let printed = test.typed(&format!("show --part {part}")).ok().reports_nothing().stdout;
        assert!(printed.contains(&format!("extends: builtin/{part}`")), "{printed}");
        let mut yaml = format!("extends: builtin/{part}\nname: mine\nstages:\n");
        for stage in stages.split(' ') {
            yaml += &format!("  {stage}: {{ synthetic: {{ validation: {{ fraction: 0.1 }} }} }}\n");
        }
        test.write("pipeline.yaml", yaml);
        test.typed("plan pipeline.yaml").ok().prints("audit");
    }
    test.typed("show --part recpie").refuses("did you mean `recipe`?");
    test.typed("show --part recipe data").exits_with(2);
    test.typed("show").exits_with(2).reports("<STAGE>");
}

#[test]
fn logs_print_what_a_stage_wrote() {
    let test = fits();
    test.typed("logs fit[static]").ok().prints("fitted").prints("careful");
    assert_eq!(test.typed("logs fit[static] --stderr").ok().stdout, "careful\n");
    test.typed("logs fit").ok().prints("fitted");
    test.typed("logs").exits_with(2).reports("<STAGE>");
}

#[test]
fn a_stage_that_never_ran_can_be_shown_but_has_no_log() {
    let test = PipelineTest::new(super::FITS);
    test.typed("show pipeline.yaml table").ok().prints("never run");
    let logs = test.typed("logs pipeline.yaml table");
    assert!(!logs.stdout.contains("fitted"), "{}", logs.stdout);
    test.typed("table pipeline.yaml fit").refuses("`table` stage");
}

#[test]
fn a_table_that_was_not_computed_says_how_to_compute_it() {
    let test = PipelineTest::new(
        "
name: tables
stages:
  data: { synthetic: { rows: 200, test_rows: 20, features: 300, labels: 40 } }
  ridge: { fit: { data: data, model: { kind: ridge } } }
  score: { evaluate: { data: data, model: ridge } }
  scores: { table: { from: score, rows: protocol, columns: macro_f1 } }
",
    );
    test.typed("table pipeline.yaml").exits_with(1).reports("pipe run").prints_nothing();
    test.typed("table pipeline.yaml scroes").refuses("did you mean `scores`?");
    test.typed("table pipeline.yaml ridge").refuses("`scores`");
    test.typed("table pipeline.yaml --format docx").refuses("csv");
}

#[test]
fn a_warning_of_a_stage_is_shown_again_wherever_its_result_is() {
    let yaml = "{ name: w, stages: { w: { command: { run: 'touch a.txt b.txt', outputs: [a.txt] } } } }";
    let test = PipelineTest::new(yaml);
    let warning = "it also wrote `b.txt`";
    test.typed("run pipeline.yaml").ok().reports(warning);
    for _ in 0..2 {
        test.typed("run").ok().reports("1 cached result with warnings: `pipe runs show` shows them");
    }
    test.typed("show w").ok().prints(warning);
    test.typed("logs w").ok().reports(warning);
    test.typed("runs show").ok().prints(warning);
    let run = test.typed("runs show --json").ok().json();
    assert!(run["stages"][0]["warnings"][0].as_str().unwrap().contains(warning), "{run}");
    test.typed("report -o page.html").ok();
    assert!(test.read("page.html").contains("it also wrote"), "the page has no warning");
}
