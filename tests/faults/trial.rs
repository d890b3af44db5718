//! One trial: a project in a directory of its own, in which a fault is injected.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::bucket::Bucket;
use crate::golden::{Golden, Known};
use crate::mount::Mount;
use crate::process::{Ended, Running};
use crate::project::{FIRST_VERSION, Pipeline};

/// What has gone wrong in a trial. Each is a column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Exit code 0, but the results are those of no version of the data, or of an undone edit.
    Wrong,
    /// Exit code 0, but the results are those of an earlier version of the data.
    Stale,
    /// A finished result had to be computed again although nothing of it was damaged.
    Lost,
    /// One run did not recover.
    Hand,
    /// A program panicked.
    Panic,
    /// A command did not end.
    Hang,
    /// An exit code that docs/commands.md does not list.
    Exit,
    /// `pipe cache fsck` found damage where there is none, or did not name damage where there is some.
    Fsck,
    /// A file outside of `cache/` and `results/` was changed or left behind, or a dead process's scratch files remain.
    Left,
    /// A process outlived the command that started it.
    Process,
}

impl Outcome {
    /// All outcomes, in the order of the columns.
    pub const ALL: [Self; 10] = [
        Self::Wrong,
        Self::Stale,
        Self::Lost,
        Self::Hand,
        Self::Panic,
        Self::Hang,
        Self::Exit,
        Self::Fsck,
        Self::Left,
        Self::Process,
    ];
}

/// One thing that went wrong, and a text that says where.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// What it is.
    pub outcome: Outcome,
    /// The text.
    pub text: String,
}

/// What a project looks like before a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// Nothing was run.
    Cold,
    /// Everything was run, then the data were edited.
    Edited,
    /// Everything is up to date.
    Fresh,
}

impl Start {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cold, Self::Edited, Self::Fresh];
}

/// A directory with a project, a home, a place for temporary files, and something that nobody may touch.
pub struct Place {
    root: tempfile::TempDir,
    /// The name of the project directory, which a user may change.
    pub name: String,
}

impl Place {
    /// Creates the directory.
    pub fn new(below: &Path) -> Result<Self> {
        let root = tempfile::Builder::new().prefix("faults-").tempdir_in(below)?;
        let place = Self { root, name: "project".to_owned() };
        for directory in ["project", "home", "tmp"] {
            std::fs::create_dir(place.path().join(directory))?;
        }
        std::fs::write(place.path().join("outside"), "nobody may touch this")?;
        Ok(place)
    }

    /// Returns the directory itself.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// Returns the project directory.
    pub fn project(&self) -> PathBuf {
        self.path().join(&self.name)
    }

    /// Returns the file for which the stage `held` waits until it is gone.
    pub fn hold(&self) -> PathBuf {
        self.path().join("hold")
    }

    /// Returns a command in this project that has not been started, with an environment of its own.
    pub fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.project()).env_clear();
        let path = std::env::var_os("PATH").unwrap_or_default();
        command
            .env("PATH", path)
            .env("HOME", self.path().join("home"))
            .env("TMPDIR", self.path().join("tmp"));
        command
    }

    /// Starts `pipe` in this project.
    pub fn pipe(&self, golden: &Golden, arguments: &[&str]) -> Result<Running> {
        Running::start(self.command(&golden.pipe, arguments))
    }
}

/// One trial.
pub struct Trial<'a> {
    /// The programs, and what undisturbed runs give.
    pub golden: &'a Golden,
    /// What undisturbed runs of this trial's pipeline give.
    pub known: Arc<Known>,
    /// The file systems mounted in the directory. They are unmounted before the directory is removed.
    pub mounts: Vec<Mount>,
    /// The directory.
    pub place: Place,
    /// The name of the pipeline file, which a user may change.
    pub file: String,
    /// The pipeline.
    pub pipeline: Pipeline,
    /// The version of the data in the project.
    pub version: u32,
    /// How long commands wait where their inputs matter.
    pub pause: f64,
    /// The user that runs `pipe`, if it is not the one who runs the campaign.
    pub user: Option<u32>,
    /// Variables that are added to the environment of `pipe`.
    pub environment: Vec<(&'static str, String)>,
    /// The server of the remote store, which runs until the end of the trial.
    pub bucket: Option<Bucket>,
    /// How many faults were injected.
    pub faults: u64,
    /// The instances whose results must be in the cache: none of them may have to run again.
    pub stored: BTreeSet<String>,
    /// The damaged files, by path. `pipe cache fsck` may name them.
    pub damaged: Vec<String>,
    /// Whether any file may be damaged, as after a power loss. `pipe cache fsck` may then find more than the runs needed.
    pub any_damage: bool,
    /// What has gone wrong.
    pub found: Vec<Finding>,
}

impl<'a> Trial<'a> {
    /// Creates a project and brings it into this state.
    pub fn new(golden: &'a Golden, pipeline: Pipeline, start: Start) -> Result<Self> {
        Self::paused(golden, pipeline, start, 0.0)
    }

    /// Creates a project whose commands wait, and brings it into this state.
    pub fn paused(golden: &'a Golden, pipeline: Pipeline, start: Start, pause: f64) -> Result<Self> {
        let mut trial = Self {
            golden,
            known: golden.of(pipeline)?,
            mounts: Vec::new(),
            place: Place::new(&golden.directory)?,
            file: "pipeline.yaml".to_owned(),
            pipeline,
            version: FIRST_VERSION,
            pause,
            user: None,
            environment: Vec::new(),
            bucket: None,
            faults: 0,
            stored: BTreeSet::new(),
            damaged: Vec::new(),
            any_damage: false,
            found: Vec::new(),
        };
        trial.edit(FIRST_VERSION)?;
        trial.begin(start)?;
        Ok(trial)
    }

    /// Brings a project that was never run into this state.
    pub fn begin(&mut self, start: Start) -> Result<()> {
        if start == Start::Cold {
            return Ok(());
        }
        let ended = self.run()?.finish()?;
        anyhow::ensure!(ended.code == Some(0), "an undisturbed run failed: {ended:?}");
        self.stored = self.known.instances.clone();
        if start == Start::Edited {
            self.edit(1)?;
            self.stored = self.known.unaffected.clone();
        }
        Ok(())
    }

    /// Writes this version of the data.
    pub fn edit(&mut self, version: u32) -> Result<()> {
        self.version = version;
        self.pipeline.write(&self.place.project(), &self.file, &self.place.hold(), version, self.pause)
    }

    /// Edits the data as a user does after a fault. What does not depend on them is still stored.
    pub fn edit_again(&mut self) -> Result<()> {
        self.stored.retain(|instance| self.known.unaffected.contains(instance));
        self.edit(2)
    }

    /// Returns a command in the project that has not been started.
    pub fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = self.place.command(program, arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(user) = self.user {
            std::os::unix::process::CommandExt::uid(&mut command, user);
        }
        command
    }

    /// Starts `pipe`.
    pub fn pipe(&self, arguments: &[&str]) -> Result<Running> {
        Running::start(self.command(&self.golden.pipe, arguments))
    }

    /// Starts `pipe run` without any option that changes what it does.
    pub fn run(&self) -> Result<Running> {
        self.pipe(&["run", &self.file, "--json"])
    }

    /// Returns the directory of the cache's current format.
    pub fn store(&self) -> PathBuf {
        self.place.project().join("cache/v2")
    }

    /// Notes that a file of the store was damaged, by its path in the store.
    pub fn note_damage(&mut self, path: &Path) {
        // The files of a run are named by the run, which is their directory.
        let named = if path.starts_with("runs") { path.parent().unwrap_or(path) } else { path };
        self.damaged.extend(named.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }

    /// Notes something that went wrong.
    pub fn note(&mut self, outcome: Outcome, text: impl Into<String>) {
        self.found.push(Finding { outcome, text: text.into() });
    }

    /// Waits for a disturbed command and checks what any command has to respect. `killed` says that a signal may end it.
    pub fn finish(&mut self, running: Running, killed: bool) -> Result<Ended> {
        let ended = running.finish()?;
        crate::oracle::check_end(self, &ended, killed);
        self.stored.extend(ended.instances("done"));
        Ok(ended)
    }
}
