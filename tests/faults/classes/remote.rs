//! A remote store that misbehaves.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::Fault;
use crate::bucket::{Bucket, Misbehaviour, Trouble};
use crate::golden::Golden;
use crate::oracle::check_results;
use crate::project::Pipeline;
use crate::rng::Rng;
use crate::trial::{Outcome, Start, Trial};

/// One machine runs the pipeline and uploads its results, another one with an empty cache takes them. Meanwhile the server drops
/// connections, is late, cuts answers short, changes them or refuses them, and what it holds is damaged.
#[derive(Serialize, Deserialize)]
pub(super) struct BadRemote {
    while_uploading: Option<Trouble>,
    while_taking: Option<Trouble>,
    /// Objects of the bucket, by number, in which a bit is flipped between the two runs.
    damaged: Vec<(u64, u64)>,
    /// Whether the data are edited before the second machine runs.
    edit: bool,
}

impl Fault for BadRemote {
    const NAME: &'static str = "remote";
    const TITLE: &'static str =
        "a remote store that drops, delays, truncates, changes or refuses, or holds damaged files";
    const WEIGHT: u32 = 6;

    fn draw(rng: &mut Rng, _: u64, _: &Golden) -> Result<Self> {
        let mut trouble = |percent| {
            rng.chance(percent).then(|| Trouble {
                what: rng.pick(&Misbehaviour::ALL),
                from: rng.below(40),
                count: rng.pick(&[Some(1), Some(2), Some(7), None]),
            })
        };
        let (while_uploading, while_taking) = (trouble(50), trouble(70));
        let damaged = (0..rng.below(4)).map(|_| (rng.next(), rng.next())).collect();
        Ok(Self { while_uploading, while_taking, damaged, edit: rng.chance(30) })
    }

    fn inject<'a>(&self, golden: &'a Golden) -> Result<Trial<'a>> {
        let mut trial = Trial::new(golden, Pipeline::Commands, Start::Cold)?;
        let bucket = Bucket::start()?;
        trial.environment = vec![
            ("PIPE_REMOTE", "s3://bucket/cache".to_owned()),
            ("PIPE_REMOTE_WRITE", "always".to_owned()),
            ("PIPE_SIGNING_KEY", new_key(&trial)?),
            ("AWS_ENDPOINT_URL", bucket.address()),
            ("AWS_ACCESS_KEY_ID", "id".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
        ];
        bucket.misbehave(self.while_uploading);
        run_in_spite_of_it(&mut trial)?;
        for (object, bit) in &self.damaged {
            trial.faults += u64::from(bucket.damage(*object, *bit));
        }
        let project = trial.place.project();
        std::fs::remove_dir_all(project.join("cache"))?;
        std::fs::remove_dir_all(project.join("results"))?;
        trial.stored.clear();
        if self.edit {
            trial.edit(1)?;
        }
        bucket.misbehave(self.while_taking);
        run_in_spite_of_it(&mut trial)?;
        bucket.misbehave(None);
        trial.faults += bucket.faults();
        trial.bucket = Some(bucket);
        Ok(trial)
    }
}

/// Runs the pipeline. A remote that fails must not fail the run, nor change its results.
fn run_in_spite_of_it(trial: &mut Trial) -> Result<()> {
    let running = trial.run()?;
    let ended = trial.finish(running, false)?;
    if ended.code == Some(0) {
        check_results(trial, "the run with a bad remote")?;
    } else {
        let text = format!("the run with a bad remote exited with {:?}\n{}", ended.code, ended.tail());
        trial.note(Outcome::Hand, text);
    }
    Ok(())
}

/// Returns a new secret key.
fn new_key(trial: &Trial) -> Result<String> {
    let home = trial.place.path().join("key");
    let mut command = trial.command(&trial.golden.pipe, &["key", "new", "faults"]);
    let made = command.env("HOME", &home).output()?;
    ensure!(made.status.success(), "`pipe key new` failed: {}", String::from_utf8_lossy(&made.stderr));
    let key = std::fs::read_to_string(home.join(".config/pipe/keys/faults.key"))?;
    std::fs::remove_dir_all(home)?;
    Ok(key)
}
