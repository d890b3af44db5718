//! `pipe whence`.

use super::{FITS, fits};
use crate::support::{PipelineTest, Ran};

#[test]
fn a_placed_file_leads_back_to_its_stages_and_its_run() {
    let test = PipelineTest::new(FITS);
    test.run_with(&["--set", "vars.lr=7"]).ok();
    let whence = test.typed("whence results/fits/table.txt").ok();
    whence.prints("the output `table` of `table` (command)").prints("--set vars.lr=7").prints("fit[static]");
    let json = test.typed("whence results/fits/table.txt --json").ok().json();
    assert_eq!(json["stages"].as_array().unwrap().len(), 2, "{json}");
    assert_eq!(json["commit"], serde_json::Value::Null);
}

#[test]
fn a_copy_is_known_by_its_content_and_an_edited_file_is_not() {
    let test = fits();
    let table = test.read("results/fits/table.txt");
    test.write("elsewhere.txt", &table);
    test.typed("whence elsewhere.txt").ok().prints("`table`");
    test.write("elsewhere.txt", table + "edited\n");
    test.typed("whence elsewhere.txt").exits_with(1).reports("no result in the cache has the content");
    test.typed("whence nothing.txt").exits_with(2).reports("nothing.txt");
}

#[test]
fn a_file_in_a_directory_and_a_file_of_the_user_are_found() {
    let test = PipelineTest::new(
        "name: d\nstages:\n  d: { command: { run: \"mkdir out; cp in/text out/a\", inputs: { text: { file: text.txt } }, outputs: [out] } }\noutputs: [d]\n",
    );
    test.write("text.txt", "words\n");
    test.run().ok();
    let json = test.typed("whence results/d/out/a --json").ok().json();
    assert_eq!((&json["stage"], &json["output"]), (&"d".into(), &"out".into()), "{json}");
    assert_eq!(json["files"][0]["input"], "text", "{json}");
}

#[test]
fn equal_content_is_told_and_does_not_confuse_pipelines() {
    let test = PipelineTest::new("name: a\nstages: { other: { command: { run: ': > e', outputs: [e] } } }\n");
    test.run().ok();
    let used =
        "{ command: { run: 'cat in/e in/t > v', inputs: { e: y, t: { file: t.txt } }, outputs: [v] } }";
    let empty = "{ command: { run: ': > empty', outputs: [empty] } }";
    test.write("b.yaml", format!("name: b\nstages:\n  y: {empty}\n  v: {used}\noutputs: [y, v]\n"));
    test.write("t.txt", "text\n");
    test.typed("run b.yaml").ok();
    let json = test.typed("whence results/b/v --json").ok().json();
    assert_eq!(json["stages"][0]["stage"], "y", "{json}");
    assert_eq!(json["files"][0]["input"], "t", "{json}");
    test.typed("whence results/b/empty").ok().prints("the same content: ");
}

#[test]
fn the_commit_that_recorded_a_result_is_named() {
    let test = PipelineTest::locked(FITS);
    let git = |line: &str| {
        let mut command = std::process::Command::new("git");
        command.current_dir(test.path()).args(["-c", "user.name=a", "-c", "user.email=a@b.c"]);
        Ran::finish({
            command.args(line.split('|'));
            command
        })
        .ok();
    };
    git("init|-q|.");
    git("add|pipeline.yaml");
    git("commit|-qm|Begin");
    test.typed("run --set vars.lr=7").ok();
    test.typed("whence results/fits/table.txt").ok().prints("Begin (checked out when it was computed");
    git("add|results/fits/table.txt");
    git("commit|-qm|Publish the table");
    test.typed("whence results/fits/table.txt").ok().prints("Publish the table (the first that contains it)");
    test.typed("run --overwrite").ok();
    git("add|pipeline.lock");
    git("commit|-qm|Record the fits");
    test.typed("whence results/fits/table.txt").ok().prints("Record the fits");
}
