//! The directory of one job: `jobs/<stage key>/<number>/` in the store. It is all that the submitter and the job share.
//!
//! ```text
//! job.json        what to compute; written before the submission
//! script          what the scheduler starts
//! submission.json the name of the job, and, once the scheduler has answered, its id
//! cancelled       empty; written when pipe asks the scheduler to end the job
//! heartbeat       replaced every few seconds while the job runs
//! events.jsonl    what the stage reports, as it happens
//! output          what the scheduler kept of the job's output; only of interest if the job cannot start
//! stdout, stderr  what a failed stage printed
//! end.json        how the job ended; written last, by a rename
//! tmp/            temporary files of the job
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::attempt::AttemptNote;
use super::super::computation::Computation;
use super::super::executor::AttemptError;
use crate::store::StoreError;
use pipe_core::digest::BlobId;

/// How often a running job replaces its heartbeat.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(3);

/// A file of the user, as a job on another machine finds it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileReference {
    pub path: PathBuf,
    pub blob: BlobId,
}

/// The content of `job.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JobFile {
    /// The directory with which the store was opened.
    pub store: PathBuf,
    pub project: PathBuf,
    /// The name of the engine that it was submitted to.
    pub engine: String,
    /// The memory that it asked for, in bytes; 0 if that was left to the cluster.
    pub mem: u64,
    pub uses_gpu: bool,
    /// Whether to compute even if there is a result.
    pub forced: bool,
    pub computation: Computation<FileReference>,
}

/// How the scheduler knows a job. The name is chosen before the submission, so that a job is found even if the submitter
/// was killed before it could write down the id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Submission {
    pub name: String,
    pub id: Option<String>,
}

/// How a job ended. A missing error means that the result is in the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EndRecord {
    pub error: Option<AttemptError>,
    /// Whether the scheduler had announced the end of the job's time.
    pub time_is_up: bool,
}

/// The directory of one job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct JobDirectory(PathBuf);

impl JobDirectory {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes what to compute. If that includes environment variables, whose values may be secrets, only the owner can read it.
    pub(super) fn write_job(&self, job: &JobFile) -> io::Result<()> {
        let mode = if job.computation.environment.is_empty() { 0o666 } else { 0o600 };
        self.replace_with_mode("job.json", &serde_json::to_vec_pretty(job)?, mode)
    }

    pub(super) fn read_job(&self) -> io::Result<JobFile> {
        Ok(serde_json::from_slice(&fs::read(self.file("job.json"))?)?)
    }

    pub(super) fn write_submission(&self, submission: &Submission) -> io::Result<()> {
        self.replace("submission.json", &serde_json::to_vec(submission)?)
    }

    /// Removes the record of a submission that the scheduler has refused.
    pub(super) fn forget_submission(&self) {
        let _ = fs::remove_file(self.file("submission.json"));
    }

    /// Returns how the scheduler knows the job; `None` if it was never about to be submitted.
    pub(super) fn submission(&self) -> Option<Submission> {
        self.read("submission.json")
    }

    /// Records that pipe asks the scheduler to end the job, so that nobody takes its end for a preemption, after which it would run
    /// again.
    pub(super) fn mark_cancelled(&self) {
        // Without the file, the scheduler has to say how the job ended.
        let _ = File::create(self.file("cancelled"));
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.file("cancelled").exists()
    }

    pub(super) fn write_end(&self, end: &EndRecord) -> io::Result<()> {
        self.replace("end.json", &serde_json::to_vec_pretty(end)?)
    }

    pub(super) fn end(&self) -> Option<EndRecord> {
        self.read("end.json")
    }

    /// Removes the end that an earlier run of the same job recorded, before the scheduler started it again.
    pub(super) fn forget_end(&self) -> io::Result<()> {
        match fs::remove_file(self.file("end.json")) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) fn write_heartbeat(&self, text: &str) -> io::Result<()> {
        self.replace("heartbeat", text.as_bytes())
    }

    /// Returns the heartbeat, which differs from one beat to the next.
    pub(super) fn heartbeat(&self) -> Option<String> {
        fs::read_to_string(self.file("heartbeat")).ok()
    }

    /// Returns how old the heartbeat is, according to the clocks of two machines.
    pub(super) fn heartbeat_age(&self) -> Option<Duration> {
        let written = fs::metadata(self.file("heartbeat")).and_then(|file| file.modified()).ok()?;
        Some(SystemTime::now().duration_since(written).unwrap_or_default())
    }

    /// Returns why nothing can be written to the directory, if that is so.
    pub(super) fn write_problem(&self) -> Option<StoreError> {
        let written = self.replace("probe", &[0; 4096]);
        let _ = fs::remove_file(self.file("probe"));
        written.err().map(|error| StoreError::writing(&self.0, error))
    }

    /// Lists the directory, so that a network file system notices new files.
    pub(super) fn refresh(&self) {
        let _ = fs::read_dir(&self.0).map(Iterator::count);
    }

    /// Returns the last lines that the scheduler kept of the job's output.
    pub(super) fn output_tail(&self) -> String {
        super::super::attempt::tail(&self.file("output"))
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_slice(&fs::read(self.file(name)).ok()?).ok()
    }

    /// Writes a file by way of another one, so that no reader sees half of it.
    fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.replace_with_mode(name, content, 0o666)
    }

    fn replace_with_mode(&self, name: &str, content: &[u8], mode: u32) -> io::Result<()> {
        // Two copies of a job may write at the same time.
        let temporary = self.file(&format!(".{name}.{}.{}", host_name(), std::process::id()));
        let mut options = OpenOptions::new();
        let opened = options.write(true).create(true).truncate(true).mode(mode).open(&temporary);
        let written = opened.and_then(|mut file| {
            file.write_all(content)?;
            file.sync_data()
        });
        written.and_then(|()| fs::rename(&temporary, self.file(name))).inspect_err(|_| {
            let _ = fs::remove_file(&temporary);
        })
    }

    /// Opens the file of events to append to.
    pub(super) fn events(&self) -> io::Result<EventWriter> {
        let file = OpenOptions::new().append(true).create(true).open(self.file("events.jsonl"))?;
        Ok(EventWriter(file))
    }
}

/// Returns the name of this machine.
pub(super) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Appends events to `events.jsonl`.
pub(super) struct EventWriter(File);

impl EventWriter {
    /// Appends an event with one write, so that the events of two copies of a job do not mix within a line.
    pub(super) fn write(&mut self, note: &AttemptNote) -> io::Result<()> {
        let mut line = serde_json::to_vec(note)?;
        line.push(b'\n');
        self.0.write_all(&line)
    }
}

/// Reads the events of a job as they are written.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    position: u64,
}

impl EventReader {
    /// Returns the complete lines since the last call. A line that is no event is left out.
    pub(super) fn read(&mut self, directory: &JobDirectory) -> Vec<AttemptNote> {
        let read = || -> io::Result<Vec<u8>> {
            let mut file = File::open(directory.file("events.jsonl"))?;
            file.seek(SeekFrom::Start(self.position))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = read().unwrap_or_default();
        let complete = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        self.position += complete as u64;
        let lines = bytes[..complete].split(|&byte| byte == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_core::digest::{Digest, StageKey};
    use pipe_core::event::WorkerEvent;

    #[test]
    fn only_the_owner_can_read_the_environment_of_a_job() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let job = JobDirectory::new(directory.path().to_owned());
        let computation = Computation {
            instance: "a".into(),
            kind: "command".into(),
            program: pipe_core::kind::Program::Command,
            body: serde_json::Value::Null,
            parts: pipe_core::key::KeyParts::new([].into()),
            inputs: Vec::new(),
            outputs: Vec::new(),
            environment: vec![("TOKEN".into(), Some("secret".into()))],
            packages: None,
            threads: 1,
            retries: 0,
            warnings: Vec::new(),
        };
        let file = JobFile {
            store: "cache".into(),
            project: ".".into(),
            engine: "slurm".into(),
            mem: 0,
            uses_gpu: false,
            forced: false,
            computation,
        };
        job.write_job(&file).unwrap();
        assert_eq!(job.file("job.json").metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(job.read_job().unwrap().computation.environment, file.computation.environment);
    }

    #[test]
    fn events_are_read_once_and_only_as_whole_lines() {
        let directory = tempfile::tempdir().unwrap();
        let job = JobDirectory::new(directory.path().to_owned());
        let mut reader = EventReader::default();
        assert_eq!(reader.read(&job), []);
        let metric = AttemptNote::Worker(WorkerEvent::Metric {
            name: "f1".into(),
            value: f64::INFINITY,
            protocol: None,
            epoch: Some(3),
        });
        let retry = AttemptNote::Retry {
            error: "it failed".into(),
            stderr_tail: String::new(),
            key: StageKey::new(Digest::of(b"key")),
            attempt: 2,
        };
        let mut writer = job.events().unwrap();
        writer.write(&metric).unwrap();
        writer.write(&retry).unwrap();
        writer.0.write_all(b"not an event\n{\"event\":\"al").unwrap();
        assert_eq!(reader.read(&job), [metric, retry]);
        writer.0.write_all(b"ive\"}\n").unwrap();
        assert_eq!(reader.read(&job), [AttemptNote::Worker(WorkerEvent::Alive)]);
        assert_eq!(reader.read(&job), []);
    }
}
