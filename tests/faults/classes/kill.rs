//! SIGKILL at random times.

use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::Fault;
use crate::golden::Golden;
use crate::process::{children, send};
use crate::project::Pipeline;
use crate::rng::Rng;
use crate::trial::{Start, Trial};

/// Whom a signal hits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Whom {
    Runner,
    Child,
    Both,
}

/// SIGKILL after a part of the time that an undisturbed run takes.
#[derive(Serialize, Deserialize)]
pub(super) struct Kill {
    start: Start,
    whom: Whom,
    at: f64,
    /// Whether a stage waits until all checks of processes are done, so that only a killed runner ends it.
    hold: bool,
}

impl Fault for Kill {
    const NAME: &'static str = "kill";
    const TITLE: &'static str = "`kill -9` of the runner, a child or both at a random time";
    const WEIGHT: u32 = 10;

    fn draw(rng: &mut Rng, _: u64, _: &Golden) -> Result<Self> {
        let start = rng.pick(&[Start::Cold, Start::Cold, Start::Edited, Start::Fresh]);
        let whom = rng.pick(&[Whom::Runner, Whom::Runner, Whom::Child, Whom::Both]);
        // A child that is held may be any process of the stage, and the stage would go on without it.
        let hold = whom == Whom::Runner && start == Start::Cold && rng.chance(30);
        Ok(Self { start, whom, at: rng.fraction(), hold })
    }

    fn inject<'a>(&self, golden: &'a Golden) -> Result<Trial<'a>> {
        let mut trial = Trial::new(golden, Pipeline::Commands, self.start)?;
        if self.hold {
            std::fs::write(trial.place.hold(), "")?;
        }
        kill_once(&mut trial, self.whom, self.at)?;
        Ok(trial)
    }
}

/// Starts a run and kills it after a part of the time that an undisturbed run takes.
pub(super) fn kill_once(trial: &mut Trial, whom: Whom, at: f64) -> Result<()> {
    let mut running = trial.run()?;
    let ended = running.wait_for(Duration::from_secs_f64(at * trial.known.seconds))?;
    let below = children(running.id());
    if !ended && whom != Whom::Child {
        send(running.id(), Signal::KILL);
    }
    if whom != Whom::Runner {
        for child in &below {
            send(*child, Signal::KILL);
        }
    }
    let hit = if whom == Whom::Child { below.len() } else { usize::from(!ended) };
    trial.faults += hit.min(1) as u64;
    let whole = trial.finish(running, whom != Whom::Child)?;
    if whole.code == Some(0) {
        crate::oracle::check_results(trial, "the disturbed run")?;
    }
    Ok(())
}

/// SIGKILL, after which the user edits the data.
#[derive(Serialize, Deserialize)]
pub(super) struct KillThenEdit {
    kill: Kill,
}

impl Fault for KillThenEdit {
    const NAME: &'static str = "kill-edit";
    const TITLE: &'static str = "`kill -9`, then the user edits the data";
    const WEIGHT: u32 = 10;

    fn draw(rng: &mut Rng, n: u64, golden: &Golden) -> Result<Self> {
        Ok(Self { kill: Kill { hold: false, ..Kill::draw(rng, n, golden)? } })
    }

    fn inject<'a>(&self, golden: &'a Golden) -> Result<Trial<'a>> {
        let mut trial = self.kill.inject(golden)?;
        trial.edit_again()?;
        Ok(trial)
    }
}
