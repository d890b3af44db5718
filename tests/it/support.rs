//! A project in a temporary directory, and the real `pipe` run in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;

/// Returns the path of `pipe-worker`. It is the program of another package, which cargo does not build for these tests.
#[track_caller]
pub(crate) fn worker_program() -> PathBuf {
    let worker = Path::new(env!("CARGO_BIN_EXE_pipe")).with_file_name("pipe-worker");
    assert!(worker.is_file(), "build it first, as `make test` does: cargo build --release");
    worker
}

/// Returns the directory with the files of a data set: PIPE_DATA_DIR, or the one beside the project. Prints a note if
/// they are not there.
pub(crate) fn data_directory(set: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let directory = std::env::var_os("PIPE_DATA_DIR").map_or_else(beside, PathBuf::from);
    let exists = directory.join(set).is_dir();
    if !exists {
        println!("skipped: {set} is not in the data directory (set PIPE_DATA_DIR)");
    }
    exists.then_some(directory)
}

/// A project directory with a pipeline, in which commands are run.
pub(crate) struct PipelineTest {
    dir: tempfile::TempDir,
}

impl PipelineTest {
    /// Creates a project whose `pipeline.yaml` has this text.
    pub(crate) fn new(yaml: &str) -> Self {
        let test = Self::empty();
        test.write("pipeline.yaml", yaml);
        test
    }

    /// Creates a project without any file.
    pub(crate) fn empty() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// Creates a project whose pipeline was run and locked.
    #[track_caller]
    pub(crate) fn locked(yaml: &str) -> Self {
        let test = Self::new(yaml);
        test.run().ok();
        test.typed("lock pipeline.yaml").ok();
        test
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file of the project, with its parent directories.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        let path = self.file(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    /// Replaces the first occurrence of a text in a file of the project.
    #[track_caller]
    pub(crate) fn edit(&self, name: &str, old: &str, new: &str) -> &Self {
        let text = self.read(name);
        assert!(text.contains(old), "{name} does not contain `{old}`:\n{text}");
        self.write(name, text.replacen(old, new, 1))
    }

    #[track_caller]
    pub(crate) fn remove(&self, name: &str) -> &Self {
        let path = self.file(name);
        let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        removed.unwrap_or_else(|error| panic!("{name}: {error}"));
        self
    }

    #[track_caller]
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Returns a `pipe` command in this project, with a clean environment, that has not been started.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pipe"));
        command.current_dir(self.path()).args(args).stdin(Stdio::null());
        command
            .env_remove("PIPE_CACHE")
            .env_remove("PIPE_DATA_DIR")
            .env_remove("PIPE_REMOTE")
            .env("NO_COLOR", "1");
        command
    }

    /// Runs `pipe` with these arguments.
    pub(crate) fn pipe(&self, args: &[&str]) -> Ran {
        Ran::finish(self.command(args))
    }

    /// Runs `pipe` with the words of a line: `test.typed("plan pipeline.yaml --check")`.
    pub(crate) fn typed(&self, line: &str) -> Ran {
        self.pipe(&line.split_whitespace().collect::<Vec<_>>())
    }

    /// Runs `pipe` with the words of a line and standard output on a terminal of this width. Returns what it shows there.
    pub(crate) fn on_terminal(&self, columns: u16, line: &str) -> String {
        self.terminal(columns, line, |command, terminal| command.stdout(terminal).stderr(Stdio::null()))
    }

    /// Runs `pipe` as [`Self::on_terminal`] does, with standard error on the terminal.
    pub(crate) fn status_on_terminal(&self, columns: u16, line: &str) -> String {
        self.terminal(columns, line, |command, terminal| command.stderr(terminal).stdout(Stdio::null()))
    }

    fn terminal(&self, columns: u16, line: &str, attach: fn(&mut Command, File) -> &mut Command) -> String {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let terminal = File::options().read(true).write(true).open(name).unwrap();
        let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).unwrap();
        let mut command = self.command(&line.split_whitespace().collect::<Vec<_>>());
        let mut child = attach(&mut command, terminal).spawn().unwrap();
        // The command holds the last copy of the terminal, without which reading ends.
        drop(command);
        let mut shown = Vec::new();
        let mut part = [0; 4096];
        let mut master = File::from(master);
        while let Ok(count @ 1..) = master.read(&mut part) {
            shown.extend_from_slice(&part[..count]);
        }
        assert!(child.wait().unwrap().success(), "{line}");
        String::from_utf8(shown).unwrap().replace("\r\n", "\n")
    }

    /// Runs `pipe run pipeline.yaml --json` with further arguments.
    pub(crate) fn run_with(&self, args: &[&str]) -> Ran {
        self.pipe(&[&["run", "pipeline.yaml", "--json"], args].concat())
    }

    /// Runs `pipe run pipeline.yaml --json`.
    pub(crate) fn run(&self) -> Ran {
        self.run_with(&[])
    }

    /// Returns every regular file below a directory, by relative path.
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

/// A command that ended: its exit code and what it wrote. The methods that check something return it, for chains.
#[derive(Debug)]
pub(crate) struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Runs a command to its end.
    pub(crate) fn finish(mut command: Command) -> Self {
        let output = command.output().unwrap();
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    fn both(&self) -> String {
        format!("standard output:\n{}\nstandard error:\n{}", self.stdout, self.stderr)
    }

    #[track_caller]
    pub(crate) fn exits_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.both());
        assert!(!self.stderr.contains("panicked"), "{}", self.both());
        self
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        self.exits_with(0)
    }

    /// Checks that the text is on standard output or standard error.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        let said = self.stdout.contains(text) || self.stderr.contains(text);
        assert!(said, "`{text}` is in neither of\n{}", self.both());
        self
    }

    /// Checks that the text is a result, on standard output.
    #[track_caller]
    pub(crate) fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "`{text}` is not on standard output\n{}", self.both());
        self
    }

    /// Checks that nothing is on standard output.
    #[track_caller]
    pub(crate) fn prints_nothing(self) -> Self {
        assert_eq!(self.stdout, "", "{}", self.both());
        self
    }

    /// Checks that the text is status, on standard error.
    #[track_caller]
    pub(crate) fn reports(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "`{text}` is not on standard error\n{}", self.both());
        self
    }

    /// Checks that nothing is on standard error.
    #[track_caller]
    pub(crate) fn reports_nothing(self) -> Self {
        assert_eq!(self.stderr, "", "{}", self.both());
        self
    }

    /// Checks that the command refused its input: exit code 2, an error on standard error, and no result.
    #[track_caller]
    pub(crate) fn refuses(self, text: &str) -> Self {
        self.exits_with(2).reports("error").reports(text).prints_nothing()
    }

    /// Returns standard output as one JSON value.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.both()))
    }

    /// Returns standard output as one JSON value per line.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.stdout.lines().map(parse).collect()
    }

    /// Returns the instances for which this event was reported, in order.
    pub(crate) fn instances(&self, event: &str) -> Vec<String> {
        let of_kind = |value: &Value| value["event"] == event;
        let name = |value: Value| value["instance"].as_str().unwrap_or_default().to_owned();
        self.events().into_iter().filter(of_kind).map(name).collect()
    }

    /// Returns the instances that were computed, sorted.
    pub(crate) fn computed(&self) -> Vec<String> {
        let mut done = self.instances("done");
        done.sort();
        done
    }
}
