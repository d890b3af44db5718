//! A project in a directory of its own, and the real `pipe` run in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// `pipe-worker` is another package's program, which cargo does not build for these tests.
#[track_caller]
pub(crate) fn worker_program() -> PathBuf {
    let worker = Path::new(env!("CARGO_BIN_EXE_pipe")).with_file_name("pipe-worker");
    assert!(worker.is_file(), "build it first, as `make test` does: cargo build --release");
    worker
}

/// Where the files of a data set are: in PIPE_DATA_DIR, or beside the project. Says so where they are not.
pub(crate) fn data_directory(set: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let directory = std::env::var_os("PIPE_DATA_DIR").map_or_else(beside, PathBuf::from);
    let there = directory.join(set).is_dir();
    if !there {
        println!("skipped: {set} is not in the data directory (set PIPE_DATA_DIR)");
    }
    there.then_some(directory)
}

pub(crate) struct PipelineTest {
    dir: tempfile::TempDir,
}

impl PipelineTest {
    /// A project whose `pipeline.yaml` has this text.
    pub(crate) fn new(yaml: &str) -> Self {
        let test = Self { dir: tempfile::tempdir().unwrap() };
        test.write("pipeline.yaml", yaml);
        test
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        let path = self.file(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// A `pipe` command that has not been started: a clean environment, this project.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pipe"));
        command.current_dir(self.path()).args(args).stdin(Stdio::null());
        command.env_remove("PIPE_CACHE").env_remove("PIPE_DATA_DIR").env("NO_COLOR", "1");
        command
    }

    pub(crate) fn pipe(&self, args: &[&str]) -> Ran {
        let output = self.command(args).output().unwrap();
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// `pipe run pipeline.yaml --json` and further arguments.
    pub(crate) fn run_with(&self, args: &[&str]) -> Ran {
        self.pipe(&[&["run", "pipeline.yaml", "--json"], args].concat())
    }

    pub(crate) fn run(&self) -> Ran {
        self.run_with(&[])
    }

    /// Every regular file below a directory, by relative path.
    pub(crate) fn files_below(&self, directory: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let root = self.file(directory);
        let mut found = BTreeMap::new();
        let mut pending = vec![root.clone()];
        while let Some(directory) = pending.pop() {
            for entry in std::fs::read_dir(&directory).into_iter().flatten() {
                let path = entry.unwrap().path();
                let kind = std::fs::symlink_metadata(&path).unwrap().file_type();
                if kind.is_dir() {
                    pending.push(path);
                } else if kind.is_file() {
                    let content = std::fs::read(&path).unwrap();
                    found.insert(path.strip_prefix(&root).unwrap().to_owned(), content);
                }
            }
        }
        found
    }
}

#[derive(Debug)]
pub(crate) struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    #[track_caller]
    pub(crate) fn exits_with(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "standard output:\n{}\nstandard error:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        self.exits_with(0)
    }

    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        let said = self.stdout.contains(text) || self.stderr.contains(text);
        assert!(
            said,
            "`{text}` is in neither standard output:\n{}\nnor standard error:\n{}",
            self.stdout, self.stderr
        );
        self
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.stdout.lines().map(parse).collect()
    }

    /// The instances for which this event was reported, in order.
    pub(crate) fn instances(&self, event: &str) -> Vec<String> {
        let of_kind = |value: &Value| value["event"] == event;
        let name = |value: Value| value["instance"].as_str().unwrap_or_default().to_owned();
        self.events().into_iter().filter(of_kind).map(name).collect()
    }

    /// What was computed, sorted.
    pub(crate) fn computed(&self) -> Vec<String> {
        let mut done = self.instances("done");
        done.sort();
        done
    }
}
