//! Power loss, and a network file system, on the file system that was written for these tests.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use super::Fault;
use crate::golden::Golden;
use crate::power::{Power, Survival, Visibility};
use crate::process::Running;
use crate::project::Pipeline;
use crate::rng::Rng;
use crate::trial::{Outcome, Start, Trial};

fn lacks_fuse(golden: &Golden) -> Option<String> {
    let attempt = || -> Result<()> {
        let at = tempfile::tempdir_in(&golden.directory)?;
        Power::on(Survival::Journal).mount(at.path(), Visibility::LOCAL).map(drop)
    };
    attempt().err().map(|error| format!("file systems in user space cannot be mounted: {error:#}"))
}

/// Creates a project on a disk of its own.
fn on_disk<'a>(
    golden: &'a Golden,
    power: &Power,
    seen: Visibility,
    pause: f64,
    start: Start,
) -> Result<Trial<'a>> {
    let mut trial = Trial::paused(golden, Pipeline::Commands, Start::Cold, pause)?;
    trial.mounts.push(power.mount(&trial.place.project(), seen)?);
    trial.edit(trial.version)?;
    trial.begin(start)?;
    Ok(trial)
}

/// A power loss during or just after a run.
#[derive(Serialize, Deserialize)]
pub(super) struct PowerLoss {
    start: Start,
    survival: Survival,
    /// The number of changes of the disk after which the power is cut, at the latest at the end of the run.
    after: usize,
    /// What decides which changes survive.
    seed: u64,
    /// Whether stages take more than a second, so that their results are flushed and may not be lost.
    slow: bool,
}

impl Fault for PowerLoss {
    const NAME: &'static str = "power";
    const TITLE: &'static str = "power loss: changes that were not flushed are lost, torn or reordered";
    const WEIGHT: u32 = 20;

    fn lacks(golden: &Golden) -> Option<String> {
        lacks_fuse(golden)
    }

    fn draw(rng: &mut Rng, _: u64, _: &Golden) -> Result<Self> {
        Ok(Self {
            start: rng.pick(&[Start::Cold, Start::Edited]),
            survival: rng.pick(&[Survival::Journal, Survival::Posix]),
            after: 1 + rng.below(1200) as usize,
            seed: rng.next(),
            slow: rng.chance(5),
        })
    }

    fn inject<'a>(&self, golden: &'a Golden) -> Result<Trial<'a>> {
        let power = Power::on(self.survival);
        let pause = if self.slow { 1.05 } else { 0.0 };
        let mut trial = on_disk(golden, &power, Visibility::LOCAL, pause, self.start)?;
        power.flush_all();
        power.cut_after(self.after);
        let mut running = trial.run()?;
        while !running.wait_for(Duration::from_millis(2))? && !power.is_off() {}
        let after = power.restart(&mut Rng::of(self.seed, Self::NAME, 0));
        trial.faults += 1;
        trial.any_damage = true;
        stop(&running);
        let ended = running.finish()?;
        // What was reported as done is flushed if it took long; nothing is promised about the rest.
        let is_flushed = |name: &String| self.slow && (name == "words" || name.starts_with("part"));
        trial.stored = ended.instances("done").into_iter().filter(is_flushed).collect();
        trial.mounts.clear();
        trial.mounts.push(after.mount(&trial.place.project(), Visibility::LOCAL)?);
        let_another_boot_begin(&trial.store());
        Ok(trial)
    }
}

/// Makes what the store knows about files by their stamp look as if it came from an earlier boot of the machine. After a real
/// power loss it does; here, only the disk was switched off.
fn let_another_boot_begin(store: &Path) {
    // A magic number, the digest of the rest, a time, and the id of the boot.
    const DIGEST: Range<usize> = 16..48;
    const BOOT: Range<usize> = 56..88;
    for path in ["stat", "summaries"].map(|name| store.join(name)) {
        let Ok(mut bytes) = std::fs::read(&path) else { continue };
        let is_sound = bytes.len() >= BOOT.end
            && blake3::hash(&bytes[DIGEST.end..]).as_bytes().as_slice() == &bytes[DIGEST];
        if is_sound {
            bytes[BOOT].fill(0);
            let digest = blake3::hash(&bytes[DIGEST.end..]);
            bytes[DIGEST].copy_from_slice(digest.as_bytes());
            let _ = std::fs::write(&path, bytes);
        }
    }
}

/// Ends all processes of a command, as a power loss does.
fn stop(running: &Running) {
    if let Some(group) = Pid::from_raw(running.id() as i32) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Two machines run a project on one network file system, which shows each of them late what the other one does.
#[derive(Serialize, Deserialize)]
pub(super) struct SlowNetwork {
    start: Start,
    /// How long names and attributes may be out of date, in milliseconds.
    outdated: u64,
    /// How long every request takes, in microseconds.
    delay: u64,
    /// Whether the second machine has looked at the results before, and so may see them as they were for a while.
    #[serde(default)]
    looked: bool,
    /// When the second machine starts its run, in milliseconds.
    second: u64,
    /// When the first run is killed, in milliseconds.
    killed: Option<u64>,
}

impl Fault for SlowNetwork {
    const NAME: &'static str = "network";
    const TITLE: &'static str =
        "two machines on a slow network file system with delayed visibility, one of them killed or not";
    const WEIGHT: u32 = 10;

    fn lacks(golden: &Golden) -> Option<String> {
        lacks_fuse(golden)
    }

    fn draw(rng: &mut Rng, _: u64, _: &Golden) -> Result<Self> {
        let killed = rng.below(300);
        Ok(Self {
            start: rng.pick(&[Start::Cold, Start::Edited]),
            outdated: rng.pick(&[0, 50, 300, 1000]),
            delay: rng.pick(&[0, 100, 500]),
            looked: rng.chance(50),
            second: rng.below(200),
            killed: rng.chance(40).then_some(killed),
        })
    }

    fn inject<'a>(&self, golden: &'a Golden) -> Result<Trial<'a>> {
        let power = Power::on(Survival::Journal);
        let seen = Visibility {
            outdated: Duration::from_millis(self.outdated),
            delay: Duration::from_micros(self.delay),
            can_exchange: false,
        };
        let mut trial = on_disk(golden, &power, seen, 0.0, self.start)?;
        let other = trial.place.path().join("machine/project");
        trial.mounts.push(power.mount(&other, seen)?);
        if self.looked {
            trial.pipeline.results(&other)?;
        }
        let mut first = trial.run()?;
        first.wait_for(Duration::from_millis(self.second))?;
        let mut command = trial.command(&golden.pipe, &["run", &trial.file, "--json"]);
        command.current_dir(&other);
        let second = Running::start(command)?;
        if let Some(time) = self.killed
            && !first.wait_for(Duration::from_millis(time))?
        {
            stop(&first);
        }
        trial.faults += 1 + u64::from(self.killed.is_some());
        let first = trial.finish(first, self.killed.is_some())?;
        let second = trial.finish(second, false)?;
        for (machine, ended) in [("first", first), ("second", second)] {
            if ended.code != Some(0) && ended.signal.is_none() {
                let text =
                    format!("the run on the {machine} machine was disturbed by the other\n{}", ended.tail());
                trial.note(Outcome::Hand, text);
            }
        }
        trial.mounts.pop();
        // The first machine sees the last changes of the second one late; users wait, too.
        std::thread::sleep(seen.outdated);
        Ok(trial)
    }
}
