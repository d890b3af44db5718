//! Clocks that are wrong, and modification times that hide an edit.

use std::fs::{self, FileTimes};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::Fault;
use crate::golden::Golden;
use crate::project::Pipeline;
use crate::rng::Rng;
use crate::trial::{Start, Trial};

/// A clock that is wrong during one run and right afterwards, or the other way round, and an edit whose modification time is
/// that of the old file, 1970, or in the future.
#[derive(Serialize, Deserialize)]
pub(super) struct Clock {
    /// How wrong the clock is during the first run, in seconds.
    first: i64,
    /// How wrong it is during a second run, if there is one.
    second: Option<i64>,
    edit: Option<Time>,
}

/// The modification time of an edited file.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Time {
    Now,
    Old,
    Epoch,
    Future,
}

const HOUR: i64 = 3600;
const YEAR: i64 = 365 * 24 * HOUR;

/// Returns the library that makes a program see another time, as the package `faketime` installs it.
fn library() -> Option<PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let paths = folders.iter().map(|folder| Path::new(folder).join("faketime/libfaketimeMT.so.1"));
    paths.into_iter().find(|path| path.is_file())
}

impl Fault for Clock {
    const NAME: &'static str = "clock";
    const TITLE: &'static str =
        "a clock that is wrong by a second to 40 years, and edits with misleading modification times";
    const WEIGHT: u32 = 5;

    fn lacks(_: &Golden) -> Option<String> {
        library().is_none().then(|| "the library of `faketime` is not installed".to_owned())
    }

    fn draw(rng: &mut Rng, _: u64, _: &Golden) -> Result<Self> {
        let offsets = [0, 1, -1, HOUR, -HOUR, 30 * 24 * HOUR, -30 * 24 * HOUR, YEAR, 10 * YEAR, -40 * YEAR];
        let edit = rng.pick(&[Time::Now, Time::Old, Time::Epoch, Time::Future]);
        Ok(Self {
            first: rng.pick(&offsets),
            second: rng.chance(50).then_some(rng.pick(&offsets)),
            edit: rng.chance(80).then_some(edit),
        })
    }

    fn inject<'a>(&self, golden: &'a Golden) -> Result<Trial<'a>> {
        let mut trial = Trial::new(golden, Pipeline::Commands, Start::Cold)?;
        let set = |trial: &mut Trial, offset: i64| {
            let library = library().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
            let variables = [
                ("LD_PRELOAD", library),
                ("FAKETIME", format!("{offset:+}")),
                ("NO_FAKE_STAT", "1".to_owned()),
            ];
            trial.environment = variables.to_vec();
            trial.faults += u64::from(offset != 0);
        };
        set(&mut trial, self.first);
        trial.begin(Start::Fresh)?;
        if let Some(time) = self.edit {
            let path = trial.place.project().join("data/a.txt");
            let old = fs::metadata(&path)?.modified()?;
            trial.edit(1)?;
            trial.stored.clear();
            trial.faults += 1;
            let time = match time {
                Time::Now => SystemTime::now(),
                Time::Old => old,
                Time::Epoch => SystemTime::UNIX_EPOCH + Duration::from_secs(1),
                Time::Future => SystemTime::now() + Duration::from_secs(YEAR as u64),
            };
            fs::OpenOptions::new().write(true).open(&path)?.set_times(FileTimes::new().set_modified(time))?;
        }
        if let Some(offset) = self.second {
            set(&mut trial, offset);
            let running = trial.run()?;
            let ended = trial.finish(running, false)?;
            if ended.code == Some(0) {
                crate::oracle::check_results(&mut trial, "the run with a wrong clock")?;
            }
            // The trash of a wrong clock must not be emptied by a right one, nor the other way round.
            let running = trial.pipe(&["cache", "gc", "--yes"])?;
            trial.finish(running, false)?;
        }
        trial.environment.clear();
        Ok(trial)
    }
}
