//! Tables on a terminal fit its width; elsewhere they are complete.

use crate::claims::claims;
use crate::support::PipelineTest;

/// Two evaluations, a claim, and a table that is wider than 80 columns.
fn wide() -> PipelineTest {
    let test = claims();
    let columns = "macro_f1, micro_f1, micro_precision, micro_recall, sample_f1, subset_accuracy, hamming_loss, label_coverage";
    let table = format!(
        "  table: {{ table: {{ from: [all, one], rows: [stage], columns: [{columns}] }} }}\noutputs:"
    );
    test.edit("pipeline.yaml", "outputs:", &table);
    test.typed("run pipeline.yaml --note first").ok();
    test
}

#[test]
fn no_command_is_wider_than_the_terminal() {
    let test = wide();
    let lines = [
        "runs --metric micro_f1",
        "runs show",
        "table",
        "labels all",
        "plan",
        "status",
        "show all",
        "graph",
        "cache ls",
        "whence results/claims/claim.json",
    ];
    for line in lines {
        // The lines with digests, which are never broken, have 74 columns.
        for columns in if line.starts_with("whence") { [80, 76] } else { [80, 60] } {
            let shown = test.on_terminal(columns, line);
            let widest = shown.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= usize::from(columns), "`{line}` is {widest} wide:\n{shown}");
        }
    }
}

#[test]
fn messages_of_a_run_are_broken_between_words() {
    let data =
        "{ rows: 50, test_rows: 10, features: 20, labels: 40, labels_per_row: 1, features_per_row: 2 }";
    let test = PipelineTest::new(&format!("name: long\nstages:\n  data: {{ synthetic: {data} }}"));
    let shown = test.status_on_terminal(60, "run pipeline.yaml --no-progress --color never");
    assert!(shown.contains("labels have"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 60), "{shown}");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&shown).contains("from which a model can hardly learn them"), "{shown}");
}

#[test]
fn columns_that_do_not_fit_are_named_and_are_there_when_piped() {
    let test = wide();
    let piped = test.typed("table").ok().prints("Label coverage").stdout;
    let shown = test.on_terminal(60, "table");
    assert!(shown.contains("not enough room for") && shown.contains("| less -S"), "{shown}");
    assert!(!piped.contains("not enough room"), "{piped}");
    // What is shown of a row is what is piped: no number is broken.
    let values = |text: &str| {
        let row = text.lines().find(|line| line.starts_with("one")).unwrap();
        row.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(values(&piped).starts_with(&values(&shown)), "{piped}{shown}");
    let id = test.typed("runs --json").ok().json()[0]["run"].as_str().unwrap().to_owned();
    let runs = test.on_terminal(80, "runs --metric micro_f1");
    assert!(runs.contains(&id) && runs.contains("first") && runs.contains("micro_f1"), "{runs}");
    test.typed("runs --metric micro_f1").ok().prints("started").prints("skipped");
}
