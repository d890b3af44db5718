//! Looking a key up, and the right to write what a miss lacks.
//!
//! A claim excludes every other process and thread from computing the same key. It is either a hit,
//! or a [`WriteRight`], which only [`WriteRight::commit`] turns into a result; dropping it gives up.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Store;
use super::blob::{Durability, move_into_place, sync_directory_of};
use super::error::StoreError;
use super::lock::Lock;
use super::manifest::Manifest;
use super::sealed::{self, Unsealed};
use super::session::remove_tree;
use crate::digest::StageKey;
use crate::plan::key::KeyParts;

/// A result that took at least this long is flushed to the disk before it counts.
const WORTH_FLUSHING_SECONDS: f64 = 1.0;

pub enum Lookup {
    /// All outputs are there and sound.
    Hit(Box<Manifest>),
    Miss,
    /// As good as a miss; what is wrong, as a sentence. It is among the warnings too.
    Damaged(String),
}

pub enum Claim<'store> {
    Hit(Box<Manifest>),
    Miss(WriteRight<'store>),
}

/// What a stage's run gives to be kept. Outputs are moved out of the scratch directory.
#[derive(Debug, Clone)]
pub struct Draft {
    pub kind: String,
    pub instance: String,
    pub parts: KeyParts,
    pub outputs: BTreeMap<String, PathBuf>,
    pub stdout: Option<PathBuf>,
    pub stderr: Option<PathBuf>,
    pub metrics: BTreeMap<String, f64>,
    pub seconds: f64,
    pub cpu_seconds: f64,
    pub max_rss_bytes: u64,
    pub environment: BTreeMap<String, String>,
    pub warnings: Vec<String>,
}

impl Store {
    pub fn lookup(&self, key: &StageKey) -> Lookup {
        let manifest = match self.read_manifest(*key) {
            Ok(manifest) => manifest,
            Err(Unsealed::Missing) => return Lookup::Miss,
            Err(Unsealed::Damaged(flaw)) => {
                let path = self.layout.action(*key);
                self.discard(&path);
                return self.damaged(format!("manifest `{}` is damaged: {flaw}", path.display()));
            }
        };
        let checked = manifest.stored().try_for_each(|stored| self.check_stored(stored));
        match checked {
            Ok(()) => Lookup::Hit(manifest),
            Err(flaw) => {
                let name = &manifest.instance;
                self.damaged(format!("the result of {name} (key {}) is damaged: {flaw}", key.short()))
            }
        }
    }

    fn damaged(&self, flaw: String) -> Lookup {
        self.warn(flaw.clone());
        Lookup::Damaged(flaw)
    }

    pub(super) fn read_manifest(&self, key: StageKey) -> Result<Box<Manifest>, Unsealed> {
        let manifest: Box<Manifest> = sealed::read(&self.layout.action(key))?;
        if manifest.key != key || manifest.parts.key() != key {
            return Err(Unsealed::Damaged("it belongs to another key".into()));
        }
        Ok(manifest)
    }

    /// What went into a result and how it went, whether or not its outputs are still there.
    pub fn record(&self, key: StageKey) -> Option<Box<Manifest>> {
        self.read_manifest(key).ok()
    }

    /// Nothing if another process or thread holds the key.
    pub fn try_claim(&self, key: &StageKey) -> Result<Option<Claim<'_>>, StoreError> {
        let Some(right) = self.try_claim_anew(key)? else { return Ok(None) };
        // Whoever held the key before may have computed it.
        Ok(Some(match self.lookup(key) {
            Lookup::Hit(manifest) => Claim::Hit(manifest),
            Lookup::Miss | Lookup::Damaged(_) => Claim::Miss(right),
        }))
    }

    /// Waits for the key until `give_up` says true.
    pub fn claim(&self, key: &StageKey, give_up: &dyn Fn() -> bool) -> Result<Option<Claim<'_>>, StoreError> {
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(claim) = self.try_claim(key)? {
                return Ok(Some(claim));
            }
            if give_up() {
                return Ok(None);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// The right to compute a key although there may be a result, which stays until the new one is
    /// committed. Nothing if another process or thread holds the key.
    pub fn try_claim_anew(&self, key: &StageKey) -> Result<Option<WriteRight<'_>>, StoreError> {
        let scratch = self.session()?.temp(&self.layout)?;
        let path = self.layout.key_lock(*key);
        let lock = Lock::try_acquire(&path).map_err(|e| StoreError::writing(&path, e))?;
        let Some(lock) = lock else { return Ok(None) };
        let checkpoints = self.layout.checkpoints(*key);
        let right = WriteRight { store: self, key: *key, scratch, checkpoints, _lock: lock };
        for directory in [&right.scratch, &right.checkpoints] {
            fs::create_dir_all(directory).map_err(|e| StoreError::writing(directory, e))?;
        }
        Ok(Some(right))
    }
}

/// The exclusive right to compute one key. Dropping it abandons the attempt: the scratch directory
/// is removed, checkpoints are kept for the next one.
pub struct WriteRight<'store> {
    store: &'store Store,
    key: StageKey,
    scratch: PathBuf,
    checkpoints: PathBuf,
    /// Released last.
    _lock: Lock,
}

impl WriteRight<'_> {
    pub fn key(&self) -> StageKey {
        self.key
    }

    /// An empty directory on the file system of the store, removed at the end.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// A directory that outlives a failed or killed attempt and is removed by a commit. What is in
    /// it is the stage's own business, checksums included.
    pub fn checkpoints(&self) -> &Path {
        &self.checkpoints
    }

    /// Keeps the outputs, then makes the result visible. After an error nothing is visible.
    pub fn commit(self, draft: Draft) -> Result<Manifest, StoreError> {
        let computed = draft.parts.key();
        if computed != self.key {
            return Err(StoreError::WrongKey { claimed: self.key, computed });
        }
        let durability = match draft.seconds >= WORTH_FLUSHING_SECONDS {
            true => Durability::Now,
            false => Durability::Eventually,
        };
        let keep = |name: &str, path: &Path| match path.symlink_metadata() {
            Err(_) => Err(StoreError::MissingOutput { output: name.to_owned(), path: path.to_owned() }),
            Ok(_) => self.store.keep(path, durability),
        };
        let mut outputs = BTreeMap::new();
        for (name, path) in &draft.outputs {
            outputs.insert(name.clone(), keep(name, path)?);
        }
        let manifest = Manifest {
            key: self.key,
            outputs,
            stdout: draft.stdout.map(|path| keep("stdout", &path)).transpose()?,
            stderr: draft.stderr.map(|path| keep("stderr", &path)).transpose()?,
            kind: draft.kind,
            instance: draft.instance,
            parts: draft.parts,
            metrics: draft.metrics,
            finished: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            seconds: draft.seconds,
            cpu_seconds: draft.cpu_seconds,
            max_rss_bytes: draft.max_rss_bytes,
            environment: draft.environment,
            warnings: draft.warnings,
        };
        let manifest = self.publish(&manifest, durability)?;
        let _ = remove_tree(&self.checkpoints);
        Ok(manifest)
    }

    /// The commit point. Gives back what the next reader will see, to the last digit.
    fn publish(&self, manifest: &Manifest, durability: Durability) -> Result<Manifest, StoreError> {
        let path = self.store.layout.action(self.key);
        let text = sealed::encode(manifest).map_err(|e| StoreError::writing(&path, e))?;
        let manifest = sealed::decode(&text).map_err(|flaw| StoreError::unusable(&path, flaw))?;
        let temp = self.store.temp()?;
        let written = File::create(&temp).and_then(|mut file| {
            file.write_all(&text)?;
            if durability == Durability::Now { file.sync_all() } else { Ok(()) }
        });
        written.map_err(|e| StoreError::writing(&path, e))?;
        move_into_place(&temp, &path)?;
        if durability == Durability::Now {
            sync_directory_of(&path)?;
        }
        Ok(manifest)
    }
}

impl Drop for WriteRight<'_> {
    fn drop(&mut self) {
        let _ = remove_tree(&self.scratch);
        // Fails, as it should, when there is a checkpoint.
        let _ = fs::remove_dir(&self.checkpoints);
    }
}
