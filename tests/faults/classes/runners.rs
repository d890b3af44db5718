//! Several commands at once.

use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::Fault;
use crate::golden::Golden;
use crate::process::send;
use crate::project::Pipeline;
use crate::rng::Rng;
use crate::trial::{Outcome, Start, Trial};

/// Runs of one project at once, some of them killed, together with commands that read, check and clean the cache.
#[derive(Serialize, Deserialize)]
pub(super) struct Runners {
    start: Start,
    commands: Vec<Companion>,
}

#[derive(Serialize, Deserialize)]
struct Companion {
    command: String,
    /// How long after the one before it starts, in milliseconds.
    after: u64,
    /// After how many milliseconds it is killed.
    killed: Option<u64>,
}

const RUN: &str = "run pipeline.yaml --json";
const OTHERS: [&str; 6] = [
    "cache gc --yes",
    "cache gc --yes --grace 0",
    "cache fsck",
    "cache fsck --repair",
    "plan pipeline.yaml",
    "status pipeline.yaml",
];

impl Fault for Runners {
    const NAME: &'static str = "runners";
    const TITLE: &'static str = "2 to 3 runners at once, some killed, with `gc`, `fsck`, `plan` and `status`";
    const WEIGHT: u32 = 10;

    fn draw(rng: &mut Rng, _: u64, _: &Golden) -> Result<Self> {
        let runs = 2 + rng.below(2);
        let others = rng.below(4);
        let mut commands = Vec::new();
        for n in 0..runs + others {
            let command = if n < runs { RUN } else { rng.pick(&OTHERS) };
            let killed = rng.below(100);
            commands.push(Companion {
                command: command.to_owned(),
                after: rng.below(25),
                killed: rng.chance(35).then_some(killed),
            });
        }
        Ok(Self { start: rng.pick(&Start::ALL), commands })
    }

    fn inject<'a>(&self, golden: &'a Golden) -> Result<Trial<'a>> {
        let mut trial = Trial::new(golden, Pipeline::Commands, self.start)?;
        let mut running = Vec::new();
        let mut collected = false;
        for companion in &self.commands {
            std::thread::sleep(Duration::from_millis(companion.after));
            let words: Vec<&str> = companion.command.split(' ').collect();
            let mut started = trial.pipe(&words)?;
            if let Some(time) = companion.killed {
                if !started.wait_for(Duration::from_millis(time))? {
                    send(started.id(), Signal::KILL);
                }
                trial.faults += 1;
            }
            collected |= companion.command.contains("gc");
            running.push((companion, started));
        }
        trial.faults += 1;
        for (companion, started) in running {
            let ended = trial.finish(started, companion.killed.is_some())?;
            let refused = companion.command.contains("gc") || companion.command.contains("--repair");
            if ended.code != Some(0) && companion.killed.is_none() && !refused {
                let text =
                    format!("`{}` was disturbed by its companions\n{}", companion.command, ended.tail());
                trial.note(Outcome::Hand, text);
            }
        }
        if collected {
            // Garbage may have been collected while no run had recorded what it needs.
            trial.stored.clear();
        }
        Ok(trial)
    }
}
