//! Inputs that change while a run reads them.

use std::fs::{self, FileTimes};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::Fault;
use crate::golden::Golden;
use crate::process::Running;
use crate::project::{FIRST_VERSION, Pipeline};
use crate::rng::Rng;
use crate::trial::{Start, Trial};

/// What the user does.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Change {
    /// Writes into the file.
    Write,
    /// Renames another file over it.
    Replace,
    /// Renames the file away, puts another in its place, and renames it back.
    SwapBack,
    /// Writes into the file, then writes the old content again and restores the time, as `cp -p` does.
    WriteBack,
    /// Removes the file and restores a copy with the old time.
    CopyBack,
    /// The input is a link, which points elsewhere for a while.
    LinkBack,
    /// The same as `SwapBack` with a whole directory.
    SwapTreeBack,
}

const CHANGES: [Change; 7] = [
    Change::Write,
    Change::Replace,
    Change::SwapBack,
    Change::WriteBack,
    Change::CopyBack,
    Change::LinkBack,
    Change::SwapTreeBack,
];

/// A change of an input during a run.
#[derive(Serialize, Deserialize)]
pub(super) struct ChangedInput {
    start: Start,
    change: Change,
    /// When it begins, as a part of the time that an undisturbed run takes.
    at: f64,
    /// How long it lasts, in milliseconds, if it is undone.
    lasts: u64,
    /// How long commands wait before they read their inputs, in seconds.
    pause: f64,
}

impl Fault for ChangedInput {
    const NAME: &'static str = "input";
    const TITLE: &'static str = "an input edited, replaced, or swapped and restored during the run";
    const WEIGHT: u32 = 10;

    fn draw(rng: &mut Rng, _: u64, _: &Golden) -> Result<Self> {
        Ok(Self {
            start: rng.pick(&[Start::Cold, Start::Cold, Start::Edited]),
            change: rng.pick(&CHANGES),
            at: rng.fraction(),
            lasts: rng.below(150),
            pause: rng.pick(&[0.0, 0.05, 0.1]),
        })
    }

    fn inject<'a>(&self, golden: &'a Golden) -> Result<Trial<'a>> {
        let mut trial = Trial::paused(golden, Pipeline::Commands, self.start, self.pause)?;
        let project = trial.place.project();
        let file = project.join("data/a.txt");
        if self.change == Change::LinkBack {
            fs::rename(&file, project.join("data/real.txt"))?;
            std::os::unix::fs::symlink("real.txt", &file)?;
        }
        let other = if trial.version == FIRST_VERSION { 1 } else { FIRST_VERSION };
        let data = Pipeline::Commands.data(other);
        let text = &data.iter().find(|(name, _)| *name == "data/a.txt").context("a.txt is an input")?.1;
        let mut running = trial.run()?;
        let before = Duration::from_secs_f64(self.at * (trial.known.seconds + 2.0 * self.pause));
        if !running.wait_for(before)? {
            trial.faults += 1;
        }
        let is_undone = self.apply(&project, text, &mut running)?;
        // The disturbed run may give the results of either version: it may have read everything before or after the change.
        trial.finish(running, false)?;
        if !is_undone {
            trial.edit(other)?;
        }
        trial.stored.clear();
        Ok(trial)
    }
}

impl ChangedInput {
    /// Makes the change. Returns whether it was undone.
    fn apply(&self, project: &Path, text: &str, running: &mut Running) -> Result<bool> {
        let (file, spare) = (project.join("data/a.txt"), project.join("data/spare"));
        let lasts = Duration::from_millis(self.lasts);
        match self.change {
            Change::Write => fs::write(&file, text)?,
            Change::Replace => {
                fs::write(&spare, text)?;
                fs::rename(&spare, &file)?;
            }
            Change::SwapBack => {
                fs::rename(&file, &spare)?;
                fs::write(&file, text)?;
                running.wait_for(lasts)?;
                fs::rename(&spare, &file)?;
            }
            Change::WriteBack | Change::CopyBack => {
                let (old, time) = (fs::read(&file)?, fs::metadata(&file)?.modified()?);
                fs::write(&file, text)?;
                running.wait_for(lasts)?;
                if self.change == Change::CopyBack {
                    fs::remove_file(&file)?;
                }
                fs::write(&file, old)?;
                let handle = fs::OpenOptions::new().write(true).open(&file)?;
                handle.set_times(FileTimes::new().set_modified(time))?;
            }
            Change::LinkBack => {
                let other = project.join("data/other.txt");
                fs::write(&other, text)?;
                for target in ["other.txt", "real.txt"] {
                    std::os::unix::fs::symlink(target, &spare)?;
                    fs::rename(&spare, &file)?;
                    running.wait_for(lasts)?;
                }
            }
            Change::SwapTreeBack => {
                let tree = project.join("data/tree");
                fs::rename(&tree, &spare)?;
                fs::create_dir_all(tree.join("sub"))?;
                fs::write(tree.join("x"), "another x\n")?;
                fs::write(tree.join("sub/y"), "another y\n")?;
                running.wait_for(lasts)?;
                fs::remove_dir_all(&tree)?;
                fs::rename(&spare, &tree)?;
            }
        }
        Ok(!matches!(self.change, Change::Write | Change::Replace))
    }
}
