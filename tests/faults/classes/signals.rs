//! Signals that ask a run to end.

use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::Fault;
use crate::golden::Golden;
use crate::process::send;
use crate::project::Pipeline;
use crate::rng::Rng;
use crate::trial::{Start, Trial};

/// SIGINT, SIGTERM or SIGHUP, once or twice.
#[derive(Serialize, Deserialize)]
pub(super) struct Signals {
    start: Start,
    signal: Ask,
    at: f64,
    /// The time until the second signal, in milliseconds.
    again: Option<u64>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Ask {
    Interrupt,
    Terminate,
    HangUp,
}

impl Fault for Signals {
    const NAME: &'static str = "signal";
    const TITLE: &'static str = "SIGINT, SIGTERM or SIGHUP, once or twice";
    const WEIGHT: u32 = 5;

    fn draw(rng: &mut Rng, _: u64, _: &Golden) -> Result<Self> {
        let again = rng.below(30);
        Ok(Self {
            start: rng.pick(&[Start::Cold, Start::Edited]),
            signal: rng.pick(&[Ask::Interrupt, Ask::Terminate, Ask::HangUp]),
            at: rng.fraction(),
            again: rng.chance(40).then_some(again),
        })
    }

    fn inject<'a>(&self, golden: &'a Golden) -> Result<Trial<'a>> {
        let mut trial = Trial::new(golden, Pipeline::Commands, self.start)?;
        let signal = match self.signal {
            Ask::Interrupt => Signal::INT,
            Ask::Terminate => Signal::TERM,
            Ask::HangUp => Signal::HUP,
        };
        let mut running = trial.run()?;
        let mut pauses = vec![Duration::from_secs_f64(self.at * trial.known.seconds)];
        pauses.extend(self.again.map(Duration::from_millis));
        for pause in pauses {
            if !running.wait_for(pause)? {
                send(running.id(), signal);
                trial.faults += 1;
            }
        }
        // A signal in the first milliseconds, before the handler is there, ends the program as it ends any other.
        trial.finish(running, true)?;
        Ok(trial)
    }
}
