//! Training that is killed, and checkpoints that are damaged before it goes on.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::damage::Damage;
use super::kill::{Whom, kill_once};
use super::{Fault, lacks_worker};
use crate::golden::Golden;
use crate::project::Pipeline;
use crate::rng::Rng;
use crate::trial::{Start, Trial};

/// Kills during training, some with a damaged checkpoint afterwards.
#[derive(Serialize, Deserialize)]
pub(super) struct Checkpoints {
    rounds: Vec<Round>,
}

#[derive(Serialize, Deserialize)]
struct Round {
    whom: Whom,
    at: f64,
    damage: Option<Damage>,
}

impl Fault for Checkpoints {
    const NAME: &'static str = "checkpoint";
    const TITLE: &'static str =
        "training killed 1 to 3 times, checkpoints and other files of the store damaged in between";
    const WEIGHT: u32 = 10;

    fn lacks(golden: &Golden) -> Option<String> {
        lacks_worker(golden)
    }

    fn draw(rng: &mut Rng, _: u64, _: &Golden) -> Result<Self> {
        let mut rounds = Vec::new();
        for _ in 0..=rng.below(3) {
            let mut damage = Damage::draw(rng);
            if rng.chance(70) {
                damage.area = "checkpoints".to_owned();
            }
            let whom = rng.pick(&[Whom::Runner, Whom::Child, Whom::Both]);
            rounds.push(Round {
                whom,
                at: 0.2 + 0.8 * rng.fraction(),
                damage: rng.chance(60).then_some(damage),
            });
        }
        Ok(Self { rounds })
    }

    fn inject<'a>(&self, golden: &'a Golden) -> Result<Trial<'a>> {
        let mut trial = Trial::new(golden, Pipeline::Training, Start::Cold)?;
        for round in &self.rounds {
            kill_once(&mut trial, round.whom, round.at)?;
            let Some(damage) = &round.damage else { continue };
            if let Some(path) = damage.apply(&trial.store())? {
                trial.faults += 1;
                trial.note_damage(&path);
                trial.stored.clear();
            }
        }
        Ok(trial)
    }
}
