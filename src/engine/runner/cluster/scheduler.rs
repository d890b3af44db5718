//! What `pipe` asks of a batch scheduler: submit jobs, list them, cancel them.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::submitting::lock;

/// One job to submit.
#[derive(Debug, Clone)]
pub(super) struct JobRequest {
    /// Unique among all jobs of the user.
    pub name: String,
    /// The name of the instance, for people.
    pub instance: String,
    /// The directory of the job.
    pub directory: PathBuf,
    pub resources: JobResources,
}

/// What a job asks of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JobResources {
    pub cpu: usize,
    /// In bytes; 0 if not stated.
    pub mem: u64,
    pub gpu: usize,
    /// The type of the GPUs, as the cluster names it.
    pub gpu_type: Option<String>,
    pub time: Option<Duration>,
}

impl JobResources {
    /// Returns the memory in MiB, rounded up.
    pub(super) fn mem_mib(&self) -> u64 {
        mebibytes(self.mem)
    }

    /// Returns the time limit in minutes, rounded up.
    pub(super) fn minutes(&self) -> Option<u64> {
        self.time.map(|time| time.as_secs().div_ceil(60).max(1))
    }
}

/// Returns an amount of memory in MiB, rounded up.
pub(super) fn mebibytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

/// Why jobs were not submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SubmitError {
    /// It may work later, or with fewer jobs at once. It is not certain that the scheduler has not taken the jobs.
    Later(String),
    /// It will not work without a change.
    Refused(String),
}

/// What the scheduler says about one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListedJob {
    pub id: String,
    /// The name that was given at the submission, if the scheduler knows names.
    pub name: Option<String>,
    pub state: JobState,
}

/// The state of a job, as the scheduler sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum JobState {
    /// It waits, for the reason that the scheduler gives.
    Pending(String),
    Running,
    /// It has ended. The scheduler may forget it at any time.
    Ended(Ending),
}

/// How a job ended, as the scheduler sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Finished,
    Failed,
    Cancelled,
    TimeLimit,
    OutOfMemory,
    Preempted,
    NodeFailed,
}

/// A batch scheduler.
pub(super) trait Scheduler: Send + Sync {
    /// Submits jobs with equal resources, and returns their ids in the same order. The script of the first job starts any of
    /// them.
    fn submit(&self, jobs: &[JobRequest]) -> Result<Vec<String>, SubmitError>;

    /// Lists the jobs that the scheduler knows; at least those of `ids` that have not ended. Fails if the scheduler does not
    /// answer before `give_up` says that nobody needs the answer any longer.
    fn list(&self, ids: &[String], give_up: GiveUp) -> Result<Vec<ListedJob>, String>;

    /// Asks the scheduler to end jobs. Jobs that have ended are no error.
    fn cancel(&self, ids: &[String]) -> Result<(), String>;

    /// Returns how many jobs can be submitted at once.
    fn largest_batch(&self) -> usize;

    /// Returns the shell expression for the position of a job among those that were submitted with it.
    fn position_variable(&self) -> Option<&'static str>;
}

/// Why a command of the scheduler gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ToolError {
    NotFound,
    TimedOut,
    /// Its exit code, and what it printed to standard error.
    Failed(Option<i32>, String),
}

impl ToolError {
    /// Returns a sentence about the command `program`.
    pub(super) fn sentence(&self, program: &str) -> String {
        match self {
            Self::NotFound => format!(
                "the program `{program}` is not on PATH; run pipe on a machine that can submit jobs (a login node), or load \
                 the module that provides it"
            ),
            Self::TimedOut => format!("`{program}` did not answer in time"),
            Self::Failed(_, text) if text.is_empty() => format!("`{program}` failed without saying why"),
            Self::Failed(_, text) => format!("`{program}` failed: {text}"),
        }
    }
}

/// Whether nobody needs an answer any longer.
pub(super) type GiveUp<'a> = &'a dyn Fn() -> bool;

/// Runs a command of the scheduler and returns what it prints. It is killed if it takes too long: a scheduler that hangs
/// must not hang the run.
pub(super) fn run_tool(command: &mut Command, patience: Duration) -> Result<String, ToolError> {
    ask_tool(command, patience, &|| false)
}

/// Runs a command as [`run_tool`] does, and kills it if nobody needs its answer any longer.
pub(super) fn ask_tool(
    command: &mut Command,
    patience: Duration,
    give_up: GiveUp,
) -> Result<String, ToolError> {
    // In a group of its own, so that Ctrl-C on the terminal does not end it in the middle.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => ToolError::NotFound,
        _ => ToolError::Failed(None, error.to_string()),
    };
    let mut child = command.spawn().map_err(failed)?;
    let group = Pid::from_child(&child);
    let (stdout, stderr) = (ToolOutput::read(child.stdout.take()), ToolOutput::read(child.stderr.take()));
    let begin = Instant::now();
    let mut pause = Duration::from_millis(2);
    let status = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) => break status,
            None if begin.elapsed() >= patience || give_up() => {
                let _ = kill_process_group(group, Signal::KILL);
                let _ = child.wait();
                return Err(ToolError::TimedOut);
            }
            None => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(50));
    };
    // A process that the command left behind may keep the streams open for ever.
    let ended = Instant::now();
    while !(stdout.is_complete() && stderr.is_complete()) && ended.elapsed() < OUTPUT_PATIENCE && !give_up() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let (stdout, stderr) = (stdout.text(), stderr.text());
    if status.success() { Ok(stdout) } else { Err(ToolError::Failed(status.code(), stderr)) }
}

/// How long the streams of a command may stay open after it has ended.
const OUTPUT_PATIENCE: Duration = Duration::from_secs(1);

/// What a command has printed so far.
struct ToolOutput {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: std::io::Result<JoinHandle<()>>,
}

impl ToolOutput {
    /// Starts to read a stream.
    fn read(stream: Option<impl Read + Send + 'static>) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let so_far = Arc::clone(&bytes);
        let read = move || {
            let Some(mut stream) = stream else { return };
            let mut piece = [0; 8192];
            while let Ok(length @ 1..) = stream.read(&mut piece) {
                lock(&so_far).extend_from_slice(&piece[..length]);
            }
        };
        Self { bytes, reader: std::thread::Builder::new().spawn(read) }
    }

    fn is_complete(&self) -> bool {
        self.reader.as_ref().map_or(true, JoinHandle::is_finished)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&lock(&self.bytes)).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        command
    }

    #[test]
    fn a_command_that_hangs_is_ended() {
        let begin = Instant::now();
        let answer = run_tool(&mut sh("sleep 60 & sleep 60"), Duration::from_millis(100));
        assert_eq!(answer, Err(ToolError::TimedOut));
        assert!(begin.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_command_whose_answer_nobody_needs_is_ended() {
        let begin = Instant::now();
        let answer = ask_tool(&mut sh("sleep 60"), Duration::from_secs(50), &|| true);
        assert_eq!(answer, Err(ToolError::TimedOut));
        assert!(begin.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_process_that_a_command_leaves_behind_does_not_delay_its_answer() {
        let begin = Instant::now();
        let answer = run_tool(&mut sh("echo 12; sleep 50 & true"), Duration::from_secs(45));
        assert_eq!(answer, Ok("12".to_owned()));
        assert!(begin.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_command_answers_or_says_why_not() {
        let patience = Duration::from_secs(20);
        assert_eq!(run_tool(&mut sh("echo 12; echo note >&2"), patience), Ok("12".to_owned()));
        let failed = run_tool(&mut sh("echo 12; echo no >&2; exit 3"), patience);
        assert_eq!(failed, Err(ToolError::Failed(Some(3), "no".to_owned())));
        let missing = run_tool(&mut Command::new("no-such-scheduler"), patience).unwrap_err();
        assert!(missing.sentence("sbatch").contains("`sbatch` is not on PATH"));
    }
}
