//! `pipe verify` notices every way in which a published table can become stale, with the right exit code and the name
//! of the cause.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::{PipelineTest, Ran, worker_program};

/// Data, two fits with a seed, a table and a figure; the last two are placed.
const PAPER: &str = "
name: paper
vars: { lr: 0.1, seeds: [1, 2] }
stages:
  data: { command: { run: grep -v '^#' in/raw > data.txt, inputs: { raw: { file: raw.csv } }, outputs: [data.txt] } }
  fit:
    matrix: { seed: \"${vars.seeds}\" }
    command:
      run: (cat in/data; echo lr ${vars.lr} seed ${matrix.seed}) > fit.txt
      inputs: { data: data }
      outputs: [fit.txt]
  table:
    command:
      run: cat in/fits/* > table.tex; echo '<svg/>' > plot.svg
      inputs: { fits: [\"fit[*]\"] }
      outputs: [table.tex, plot.svg]
outputs:
  paper/table.tex: table.table
  paper/plot.svg: table.plot
";

fn locked(yaml: &str) -> PipelineTest {
    let test = PipelineTest::new(yaml);
    test.write("raw.csv", "# comment\n1,2\n");
    test.run().ok();
    test.pipe(&["lock", "pipeline.yaml"]).ok();
    test
}

fn verify(test: &PipelineTest, args: &[&str]) -> Ran {
    test.pipe(&[&["verify", "pipeline.yaml"], args].concat())
}

/// Returns the path of the blob that an output of the lock names.
fn blob(test: &PipelineTest, stage: &str, output: &str) -> PathBuf {
    let lock = test.read("pipeline.lock");
    let record = lock.split(&format!("stage {stage}\n")).nth(1).unwrap();
    let line = record.lines().find_map(|line| line.strip_prefix(&format!("out {output} "))).unwrap();
    let id = line.split(' ').next().unwrap();
    test.file("cache/v2/blobs").join(&id[..2]).join(id)
}

#[test]
fn a_fresh_result_is_the_same() {
    let test = locked(PAPER);
    verify(&test, &[]).ok().says("6 same");
    verify(&test, &["--lock", "--cache"]).ok().says("10 same");
    test.remove("cache");
    verify(&test, &[]).ok().says("6 same");
}

#[test]
fn missing_data_is_undetermined_and_drift_with_strict() {
    let test = locked(PAPER);
    test.remove("raw.csv");
    verify(&test, &[]).exits_with(2).says("undetermined  data: it reads `raw.csv`, which is missing");
    verify(&test, &["--strict"]).exits_with(1).says("drift  data: it reads `raw.csv`");
    verify(&test, &["--allow-missing"]).ok().says("5 same, 1 not checked");
    verify(&test, &["--strict", "--allow-missing"]).exits_with(2).says("--allow-missing");
}

#[test]
fn the_registry_stands_for_data_sets_that_are_not_downloaded() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines");
    let test = PipelineTest::empty();
    for name in ["medical.yaml", "medical.lock"] {
        test.write(&format!("pipelines/{name}"), std::fs::read(root.join(name)).unwrap());
    }
    let report = test.typed("verify pipelines/medical.yaml --json").json();
    let checks = report["checks"].as_array().unwrap();
    let data = checks.iter().find(|check| check["name"] == "data").unwrap();
    assert_eq!(data["outcome"], "same", "{data}");
}

#[test]
fn a_missing_table_is_undetermined_and_drift_with_strict() {
    let test = locked(PAPER);
    test.remove("paper/table.tex");
    for what in [&[][..], &["--cache"], &["--rerun", "data"]] {
        verify(&test, what).exits_with(2).says("undetermined  paper/table.tex: it is missing");
        verify(&test, &[what, &["--strict"]].concat()).exits_with(1).says("drift  paper/table.tex");
        verify(&test, &[what, &["--allow-missing"]].concat()).ok().says("1 not checked");
    }
    let report = verify(&test, &["--json", "--junit", "verify.xml"]).exits_with(2).json();
    assert_eq!(report["outcome"], "cannot_tell");
    assert!(test.read("verify.xml").contains("errors=\"1\""), "{}", test.read("verify.xml"));
}

#[test]
fn an_edited_table_is_found_whatever_else_is_verified() {
    let test = locked(PAPER);
    test.edit("paper/table.tex", "seed 2", "seed 7");
    for what in ["--cache", "--rerun"] {
        verify(&test, &[what]).exits_with(1).says("drift  paper/table.tex");
    }
}

#[test]
fn a_placed_file_that_cannot_be_looked_at_is_undetermined() {
    let test = locked(PAPER);
    test.remove("paper/table.tex");
    std::os::unix::fs::symlink("table.tex", test.file("paper/table.tex")).unwrap();
    verify(&test, &[]).exits_with(2).says("undetermined  paper/table.tex: cannot read");
}

#[test]
fn an_edited_parameter_is_drift_and_is_named_with_both_values() {
    let test = locked(PAPER);
    test.edit("pipeline.yaml", "lr: 0.1", "lr: 0.2");
    let drift = verify(&test, &[]).exits_with(1);
    let drift = drift.says("fit[seed=1]: params.run").says("0.1").says("0.2");
    assert!(
        !drift.stdout.contains("drift  table"),
        "a stage that only depends on the cause is not listed: {}",
        drift.stdout
    );
}

#[test]
fn another_seed_is_drift() {
    let test = locked(PAPER);
    test.edit("pipeline.yaml", "seeds: [1, 2]", "seeds: [1, 3]");
    let drift = verify(&test, &[]).exits_with(1);
    drift.says("fit[seed=3]: ").says("fit[seed=2]: ");
}

#[test]
fn another_version_of_the_code_of_a_kind_is_drift() {
    let test = locked(PAPER);
    // As if the lock had been written by a program with another version of `command`.
    let lock = test.read("pipeline.lock").replace("in version 1\n", "in version 0\n");
    test.write("pipeline.lock", resealed(&lock));
    verify(&test, &[]).exits_with(1).says("data: version 0 -> 1").says("table: version 0 -> 1");
}

/// Returns the lock with correct keys and seals, as only the program itself writes it.
pub(crate) fn resealed(lock: &str) -> String {
    let blocks = lock.split("\n\n").map(|block| {
        let Some((body, _)) = block.split_once("\nseal ") else { return block.to_owned() };
        let mut hasher = blake3::Hasher::new();
        let mut field = |text: &str| {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        };
        field("pipe stage key 1");
        for part in body.lines().filter_map(|line| line.strip_prefix("in ")) {
            let (name, value) = part.split_once(' ').unwrap();
            field(name);
            field(value);
        }
        let key = hasher.finalize().to_hex();
        let keyed: Vec<String> = body
            .lines()
            .map(|line| if line.starts_with("key ") { format!("key {key}") } else { line.to_owned() })
            .collect();
        let body = keyed.join("\n") + "\n";
        format!("{body}seal {}", &blake3::hash(body.as_bytes()).to_hex()[..16])
    });
    blocks.collect::<Vec<_>>().join("\n\n")
}

#[test]
fn changed_data_is_drift_and_the_file_is_named() {
    let test = locked(PAPER);
    test.write("raw.csv", "# comment\n1,3\n");
    verify(&test, &[]).exits_with(1).says("data: inputs.raw changed").says("the file `raw.csv` has changed");
}

#[test]
fn a_table_edited_by_hand_is_drift_and_the_difference_is_shown() {
    let test = locked(PAPER);
    test.edit("paper/table.tex", "seed 2", "seed 7");
    let drift =
        verify(&test, &[]).exits_with(1).says("paper/table.tex: it is not the output `table` of `table`");
    drift.says("-lr 0.1 seed 2").says("+lr 0.1 seed 7");
    std::fs::remove_dir_all(test.file("cache")).unwrap();
    verify(&test, &[]).exits_with(1).says("paper/table.tex");
}

#[test]
fn a_replaced_figure_is_drift() {
    let test = locked(PAPER);
    test.write("paper/plot.svg", "<svg>better</svg>");
    verify(&test, &[]).exits_with(1).says("paper/plot.svg: it is not the output `plot` of `table`");
}

#[test]
fn an_edited_lock_is_drift_and_an_unreadable_one_undetermined() {
    let test = locked(PAPER);
    let lock = test.read("pipeline.lock");
    test.edit("pipeline.lock", "compare exact", "compare ignore=data");
    verify(&test, &[]).exits_with(1).says("data: ").says("edited");
    test.write("pipeline.lock", lock.replacen("placed paper/plot.svg ", "placed paper/plot.svg 0", 1));
    verify(&test, &[]).exits_with(2).says("pipeline.lock");
    test.write("pipeline.lock", format!("{lock}<<<<<<< HEAD\n"));
    verify(&test, &[]).exits_with(2).says("merged");
    std::fs::remove_file(test.file("pipeline.lock")).unwrap();
    verify(&test, &[]).exits_with(2).says("there is no lock; `pipe lock pipeline.yaml` writes it");
}

#[test]
fn a_placed_digest_that_is_not_that_of_its_output_is_drift() {
    let test = locked(PAPER);
    let lock = test.read("pipeline.lock");
    let placed: Vec<&str> = lock.lines().filter(|line| line.starts_with("placed ")).collect();
    let swapped = placed[0].rsplit_once(' ').unwrap().1;
    let original = placed[1].rsplit_once(' ').unwrap().1;
    test.write("pipeline.lock", lock.replace(placed[1], &placed[1].replace(original, swapped)));
    verify(&test, &[]).exits_with(1).says("not the output `table` of `table`");
}

#[test]
fn a_changed_blob_is_damage_and_a_missing_one_undetermined() {
    let test = locked(PAPER);
    let path = blob(&test, "data", "data");
    let modified = path.metadata().unwrap().modified().unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::write(&path, "9,9\n").unwrap();
    std::fs::File::open(&path).unwrap().set_modified(modified).unwrap();
    verify(&test, &["--cache"]).exits_with(3).says("damage  data: blob");
    std::fs::remove_file(&path).unwrap();
    verify(&test, &["--cache"]).exits_with(2).says("data: blob");
    verify(&test, &["--lock"]).ok();
}

#[test]
fn a_different_result_of_another_environment_is_undetermined() {
    let test = locked(UNSTABLE);
    let lock = test.read("pipeline.lock");
    let class = lock.lines().find(|line| line.starts_with("class ")).unwrap().to_owned();
    let other = format!("{class} libtorch=1.0.0");
    test.write("pipeline.lock", resealed(&lock.replace(&class, &other)));
    let checks = verify(&test, &["--rerun", "dice"]).exits_with(2);
    checks.says("undetermined  dice").says("libtorch=1.0.0");
}

#[test]
fn a_result_of_another_libtorch_is_undetermined() {
    worker_program();
    let test = locked(PAPER);
    let lock =
        test.read("pipeline.lock").replace("class x86_64 threads=1", "class x86_64 threads=1 libtorch=1.0.0");
    test.write("pipeline.lock", resealed(&lock));
    verify(&test, &[]).exits_with(2).says("undetermined  data: it was computed with libtorch 1.0.0");
}

#[test]
fn a_policy_loosened_in_the_pipeline_only_is_drift() {
    let test = locked(PAPER);
    test.edit("pipeline.yaml", "  data: {", "  data: { compare: { ignore: [data] },");
    verify(&test, &[]).exits_with(1).says("data: `compare`").says("`ignore=data`");
    assert_eq!(test.run().ok().computed(), [""; 0], "the policy is not part of the key");
    verify(&test, &[]).ok();
    assert!(test.read("pipeline.lock").contains("compare ignore=data\n"), "loosening it shows in the lock");
    test.edit("pipeline.yaml", "ignore: [data]", "ignore: [dta]");
    verify(&test, &[]).exits_with(2).says("`dta`");
}

#[test]
fn a_run_of_all_stages_updates_an_existing_lock() {
    let test = PipelineTest::new(PAPER);
    test.write("raw.csv", "1,2\n");
    test.run().ok();
    assert!(!test.file("pipeline.lock").exists(), "a run does not create a lock");
    test.pipe(&["lock", "pipeline.yaml"]).ok().says("4 stages, 2 placed files");
    let first = test.read("pipeline.lock");
    test.edit("pipeline.yaml", "lr: 0.1", "lr: 0.2");
    test.run_with(&["fit"]).ok();
    test.run_with(&["--set", "vars.lr=0.3"]).ok();
    assert_eq!(
        test.read("pipeline.lock"),
        first,
        "a run of some stages, or with other variables, does not update the lock"
    );
    test.run().ok().says("pipeline.lock updated");
    assert_ne!(test.read("pipeline.lock"), first);
    verify(&test, &[]).ok();
    test.edit("pipeline.yaml", "lr: 0.2", "lr: 0.1");
    test.run().ok();
    assert_eq!(test.read("pipeline.lock"), first, "the same pipeline has the same lock, byte for byte");
}

#[test]
fn lock_writes_a_lock_and_rebuild_replaces_it() {
    let test = locked(PAPER);
    let lock = test.read("pipeline.lock");
    test.edit("pipeline.lock", "compare exact", "compare ignore=data");
    test.pipe(&["lock", "pipeline.yaml"]).exits_with(2).says("--rebuild");
    test.pipe(&["lock", "pipeline.yaml", "--rebuild"]).ok();
    assert_eq!(test.read("pipeline.lock"), lock);
    test.edit("pipeline.yaml", "lr: 0.1", "lr: 0.2");
    test.pipe(&["lock", "pipeline.yaml", "--rebuild"]).exits_with(2).says("`fit[seed=1]`");
}

#[test]
fn a_locked_run_refuses_to_change_the_lock() {
    let test = locked(PAPER);
    let lock = test.read("pipeline.lock");
    test.run_with(&["--locked"]).ok();
    test.edit("pipeline.yaml", "lr: 0.1", "lr: 0.2");
    test.run_with(&["--locked"]).exits_with(1).says("fit[seed=1]");
    assert_eq!(test.read("pipeline.lock"), lock);
    std::fs::remove_file(test.file("pipeline.lock")).unwrap();
    test.run_with(&["--locked"]).exits_with(2).says("pipeline.lock");
}

/// Its first stage gives something else every time.
const UNSTABLE: &str = "
name: unstable
stages:
  calm: { command: { run: echo calm > calm.txt, outputs: [calm.txt] } }
  dice:
    command: { run: head -c 8 /dev/urandom | od -An -tx1 > dice.txt, inputs: { calm: calm }, outputs: [dice.txt] }
  after: { command: { run: cp in/dice after.txt, inputs: { dice: dice }, outputs: [after.txt] } }
outputs: [after]
";

#[test]
fn a_locked_run_rejects_another_result() {
    let test = locked(UNSTABLE);
    let placed = test.read("results/unstable/after.txt");
    std::fs::remove_dir_all(test.file("cache")).unwrap();
    let refused = test.run_with(&["--locked"]).exits_with(1);
    assert_eq!(refused.instances("failed"), ["dice"]);
    assert_eq!(refused.instances("skipped"), ["after"]);
    assert!(refused.stdout.contains("is not what the lock records"), "{}", refused.stdout);
    assert_eq!(test.read("results/unstable/after.txt"), placed, "nothing was placed");
}

#[test]
fn a_rerun_names_the_first_stage_that_differs_and_keeps_both_sides() {
    let test = locked(UNSTABLE);
    let before = test.files_below("cache/v2/blobs");
    let lock = test.read("pipeline.lock");
    let drift = verify(&test, &["--rerun"]).exits_with(1);
    let drift =
        drift.says("dice: is the first to differ: `dice`").says("after: differs as well").says("2 same");
    let kept = drift.stderr.lines().find(|line| line.contains("both sides were kept")).unwrap();
    assert!(std::path::Path::new(kept.rsplit_once(": ").unwrap().1).is_dir(), "{kept}");
    let again = drift.stdout.lines().find_map(|line| line.trim().strip_prefix("dice again: ")).unwrap();
    assert!(std::path::Path::new(again).is_file(), "{again}");
    assert_eq!(test.files_below("cache/v2/blobs"), before, "the cache is as it was");
    assert_eq!(test.read("pipeline.lock"), lock);
}

#[test]
fn a_single_stage_is_rerun_on_inputs_from_the_cache() {
    let test = locked(UNSTABLE);
    verify(&test, &["--rerun", "after"]).ok().says("2 checks: 2 same");
    verify(&test, &["--rerun", "calm"]).ok().says("2 checks: 2 same");
    verify(&test, &["--rerun", "sample=1", "calm"]).ok();
    verify(&test, &["--rerun", "budget=1h", "calm", "after"]).ok().says("3 same");
    let test = locked(PAPER);
    std::fs::remove_file(test.file("raw.csv")).unwrap();
    verify(&test, &["--rerun", "table", "fit[seed=2]"]).ok().says("4 same");
    verify(&test, &["--twice", "table"]).ok().says("1 same");
    verify(&test, &["--rerun", "data"]).exits_with(2).says("raw.csv");
    verify(&test, &["--rerun", "sample=no"]).exits_with(2).says("sample=3");
    let left = std::fs::read_dir(test.file("cache")).unwrap().count();
    assert_eq!(left, 1, "nothing is kept if all is the same");
}

#[test]
fn a_rerun_of_a_stage_that_fails_or_drifted_reports_it() {
    let test = PipelineTest::new(
        "
name: flaky
stages:
  once: { command: { run: mkdir \"$DIR/ran\"; echo 1 > x.txt, outputs: [x.txt], env: [DIR] } }
",
    );
    let pipe = |args: &[&str]| {
        let mut command = test.command(args);
        command.env("DIR", test.path());
        Ran::finish(command)
    };
    pipe(&["run", "pipeline.yaml"]).ok();
    pipe(&["lock", "pipeline.yaml"]).ok();
    let rerun = pipe(&["verify", "pipeline.yaml", "--rerun"]).exits_with(2);
    rerun.prints("once: it could not be computed again");
    test.edit("pipeline.yaml", "echo 1", "echo 2");
    let rerun = pipe(&["verify", "pipeline.yaml", "--rerun"]).exits_with(1);
    rerun.prints("params.run").prints("nothing was run again");
}

#[test]
fn twice_finds_unstable_stages() {
    let test = locked(UNSTABLE);
    let checks = verify(&test, &["--twice"]).exits_with(1);
    let checks =
        checks.says("dice: `dice` is unstable").says("after: exact; it differed only because its inputs did");
    assert!(!checks.stdout.contains("calm:"), "{}", checks.stdout);
    assert_eq!(test.read("results/unstable/after.txt").len(), 25, "the placed file was not replaced");
    test.edit("pipeline.yaml", "  dice:\n", "  dice:\n    compare: { ignore: [dice] }\n");
    verify(&test, &["--twice"]).ok();
}

#[test]
fn twice_explains_differences_by_threads_and_tolerance() {
    let test = PipelineTest::new(
        "
name: twice
stages:
  threads: { command: { run: echo $PIPE_THREADS > n.txt, outputs: [n.txt] } }
  about:
    compare: { numbers: { x: { abs: 1 } } }
    command: { run: \"echo f1 0.$(date +%N) > x.txt\", outputs: [x.txt] }
  place: { command: { run: pwd > where.txt, outputs: [where.txt] } }
",
    );
    let checks = verify(&test, &["--twice"]).exits_with(1);
    let checks = checks.says("threads: `n` exact at equal threads").says("about: `x` within tolerance");
    checks.says("place: `where` is unstable");
    verify(&test, &["--twice", "threads", "about"]).ok();
}

#[test]
fn the_checks_are_available_as_json_and_junit() {
    let test = locked(PAPER);
    test.edit("pipeline.yaml", "lr: 0.1", "lr: 0.2");
    let report = verify(&test, &["--json", "--junit", "verify.xml"]).exits_with(1);
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!(report["outcome"], "drift");
    let drifted: Vec<&Value> =
        report["checks"].as_array().unwrap().iter().filter(|check| check["outcome"] == "drift").collect();
    assert_eq!(drifted.len(), 2);
    assert_eq!(drifted[0]["name"], "fit[seed=1]");
    let xml = test.read("verify.xml");
    assert!(xml.contains("tests=\"6\" failures=\"2\" errors=\"0\""), "{xml}");
    assert!(xml.contains("name=\"fit[seed=1]\"><failure message=\"params.run"), "{xml}");
}

#[test]
fn locks_of_two_branches_are_merged_record_by_record() {
    let test = locked(PAPER);
    let base = test.read("pipeline.lock");
    let other = |run: &str, with: &str| {
        test.edit("pipeline.yaml", run, with);
        test.run().ok();
        let lock = test.read("pipeline.lock");
        test.edit("pipeline.yaml", with, run);
        lock
    };
    let ours = other("echo '<svg/>'", "echo '<svg></svg>'");
    let theirs = other("seeds: [1, 2]", "seeds: [2, 1]");
    test.write("base", &base).write("ours", &ours).write("theirs", &theirs);
    test.pipe(&["lock", "--merge", "base", "ours", "base"]).ok();
    assert_eq!(test.read("ours"), ours);
    test.pipe(&["lock", "--merge", "base", "ours", "theirs"]).exits_with(1).says("table");
}

#[test]
fn published_copies_must_be_the_files_that_the_lock_records() {
    let yaml = "
name: paper
published: docs/results
stages:
  table: { command: { run: echo 1 > table.tex, outputs: [table.tex] } }
outputs: [table]
";
    let test = PipelineTest::new(yaml);
    test.run().ok();
    test.pipe(&["lock", "pipeline.yaml"]).ok();
    verify(&test, &[]).exits_with(2).says("docs/results: there is no such directory");
    verify(&test, &["--allow-missing"]).exits_with(2).says("docs/results: there is no such directory");
    verify(&test, &["--strict"]).exits_with(1).says("docs/results: there is no such directory");
    std::fs::create_dir_all(test.file("docs/results")).unwrap();
    verify(&test, &["--strict"]).exits_with(1).says("docs/results: it contains no results");
    test.write("docs/results/table.tex", "1\n");
    verify(&test, &[]).ok();
    test.remove("results");
    verify(&test, &["--strict"]).ok().says("1 not checked");
    test.write("docs/results/table.tex", "0.9999\n");
    verify(&test, &[]).exits_with(1).says("docs/results/table.tex");
    verify(&test, &["--cache"]).exits_with(1).says("docs/results/table.tex");
    test.write("docs/results/table.tex", "1\n");
    test.write("docs/results/older.tex", "1\n");
    verify(&test, &[]).exits_with(1).says("docs/results/older.tex");
    PipelineTest::new(&yaml.replace("docs/results", "../elsewhere"))
        .run()
        .exits_with(2)
        .says("`../elsewhere`");
}
