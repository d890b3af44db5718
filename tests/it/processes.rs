//! Several processes at once, and processes that are killed.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::PipelineTest;

/// Creates a pipeline with eight stages in two layers, each slow enough to be killed while it runs. Every computation
/// appends a line to `$LEDGER`, outside the sandbox.
fn slow_grid() -> PipelineTest {
    PipelineTest::new(
        "
name: slow
stages:
  part:
    matrix: { n: [1, 2, 3, 4] }
    command:
      run: echo part${matrix.n} >> \"$LEDGER\"; sleep 0.05; seq 1 ${matrix.n}000 > part.txt; sleep 0.05
      outputs: [part.txt]
      env: [LEDGER]
  sum:
    each: part
    command:
      run: echo sum${matrix.n} >> \"$LEDGER\"; sleep 0.05; cksum < in/part > sum.txt; sleep 0.05
      inputs: { part: \"${each}\" }
      outputs: [sum.txt]
      env: [LEDGER]
  all:
    command: { run: \"cat in/sums/* > all.txt\", inputs: { sums: [\"sum[*]\"] }, outputs: [all.txt] }
outputs: [all]
",
    )
}

fn start(test: &PipelineTest, ledger: &Path) -> Child {
    test.command(&["run", "pipeline.yaml", "--jobs", "2"])
        .env("LEDGER", ledger)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn finish(child: Child) {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the path of the ledger, which is a part of the keys.
fn ledger_beside(test: &PipelineTest) -> std::path::PathBuf {
    test.file("ledger.txt")
}

#[test]
fn two_processes_compute_each_key_once_and_agree() {
    let test = slow_grid();
    let ledger = ledger_beside(&test);
    let (first, second) = (start(&test, &ledger), start(&test, &ledger));
    finish(first);
    finish(second);
    let text = test.read("ledger.txt");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort();
    assert_eq!(lines, ["part1", "part2", "part3", "part4", "sum1", "sum2", "sum3", "sum4"]);
    assert_eq!(test.read("results/slow/all.txt").lines().count(), 4);
}

#[test]
fn a_run_killed_at_any_moment_leaves_a_usable_store() {
    let undisturbed = slow_grid();
    finish(start(&undisturbed, &ledger_beside(&undisturbed)));
    let expected = undisturbed.read("results/slow/all.txt");

    let test = slow_grid();
    for place in 0..20 {
        let mut child = start(&test, &ledger_beside(&test));
        std::thread::sleep(Duration::from_millis(5 + place * 17));
        child.kill().unwrap();
        child.wait().unwrap();
        if place % 5 == 4 {
            std::fs::remove_dir_all(test.file("cache/v2")).ok();
        }
    }
    finish(start(&test, &ledger_beside(&test)));
    assert_eq!(test.read("results/slow/all.txt"), expected);
    let check = test.pipe(&["cache", "fsck"]).ok();
    assert!(!check.stdout.contains("damaged"), "{}", check.stdout);
}

#[test]
fn a_killed_stage_is_named_with_its_signal_and_the_rest_is_kept() {
    let test = PipelineTest::new(
        "
name: killed
stages:
  good: { command: { run: echo fine > good.txt, outputs: [good.txt] } }
  bad:
    command: { run: \"cat in/good; echo last words >&2; kill -SEGV $$\", inputs: { good: good }, outputs: [x.txt] }
",
    );
    let failed = test.pipe(&["run", "pipeline.yaml"]).exits_with(1);
    let failed = failed.says("SIGSEGV").says("last words");
    drop(failed);
    assert_eq!(test.run().exits_with(1).instances("hit"), ["good"]);
}

#[test]
fn stages_end_with_the_run_that_is_killed() {
    let test = PipelineTest::new(
        "
name: orphan
stages:
  long: { command: { run: [sleep, \"1000.125\"], outputs: [x] } }
",
    );
    let mut child = test.command(&["run", "pipeline.yaml"]).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the stage runs", || running("1000.125"));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the stage is gone", || !running("1000.125"));
}

#[test]
fn an_interrupt_stops_the_run_and_says_so() {
    let test = PipelineTest::new(
        "
name: interrupted
stages:
  long: { command: { run: [sleep, \"1000.25\"], outputs: [x] } }
  never: { command: { run: cp in/x y, inputs: { x: long }, outputs: [y] } }
",
    );
    let child = test.command(&["run", "pipeline.yaml"]).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the stage runs", || running("1000.25"));
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("interrupted"), "{stderr}");
    assert!(!stderr.contains("checkpoint"), "a command writes no checkpoint: {stderr}");
    let plan = test.pipe(&["plan"]).ok();
    assert!(!plan.stdout.contains("failed"), "a stopped stage did not fail: {}", plan.stdout);
    wait_until("the stage is gone", || !running("1000.25"));
}

/// Returns whether a process has this word among its arguments.
pub(crate) fn running(word: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        arguments.split(|&byte| byte == 0).any(|argument| argument == word.as_bytes())
    })
}

/// Waits until a condition is met.
#[track_caller]
pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(30), "this did not happen in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn everything_that_a_stage_started_ends_with_the_run_that_is_killed() {
    let test = PipelineTest::new(
        "
name: orphans
stages:
  long:
    command: { run: \"sleep 1000.375 & setsid sleep 1000.5 & sleep 1000.625; true\", outputs: [x] }
",
    );
    let words = ["1000.375", "1000.5", "1000.625"];
    let mut child = test.command(&["run", "pipeline.yaml"]).stderr(Stdio::null()).spawn().unwrap();
    wait_until("all three run", || words.iter().all(|word| running(word)));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("all three are gone", || !words.iter().any(|word| running(word)));
}

#[test]
fn a_process_that_a_stage_left_behind_cannot_write_into_the_next_stage() {
    let test = PipelineTest::new(
        "
name: late
stages:
  a: { command: { run: \"setsid sh -c 'sleep 0.4; echo late > b.txt' > /dev/null 2>&1 & echo a > a.txt\", outputs: [a.txt] } }
  b: { command: { run: \"cat in/a; echo b > b.txt; sleep 0.8\", inputs: { a: a }, outputs: [b.txt] } }
outputs: [b]
",
    );
    test.run().ok();
    assert_eq!(test.read("results/late/b.txt"), "b\n");
}

#[test]
fn a_system_that_gives_no_thread_fails_the_stage_and_not_pipe() {
    let test = PipelineTest::new(
        "
name: threads
stages:
  a: { command: { run: echo a > a.txt, outputs: [a.txt] } }
",
    );
    let mut command = test.command(&["run", "pipeline.yaml"]);
    // No address space is large enough for such a stack.
    let output = command.env("RUST_MIN_STACK", (1_u64 << 60).to_string()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("no thread could be started"), "{stderr}");
    test.run().ok();
}
