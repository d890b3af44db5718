//! `pipe shell` and `pipe run --try`: looking at a stage without recording anything.

use std::io::Write as _;
use std::process::Stdio;

use super::{FITS, fits};
use crate::support::{PipelineTest, Ran};

/// Types lines into a shell that `pipe shell` opens.
fn shell(test: &PipelineTest, args: &[&str], typed: &str) -> Ran {
    let mut command = test.command(&[&["shell"], args].concat());
    command.env("SHELL", "/bin/sh").env("SECRET", "x");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The program may refuse before it reads anything.
    let _ = child.stdin.take().unwrap().write_all(typed.as_bytes());
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn a_shell_has_the_inputs_and_the_environment_of_the_command_and_can_run_it() {
    let test = fits();
    let before = test.files_below("");
    shell(
        &test,
        &["table"],
        "cat in/models/*; echo secret=$SECRET; ../run && cat table.txt; echo x > in/new\n",
    )
    .ok()
    .reports("`table` would run in")
    .reports("`../run` runs its command")
    .reports("nothing was recorded")
    .prints("adaptive 0.0001\nstatic 0.0001\nsecret=\nadaptive 0.0001\nstatic 0.0001\n");
    assert!(test.files_below("") == before, "the shell left something behind");
}

#[test]
fn a_shell_writes_to_copies_of_its_inputs() {
    let test = fits();
    shell(&test, &["table"], "for file in in/models/*; do chmod u+w $file; echo damage >> $file; done\n")
        .ok();
    test.typed("cache fsck").ok();
    assert_eq!(test.run().ok().computed(), [""; 0]);
}

#[test]
fn a_shell_needs_one_instance_whose_inputs_are_computed() {
    let test = PipelineTest::new(FITS);
    shell(&test, &["pipeline.yaml", "table"], "")
        .exits_with(1)
        .reports("`table` needs `fit[adaptive]`, which is not up to date; `pipe run pipeline.yaml 'fit[adaptive]'` computes it");
    shell(&test, &["pipeline.yaml", "fit"], "")
        .refuses("`fit` selects 2 instances: fit[adaptive], fit[static]");
}

#[test]
fn trying_a_stage_computes_it_and_records_nothing() {
    let test = fits();
    let before = test.files_below("");
    let tried = test.pipe(&["run", "table", "--try", "--set", "vars.lr=7", "--json"]).ok();
    assert_eq!(tried.computed(), ["fit[adaptive]", "fit[static]", "table"]);
    let last = tried.events().pop().unwrap();
    assert_eq!((last["event"].as_str(), last["instance"].as_str()), (Some("tried"), Some("table")));
    let output = last["outputs"]["table"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(output).unwrap(), "adaptive 7\nstatic 7\n");
    std::fs::remove_dir_all(std::path::Path::new(output).ancestors().nth(2).unwrap()).unwrap();
    assert!(test.files_below("") == before, "the cache, the results or the lock changed");
}

#[test]
fn trying_a_stage_computes_it_even_if_it_is_cached_and_takes_its_inputs_from_the_cache() {
    let test = fits();
    let tried = test.pipe(&["run", "table", "--try", "--json"]).ok();
    assert_eq!((tried.computed(), tried.instances("hit").len()), (vec!["table".to_owned()], 2));
    let said = test.pipe(&["run", "table", "--try"]).ok().reports("to try it out");
    assert!(!said.stderr.contains("never run before"), "{}", said.stderr);
    test.pipe(&["run", "table", "--try", "--set", "vars.lr=7"]).ok().reports("params.run");
    test.edit("pipeline.yaml", "cat in/models/*", "false");
    test.pipe(&["run", "table", "--try"]).exits_with(1).reports("nothing was recorded");
    test.pipe(&["run", "--try"]).refuses("`pipe run STAGE --try`");
    test.pipe(&["run", "table", "--try", "--locked"]).refuses("cannot be used with");
}
