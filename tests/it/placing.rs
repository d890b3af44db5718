//! Generated files outside the cache.

use crate::support::PipelineTest;

fn table() -> PipelineTest {
    PipelineTest::new(
        "
name: paper
vars: { value: 1 }
stages:
  table: { command: { run: \"echo ${vars.value} > table.tex\", outputs: [table.tex] } }
outputs: [table]
",
    )
}

#[test]
fn a_generated_file_appears_under_results_and_its_path_on_standard_output() {
    let test = table();
    let ran = test.pipe(&["run", "pipeline.yaml"]).ok();
    assert_eq!(ran.stdout, "results/paper/table.tex\n");
    assert_eq!(test.read("results/paper/table.tex"), "1\n");
}

#[test]
fn a_deleted_file_comes_back_without_computing() {
    let test = table();
    test.run().ok();
    std::fs::remove_file(test.file("results/paper/table.tex")).unwrap();
    assert_eq!(test.run().ok().computed(), [""; 0]);
    assert_eq!(test.read("results/paper/table.tex"), "1\n");
}

#[test]
fn a_file_that_the_user_edited_is_left_alone_until_told_otherwise() {
    let test = table();
    test.run().ok();
    test.write("results/paper/table.tex", "my own remark\n");
    test.pipe(&["run", "pipeline.yaml", "--set", "vars.value=2"]).ok().says("--overwrite");
    assert_eq!(test.read("results/paper/table.tex"), "my own remark\n");
    test.pipe(&["run", "pipeline.yaml", "--set", "vars.value=2", "--overwrite"]).ok();
    assert_eq!(test.read("results/paper/table.tex"), "2\n");
    test.run().ok();
    assert_eq!(test.read("results/paper/table.tex"), "1\n");
}

#[test]
fn a_file_that_was_there_before_the_first_run_is_left_alone() {
    let test = table();
    test.write("results/paper/table.tex", "older than pipe\n");
    test.pipe(&["run", "pipeline.yaml"]).ok().says("--overwrite");
    assert_eq!(test.read("results/paper/table.tex"), "older than pipe\n");
}
