//! The classes of faults.

mod checkpoints;
mod clock;
mod cluster;
mod damage;
mod full_disk;
mod inputs;
mod kill;
mod permissions;
mod power_loss;
mod remote;
mod runners;
mod signals;
mod system_calls;
mod upkeep;

pub use system_calls::count as count_calls;

use anyhow::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::golden::Golden;
use crate::rng::Rng;
use crate::trial::Trial;

/// One fault, or a series of them, with everything that is needed to inject it again.
trait Fault: Serialize + DeserializeOwned {
    /// The name of the class, for the command line and for files.
    const NAME: &'static str;
    /// What happens, for the table.
    const TITLE: &'static str;
    /// The share of the time that the class gets in a campaign.
    const WEIGHT: u32;

    /// Returns what this machine lacks for the class.
    fn lacks(_golden: &Golden) -> Option<String> {
        None
    }

    /// Draws the fault of the n-th trial.
    fn draw(rng: &mut Rng, n: u64, golden: &Golden) -> Result<Self>;

    /// Creates a project and injects the fault. The checks follow.
    fn inject<'a>(&self, golden: &'a Golden) -> Result<Trial<'a>>;
}

/// A class of faults.
pub struct Class {
    /// The name, for the command line and for files.
    pub name: &'static str,
    /// What happens, for the table.
    pub title: &'static str,
    /// The share of the time that the class gets in a campaign.
    pub weight: u32,
    /// Returns what this machine lacks for the class.
    pub lacks: fn(&Golden) -> Option<String>,
    /// Draws the fault of the n-th trial.
    pub draw: fn(&mut Rng, u64, &Golden) -> Result<Value>,
    inject: Inject,
}

type Inject = for<'a> fn(&Value, &'a Golden) -> Result<Trial<'a>>;

impl Class {
    fn of<F: Fault>() -> Self {
        Self {
            name: F::NAME,
            title: F::TITLE,
            weight: F::WEIGHT,
            lacks: F::lacks,
            draw: |rng, n, golden| Ok(serde_json::to_value(F::draw(rng, n, golden)?)?),
            inject: |fault, golden| serde_json::from_value::<F>(fault.clone())?.inject(golden),
        }
    }

    /// Injects a fault and makes all checks.
    pub fn try_fault<'a>(&self, fault: &Value, golden: &'a Golden) -> Result<Trial<'a>> {
        let mut trial = (self.inject)(fault, golden)?;
        crate::oracle::check(&mut trial)?;
        Ok(trial)
    }
}

/// Returns all classes, in the order of the table.
pub fn all() -> Vec<Class> {
    vec![
        Class::of::<kill::Kill>(),
        Class::of::<kill::KillThenEdit>(),
        Class::of::<signals::Signals>(),
        Class::of::<system_calls::SystemCall>(),
        Class::of::<system_calls::KillAtCall>(),
        Class::of::<damage::DamagedStore>(),
        Class::of::<permissions::Permissions>(),
        Class::of::<inputs::ChangedInput>(),
        Class::of::<clock::Clock>(),
        Class::of::<full_disk::FullDisk>(),
        Class::of::<runners::Runners>(),
        Class::of::<upkeep::Upkeep>(),
        Class::of::<checkpoints::Checkpoints>(),
        Class::of::<system_calls::CallInTraining>(),
        Class::of::<power_loss::PowerLoss>(),
        Class::of::<power_loss::SlowNetwork>(),
        Class::of::<remote::BadRemote>(),
        Class::of::<cluster::BadCluster>(),
    ]
}

/// Returns the message for a missing program, if it is missing.
fn lacks_program(program: &str) -> Option<String> {
    (!crate::process::is_installed(program)).then(|| format!("the program `{program}` is not installed"))
}

fn lacks_worker(golden: &Golden) -> Option<String> {
    (!golden.has_worker()).then(|| "`pipe-worker` is not beside `pipe`".to_owned())
}
