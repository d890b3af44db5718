//! Stages as jobs of a scheduler: of a small batch program, which is always there, and of Slurm, where it is installed.

use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{PipelineTest, Ran};

/// Four stages that wait for the file `go`, four that read their outputs, and one that reads all. Every computation appends a
/// line to `$LEDGER`.
const GRID: &str = "
name: grid
stages:
  part:
    matrix: { n: [1, 2, 3, 4] }
    command:
      run: echo part${matrix.n} >> \"$LEDGER\"; until [ -e \"$LEDGER.go\" ]; do sleep 0.02; done; seq 1 ${matrix.n}000 > part.txt
      outputs: [part.txt]
      env: [LEDGER]
  sum:
    each: part
    command:
      run: echo sum${matrix.n} >> \"$LEDGER\"; cksum < in/part > sum.txt
      inputs: { part: \"${each}\" }
      outputs: [sum.txt]
      env: [LEDGER]
  all:
    command: { run: \"cat in/sums/* > all.txt\", inputs: { sums: [\"sum[*]\"] }, outputs: [all.txt] }
outputs: [all]
";

const COMPUTED: [&str; 8] = ["part1", "part2", "part3", "part4", "sum1", "sum2", "sum3", "sum4"];

/// A project with an engine `test` that uses the batch program.
struct BatchTest {
    test: PipelineTest,
    limit: u32,
}

impl BatchTest {
    fn new(yaml: &str) -> Self {
        let test = PipelineTest::new(yaml);
        let batch = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cluster/batch");
        let call = |action: &str| format!("\"'{}' {action}\"", batch.display());
        test.write(
            "engines/test.yaml",
            format!(
                "engine: template\nsubmit: {}\nstatus: {}\ncancel: {}\nlost_after: 5s\n",
                call("submit"),
                call("status"),
                call("cancel")
            ),
        );
        std::fs::create_dir(test.file("batch")).unwrap();
        Self { test, limit: 1000 }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.test.command(args);
        command
            .env("PIPE_ENGINE", "test")
            .env("BATCH", self.test.file("batch"))
            .env("BATCH_LIMIT", self.limit.to_string())
            .env("LEDGER", self.ledger());
        command
    }

    fn pipe(&self, args: &[&str]) -> Ran {
        Ran::finish(self.command(args))
    }

    fn run(&self) -> Ran {
        self.pipe(&["run", "pipeline.yaml", "--json"])
    }

    fn start(&self) -> Child {
        let mut command = self.command(&["run", "pipeline.yaml", "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn ledger(&self) -> PathBuf {
        self.test.file("ledger.txt")
    }

    /// Returns the sorted lines of the ledger.
    fn computed(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.ledger()).unwrap_or_default();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    fn go(&self) {
        self.test.write("ledger.txt.go", "");
    }

    /// Returns the processes of the jobs that run.
    fn jobs(&self) -> Vec<Pid> {
        let files = self.test.files_below("batch");
        let pids = files.iter().filter(|(path, _)| path.extension().is_some_and(|ending| ending == "pid"));
        let pids =
            pids.filter_map(|(_, text)| Pid::from_raw(String::from_utf8_lossy(text).trim().parse().ok()?));
        pids.filter(|pid| is_running(*pid)).collect()
    }

    fn submissions(&self) -> usize {
        self.test.read("batch/submissions").lines().count()
    }

    /// Replaces one of the commands of the scheduler.
    fn replace_command(&self, field: &str, command: &str) {
        let text = self.test.read("engines/test.yaml");
        let line = text.lines().find(|line| line.starts_with(field)).unwrap();
        self.test.edit("engines/test.yaml", line, &format!("{field}: {command}"));
    }
}

impl Drop for BatchTest {
    fn drop(&mut self) {
        for job in self.jobs() {
            let _ = kill_process(job, Signal::KILL);
        }
    }
}

fn is_running(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    !status.is_empty() && !status.contains(") Z")
}

#[track_caller]
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(60), "gave up waiting until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn finish(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Returns the result and the content of the cache of a run on this machine.
fn local_run(ledger: &Path) -> (String, Vec<PathBuf>) {
    let test = PipelineTest::new(GRID);
    std::fs::write(ledger.with_extension("txt.go"), "").unwrap();
    let mut command = test.command(&["run", "pipeline.yaml"]);
    command.env("LEDGER", ledger);
    Ran::finish(command).ok();
    (test.read("results/grid/all.txt"), blobs(&test))
}

fn blobs(test: &PipelineTest) -> Vec<PathBuf> {
    test.files_below("cache/v2/blobs").into_keys().collect()
}

#[test]
fn a_pipeline_gives_the_same_bytes_here_and_on_a_cluster() {
    let cluster = BatchTest::new(GRID);
    cluster.go();
    let ran = cluster.run().ok();
    assert_eq!(ran.computed().len(), 9);
    assert_eq!(cluster.submissions(), 9);
    assert_eq!(cluster.computed(), COMPUTED);
    let directory = tempfile::tempdir().unwrap();
    let (expected, blobs_here) = local_run(&directory.path().join("ledger.txt"));
    assert_eq!(cluster.test.read("results/grid/all.txt"), expected);
    assert_eq!(blobs(&cluster.test), blobs_here);
    assert_eq!(cluster.test.files_below("cache/v2/jobs").len(), 0, "no job is left");
    let again = cluster.run().ok();
    assert_eq!(again.computed(), [""; 0]);
    assert_eq!(cluster.submissions(), 9);
}

#[test]
fn light_stages_and_cached_ones_need_no_job() {
    let cluster =
        BatchTest::new("name: x\nstages:\n  a: { command: { run: echo 1 > a.txt, outputs: [a.txt] } }\n");
    cluster.test.edit("engines/test.yaml", "lost_after", "local: [command]\nlost_after");
    assert_eq!(cluster.run().ok().computed(), ["a"]);
    assert!(!cluster.test.file("batch/submissions").exists());
}

#[test]
fn a_submitter_that_is_killed_loses_nothing_and_the_next_run_joins_its_jobs() {
    let cluster = BatchTest::new(GRID);
    let mut first = cluster.start();
    wait_until("four jobs run", || cluster.computed().len() == 4);
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(cluster.jobs().len(), 4, "the jobs do not depend on the submitter");
    let second = cluster.start();
    std::thread::sleep(Duration::from_secs(1));
    cluster.go();
    let ran = finish(second).ok();
    assert_eq!(ran.computed().len(), 9);
    assert_eq!(cluster.computed(), COMPUTED, "nothing was computed twice");
    assert_eq!(cluster.submissions(), 9);
}

#[test]
fn results_of_jobs_that_end_without_a_submitter_are_found() {
    let cluster = BatchTest::new(GRID);
    let mut first = cluster.start();
    wait_until("four jobs run", || cluster.computed().len() == 4);
    first.kill().unwrap();
    first.wait().unwrap();
    cluster.go();
    wait_until("the jobs have ended", || cluster.jobs().is_empty());
    let ran = cluster.run().ok();
    assert_eq!(ran.instances("hit").len(), 4, "{ran:?}");
    assert_eq!(cluster.computed(), COMPUTED);
}

#[test]
fn jobs_can_be_left_alone_listed_and_taken_over() {
    let cluster = BatchTest::new(GRID);
    cluster.pipe(&["run", "pipeline.yaml", "--detach"]).ok().reports("pipe jobs");
    wait_until("four jobs run", || cluster.computed().len() == 4);
    // A job knows its engine, whichever others there are.
    cluster.test.write("engines/another.yaml", "engine: slurm\n");
    let listed = cluster.pipe(&["jobs", "--json"]).ok().json();
    let states: Vec<&str> =
        listed.as_array().unwrap().iter().map(|job| job["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["running"; 4]);
    cluster.pipe(&["jobs"]).ok().prints("part[n=1]");
    cluster.pipe(&["jobs", "--engine", "another"]).ok().reports("no job");
    cluster.pipe(&["jobs", "--engine", "tset"]).refuses("did you mean `test`?");
    cluster.go();
    wait_until("the jobs have ended", || cluster.jobs().is_empty());
    cluster.pipe(&["jobs"]).ok().prints("done");
    cluster.run().ok();
    cluster.pipe(&["jobs"]).ok().reports("no job is in the queue");
    assert_eq!(cluster.computed(), COMPUTED);
    assert!(cluster.test.file("results/grid/all.txt").exists());
}

#[test]
fn the_failure_of_a_job_that_was_left_is_reported_once_by_the_next_run() {
    let cluster = BatchTest::new(
        "name: f\nstages: { f: { command: { run: 'echo broken >&2; exit 3', outputs: [x] } } }\n",
    );
    let run = || cluster.pipe(&["run", "pipeline.yaml", "--detach"]);
    run().ok();
    wait_until("the job has ended", || cluster.jobs().is_empty());
    run().exits_with(1).reports("broken");
    run().ok();
}

#[test]
fn a_stop_cancels_the_jobs_and_the_next_run_starts_them_again() {
    let cluster = BatchTest::new(GRID);
    let run = cluster.start();
    wait_until("four jobs run", || cluster.computed().len() == 4);
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    finish(run).exits_with(130);
    wait_until("the jobs have ended", || cluster.jobs().is_empty());
    cluster.go();
    assert_eq!(cluster.run().ok().computed().len(), 9);
}

#[test]
fn cancel_ends_the_jobs_of_the_stages_that_are_named() {
    let cluster = BatchTest::new(GRID);
    cluster.pipe(&["run", "pipeline.yaml", "--detach"]).ok();
    wait_until("four jobs run", || cluster.jobs().len() == 4 && cluster.computed().len() == 4);
    cluster.pipe(&["cancel", "summ"]).refuses("no job of `summ`");
    cluster.pipe(&["cancel", "part[n=2]"]).ok().reports("1 job");
    wait_until("one job has ended", || cluster.jobs().len() == 3);
    cluster.pipe(&["cancel"]).ok().reports("3 jobs");
    wait_until("all jobs have ended", || cluster.jobs().is_empty());
    cluster.pipe(&["cancel"]).ok().reports("no job is in the queue");
}

#[test]
fn a_job_that_is_lost_is_submitted_again_without_a_retry() {
    let cluster = BatchTest::new(GRID);
    let run = cluster.start();
    wait_until("four jobs run", || cluster.computed().len() == 4);
    let lost = cluster.jobs()[0];
    kill_process(lost, Signal::KILL).unwrap();
    wait_until("its job was submitted again", || cluster.computed().len() == 5);
    cluster.go();
    let ran = finish(run).ok();
    assert_eq!(ran.computed().len(), 9);
    assert_eq!(ran.instances("failed"), [""; 0]);
    assert!(ran.stdout.contains("was lost; it was submitted again"), "{}", ran.stdout);
    assert_eq!(cluster.submissions(), 10);
}

#[test]
fn a_limit_on_the_number_of_jobs_only_delays_them() {
    let mut cluster = BatchTest::new(GRID);
    cluster.limit = 2;
    let run = cluster.start();
    wait_until("two jobs run", || cluster.computed().len() == 2);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(cluster.jobs().len(), 2);
    cluster.go();
    let ran = finish(run).ok();
    assert_eq!(ran.computed().len(), 9);
    assert!(ran.stdout.contains("no more than 2 jobs are allowed"), "{}", ran.stdout);
    assert_eq!(cluster.computed(), COMPUTED);
}

#[test]
fn a_stage_that_fails_on_a_node_fails_with_its_reason_and_its_log_is_kept() {
    let cluster = BatchTest::new(
        "name: x\nstages:\n  a: { command: { run: echo why >&2; exit 3, outputs: [a.txt] }, retries: 1 }\n",
    );
    let ran = cluster.run().exits_with(1);
    let failed: Vec<_> = ran.events().into_iter().filter(|event| event["event"] == "failed").collect();
    assert_eq!(failed.len(), 2, "a retry is reported as it happens: {failed:?}");
    assert_eq!(failed[1]["error"], "it ended with exit code 3");
    assert_eq!(failed[1]["stderr_tail"], "why");
    assert_eq!(cluster.submissions(), 1, "both attempts are one job");
    cluster.pipe(&["logs", "pipeline.yaml", "a"]).ok().says("why");
}

#[test]
fn a_node_that_does_not_see_the_cache_is_explained() {
    let cluster =
        BatchTest::new("name: x\nstages:\n  a: { command: { run: echo 1 > a.txt, outputs: [a.txt] } }\n");
    cluster.test.write(
        "engines/test.yaml",
        "engine: template\nsubmit: echo 17\nstatus: 'true'\ncancel: 'true'\nlost_after: 2s\n",
    );
    let ran = cluster.run().exits_with(1);
    assert!(ran.stdout.contains("the nodes must see the cache"), "{}", ran.stdout);
}

#[test]
fn a_scheduler_that_does_not_answer_does_not_stop_a_run() {
    let cluster = BatchTest::new(GRID);
    cluster.go();
    cluster.replace_command("status", "echo the controller is down >&2; exit 1");
    let ran = cluster.run().ok();
    assert_eq!(ran.computed().len(), 9);
    assert!(ran.stdout.contains("the controller is down"), "{}", ran.stdout);
}

#[test]
fn a_scheduler_that_hangs_does_not_delay_results() {
    let cluster = BatchTest::new(GRID);
    cluster.go();
    cluster.replace_command("status", "sleep 25");
    let begin = Instant::now();
    assert_eq!(cluster.run().ok().computed().len(), 9);
    assert!(begin.elapsed() < Duration::from_secs(18), "it waited for the scheduler: {:?}", begin.elapsed());
}

#[test]
fn a_stop_does_not_wait_for_a_scheduler_that_hangs() {
    let cluster = BatchTest::new(GRID);
    cluster.pipe(&["run", "pipeline.yaml", "--detach"]).ok();
    wait_until("four jobs run", || cluster.computed().len() == 4);
    let text = cluster.test.read("engines/test.yaml");
    for field in ["status", "cancel"] {
        cluster.replace_command(field, "sleep 50");
    }
    // It looks for the jobs that were left, and gets no answer.
    let run = cluster.start();
    std::thread::sleep(Duration::from_secs(2));
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    let begin = Instant::now();
    let ran = finish(run).exits_with(130);
    assert!(begin.elapsed() < Duration::from_secs(15), "it waited for the scheduler: {:?}", begin.elapsed());
    assert!(ran.stdout.contains("left to the cluster"), "{}", ran.stdout);
    assert_eq!(cluster.jobs().len(), 4);
    cluster.test.write("engines/test.yaml", text);
    cluster.go();
    cluster.run().ok();
    assert_eq!(cluster.computed(), COMPUTED, "nothing was computed twice");
}

#[test]
fn a_run_after_a_stop_does_not_wait_for_the_jobs_that_were_cancelled() {
    let cluster = BatchTest::new(GRID);
    cluster.replace_command("status", "sleep 50");
    let run = cluster.start();
    wait_until("four jobs run", || cluster.computed().len() == 4);
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    finish(run).exits_with(130);
    wait_until("the jobs have ended", || cluster.jobs().is_empty());
    cluster.go();
    let mut next = cluster.start();
    wait_until("the next run has ended", || next.try_wait().unwrap().is_some());
    assert_eq!(finish(next).ok().computed().len(), 9);
}

#[test]
fn a_stop_does_not_wait_for_a_submission_that_hangs() {
    for signals in [1, 2] {
        let cluster = BatchTest::new(GRID);
        cluster.replace_command("submit", "echo > begun; sleep 50");
        let run = cluster.start();
        wait_until("jobs are being submitted", || cluster.test.file("begun").exists());
        for _ in 0..signals {
            kill_process(Pid::from_child(&run), Signal::INT).unwrap();
            std::thread::sleep(Duration::from_millis(500));
        }
        let begin = Instant::now();
        finish(run).exits_with(130);
        let longest = Duration::from_secs(if signals == 1 { 20 } else { 5 });
        assert!(begin.elapsed() < longest, "{signals}: it waited for the scheduler: {:?}", begin.elapsed());
    }
}

#[test]
fn two_runs_at_the_same_time_compute_everything_once() {
    let cluster = BatchTest::new(GRID);
    let runs = [cluster.start(), cluster.start()];
    wait_until("four jobs run", || cluster.computed().len() == 4);
    cluster.go();
    for run in runs {
        assert_eq!(finish(run).ok().instances("failed"), [""; 0]);
    }
    assert_eq!(cluster.computed(), COMPUTED);
    assert_eq!(cluster.submissions(), 9);
}

#[test]
fn the_log_of_a_stage_can_be_read_while_its_job_runs() {
    let cluster = BatchTest::new(
        "name: x\nstages:\n  a:\n    command:\n      run: echo working; until [ -e \"$LEDGER.go\" ]; do sleep 0.02; done; echo 1 > a.txt\n      \
         outputs: [a.txt]\n      env: [LEDGER]\n",
    );
    let run = cluster.start();
    wait_until("its job runs", || cluster.jobs().len() == 1);
    // Nothing was run before, and no file is named.
    wait_until("it has written something", || cluster.pipe(&["logs", "a"]).stdout.contains("working"));
    assert_eq!(cluster.jobs().len(), 1, "it still runs");
    cluster.go();
    finish(run).ok();
    cluster.pipe(&["logs", "pipeline.yaml", "a"]).ok().prints("working");
}

/// Returns the lines with which the batch program recorded the submissions for an instance.
fn submissions_of(cluster: &BatchTest, instance: &str) -> Vec<String> {
    let text = cluster.test.read("batch/submissions");
    let words = text.lines().filter_map(|line| line.strip_prefix(instance)?.strip_prefix(' '));
    words.map(str::to_owned).collect()
}

#[test]
fn a_stage_asks_for_the_memory_that_it_has_used_before() {
    let cluster = BatchTest::new(
        "name: x\nstages:\n  a: { command: { run: echo 1 > a.txt, outputs: [a.txt] }, resources: { mem: auto, gpu: 'a100:2' } }\n",
    );
    cluster.test.edit("engines/test.yaml", "lost_after", "mem: 3GiB\nlost_after");
    cluster.run().ok();
    assert_eq!(submissions_of(&cluster, "a"), ["mem=3072 gpu=a100:2"], "nothing is known the first time");
    cluster.test.edit("pipeline.yaml", "echo 1", "echo 2");
    cluster.run().ok();
    let asked = submissions_of(&cluster, "a").pop().unwrap();
    let mib: u64 =
        asked.strip_prefix("mem=").and_then(|rest| rest.split(' ').next()).unwrap().parse().unwrap();
    assert!((64..300).contains(&mib), "a shell needs a few megabytes: {asked}");
}

#[test]
fn a_job_that_runs_out_of_memory_is_submitted_again_with_more_up_to_the_maximum() {
    let stage = |name: &str, mem: &str| {
        format!(
            "  {name}: {{ command: {{ run: echo {name} > x.txt, outputs: [x.txt] }}, resources: {{ mem: {mem} }} }}\n"
        )
    };
    let text = format!("name: x\nstages:\n{}{}", stage("a", "400MiB"), stage("b", "700MiB"));
    let cluster = BatchTest::new(&text);
    cluster.test.edit("engines/test.yaml", "lost_after", "mem_max: 700MiB\nlost_after");
    let mut command = cluster.command(&["run", "pipeline.yaml", "--json", "--keep-going"]);
    command.env("BATCH_NEEDS", "a=600 b=5000");
    let ran = Ran::finish(command).exits_with(1);
    assert_eq!(ran.computed(), ["a"]);
    assert_eq!(submissions_of(&cluster, "a"), ["mem=400 gpu=:0", "mem=700 gpu=:0"]);
    assert!(ran.stdout.contains("ran out of memory; it was submitted again with 700 MiB"), "{}", ran.stdout);
    assert_eq!(submissions_of(&cluster, "b").len(), 1);
    assert!(ran.stdout.contains("resources: { mem: 1400MiB }"), "{}", ran.stdout);
}

#[test]
fn a_job_that_was_left_and_killed_because_of_its_memory_is_submitted_again_with_more() {
    let cluster = BatchTest::new(
        "name: x\nstages:\n  a: { command: { run: sleep 60, outputs: [x.txt] }, resources: { mem: 100MiB } }\n",
    );
    cluster.test.edit("engines/test.yaml", "lost_after: 5s", "mem_max: 1GiB\nlost_after: 2s");
    let leave = |needs: &str| {
        let mut command = cluster.command(&["run", "pipeline.yaml", "--detach"]);
        command.env("BATCH_NEEDS", needs);
        Ran::finish(command).ok()
    };
    leave("a=150");
    cluster.pipe(&["jobs"]).ok().prints("it ran out of memory");
    leave("").reports("ran out of memory; it was submitted again with 200 MiB");
    // The scheduler kills the next one and forgets it.
    let has_started = || {
        let files = cluster.test.files_below("cache/v2/jobs");
        files.keys().filter(|path| path.ends_with("heartbeat")).count() == 1
    };
    wait_until("the job has started", has_started);
    kill_process(cluster.jobs()[0], Signal::KILL).unwrap();
    wait_until("its heartbeat is old", || cluster.pipe(&["jobs"]).ok().stdout.contains("lost"));
    leave("").reports("it was submitted again with 400 MiB");
    let asked = submissions_of(&cluster, "a");
    assert_eq!(asked, ["mem=100 gpu=:0", "mem=200 gpu=:0", "mem=400 gpu=:0"]);
}

#[test]
fn a_setup_that_fails_is_reported_with_what_it_printed() {
    let cluster =
        BatchTest::new("name: x\nstages:\n  a: { command: { run: echo 1 > a.txt, outputs: [a.txt] } }\n");
    let setup = "until [ -e ledger.txt.go ]; do sleep 0.02; done; modul load cuda";
    cluster.test.edit("engines/test.yaml", "lost_after", &format!("setup: \"{setup}\"\nlost_after"));
    cluster.pipe(&["run", "pipeline.yaml", "--detach"]).ok();
    cluster.go();
    wait_until("the job has ended", || cluster.jobs().is_empty());
    cluster.pipe(&["jobs"]).ok().prints("failed").prints("`setup`");
    cluster.pipe(&["run", "pipeline.yaml", "--detach"]).exits_with(1).reports("modul:");
    let failed = cluster.run().exits_with(1);
    assert!(failed.stdout.contains("`setup` in the profile of the engine failed"), "{}", failed.stdout);
    assert!(failed.stdout.contains("modul:"), "{}", failed.stdout);
}

#[test]
fn wrong_engines_are_refused_before_anything_runs() {
    let test =
        PipelineTest::new("name: x\nstages:\n  a: { command: { run: echo 1 > a.txt, outputs: [a.txt] } }\n");
    test.typed("run pipeline.yaml --engine slurn").refuses("did you mean `slurm`");
    test.typed("run pipeline.yaml --detach").refuses("--engine");
    test.write("engines/slurm.yaml", "engine: slurm\npartion: gpu\n");
    test.typed("run pipeline.yaml --engine slurm").refuses("did you mean `partition`?");
    test.write("engines/slurm.yaml", "engine: slurm\nlocal: [comand]\n");
    test.typed("run pipeline.yaml --engine slurm").refuses("did you mean `command`?");
    test.write("engines/slurm.yaml", "engine: slurm\n");
    let mut command = test.command(&["run", "pipeline.yaml", "--engine", "slurm"]);
    command.env("PATH", test.path());
    Ran::finish(command).exits_with(1).reports("`sbatch` is not on PATH");
    assert!(!test.file("results").exists());
}

#[test]
fn a_profile_is_written_once() {
    let test = PipelineTest::empty();
    let mut command = test.command(&["engine", "init", "slurm"]);
    command.env("PATH", test.path());
    Ran::finish(command).ok();
    assert!(test.read("engines/slurm.yaml").contains("engine: slurm"));
    test.typed("engine init slurm").refuses("exists already");
    test.typed("engine init template").ok();
    test.typed("engine init slrum").refuses("did you mean `slurm`");
}

/// A Slurm cluster with three nodes on this machine.
struct SlurmTest {
    directory: tempfile::TempDir,
}

impl SlurmTest {
    /// Starts the cluster; `None`, with a note, if Slurm is not installed, which fails the test with `PIPE_CI=1`.
    fn start(port: u16, extra: &str) -> Option<Self> {
        let is_installed = ["sbatch", "slurmctld", "slurmd", "munged"].iter().all(|program| {
            let places = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];
            places.iter().any(|place| Path::new(place).join(program).exists())
        });
        if !is_installed {
            assert!(
                std::env::var_os("PIPE_CI").is_none_or(|ci| ci != "1"),
                "slurm-wlm and munge are not installed"
            );
            println!("skipped: Slurm is not installed (Debian: slurm-wlm munge)");
            return None;
        }
        let slurm = Self { directory: tempfile::tempdir().unwrap() };
        let port = port.to_string();
        let started = slurm.call(&["start", "DIR", "3", &port], extra);
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        Some(slurm)
    }

    fn call(&self, words: &[&str], extra: &str) -> std::process::Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/slurm-up");
        let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
        let directory = self.directory.path().to_str().unwrap();
        let words = words.iter().map(|word| if *word == "DIR" { directory } else { word });
        // The daemons keep the streams open.
        let mut output = tempfile::tempfile().unwrap();
        let mut command = Command::new(script);
        command.args(words).env("PATH", path).env("SLURM_CONF_EXTRA", extra).stdin(Stdio::null());
        command.stdout(output.try_clone().unwrap()).stderr(output.try_clone().unwrap());
        let status = command.status().unwrap();
        let mut said = Vec::new();
        output.rewind().and_then(|()| output.read_to_end(&mut said)).unwrap();
        std::process::Output { status, stdout: Vec::new(), stderr: said }
    }

    fn command(&self, test: &PipelineTest, args: &[&str]) -> Command {
        let mut command = test.command(args);
        command.env("SLURM_CONF", self.directory.path().join("slurm.conf")).env("PIPE_ENGINE", "slurm");
        command.env("LEDGER", test.file("ledger.txt"));
        command
    }

    fn run(&self, test: &PipelineTest) -> Ran {
        Ran::finish(self.command(test, &["run", "pipeline.yaml", "--json"]))
    }

    /// Returns what a command of Slurm prints.
    fn ask(&self, program: &str, args: &[&str]) -> String {
        let mut command = Command::new(program);
        command.args(args).env("SLURM_CONF", self.directory.path().join("slurm.conf"));
        String::from_utf8_lossy(&command.output().unwrap().stdout).trim().to_owned()
    }
}

impl Drop for SlurmTest {
    fn drop(&mut self) {
        self.call(&["stop", "DIR"], "");
    }
}

fn lines_of(test: &PipelineTest) -> usize {
    std::fs::read_to_string(test.file("ledger.txt")).unwrap_or_default().lines().count()
}

#[test]
fn slurm_gives_the_same_bytes_in_one_array_and_explains_wrong_settings() {
    let Some(slurm) = SlurmTest::start(26810, "") else { return };
    let test = PipelineTest::new(GRID);
    test.write("ledger.txt.go", "");
    let ran = slurm.run(&test).ok();
    assert_eq!(ran.computed().len(), 9);
    let arrays = slurm.ask("squeue", &["--noheader", "--states=all", "--array", "--format=%F"]);
    let mut arrays: Vec<&str> = arrays.lines().collect();
    arrays.sort_unstable();
    arrays.dedup();
    assert!(arrays.len() < 9, "jobs that are ready together are one array: {arrays:?}");
    equals_local_run(&test, &ran);

    test.write("engines/slurm.yaml", "engine: slurm\npartition: nowhere\n");
    test.edit("pipeline.yaml", "cat in/sums/*", "cat  in/sums/*");
    slurm.run(&test).exits_with(1).says("invalid partition specified: nowhere");
    test.remove("engines/slurm.yaml");
    let mut init = slurm.command(&test, &["engine", "init", "slurm"]);
    init.env_remove("PIPE_ENGINE");
    Ran::finish(init).ok();
    assert!(test.read("engines/slurm.yaml").contains("partition: main"));
    slurm.run(&test).ok();
}

#[test]
fn slurm_jobs_survive_the_loss_of_the_submitter_of_a_daemon_and_of_a_node() {
    let Some(slurm) = SlurmTest::start(26820, "") else { return };
    let test = PipelineTest::new(GRID);
    let start = || {
        let mut command = slurm.command(&test, &["run", "pipeline.yaml", "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut first = start();
    wait_until("four jobs run", || lines_of(&test) == 4);
    first.kill().unwrap();
    first.wait().unwrap();
    let second = start();
    let nodes = slurm.ask("squeue", &["--noheader", "--states=R", "--array", "--format=%N"]);
    let mut nodes: Vec<&str> = nodes.lines().collect();
    nodes.sort_unstable();
    nodes.dedup();
    assert!(nodes.len() >= 2, "{nodes:?}");
    assert!(slurm.call(&["kill-node", "DIR", nodes[0]], "").status.success());
    // The jobs of this node keep running, although Slurm starts them again elsewhere.
    assert!(slurm.call(&["kill-daemon", "DIR", nodes[1]], "").status.success());
    wait_until("the jobs of the lost node run again", || lines_of(&test) > 4);
    test.write("ledger.txt.go", "");
    let ran = finish(second).ok();
    assert_eq!(ran.computed().len(), 9);
    equals_local_run(&test, &ran);
}

#[test]
fn a_limit_of_slurm_only_delays_jobs() {
    let Some(slurm) = SlurmTest::start(26830, "MaxJobCount=5\nMaxArraySize=4\nMinJobAge=2") else { return };
    let test = PipelineTest::new(&GRID.replace("[1, 2, 3, 4]", "[1, 2, 3, 4, 5, 6, 7, 8]"));
    test.write("ledger.txt.go", "");
    let ran = slurm.run(&test).ok();
    assert_eq!(ran.computed().len(), 17);
    assert!(ran.stdout.contains("the scheduler takes no job at the moment"), "{}", ran.stdout);
    assert_eq!(lines_of(&test), 16, "nothing was computed twice");
}

/// Asserts that the results of [`GRID`] are those of a run on this machine, and that no stage failed.
#[track_caller]
fn equals_local_run(test: &PipelineTest, ran: &Ran) {
    assert_eq!(ran.instances("failed"), [""; 0]);
    let directory = tempfile::tempdir().unwrap();
    let (expected, blobs_here) = local_run(&directory.path().join("ledger.txt"));
    assert_eq!(test.read("results/grid/all.txt"), expected);
    assert_eq!(blobs(test), blobs_here);
}

#[test]
fn a_controller_that_is_killed_delays_only_what_is_not_submitted_yet() {
    let Some(slurm) = SlurmTest::start(26850, "") else { return };
    let test = PipelineTest::new(GRID);
    let mut command = slurm.command(&test, &["run", "pipeline.yaml", "--json"]);
    let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("four jobs run", || lines_of(&test) == 4);
    assert!(slurm.call(&["kill-controller", "DIR"], "").status.success());
    test.write("ledger.txt.go", "");
    let results = || test.files_below("cache/v2/actions").len();
    wait_until("the jobs have committed their results", || results() == 4);
    assert!(slurm.call(&["start-controller", "DIR"], "").status.success());
    let ran = finish(run).ok();
    assert_eq!(ran.computed().len(), 9);
    equals_local_run(&test, &ran);
}

#[test]
fn jobs_that_are_preempted_run_again_without_a_failure() {
    let preempting = "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n\
                      PartitionName=urgent Nodes=ALL PriorityTier=10 PreemptMode=OFF State=UP";
    let Some(slurm) = SlurmTest::start(26860, preempting) else { return };
    let test = PipelineTest::new(GRID);
    let mut command = slurm.command(&test, &["run", "pipeline.yaml", "--json"]);
    let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("four jobs run", || lines_of(&test) == 4);
    let urgent = ["--partition=urgent", "--nodes=3", "--exclusive", "--output=/dev/null", "--wrap=sleep 1"];
    assert!(slurm.ask("sbatch", &urgent).contains("Submitted"));
    wait_until("the jobs that were preempted run again", || lines_of(&test) == 8);
    test.write("ledger.txt.go", "");
    equals_local_run(&test, &finish(run).ok());
}

#[test]
fn neither_squeue_nor_accounting_is_needed() {
    let Some(slurm) = SlurmTest::start(26870, "") else { return };
    let test = PipelineTest::new(GRID);
    test.write("ledger.txt.go", "");
    let mut path = vec![test.file("hanging")];
    for program in ["squeue", "sacct"] {
        test.write(
            &format!("hanging/{program}"),
            "#!/bin/sh\necho $0 >> \"$LEDGER.asked\"\nexec sleep 100\n",
        );
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(test.file("hanging").join(program), executable).unwrap();
    }
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut command = slurm.command(&test, &["run", "pipeline.yaml", "--json"]);
    command.env("PATH", std::env::join_paths(path).unwrap());
    let ran = Ran::finish(command).ok();
    equals_local_run(&test, &ran);
    let asked = test.read("ledger.txt.asked");
    assert!(asked.contains("squeue") && !asked.contains("sacct"), "{asked}");
}

#[test]
fn a_job_that_slurm_kills_because_of_its_memory_gets_more() {
    let enforced = "JobAcctGatherType=jobacct_gather/linux\nJobAcctGatherFrequency=task=1\nJobAcctGatherParams=OverMemoryKill";
    let Some(slurm) = SlurmTest::start(26880, enforced) else { return };
    let test = PipelineTest::new(
        "name: x\nstages:\n  a:\n    command:\n      run: head -c 250M /dev/zero | tail | (sleep 4; wc -c > a.txt)\n      \
         outputs: [a.txt]\n    resources: { mem: 200MiB }\n",
    );
    test.write("engines/slurm.yaml", "engine: slurm\nmem_max: 1GiB\n");
    let ran = slurm.run(&test).ok();
    assert!(ran.stdout.contains("ran out of memory; it was submitted again with 400 MiB"), "{}", ran.stdout);
}

#[test]
fn a_stage_that_reaches_its_time_limit_says_how_much_time_to_ask_for() {
    let cluster = BatchTest::new(
        "name: x\nstages:\n  a: { command: { run: sleep 60, outputs: [a.txt] }, resources: { time: 5m } }\n",
    );
    let run = cluster.start();
    wait_until("the job runs", || {
        cluster.jobs().len() == 1 && !cluster.test.files_below("cache/v2/jobs").is_empty()
    });
    wait_until("the job has started", || {
        cluster.test.files_below("cache/v2/jobs").keys().any(|path| path.ends_with("heartbeat"))
    });
    kill_process(cluster.jobs()[0], Signal::USR1).unwrap();
    let ran = finish(run).exits_with(1);
    assert!(ran.stdout.contains("resources: { time: 10m }"), "{}", ran.stdout);
    assert_eq!(cluster.submissions(), 1);
}

/// A training that writes a checkpoint after every epoch.
const TRAINING: &str = "
name: training
stages:
  data:
    synthetic:
      { rows: 2000, test_rows: 10, features: 500, labels: 300, labels_per_row: 3, features_per_row: 10, validation: { fraction: 0.1 } }
  idf: { idf: { data: data } }
  train:
    train:
      { data: data, idf: idf, preset: released, epochs: 120, device: cpu, net: { hidden: [64] }, checkpoint: { epochs: 1 } }
outputs: { model: train.model }
";

#[test]
fn a_training_that_is_killed_with_its_node_continues_on_another_one_and_ends_in_the_same_bits() {
    let Some(slurm) = SlurmTest::start(26840, "") else { return };
    crate::support::worker_program();
    let here = PipelineTest::new(TRAINING);
    here.run().ok();
    let test = PipelineTest::new(TRAINING);
    let mut command = slurm.command(&test, &["run", "pipeline.yaml", "--json"]);
    let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let has_checkpoint =
        || test.files_below("cache/v2/checkpoints").keys().any(|path| path.ends_with("checkpoint"));
    wait_until("there is a checkpoint", has_checkpoint);
    let node = slurm.ask("squeue", &["--noheader", "--states=R", "--format=%N"]);
    assert!(slurm.call(&["kill-node", "DIR", &node], "").status.success());
    let ran = finish(run).ok();
    assert_eq!(ran.instances("failed"), [""; 0]);
    assert!(ran.stdout.contains("continues from the checkpoint"), "{}", ran.stdout);
    let model = |test: &PipelineTest| test.files_below("results/training/model");
    assert!(model(&test) == model(&here) && !model(&here).is_empty());
}
