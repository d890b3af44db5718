//! Files of the store that may not be read, for an ordinary user.

use std::os::unix::process::CommandExt;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::Fault;
use super::damage::{Damage, DamagedStore, How};
use crate::golden::Golden;
use crate::process::tool;
use crate::project::Pipeline;
use crate::rng::Rng;
use crate::trial::{Start, Trial};

/// The user `nobody`: permissions do not hold root back.
const NOBODY: u32 = 65534;

/// Files of the store that may not be read.
#[derive(Serialize, Deserialize)]
pub(super) struct Permissions(DamagedStore);

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl Fault for Permissions {
    const NAME: &'static str = "permissions";
    const TITLE: &'static str = "files of the store that may not be read, as an ordinary user";
    const WEIGHT: u32 = 5;

    fn lacks(golden: &Golden) -> Option<String> {
        let mut pipe = std::process::Command::new(&golden.pipe);
        let runs =
            !is_root() || pipe.arg("--help").uid(NOBODY).output().is_ok_and(|output| output.status.success());
        (!runs).then(|| "the user `nobody` cannot run `pipe`".to_owned())
    }

    fn draw(rng: &mut Rng, n: u64, golden: &Golden) -> Result<Self> {
        let drawn = DamagedStore::draw(rng, n, golden)?;
        let forbid = |damage: Damage| Damage { how: How::Forbid, ..damage }.spare_locks();
        Ok(Self(DamagedStore { damage: drawn.damage.into_iter().map(forbid).collect(), ..drawn }))
    }

    fn inject<'a>(&self, golden: &'a Golden) -> Result<Trial<'a>> {
        let mut trial = Trial::new(golden, Pipeline::Commands, Start::Cold)?;
        if is_root() {
            trial.user = Some(NOBODY);
            tool("chown", &["-R", &NOBODY.to_string(), &trial.place.path().to_string_lossy()])?;
        }
        trial.begin(self.0.start)?;
        self.0.damage(&mut trial)?;
        Ok(trial)
    }
}
