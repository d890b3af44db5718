//! The project directory, and commands that are typed in another directory.

use std::process::Command;

use super::{FITS, fits};
use crate::support::{PipelineTest, Ran};

/// Runs `pipe` in a directory of the project.
fn typed_in(test: &PipelineTest, directory: &str, line: &str) -> Ran {
    std::fs::create_dir_all(test.file(directory)).unwrap();
    let mut command: Command = test.command(&line.split_whitespace().collect::<Vec<_>>());
    command.current_dir(test.file(directory));
    Ran::finish(command)
}

fn with_pipelines() -> PipelineTest {
    let test = PipelineTest::new(FITS);
    std::fs::create_dir(test.file("pipelines")).unwrap();
    std::fs::rename(test.file("pipeline.yaml"), test.file("pipelines/fits.yaml")).unwrap();
    test
}

#[test]
fn the_project_is_found_from_a_directory_below_it() {
    let test = with_pipelines();
    typed_in(&test, "notes/today", "run ../../pipelines/fits.yaml").ok().says("working in the project");
    assert!(test.file("results/fits/table.txt").exists() && test.file("cache").exists());
    assert!(test.files_below("notes").is_empty(), "nothing is written where the command was typed");
    typed_in(&test, "pipelines", "status fits.yaml").ok().prints("fresh");
    typed_in(&test, "notes", "plan --check").ok();
    typed_in(&test, "notes", "get table --to here.txt").ok();
    assert!(test.file("notes/here.txt").exists(), "an output goes where the user typed it");
    typed_in(&test, "notes", "report -o page.html").ok().prints("notes/page.html");
    typed_in(&test, "notes", "show fit[static]").ok().prints("model.txt");
}

#[test]
fn a_directory_given_with_c_is_the_project() {
    let test = with_pipelines();
    typed_in(&test, "other", "-C . run ../pipelines/fits.yaml").ok();
    assert!(test.file("other/results/fits/table.txt").exists());
}

#[test]
fn init_writes_where_it_is_called() {
    let test = with_pipelines();
    typed_in(&test, "new", "init").ok();
    assert!(test.file("new/pipelines/example.yaml").exists());
}

#[test]
fn lock_verify_and_export_take_the_pipeline_that_was_run_last() {
    let test = fits();
    test.typed("lock").ok();
    test.typed("verify").ok().prints("same");
    test.typed("export -o bundle.tar.zst").ok();
    PipelineTest::new(FITS).typed("verify").exits_with(2).says("Nothing was run here yet");
}

#[test]
fn why_names_the_stage_that_caused_it() {
    let test = fits();
    test.edit("pipeline.yaml", "echo fitted", "echo fitted again");
    test.typed("why table").ok().prints("caused by fit[adaptive], fit[static] (will run): ");
}

#[test]
fn mistyped_commands_and_options_are_explained() {
    let test = fits();
    test.typed("rnu").exits_with(2).says("'run'");
    test.typed("run --serve 8080").exits_with(2).says("`--serve=8080`");
}
