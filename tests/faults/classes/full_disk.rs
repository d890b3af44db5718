//! A file system without room.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{Fault, lacks_program};
use crate::golden::Golden;
use crate::mount::{self, Mount};
use crate::project::Pipeline;
use crate::rng::Rng;
use crate::trial::{Outcome, Start, Trial};

/// A file system that is full while one command runs.
#[derive(Serialize, Deserialize)]
pub(super) struct FullDisk {
    start: Start,
    file_system: FileSystem,
    /// Whether only the cache is on it, or the whole project.
    only_cache: bool,
    /// What is used up.
    used_up: UsedUp,
    /// How many kilobytes or inodes are left.
    left: u64,
    /// Whether the user collects garbage before he makes room by other means.
    collect: bool,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FileSystem {
    Ext4,
    Tmpfs,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum UsedUp {
    Bytes,
    Inodes,
}

const KILOBYTES: u64 = 4096;
const INODES: u64 = 768;

impl Fault for FullDisk {
    const NAME: &'static str = "full";
    const TITLE: &'static str = "a full ext4 or tmpfs (bytes or inodes), for the cache or the whole project";
    const WEIGHT: u32 = 10;

    fn lacks(golden: &Golden) -> Option<String> {
        let may_not = (!mount::is_allowed(&golden.directory))
            .then(|| "this user may not mount file systems".to_owned());
        may_not.or_else(|| lacks_program("mkfs.ext4"))
    }

    fn draw(rng: &mut Rng, _: u64, _: &Golden) -> Result<Self> {
        let used_up = rng.pick(&[UsedUp::Bytes, UsedUp::Inodes]);
        Ok(Self {
            start: rng.pick(&[Start::Cold, Start::Edited]),
            file_system: rng.pick(&[FileSystem::Ext4, FileSystem::Tmpfs]),
            only_cache: rng.chance(50),
            used_up,
            left: if used_up == UsedUp::Bytes { rng.below(40) * 4 } else { rng.below(60) },
            collect: rng.chance(30),
        })
    }

    fn inject<'a>(&self, golden: &'a Golden) -> Result<Trial<'a>> {
        let mut trial = Trial::new(golden, Pipeline::Commands, Start::Cold)?;
        let project = trial.place.project();
        let at = if self.only_cache { project.join("cache") } else { project };
        let mounted = match self.file_system {
            FileSystem::Tmpfs => Mount::tmpfs(&at, &format!("size={KILOBYTES}k,nr_inodes={INODES}"))?,
            FileSystem::Ext4 => Mount::ext4(&at, &trial.place.path().join("image"), KILOBYTES, INODES)?,
        };
        trial.mounts.push(mounted);
        trial.edit(trial.version)?;
        trial.begin(self.start)?;
        let ballast = trial.store();
        let ballast = ballast.parent().unwrap_or(&ballast).join("ballast");
        std::fs::create_dir_all(&ballast)?;
        self.fill(&ballast)?;
        trial.faults += 1;
        let running = trial.run()?;
        trial.finish(running, false)?;
        if self.collect {
            let running = trial.pipe(&["cache", "gc", "--yes", "--grace", "0"])?;
            let ended = trial.finish(running, false)?;
            // Without an earlier run, the cache contains nothing that could make room.
            if ended.code != Some(0) && self.start != Start::Cold {
                trial.note(Outcome::Hand, format!("`pipe cache gc` cannot make room\n{}", ended.tail()));
            }
            // What was stored for the last version of the data may now be gone.
            trial.stored.clear();
        }
        std::fs::remove_dir_all(&ballast)?;
        Ok(trial)
    }
}

impl FullDisk {
    /// Uses up everything, then gives back what is left to `pipe`.
    fn fill(&self, ballast: &Path) -> Result<()> {
        if self.used_up == UsedUp::Inodes {
            let name = |n: u64| ballast.join(n.to_string());
            let made = (0..INODES).take_while(|n| std::fs::File::create(name(*n)).is_ok()).count() as u64;
            for n in made.saturating_sub(self.left)..made {
                std::fs::remove_file(name(n))?;
            }
            return Ok(());
        }
        let mut file = std::fs::File::create(ballast.join("bytes"))?;
        let block = [1; 1024];
        while file.write_all(&block).is_ok() {}
        let length = file.metadata()?.len();
        file.set_len(length.saturating_sub(self.left * 1024))?;
        Ok(())
    }
}
