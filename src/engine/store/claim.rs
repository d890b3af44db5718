//! Looks keys up, and hands out the right to compute a key that is missing.
//!
//! A claim excludes every other process and thread from computing the same key. It is either a hit or a
//! [`WriteRight`]. Only [`WriteRight::commit`] turns the right into a result; dropping it abandons the attempt.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use rustix::fs::RenameFlags;

use super::Store;
use super::blob::{Durability, flush_name, move_into_place};
use super::error::{Flaw, StoreError};
use super::lock::FileLock;
use super::manifest::{Draft, Manifest};
use super::sealed::{self, Unsealed};
use super::session::remove_tree;
use pipe_core::digest::StageKey;

/// A result that took at least this many seconds is flushed to the disk before it counts.
const WORTH_FLUSHING_SECONDS: f64 = 1.0;

/// The room on the disk that is reserved when a key is claimed, so that a stage that fills the disk can still be recorded.
const ROOM_FOR_MANIFEST: u64 = 64 << 10;

/// What the store has for a key.
pub enum Lookup {
    /// All outputs are there and undamaged.
    Hit(Box<Manifest>),
    Miss,
    /// Equivalent to a miss. Says what is wrong, as a sentence that is also among the warnings.
    Damaged(String),
    /// The store could not be read at the moment. Nothing is known about the key.
    Unreadable(StoreError),
}

/// A key that no other process or thread can compute at the moment.
pub enum Claim<'store> {
    Hit(Box<Manifest>),
    Miss(WriteRight<'store>),
}

impl Store {
    /// Looks a key up. Damage becomes a warning.
    pub fn lookup(&self, key: &StageKey) -> Lookup {
        let sighting = self.sight_manifest(*key);
        let found = self.find(key);
        if let Lookup::Hit(manifest) = &found {
            self.remember_summary(manifest, sighting);
        }
        if let Lookup::Damaged(flaw) = &found {
            self.warn(flaw.clone());
        }
        found
    }

    fn find(&self, key: &StageKey) -> Lookup {
        let manifest = match self.read_manifest(*key) {
            Ok(manifest) => manifest,
            Err(Unsealed::Missing) => return Lookup::Miss,
            Err(Unsealed::Damaged(flaw)) => {
                let path = self.layout.action(*key);
                self.discard(&path);
                return Lookup::Damaged(format!("manifest `{}` is damaged: {flaw}", path.display()));
            }
            Err(Unsealed::Foreign(flaw)) => {
                let path = self.layout.action(*key);
                return Lookup::Damaged(format!(
                    "manifest `{}` was written by another version of `pipe`, and this one cannot use it: {flaw}",
                    path.display()
                ));
            }
            Err(Unsealed::Unreadable(error)) => {
                return Lookup::Unreadable(StoreError::reading(&self.layout.action(*key), error));
            }
        };
        let checked = manifest.stored().try_for_each(|stored| self.check_stored(stored).map(drop));
        match checked {
            Ok(()) => Lookup::Hit(manifest),
            Err(Flaw::Unreadable(error)) => Lookup::Unreadable(error),
            Err(flaw) => {
                let name = &manifest.instance;
                Lookup::Damaged(format!("the result of {name} (key {}) is damaged: {flaw}", key.short()))
            }
        }
    }

    pub(super) fn read_manifest(&self, key: StageKey) -> Result<Box<Manifest>, Unsealed> {
        let manifest: Box<Manifest> = sealed::read(&self.layout.action(key))?;
        if manifest.key != key || manifest.parts.key() != key {
            return Err(Unsealed::Damaged("it belongs to another key".into()));
        }
        Ok(manifest)
    }

    /// Returns the manifest of a result, whether or not its outputs are still there.
    pub fn record(&self, key: StageKey) -> Option<Box<Manifest>> {
        self.read_manifest(key).ok()
    }

    /// Claims a key, or returns `None` if another process or thread holds it.
    pub fn try_claim(&self, key: &StageKey) -> Result<Option<Claim<'_>>, StoreError> {
        let Some(right) = self.try_claim_anew(key)? else { return Ok(None) };
        // The previous holder of the key may have computed it. Damage was reported by the first lookup.
        match self.find(key) {
            Lookup::Hit(manifest) => Ok(Some(Claim::Hit(manifest))),
            Lookup::Miss | Lookup::Damaged(_) => Ok(Some(Claim::Miss(right))),
            Lookup::Unreadable(error) => Err(error),
        }
    }

    /// Claims a key even if there is a result, which stays until the new one is committed. Returns `None` if another
    /// process or thread holds the key.
    pub fn try_claim_anew(&self, key: &StageKey) -> Result<Option<WriteRight<'_>>, StoreError> {
        self.session()?;
        let path = self.layout.key_lock(*key);
        let lock = FileLock::try_acquire(&path).map_err(|e| StoreError::writing(&path, e))?;
        let Some(lock) = lock else { return Ok(None) };
        lock.reserve(ROOM_FOR_MANIFEST).map_err(|e| StoreError::writing(&path, e))?;
        let checkpoints = self.layout.checkpoints(*key);
        Ok(Some(WriteRight { store: self, key: *key, checkpoints, lock: Some(lock) }))
    }

    /// Returns the right to compute a key that another process has claimed: the one that submitted the calling process as
    /// a job. If two copies of the job run, both commit the same content.
    pub fn claimed_by_submitter(&self, key: &StageKey) -> WriteRight<'_> {
        WriteRight { store: self, key: *key, checkpoints: self.layout.checkpoints(*key), lock: None }
    }
}

/// The exclusive right to compute one key. Dropping it abandons the attempt; checkpoints are kept for the next one.
pub struct WriteRight<'store> {
    store: &'store Store,
    key: StageKey,
    checkpoints: PathBuf,
    /// Released last. Its file becomes the manifest. `None` if the submitter of this job holds it.
    lock: Option<FileLock>,
}

impl WriteRight<'_> {
    /// Returns the key.
    pub fn key(&self) -> StageKey {
        self.key
    }

    /// Returns a directory that survives a failed or killed attempt and is removed by a commit. It is created by the
    /// first call. Its content, checksums included, is up to the stage.
    pub fn checkpoints(&self) -> Result<&Path, StoreError> {
        match fs::create_dir(&self.checkpoints) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                Err(StoreError::writing(&self.checkpoints, error))
            }
            _ => Ok(&self.checkpoints),
        }
    }

    /// Moves the outputs into the store, then makes the result visible. After an error nothing is visible.
    pub fn commit(self, draft: Draft) -> Result<Manifest, StoreError> {
        self.commit_unless(draft, &|| false)
    }

    /// Like [`WriteRight::commit`], but fails soon after `give_up` returns true, instead of hashing large outputs to their end.
    pub fn commit_unless(
        mut self,
        draft: Draft,
        give_up: &(dyn Fn() -> bool + Sync),
    ) -> Result<Manifest, StoreError> {
        let computed = draft.parts.key();
        if computed != self.key {
            return Err(StoreError::WrongKey { claimed: self.key, computed });
        }
        let durability =
            if draft.seconds >= WORTH_FLUSHING_SECONDS { Durability::Now } else { Durability::Eventually };
        let store = self.store;
        let keep = |name: &str, path: PathBuf| match path.symlink_metadata() {
            Err(_) => Err(StoreError::MissingOutput { output: name.to_owned(), path }),
            Ok(_) => store.keep(&path, durability, give_up),
        };
        let keep_log = |name: &str, path: PathBuf| {
            let is_empty = path.metadata().is_ok_and(|log| log.len() == 0);
            if is_empty { Ok(None) } else { keep(name, path).map(Some) }
        };
        let computed = draft.try_map(keep, keep_log)?;
        let finished = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let manifest = Manifest { key: self.key, finished, taken_from: None, computed };
        let manifest = self.publish(&manifest, durability)?;
        let _ = remove_tree(&self.checkpoints);
        Ok(manifest)
    }

    /// Makes a result visible that was computed elsewhere, and consumes the right. Returns `None`, and keeps the right, if
    /// some of its blobs are not in this store.
    pub fn adopt(&mut self, text: &[u8], writer: &str) -> Result<Option<Manifest>, StoreError> {
        let Some(mut manifest) = self.store.check_record(text)? else { return Ok(None) };
        if manifest.key != self.key {
            return Err(StoreError::WrongKey { claimed: self.key, computed: manifest.key });
        }
        manifest.taken_from = Some(writer.to_owned());
        let manifest = self.publish(&manifest, Durability::Eventually)?;
        let _ = remove_tree(&self.checkpoints);
        Ok(Some(manifest))
    }

    /// The commit point. Returns the manifest as the next reader will see it, to the last digit.
    fn publish(&mut self, manifest: &Manifest, durability: Durability) -> Result<Manifest, StoreError> {
        let path = self.store.layout.action(self.key);
        let text = sealed::encode(manifest).map_err(|e| StoreError::writing(&path, e))?;
        let manifest = sealed::decode(&text).map_err(|flaw| StoreError::unusable(&path, flaw))?;
        let written = match &mut self.lock {
            Some(lock) => lock.become_file(&path, &text, durability),
            None => {
                let temp = self.store.temp()?;
                write_flushed(&temp, &text, durability)
                    .and_then(|()| move_into_place(&temp, &path, RenameFlags::empty()))
            }
        };
        written.map_err(|e| StoreError::writing(&path, e))?;
        if durability == Durability::Now {
            flush_name(&path)?;
        }
        Ok(manifest)
    }
}

impl Drop for WriteRight<'_> {
    fn drop(&mut self) {
        if self.lock.as_ref().is_some_and(FileLock::is_held) {
            // Fails if there is a checkpoint, which is intended.
            let _ = fs::remove_dir(&self.checkpoints);
        }
    }
}

fn write_flushed(path: &Path, content: &[u8], durability: Durability) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    if durability == Durability::Now { file.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use pipe_core::protocol::{MetricValue, Protocol};
    use std::collections::BTreeMap;
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::time::Duration;

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        (dir, store)
    }

    #[test]
    fn a_commit_that_is_given_up_leaves_nothing_visible() {
        let (_dir, store) = store();
        let right = claim(&store, "large");
        let scratch = store.scratch().unwrap();
        let out = scratch.join("out");
        // Hashing all of it would take minutes.
        fs::File::create(&out).unwrap().set_len(1 << 40).unwrap();
        let draft = Draft { outputs: [("out".to_owned(), out)].into(), ..draft("large") };
        let error = right.commit_unless(draft, &|| true).unwrap_err();
        assert!(error.to_string().contains("the run was stopped"), "{error}");
        assert!(hit(&store, "large").is_none());
        commit_text(&store, "large", "smaller");
    }

    #[test]
    fn a_committed_result_is_found_again() {
        let (dir, store) = store();
        assert!(matches!(store.lookup(&key("a")), Lookup::Miss));
        let right = claim(&store, "a");
        let scratch = store.scratch().unwrap();
        let path = |name: &str| scratch.join(name);
        fs::write(path("out"), "result").unwrap();
        fs::write(path("stdout"), "said").unwrap();
        fs::write(path("stderr"), "").unwrap();
        let draft = Draft {
            outputs: BTreeMap::from([("out".into(), path("out"))]),
            stdout: Some(path("stdout")),
            stderr: Some(path("stderr")),
            metrics: BTreeMap::from([
                ("f1".into(), MetricValue { value: 0.1 + 0.2, protocol: Some(Protocol::Oracle) }),
                ("worst".into(), MetricValue::unmarked(f64::NEG_INFINITY)),
            ]),
            ..draft("a")
        };
        let committed = right.commit(draft).unwrap();
        let left = scratch.to_owned();
        drop(scratch);
        assert!(!left.exists());
        assert_eq!(hit(&store, "a"), Some(committed.clone()));
        drop(store);

        let store = Store::open(dir.path()).unwrap();
        assert_eq!(hit(&store, "a"), Some(committed.clone()));
        assert_eq!(store.read(&committed.outputs["out"]).unwrap(), b"result");
        assert_eq!(store.read(&committed.stdout.unwrap()).unwrap(), b"said");
        assert_eq!(committed.stderr, None, "an empty log is none");
        assert_eq!(store.warnings(), [""; 0]);
    }

    #[test]
    fn two_copies_of_a_job_commit_one_result_while_their_submitter_holds_the_key() {
        let (dir, store) = store();
        let right = claim(&store, "a");
        let temporary = dir.path().join("temporary");
        let jobs = [(); 2].map(|()| Store::open_in_job(dir.path(), &temporary).unwrap());
        for job in &jobs {
            let scratch = job.scratch().unwrap();
            let out = scratch.join("out");
            fs::write(&out, "result").unwrap();
            let outputs = BTreeMap::from([("out".into(), out)]);
            job.claimed_by_submitter(&key("a"))
                .commit(Draft { outputs, seconds: 2.0, ..draft("a") })
                .unwrap();
            assert!(store.try_claim(&key("a")).unwrap().is_none(), "the submitter still holds it");
        }
        drop((right, jobs));
        assert!(matches!(store.try_claim(&key("a")).unwrap(), Some(Claim::Hit(_))));
        assert_eq!(store.usage().unwrap().blobs.items, 1);
        assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "jobs clean up");
    }

    #[test]
    fn a_metric_that_is_not_a_number_survives() {
        let (_dir, store) = store();
        let right = claim(&store, "a");
        let metrics = BTreeMap::from([("undefined".into(), MetricValue::unmarked(f64::NAN))]);
        right.commit(Draft { metrics, ..draft("a") }).unwrap();
        assert!(hit(&store, "a").unwrap().metrics["undefined"].value.is_nan());
    }

    #[test]
    fn flushed_results_of_long_stages_are_found() {
        let (_dir, store) = store();
        let right = claim(&store, "a");
        let scratch = store.scratch().unwrap();
        let out = scratch.join("out");
        make_tree(&out);
        let outputs = BTreeMap::from([("out".into(), out)]);
        let committed = right.commit(Draft { outputs, seconds: 3600.0, ..draft("a") }).unwrap();
        assert_eq!(hit(&store, "a"), Some(committed));
    }

    #[test]
    fn equal_content_is_kept_once_and_read_only() {
        let (_dir, store) = store();
        let [a, b] = ["a", "b"].map(|name| commit_text(&store, name, "same").outputs["out"]);
        assert_eq!(a, b);
        assert_eq!(store.usage().unwrap().blobs.items, 1);
        assert_eq!(store.layout.blob(a.blob).metadata().unwrap().mode() & 0o777, 0o444);
    }

    #[test]
    fn a_held_key_is_busy_until_its_holder_gives_up() {
        let (_dir, store) = store();
        let right = claim(&store, "a");
        let checkpoints = right.checkpoints().unwrap().to_owned();
        fs::write(checkpoints.join("epoch-3"), "").unwrap();
        assert!(store.try_claim(&key("a")).unwrap().is_none());
        assert!(store.try_claim(&key("b")).unwrap().is_some());
        drop(right);

        let right = claim(&store, "a");
        assert!(right.checkpoints().unwrap().join("epoch-3").exists(), "kept for the next attempt");
        right.commit(draft("a")).unwrap();
        assert!(!checkpoints.exists(), "no longer needed");
        let usage = store.usage().unwrap();
        assert_eq!((usage.results.items, usage.blobs.items, usage.checkpoints.items), (1, 0, 0));
        assert_eq!(fs::read_dir(store.layout.locks()).unwrap().count(), 1, "only that of gc");
    }

    #[test]
    fn a_key_is_claimed_as_a_hit_after_its_holder_has_committed() {
        let (_dir, store) = store();
        let right = claim(&store, "a");
        assert!(store.try_claim(&key("a")).unwrap().is_none());
        right.commit(draft("a")).unwrap();
        assert!(matches!(store.try_claim(&key("a")).unwrap(), Some(Claim::Hit(_))));
    }

    #[test]
    fn a_forced_computation_keeps_the_old_result_until_the_new_one_is_committed() {
        let (_dir, store) = store();
        let old = commit_text(&store, "a", "old");
        let right = store.try_claim_anew(&key("a")).unwrap().unwrap();
        drop(right);
        assert_eq!(hit(&store, "a"), Some(old));
        let right = store.try_claim_anew(&key("a")).unwrap().unwrap();
        let scratch = store.scratch().unwrap();
        let out = scratch.join("out");
        fs::write(&out, "new").unwrap();
        let new = right.commit(Draft { outputs: BTreeMap::from([("out".into(), out)]), ..draft("a") });
        assert_eq!(hit(&store, "a"), Some(new.unwrap()));
    }

    #[test]
    fn an_output_that_cannot_be_stored_is_refused_and_nothing_is_visible() {
        let (_dir, store) = store();
        let refuse = |make: &dyn Fn(&Path)| {
            let right = claim(&store, "a");
            let scratch = store.scratch().unwrap();
            let out = scratch.join("out");
            make(&out);
            let outputs = BTreeMap::from([("out".into(), out)]);
            let error = right.commit(Draft { outputs, ..draft("a") }).unwrap_err();
            assert!(hit(&store, "a").is_none());
            error.to_string()
        };
        assert!(refuse(&|_| ()).contains("did not write its output `out`"));
        assert!(refuse(&|out| symlink("/etc/passwd", out).unwrap()).contains("symbolic link"));
        let outside = |out: &Path| {
            fs::create_dir(out).unwrap();
            symlink("/etc/passwd", out.join("link")).unwrap();
        };
        assert!(refuse(&outside).contains("leads out of the output"));
        let wrong_key = claim(&store, "a").commit(draft("b")).unwrap_err();
        assert!(matches!(wrong_key, StoreError::WrongKey { .. }));
        assert!(hit(&store, "a").is_none() && hit(&store, "b").is_none());
    }

    #[test]
    fn an_output_with_a_second_hard_link_is_copied() {
        let (dir, store) = store();
        let other = dir.path().join("other name");
        fs::write(&other, "before").unwrap();
        let manifest = commit(&store, "a", |out| fs::hard_link(&other, out).unwrap());
        fs::write(&other, "after!").unwrap();
        assert_eq!(store.read(&manifest.outputs["out"]).unwrap(), b"before");
        assert!(hit(&store, "a").is_some());
    }

    #[test]
    fn a_write_to_a_blob_right_after_its_commit_is_noticed() {
        let (_dir, store) = store();
        for attempt in 0..50 {
            let name = format!("attempt {attempt}");
            let manifest = commit_text(&store, &name, &name);
            flip_bit(&store.layout.blob(manifest.outputs["out"].blob), 3);
            assert!(matches!(store.lookup(&key(&name)), Lookup::Damaged(_)), "{name}");
            assert!(!store.warnings().is_empty());
            commit_text(&store, &name, &name);
            assert_eq!(store.read(&hit(&store, &name).unwrap().outputs["out"]).unwrap(), name.as_bytes());
        }
    }

    #[test]
    fn a_bad_blob_is_replaced_by_the_next_commit_of_its_content() {
        let (_dir, store) = store();
        let a = commit_text(&store, "a", "same");
        flip_bit(&store.layout.blob(a.outputs["out"].blob), 0);
        commit_text(&store, "b", "same");
        assert_eq!(store.warnings().len(), 1);
        assert_eq!(hit(&store, "a"), Some(a), "healed by its twin");
    }

    #[test]
    fn a_stage_that_fills_the_disk_is_still_recorded() {
        let Some(disk) = SmallDisk::mount("1m") else { return };
        let store = Store::open(disk.path()).unwrap();
        let manifest = commit(&store, "a", |out| {
            let mut file = fs::File::create(out).unwrap();
            while std::io::Write::write_all(&mut file, &[7; 1024]).is_ok() {}
        });
        assert_eq!(hit(&store, "a"), Some(manifest));
    }

    #[test]
    fn whatever_takes_the_place_of_a_blob_is_put_aside() {
        let replacements: [fn(&Path); 3] = [
            |blob| symlink("nothing", blob).unwrap(),
            |blob| fs::create_dir(blob).unwrap(),
            |blob| drop(std::os::unix::net::UnixListener::bind(blob).unwrap()),
        ];
        for replace in replacements {
            let (_dir, store) = store();
            let a = commit_text(&store, "a", "same");
            let blob = store.layout.blob(a.outputs["out"].blob);
            fs::remove_file(&blob).unwrap();
            replace(&blob);
            assert!(matches!(store.lookup(&key("a")), Lookup::Damaged(_)));
            assert!(store.warnings()[0].contains("moved to the trash"));
            commit_text(&store, "a", "same");
            assert_eq!(hit(&store, "a").map(|manifest| manifest.outputs.clone()), Some(a.outputs.clone()));

            // Without a lookup, the commit itself makes room.
            fs::remove_file(&blob).unwrap();
            replace(&blob);
            commit_text(&store, "b", "same");
            assert!(hit(&store, "a").is_some() && hit(&store, "b").is_some());
        }
    }

    #[test]
    fn a_manifest_with_a_field_of_a_later_version_is_used() {
        let (_dir, store) = store();
        let manifest = commit_text(&store, "a", "text");
        let path = store.layout.action(key("a"));
        let mut json = serde_json::to_value(&manifest).unwrap();
        json["colour"] = "blue".into();
        fs::write(&path, sealed::encode(&json).unwrap()).unwrap();
        assert_eq!(hit(&store, "a"), Some(manifest));

        json["outputs"]["out"]["colour"] = "blue".into();
        let foreign = sealed::encode(&json).unwrap();
        fs::write(&path, &foreign).unwrap();
        assert!(matches!(store.lookup(&key("a")), Lookup::Damaged(_)));
        assert_eq!(fs::read(&path).unwrap(), foreign, "it is not damaged");
    }

    /// Reading fails while the process has no descriptor left.
    #[test]
    fn too_few_descriptors_are_no_damage() {
        let dir = tempfile::tempdir().unwrap();
        commit_text(&Store::open(dir.path()).unwrap(), "a", "text");
        let child = process("store::claim::tests::look_up_without_descriptors", dir.path());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(hit(&Store::open(dir.path()).unwrap(), "a").is_some());
    }

    #[test]
    #[ignore = "a process of `too_few_descriptors_are_no_damage`"]
    fn look_up_without_descriptors() {
        let Some(root) = process_root() else { return };
        let store = Store::open(&root).unwrap();
        let few = rustix::process::Rlimit { current: Some(64), maximum: Some(64) };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, few).unwrap();
        let mut taken = Vec::new();
        while let Ok(file) = fs::File::open("/dev/null") {
            taken.push(file);
        }
        let found = store.lookup(&key("a"));
        drop(taken);
        assert!(matches!(found, Lookup::Unreadable(_)), "nothing is known about the result");
        assert!(hit(&store, "a").is_some());
    }

    #[test]
    fn a_manifest_under_the_name_of_another_key_is_not_trusted() {
        let (_dir, store) = store();
        commit_text(&store, "a", "text");
        let stray = store.layout.action(key("b"));
        fs::create_dir_all(stray.parent().unwrap()).unwrap();
        fs::copy(store.layout.action(key("a")), &stray).unwrap();
        assert!(matches!(store.lookup(&key("b")), Lookup::Damaged(_)));
        assert!(!stray.exists());
        assert!(matches!(store.lookup(&key("b")), Lookup::Miss));
    }

    #[test]
    fn threads_can_commit_the_same_content_at_the_same_time() {
        let (_dir, store) = store();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let store = &store;
                scope.spawn(move || {
                    for i in 0..25 {
                        commit_text(store, &format!("{thread} {i}"), &format!("content {i}"));
                    }
                });
            }
        });
        assert_eq!(store.usage().unwrap().blobs.items, 25);
        assert!((0..4).all(|thread| (0..25).all(|i| hit(&store, &format!("{thread} {i}")).is_some())));
        assert_eq!(store.warnings(), [""; 0]);
    }

    const KEYS: usize = 20;

    #[test]
    fn two_processes_compute_each_key_once() {
        let dir = tempfile::tempdir().unwrap();
        let children = [(); 2].map(|()| process("store::claim::tests::compute_all_keys", dir.path()));
        let mut computed = 0;
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success());
            computed += String::from_utf8_lossy(&output.stdout).matches("computed").count();
        }
        assert_eq!(computed, KEYS);
        let mut store = Store::open(dir.path()).unwrap();
        assert!((0..KEYS).all(|i| hit(&store, &i.to_string()).is_some()));
        assert_eq!(store.check(false).unwrap().problems, []);
    }

    fn wait_for<'store>(store: &'store Store, name: &str) -> Claim<'store> {
        loop {
            if let Some(claim) = store.try_claim(&key(name)).unwrap() {
                return claim;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    #[ignore = "a process of `two_processes_compute_each_key_once`"]
    fn compute_all_keys() {
        let Some(root) = process_root() else { return };
        let store = Store::open(&root).unwrap();
        for name in (0..KEYS).map(|i| i.to_string()) {
            if let Claim::Miss(right) = wait_for(&store, &name) {
                std::thread::sleep(Duration::from_millis(2));
                let scratch = store.scratch().unwrap();
                let out = scratch.join("out");
                fs::write(&out, &name).unwrap();
                let outputs = BTreeMap::from([("out".into(), out)]);
                right.commit(Draft { outputs, ..draft(&name) }).unwrap();
                println!("computed {name}");
            }
        }
    }

    #[test]
    fn a_killed_process_leaves_its_key_free_and_its_scratch_is_swept() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = process("store::claim::tests::hold_a_key", dir.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("holding")));

        let store = Store::open(dir.path()).unwrap();
        assert!(store.try_claim(&key("a")).unwrap().is_none(), "held by the living process");
        child.kill().unwrap();
        child.wait().unwrap();
        let right = claim(&store, "a");
        assert!(right.checkpoints().unwrap().join("epoch-1").exists());
        drop(right);
        drop(store);

        let store = Store::open(dir.path()).unwrap();
        assert_eq!(store.usage().unwrap().temporary.items, 0);
        commit_text(&store, "a", "text");
    }

    #[test]
    #[ignore = "a process of `a_killed_process_leaves_its_key_free_and_its_scratch_is_swept`"]
    fn hold_a_key() {
        let Some(root) = process_root() else { return };
        let store = Store::open(&root).unwrap();
        let right = claim(&store, "a");
        let scratch = store.scratch().unwrap();
        fs::write(scratch.join("half"), "written").unwrap();
        fs::write(right.checkpoints().unwrap().join("epoch-1"), "").unwrap();
        println!("holding");
        std::thread::sleep(Duration::from_secs(60));
    }
}
