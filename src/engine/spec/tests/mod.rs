//! Tests of the pipeline language: what loads, and what is reported for what does not.

/// Asserts a snapshot without the expression, which would only repeat the test.
macro_rules! assert_shown {
    ($text:expr) => {
        insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!($text) })
    };
}

mod accepted;
mod properties;
mod rejected;
mod syntax;

/// A pipeline like the real ones.
pub(super) const ABLATION: &str = r#"
name: bibtex
vars: { epochs: 150, seeds: [0, 1] }
stages:
  data:
    load: { dataset: bibtex }
  idf:
    idf: { data: data }
  train:
    matrix: { variant: [adaptive, static], seed: "${vars.seeds}" }
    train: { data: data, idf: idf, variant: "${matrix.variant}", seed: "${matrix.seed}", epochs: "${vars.epochs}" }
  eval:
    each: train
    evaluate: { model: "${each}", data: data }
  table1:
    table: { from: ["eval[*]"], title: "after ${vars.epochs} epochs" }
outputs: [table1]
"#;
