//! What users type: arguments, exit codes, messages, and what goes to standard output and to standard error.

mod cache;
mod data;
mod errors;
mod export;
mod get;
mod graph;
mod init;
mod json;
mod lock;
mod options;
mod plan;
mod project;
mod run;
mod runs;
mod show;
mod streams;
mod terminal;
mod try_out;
mod verify;
mod whence;

use crate::support::PipelineTest;

/// Two fits and a table that is placed.
const FITS: &str = "
name: fits
vars: { lr: 0.0001 }
stages:
  fit:
    matrix: { variant: [adaptive, static] }
    command: { run: \"echo ${matrix.variant} ${vars.lr} > model.txt; echo fitted; echo careful >&2\", outputs: [model.txt] }
  table: { command: { run: cat in/models/* > table.txt, inputs: { models: [\"fit[*]\"] }, outputs: [table.txt] } }
outputs: [table]
";

/// Creates a project with [`FITS`] that was run once.
fn fits() -> PipelineTest {
    let test = PipelineTest::new(FITS);
    test.run().ok();
    test
}
