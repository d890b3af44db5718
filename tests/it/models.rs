//! Models, fusion and cuts in one pipeline.

use crate::support::{PipelineTest, worker_program};

const PIPELINE: &str = "
name: honest
stages:
  data:
    synthetic: { rows: 400, test_rows: 100, features: 200, labels: 20, labels_per_row: 2, features_per_row: 15 }
  kernel:
    fit: { data: data, model: { kind: block_kernel_ridge, rows_per_block: 150, largest_block: 300 } }
  linear:
    fit: { data: data, model: { kind: ridge } }
  logistic:
    fit: { data: data, folds: 2, model: { kind: logistic, epochs: 2 } }
  near:
    fit: { data: data, model: { kind: neighbours } }
  tree:
    fit: { data: data, keep: 15, model: { kind: label_tree, largest_leaf: 4, beam: 3 } }
  fused:
    fuse: { data: data, models: [kernel, linear, logistic, near, tree] }
  cut:
    matrix: { objective: [macro, micro] }
    threshold: { data: data, model: fused, objective: \"${matrix.objective}\" }
  eval:
    each: cut
    evaluate: { data: data, model: \"${each}\", bootstrap: { replicates: 2 } }
outputs:
  results/honest/linear/: linear.model
  results/honest/left-out/: linear.scores
  results/honest/fused/: fused.model
  fusion.json: fused.fusion
  results/honest/cut/: cut[*].model
  results/honest/eval/: eval[*].evaluation
";

#[test]
fn fitting_fusing_cutting_and_evaluating_give_the_same_bytes_twice() {
    worker_program();
    let (once, again) = (PipelineTest::new(PIPELINE), PipelineTest::new(PIPELINE));
    once.run().ok();
    again.run_with(&["--jobs", "1"]).ok();
    let results = once.files_below("results");
    // One model card per model, and one for each member of a fusion.
    let cards = results.keys().filter(|path| path.ends_with("model.json")).count();
    assert_eq!(cards, 1 + 2 + 2 * 2, "{:?}", results.keys());
    assert!(results == again.files_below("results"), "the bytes differ");
    let again = once.run().ok();
    assert_eq!(again.computed(), [""; 0], "everything is cached");
}

#[test]
fn an_explanation_shows_which_features_lead_to_a_label_in_a_tree() {
    worker_program();
    let test = PipelineTest::new(
        "
name: tree
stages:
  data:
    synthetic: { rows: 400, test_rows: 100, features: 200, labels: 20, labels_per_row: 2, features_per_row: 15 }
  tree:
    fit: { data: data, model: { kind: label_tree, largest_leaf: 4 } }
  fused:
    fuse: { data: data, models: [tree] }
  cut:
    threshold: { data: data, model: fused }
outputs: { cuts.json: cut.cuts }
",
    );
    test.run().ok();
    let text = test.pipe(&["explain", "cut", "--row", "3"]).ok().stdout;
    assert!(text.contains("classifiers on the path to the label in tree"), "{text}");
    assert!(text.contains("level 1"), "{text}");
}
