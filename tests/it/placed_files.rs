//! Generated files that a run places outside the cache.

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
fn a_generated_file_is_placed_in_results_and_its_path_printed() {
    let test = table();
    let ran = test.pipe(&["run", "pipeline.yaml"]).ok();
    assert_eq!(ran.stdout, "results/paper/table.tex\n");
    assert_eq!(test.read("results/paper/table.tex"), "1\n");
}

#[test]
fn a_deleted_file_is_restored_without_computing() {
    let test = table();
    test.run().ok();
    std::fs::remove_file(test.file("results/paper/table.tex")).unwrap();
    assert_eq!(test.run().ok().computed(), [""; 0]);
    assert_eq!(test.read("results/paper/table.tex"), "1\n");
}

#[test]
fn a_file_edited_by_hand_is_replaced_only_on_request() {
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
fn a_file_that_existed_before_the_first_run_is_left_alone() {
    let test = table();
    test.write("results/paper/table.tex", "older than pipe\n");
    test.pipe(&["run", "pipeline.yaml"]).ok().says("--overwrite");
    assert_eq!(test.read("results/paper/table.tex"), "older than pipe\n");
}

#[test]
fn every_placed_file_is_listed() {
    let names: Vec<String> = (0..14).map(|n| format!("f{n}.txt")).collect();
    let list = names.join(", ");
    let run = names.iter().map(|name| format!("echo > {name}")).collect::<Vec<_>>().join("; ");
    let yaml = format!(
        "name: many\nstages:\n  all: {{ command: {{ run: \"{run}\", outputs: [{list}] }} }}\noutputs: [all]\n"
    );
    let test = PipelineTest::new(&yaml);
    assert_eq!(test.pipe(&["run", "pipeline.yaml"]).ok().stdout.lines().count(), names.len());
}
