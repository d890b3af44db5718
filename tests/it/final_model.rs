//! Models that are chosen by the sizes of the data, and models that are fitted on all rows.

use super::own_data::csv;
use super::support::{PipelineTest, worker_program};

const PIPELINE: &str = r#"
name: final
vars: { judged: cut }
stages:
  data:
    vectorise:
      files: { rows: things.csv }
      read: { input_column: description, label_column: tags, label_separator: "," }
      split: { holdout: 0.3, seed: 0 }
      filter: { min_label_count: 3 }
  model: { fit: { data: data, model: { kind: auto } } }
  fused: { fuse: { data: data, models: [model] } }
  cut: { threshold: { data: data, model: fused } }
  eval: { evaluate: { data: data, model: "${vars.judged}" } }

  final-model: { fit: { data: data, model: { kind: auto }, part: all } }
  final-fused: { fuse: { data: data, models: [final-model] } }
  final: { threshold: { data: data, model: final-fused } }

  # A data set without a test part.
  whole:
    vectorise:
      files: { rows: things.csv }
      read: { input_column: description, label_column: tags, label_separator: "," }
  whole-model: { fit: { data: whole, model: { kind: neighbours }, part: all } }
  whole-fused: { fuse: { data: whole, models: [whole-model] } }
  whole-cut: { threshold: { data: whole, model: whole-fused, objective: samples } }
"#;

#[test]
fn a_final_model_is_fitted_on_all_rows_and_is_never_evaluated_on_them() {
    worker_program();
    let test = PipelineTest::new(PIPELINE);
    test.write("things.csv", csv());
    test.run().ok();
    test.typed("show model").ok().prints("model: kernel_ridge, because 63 rows are at most 10,000");
    test.typed("show final-model").ok().prints("because 63 rows are at most 10,000");

    test.typed("model export final final").ok();
    let card = test.read("final/README.md");
    for expected in [
        "- Fitted on: all rows",
        "- Chosen by the sizes of the data: `kernel_ridge`, because 63 rows are at most 10,000",
        "These values are those of `cut`, which the same stages made from the training rows alone.",
        "27 test rows, honest protocol.",
    ] {
        assert!(card.contains(expected), "{expected}: {card}");
    }
    test.typed("model export cut cut").ok();
    let card = test.read("cut/README.md");
    assert!(card.contains("- Fitted on: the training rows") && !card.contains("those of `cut`"), "{card}");
    test.typed("model export whole-cut whole").ok();
    let card = test.read("whole/README.md");
    assert!(card.contains("No stage of the pipeline evaluates this model"), "{card}");

    let refused = test.run_with(&["--set", "vars.judged=final"]);
    refused.exits_with(1).says("this model was fitted on all rows");
}
