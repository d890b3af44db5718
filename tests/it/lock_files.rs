//! Lock files that cannot be read or were edited, and results that are damaged or edited.

use crate::support::PipelineTest;
use crate::verify::resealed;

const PAPER: &str = "
name: paper
vars: { x: 1, unused: 0 }
stages:
  value: { command: { run: \"echo ${vars.x} > value.txt\", outputs: [value.txt] } }
  table: { command: { run: cp in/value table.tex, inputs: { value: value }, outputs: [table.tex] } }
outputs: [table]
";

#[test]
fn a_damaged_lock_is_an_error_for_verify_and_replaced_by_a_run_with_a_warning() {
    let test = PipelineTest::locked(PAPER);
    let good = test.read("pipeline.lock");
    let flipped = good.replacen("stage", "stagf", 1);
    for (content, flaw) in
        [("", "empty"), ("garbage\n", "line 1"), (&good[..200], "cut short"), (&flipped, "stagf")]
    {
        test.write("pipeline.lock", content);
        let verified = test.pipe(&["verify", "pipeline.yaml"]).exits_with(2).says(flaw);
        assert_eq!(verified.stdout.matches("pipeline.lock").count(), 1, "{}", verified.stdout);
        test.pipe(&["run", "pipeline.yaml", "--locked"]).exits_with(2).says(flaw);
        test.run().ok().says("warning: ").says("is damaged").says(flaw).says("pipeline.lock.bad");
        assert_eq!(test.read("pipeline.lock.bad"), content);
        assert_eq!(test.read("pipeline.lock"), good);
        std::fs::remove_file(test.file("pipeline.lock.bad")).unwrap();
    }
}

#[test]
fn a_lock_with_a_merge_conflict_or_of_another_version_stops_a_run_before_it_starts() {
    let test = PipelineTest::locked(PAPER);
    let good = test.read("pipeline.lock");
    let conflict = good.replacen("class ", "<<<<<<< HEAD\nclass ", 1);
    for (content, flaw) in [(conflict, "merged"), (good.replacen("lock 2", "lock 1", 1), "older version")] {
        test.write("pipeline.lock", &content);
        let refused = test.run().exits_with(2).says(flaw).says("Nothing was run");
        assert_eq!(refused.stderr.matches("pipeline.lock").count(), 1, "{}", refused.stderr);
        assert_eq!(test.read("pipeline.lock"), content);
    }
    test.run_with(&["value"]).ok();
    std::fs::remove_file(test.file("pipeline.lock")).unwrap();
    test.run().ok();
}

#[test]
fn an_edited_lock_is_replaced_with_a_warning_and_kept_as_a_copy() {
    let test = PipelineTest::locked(PAPER);
    let good = test.read("pipeline.lock");
    let edited = good.replace("echo 1", "echo 7");
    assert_ne!(edited, good);
    test.write("pipeline.lock", &edited);
    test.run().ok().says("warning: ").says("`value`").says("pipeline.lock.bad");
    assert_eq!(test.read("pipeline.lock"), good);
    assert_eq!(test.read("pipeline.lock.bad"), edited);
    test.write("pipeline.lock", good.replace("echo 1", "echo 8"));
    test.run().ok().says("pipeline.lock.bad2");
    assert_eq!(test.read("pipeline.lock.bad"), edited, "an earlier copy is kept");
}

#[test]
fn a_file_edited_by_hand_is_reported_last_and_has_its_own_exit_code() {
    let test = PipelineTest::locked(PAPER);
    test.write("results/paper/table.tex", "my own\n");
    let ran = test.pipe(&["run", "pipeline.yaml"]).exits_with(4);
    let last = ran.stderr.lines().last().unwrap();
    assert!(last.contains("not replaced: results/paper/table.tex"), "{}", ran.stderr);
    assert!(last.ends_with("`pipe run --overwrite` replaces it)"), "{last}");
    test.pipe(&["run", "pipeline.yaml", "--locked"])
        .exits_with(4)
        .says("not replaced: results/paper/table.tex");
    assert_eq!(test.read("results/paper/table.tex"), "my own\n");
    test.pipe(&["run", "pipeline.yaml", "--locked", "--overwrite"]).ok();
}

#[test]
fn damage_in_the_cache_is_reported_once() {
    let test = PipelineTest::new(PAPER);
    test.run().ok();
    for (name, content) in test.files_below("cache/v2/blobs") {
        let path = test.file("cache/v2/blobs").join(name);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, [b"x", content.as_slice()].concat()).unwrap();
    }
    for command in ["plan", "run"] {
        let ran = test.pipe(&[command, "pipeline.yaml"]).ok().says("damaged");
        assert_eq!(ran.stderr.matches("the result of value").count(), 1, "{}", ran.stderr);
        assert!(!ran.stdout.contains("blob"), "{}", ran.stdout);
    }
    assert_eq!(test.read("results/paper/table.tex"), "1\n");
}

#[test]
fn the_lock_is_unchanged_while_a_file_edited_by_hand_is_kept() {
    let test = PipelineTest::locked(PAPER);
    let lock = test.read("pipeline.lock");
    test.write("results/paper/table.tex", "my own\n").edit("pipeline.yaml", "x: 1", "x: 2");
    test.run().exits_with(4);
    assert_eq!(test.read("pipeline.lock"), lock);
    test.run_with(&["--overwrite"]).ok();
    assert_ne!(test.read("pipeline.lock"), lock);
    test.typed("verify pipeline.yaml").ok();
}

#[test]
fn equal_results_of_another_machine_leave_the_lock_as_it_is() {
    let test = PipelineTest::locked(PAPER);
    let lock = test.read("pipeline.lock");
    let class = lock.lines().find(|line| line.starts_with("class ")).unwrap();
    let elsewhere = resealed(&lock.replace(class, "class riscv64 threads=64"));
    assert_ne!(elsewhere, lock);
    test.write("pipeline.lock", &elsewhere);
    test.run_with(&["--force", "value", "--force", "table"]).ok();
    assert_eq!(test.read("pipeline.lock"), elsewhere);
    test.typed("lock pipeline.yaml").ok().says("up to date");
    assert_eq!(test.read("pipeline.lock"), elsewhere);

    test.edit("pipeline.yaml", "cp in/value table.tex", "cat in/value > table.tex");
    test.run().ok();
    let updated = test.read("pipeline.lock");
    assert_eq!(updated.matches("class riscv64").count(), 1, "only the record of `table` is new: {updated}");
    test.typed("lock pipeline.yaml --rebuild").ok();
    assert!(!test.read("pipeline.lock").contains("riscv64"));
}
