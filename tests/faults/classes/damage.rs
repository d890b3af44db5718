//! Damage to the files of the store.

use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::Fault;
use crate::golden::Golden;
use crate::project::{Files, Pipeline, collect};
use crate::rng::Rng;
use crate::trial::{Start, Trial};

/// The kinds of files in the store, by the first part of their paths.
const AREAS: [&str; 7] = ["blobs", "actions", "pipelines", "runs", "stat", "CACHEDIR.TAG", "locks"];

/// What happens to a file.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum How {
    Flip,
    Truncate,
    Empty,
    Delete,
    Append,
    Garbage,
    Zeros,
    Directory,
    DanglingLink,
    /// Nobody may read, write or enter it.
    Forbid,
}

const CONTENT: [How; 9] = [
    How::Flip,
    How::Truncate,
    How::Empty,
    How::Delete,
    How::Append,
    How::Garbage,
    How::Zeros,
    How::Directory,
    How::DanglingLink,
];

/// Damage to one file of an area.
#[derive(Serialize, Deserialize)]
pub(super) struct Damage {
    pub area: String,
    /// Which file of the area, as a part of their number.
    pub file: f64,
    pub how: How,
    /// Where in the file, as a part of its length.
    pub at: f64,
}

impl Damage {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let drawn = Self {
            area: rng.pick(&AREAS).to_owned(),
            file: rng.fraction(),
            how: rng.pick(&CONTENT),
            at: rng.fraction(),
        };
        drawn.spare_locks()
    }

    /// Empties a lock instead of replacing it: whoever replaces a lock that another process may hold breaks its promise, so
    /// a lock that cannot be opened stays an error.
    pub(super) fn spare_locks(mut self) -> Self {
        let replaces = matches!(self.how, How::Directory | How::DanglingLink | How::Forbid);
        if self.area == "locks" && replaces {
            self.how = How::Empty;
        }
        self
    }

    /// Damages a file below this directory. Returns its path relative to it, or `None` if the area has no file.
    pub(super) fn apply(&self, store: &Path) -> Result<Option<PathBuf>> {
        let mut files = Files::new();
        collect(store, Path::new(&self.area), &mut files)?;
        files.retain(|_, content| content != b"/");
        let nth = (self.file * files.len() as f64) as usize;
        let Some(name) = files.keys().nth(nth).cloned() else { return Ok(None) };
        let path = store.join(&name);
        self.how.apply(&path, self.at)?;
        Ok(Some(name))
    }
}

impl How {
    pub(super) fn apply(self, path: &Path, at: f64) -> Result<()> {
        let metadata = std::fs::symlink_metadata(path)?;
        if !metadata.is_file() {
            return Ok(());
        }
        let length = metadata.len();
        let at = ((at * length as f64) as u64).min(length.saturating_sub(1));
        let mode = metadata.permissions().mode();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))?;
        let mut file = std::fs::OpenOptions::new().read(true).write(true).open(path)?;
        let mut put = |at: u64, bytes: &[u8]| -> Result<()> {
            file.seek(SeekFrom::Start(at))?;
            Ok(file.write_all(bytes)?)
        };
        match self {
            Self::Flip if length > 0 => {
                let mut byte = [0];
                file.seek(SeekFrom::Start(at))?;
                file.read_exact(&mut byte)?;
                file.seek(SeekFrom::Start(at))?;
                file.write_all(&[byte[0] ^ 1])?;
            }
            Self::Truncate => file.set_len(at)?,
            Self::Empty => file.set_len(0)?,
            Self::Append => put(length, b"appended")?,
            Self::Garbage => put(0, &vec![0xA5; length.max(16) as usize])?,
            Self::Zeros => put(at, &vec![0; (length - at).min(512) as usize])?,
            Self::Delete | Self::Directory | Self::DanglingLink => std::fs::remove_file(path)?,
            Self::Flip | Self::Forbid => {}
        }
        match self {
            Self::Delete => {}
            Self::Directory => std::fs::create_dir(path)?,
            Self::DanglingLink => std::os::unix::fs::symlink("nowhere", path)?,
            Self::Forbid => std::fs::set_permissions(path, PermissionsExt::from_mode(0o000))?,
            _ => std::fs::set_permissions(path, PermissionsExt::from_mode(mode))?,
        }
        Ok(())
    }
}

/// Damage to one or more files of the store.
#[derive(Serialize, Deserialize)]
pub(super) struct DamagedStore {
    pub start: Start,
    pub damage: Vec<Damage>,
    /// Whether the user removes the results, so that all of them are placed again.
    pub remove_results: bool,
}

impl Fault for DamagedStore {
    const NAME: &'static str = "damage";
    const TITLE: &'static str = "files of the store flipped, cut, emptied, deleted, extended, overwritten, or replaced by a \
         directory or a dangling link";
    const WEIGHT: u32 = 20;

    fn draw(rng: &mut Rng, _: u64, _: &Golden) -> Result<Self> {
        let start = rng.pick(&[Start::Edited, Start::Fresh]);
        let damage = (0..=rng.below(8)).map(|_| Damage::draw(rng)).collect();
        Ok(Self { start, damage, remove_results: rng.chance(30) })
    }

    fn inject<'a>(&self, golden: &'a Golden) -> Result<Trial<'a>> {
        let mut trial = Trial::new(golden, Pipeline::Commands, self.start)?;
        self.damage(&mut trial)?;
        Ok(trial)
    }
}

impl DamagedStore {
    pub(super) fn damage(&self, trial: &mut Trial) -> Result<()> {
        if self.remove_results {
            std::fs::remove_dir_all(trial.place.project().join("results"))?;
        }
        for damage in &self.damage {
            if let Some(path) = damage.apply(&trial.store())? {
                trial.faults += 1;
                trial.note_damage(&path);
            }
        }
        trial.stored.clear();
        Ok(())
    }
}
