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
    test.pipe(&["run", "pipeline.yaml", "--set", "vars.value=2"]).exits_with(4).says("--overwrite");
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
    test.pipe(&["run", "pipeline.yaml"]).exits_with(4).says("--overwrite");
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

const TABLE: &str = "results/paper/table.tex";

/// Gives the variable another value, runs the pipeline, and checks that the table is up to date.
#[track_caller]
fn replaces_the_table(test: &PipelineTest, old: &str, new: &str) {
    test.edit("pipeline.yaml", &format!("value: {old} "), &format!("value: {new} "));
    test.run().ok();
    assert_eq!(test.read(TABLE), format!("{new}\n"));
}

#[test]
fn the_results_of_a_clone_are_replaced() {
    let original = locked_table();
    let clone = PipelineTest::empty();
    for file in ["pipeline.yaml", "pipeline.lock", TABLE] {
        clone.write(file, original.read(file));
    }
    replaces_the_table(&clone, "1", "2");
    assert_ne!(clone.read("pipeline.lock"), original.read("pipeline.lock"));
    clone.typed("verify pipeline.yaml").ok();
}

fn locked_table() -> PipelineTest {
    let test = table();
    test.run().ok();
    test.typed("lock pipeline.yaml").ok();
    test
}

#[test]
fn results_that_version_control_brought_back_are_replaced() {
    let test = table();
    test.run().ok();
    replaces_the_table(&test, "1", "2");
    test.write(TABLE, "1\n");
    replaces_the_table(&test, "2", "3");
}

/// Writes the table anew, as version control does: then the file itself does not say who placed it.
fn write_anew(test: &PipelineTest, text: &str) {
    test.remove(TABLE).write(TABLE, text);
}

#[test]
fn results_are_replaced_after_the_cache_was_deleted() {
    let test = locked_table();
    write_anew(&test, "1\n");
    test.remove("cache");
    replaces_the_table(&test, "1", "2");
}

#[test]
fn results_are_replaced_after_the_project_was_moved() {
    let test = table();
    test.run().ok();
    write_anew(&test, "1\n");
    let moved = PipelineTest::empty();
    for file in ["pipeline.yaml", "cache", "results"] {
        std::fs::rename(test.file(file), moved.file(file)).unwrap();
    }
    replaces_the_table(&moved, "1", "2");
}

#[test]
fn results_are_replaced_after_the_pipeline_was_renamed() {
    let test = table();
    test.run().ok();
    write_anew(&test, "1\n");
    std::fs::rename(test.file("pipeline.yaml"), test.file("renamed.yaml")).unwrap();
    test.edit("renamed.yaml", "value: 1", "value: 2");
    test.typed("run renamed.yaml").ok();
    assert_eq!(test.read(TABLE), "2\n");
}

/// Returns the path of the record of the only pipeline, relative to the project.
fn record(test: &PipelineTest) -> String {
    let records = test.files_below("cache/v2/pipelines");
    assert_eq!(records.len(), 1);
    format!("cache/v2/pipelines/{}", records.keys().next().unwrap().display())
}

#[test]
fn results_are_replaced_after_the_record_was_damaged() {
    let test = table();
    test.run().ok();
    write_anew(&test, "1\n");
    test.write(&record(&test), "garbage");
    replaces_the_table(&test, "1", "2");
}

#[test]
fn results_are_replaced_if_only_a_manifest_knows_them() {
    let test = table();
    test.run().ok();
    write_anew(&test, "1\n");
    test.remove(&record(&test)).remove("cache/v2/blobs");
    replaces_the_table(&test, "1", "2");
}

#[test]
fn results_are_replaced_if_only_a_blob_or_what_took_its_place_knows_them() {
    for is_damaged in [false, true] {
        let test = table();
        test.run().ok();
        write_anew(&test, "1\n");
        test.remove(&record(&test)).remove("cache/v2/actions");
        for blob in test.files_below("cache/v2/blobs").keys().filter(|_| is_damaged) {
            let blob = test.file("cache/v2/blobs").join(blob);
            std::fs::remove_file(&blob).unwrap();
            std::os::unix::fs::symlink("nowhere", &blob).unwrap();
        }
        replaces_the_table(&test, "1", "2");
    }
}

#[test]
fn results_are_replaced_if_only_the_file_itself_says_who_placed_it() {
    let test = table();
    let probe = rustix::fs::XattrFlags::empty();
    if rustix::fs::setxattr(test.file("pipeline.yaml"), "user.probe", b"1", probe).is_err() {
        return; // The file system has no extended attributes.
    }
    test.run().ok();
    test.remove("cache");
    replaces_the_table(&test, "1", "2");

    // A program that writes to the same file keeps its attributes, but the content no longer matches.
    test.write(TABLE, "my own remark\n").remove("cache").edit("pipeline.yaml", "value: 2", "value: 3");
    test.run().exits_with(4);
    assert_eq!(test.read(TABLE), "my own remark\n");
}

#[test]
fn results_are_replaced_after_a_run_was_killed_before_it_saved_its_record() {
    let test = table();
    test.run().ok();
    let before = test.read(&record(&test));
    replaces_the_table(&test, "1", "2");
    write_anew(&test, "2\n");
    test.write(&record(&test), before);
    replaces_the_table(&test, "2", "3");
}

#[test]
fn the_record_knows_the_new_content_and_the_content_that_it_replaced() {
    for left in ["1\n", "2\n"] {
        let test = table();
        test.run().ok();
        replaces_the_table(&test, "1", "2");
        // As if a run had been killed before or after it placed the file, and a later one had collected garbage.
        write_anew(&test, left);
        test.remove("cache/v2/blobs").remove("cache/v2/actions");
        replaces_the_table(&test, "2", "3");
    }
}

#[test]
fn of_two_concurrent_runs_the_later_one_places_its_results() {
    let test = PipelineTest::new(
        "
name: paper
vars: { value: 1, go: /dev/null }
stages:
  table:
    command:
      run: \"until test -e ${vars.go}; do sleep 0.02; done; echo ${vars.value} > table.tex\"
      outputs: [table.tex]
outputs: [table]
",
    );
    test.run().ok();
    let go = test.file("go");
    let wait = format!("vars.go={}", go.display());
    let mut slow = test.command(&["run", "pipeline.yaml", "--set", "vars.value=2", "--set", &wait]);
    let slow = slow.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::null()).spawn().unwrap();
    while test.files_below("cache/v2/runs").len() < 3 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    test.run_with(&["--set", "vars.value=3"]).ok();
    assert_eq!(test.read(TABLE), "3\n");
    test.write("go", "");
    let ended = slow.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(test.read(TABLE), "2\n");
    test.run().ok();
    assert_eq!(test.read(TABLE), "1\n");
}

#[test]
fn directories_are_replaced_or_kept_like_files() {
    let yaml = "
name: paper
vars: { value: 1 }
stages:
  pages: { command: { run: \"mkdir pages; echo ${vars.value} > pages/one\", outputs: [pages] } }
outputs: [pages]
";
    let test = PipelineTest::new(yaml);
    test.run().ok();
    test.typed("lock pipeline.yaml").ok();
    test.remove("cache").edit("pipeline.yaml", "value: 1", "value: 2");
    test.run().ok();
    assert_eq!(test.read("results/paper/pages/one"), "2\n");
    test.write("results/paper/pages/mine", "a remark").edit("pipeline.yaml", "value: 2", "value: 3");
    test.run().exits_with(4);
    assert_eq!(test.read("results/paper/pages/one"), "2\n");
}

#[test]
fn a_file_that_cannot_be_looked_at_is_an_error_and_not_an_edit() {
    let test = locked_table();
    let lock = test.read("pipeline.lock");
    test.remove(TABLE).edit("pipeline.yaml", "value: 1", "value: 2");
    std::os::unix::fs::symlink("table.tex", test.file(TABLE)).unwrap();
    let failed = test.run().exits_with(1);
    assert!(failed.stdout.contains("could not be placed: cannot read"), "{}", failed.stdout);
    assert_eq!(test.read("pipeline.lock"), lock);
}

#[test]
fn a_killed_run_has_recorded_what_it_computed() {
    let test = PipelineTest::new(
        "
name: killed
stages:
  quick: { command: { run: echo > quick.txt, outputs: [quick.txt] } }
  slow: { command: { run: sleep 30; cp in/quick slow.txt, inputs: { quick: quick }, outputs: [slow.txt] } }
",
    );
    let mut run = test.command(&["run", "pipeline.yaml"]);
    let mut run = run.stderr(std::process::Stdio::null()).spawn().unwrap();
    let begin = std::time::Instant::now();
    let is_recorded = || {
        !test.files_below("cache/v2/pipelines").is_empty()
            && test.read(&record(&test)).contains("\"last\":{\"quick\":")
    };
    while !is_recorded() {
        assert!(begin.elapsed().as_secs() < 30, "nothing was recorded while the run went on");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(is_recorded(), "{}", test.read(&record(&test)));
}

#[test]
fn an_output_may_change_from_a_directory_to_a_file_and_back() {
    let test = PipelineTest::new("");
    let pipeline = |run: &str, output: &str| {
        format!(
            "name: paper\nstages:\n  d: {{ command: {{ run: \"{run}\", outputs: {{ d: {output} }} }} }}\noutputs: {{ results/d: d.d }}\n"
        )
    };
    let (directory, file) = (pipeline("mkdir d; echo 1 > d/a", "d/"), pipeline("echo 2 > d", "d"));
    for _ in 0..2 {
        test.write("pipeline.yaml", &directory).run().ok();
        assert_eq!(test.read("results/d/a"), "1\n");
        test.write("pipeline.yaml", &file).run().ok();
        assert_eq!(test.read("results/d"), "2\n");
    }
}

#[test]
fn a_file_that_is_no_longer_an_output_is_named_as_long_as_it_is_there() {
    let test = table();
    test.run().ok();
    test.write("pipeline.yaml", test.read("pipeline.yaml").replace("outputs: [table]\n", ""));
    for _ in 0..2 {
        test.run().ok().says("`results/paper/table.tex` is no longer an output");
    }
    test.write("results/paper/table.tex", "mine now\n");
    assert!(!test.run().ok().stderr.contains("no longer an output"));
}

#[test]
fn the_pipeline_that_was_run_last_is_one_of_this_project() {
    let test = table();
    test.run().ok();
    let copy = PipelineTest::new("");
    std::fs::remove_file(copy.file("pipeline.yaml")).unwrap();
    copy.write("pipelines/own.yaml", test.read("pipeline.yaml").replace("echo", "echo own"));
    let cache = test.file("cache").display().to_string();
    copy.pipe(&["run", "--cache-dir", &cache]).ok();
    assert_eq!(copy.read("results/paper/table.tex"), "own 1\n");
}
