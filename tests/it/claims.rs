//! `claim`: a statement about evaluations that every run checks.

use crate::support::PipelineTest;

/// Two evaluations of given predictions, and a claim about them.
const CLAIM: &str = "
name: claims
stages:
  data:
    synthetic: { rows: 300, test_rows: 100, features: 60, labels: 12, labels_per_row: 2, features_per_row: 8, seed: 1 }
  all: { evaluate: { data: data, predictions: { file: all.csv }, bootstrap: { replicates: 20 } } }
  one: { evaluate: { data: data, predictions: { file: one.csv }, bootstrap: { replicates: 20 } } }
  wins: { claim: { better: all, than: [one], on: micro_f1, significant: true, bootstrap: { replicates: 200 } } }
outputs: [wins]
";

/// Predicts every label of all rows, or only one.
pub(crate) fn claims() -> PipelineTest {
    let test = PipelineTest::new(CLAIM);
    for (file, labels) in [("all.csv", 12), ("one.csv", 1)] {
        let lines = (0..100).flat_map(|row| (0..labels).map(move |label| format!("{row},{label}\n")));
        test.write(file, format!("row,label\n{}", lines.collect::<String>()));
    }
    test
}

#[test]
fn a_claim_that_holds_is_recorded_verified_and_reported() {
    let test = claims();
    test.run().ok();
    let shown = test.typed("show wins").ok().prints("holds: 1");
    assert!(!shown.stdout.contains("null"), "references are shown as inputs: {}", shown.stdout);
    let verdict: serde_json::Value = serde_json::from_str(&test.read("results/claims/claim.json")).unwrap();
    assert_eq!(
        (&verdict["passed"], &verdict["comparisons"][0]["holds"]),
        (&true.into(), &true.into()),
        "{verdict}"
    );
    test.typed("lock").ok();
    test.typed("verify").ok();
    test.typed("report -o page.html").ok();
    let page = test.read("page.html");
    assert!(page.contains("significantly better than that of"), "the claim is not on the page");
}

#[test]
fn a_claim_that_does_not_hold_fails_the_run_and_verify_and_says_why() {
    let test = claims();
    test.run().ok();
    test.typed("lock").ok();
    test.edit("pipeline.yaml", "better: all, than: [one]", "better: one, than: [all]");
    for _ in 0..2 {
        test.typed("run").exits_with(1).reports("the claim does not hold");
    }
    test.typed("show wins").ok().prints("holds: 0").prints("significantly worse than that of");
    test.typed("verify").exits_with(1);
    test.typed("plan --check").exits_with(10).reports("the claim does not hold");
    test.typed("report -o page.html").ok();
    assert!(test.read("page.html").contains("card failed"), "the claim is not on the page");
    test.edit("pipeline.yaml", "on: micro_f1", "on: bce");
    test.typed("run").exits_with(1).reports("has no `bce`");
}

#[test]
fn a_stored_claim_is_shown_by_cached_runs_plan_status_and_verify() {
    let test = claims();
    test.typed("run pipeline.yaml").ok();
    let verdict: serde_json::Value = serde_json::from_str(&test.read("results/claims/claim.json")).unwrap();
    let said = format!("claim holds: wins: {}", verdict["sentence"].as_str().unwrap());
    test.typed("run").ok().reports(&said).reports("4 cached");
    test.typed("run all").ok();
    assert!(!test.typed("run all").ok().stderr.contains("claim"), "it was not asked for");
    test.typed("plan").ok().prints(&said);
    test.typed("status").ok().prints(&said);
    test.typed("lock").ok();
    test.typed("verify").ok().prints(&said);
    assert!(!test.run().ok().stdout.contains("claim holds"), "events are JSON");
    test.edit("pipeline.yaml", "better: all, than: [one]", "better: one, than: [all]");
    for _ in 0..2 {
        test.typed("run").exits_with(1).reports("claim fails: wins: ");
    }
}
