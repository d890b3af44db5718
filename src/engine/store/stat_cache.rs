//! What is known about files by their stamp, so that an unchanged file is not read again: the digests of files, and the
//! summaries of manifests. Losing it only costs time, and a damaged one is ignored.
//!
//! An entry is trusted when device, inode, size, mtime and ctime are all as they were, and
//! - the stamp was settled when the content was read (see [`Remembered::is_settled`]);
//! - after a reboot, only if the file was a minute old when the entry was saved. After a power loss a file may have
//!   kept its stamp and lost its content, but not if the kernel had a minute to write it (it takes half of that).
//!   This is why a commit does not have to wait for the disk.
//!
//! The file is one sorted list of records behind a checksum: loading it is one read, and a lookup is a binary search. New entries stay in memory and are merged into the file, as it then is, once per process. If two processes
//! save at the same time, the last one wins.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::stamp::{self, MINUTE, Stamp};
use pipe_core::digest::Digest;

const HEADER: usize = 16 + 32;
const PRELUDE: usize = 8 + 32;
/// The size of a record without its value.
const RECORD: usize = 5 * 8 + 4;

const DAY: i64 = 86_400 * 1_000_000_000;

/// Entries that were not used for this many days are left out when the file is written.
const FORGET_AFTER_DAYS: u32 = 90;

type InodeId = (u64, u64);

/// What can be known about a file as long as its stamp stays the same.
pub(super) trait Remembered: Clone {
    /// The first bytes of the saved file.
    const MAGIC: &'static [u8; 16];
    /// The number of bytes of every value. `None` if they differ; then each value follows its length.
    const LENGTH: Option<usize>;

    fn encode(&self, bytes: &mut Vec<u8>);

    fn decode(bytes: &[u8]) -> Option<Self>;

    /// Returns whether a write after `read_at`, the time when reading began, would change the stamp.
    fn is_settled(stamp: &Stamp, read_at: i64) -> bool {
        stamp.settled(read_at)
    }
}

impl Remembered for Digest {
    const MAGIC: &'static [u8; 16] = b"pipe stat cache\n";
    const LENGTH: Option<usize> = Some(32);

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::from_bytes)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StatEntry<V> {
    stamp: Stamp,
    /// The last day on which it was used, counted from 1970.
    seen: u32,
    value: V,
}

/// The saved entries and those that this process added.
pub(super) struct StatCache<V> {
    path: PathBuf,
    saved: OnceLock<Saved<V>>,
    fresh: Mutex<BTreeMap<InodeId, StatEntry<V>>>,
}

impl<V: Remembered> StatCache<V> {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, saved: OnceLock::new(), fresh: Mutex::default() }
    }

    /// Returns what is known about the file with this stamp.
    pub(super) fn get(&self, stamp: &Stamp) -> Option<V> {
        let id = (stamp.device, stamp.inode);
        let mut fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = fresh.get(&id) {
            return (entry.stamp == *stamp).then(|| entry.value.clone());
        }
        let entry = self.saved.get_or_init(|| Saved::load(&self.path)).get(id)?;
        if entry.stamp != *stamp {
            return None;
        }
        let today = today();
        if entry.seen != today {
            fresh.insert(id, StatEntry { seen: today, ..entry.clone() });
        }
        Some(entry.value)
    }

    /// Remembers a value. `read_at` is the time when reading began, after `stamp` was taken.
    pub(super) fn insert(&self, stamp: Stamp, value: V, read_at: i64) {
        if V::is_settled(&stamp, read_at) {
            let entry = StatEntry { stamp, seen: today(), value };
            let mut fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
            fresh.insert((stamp.device, stamp.inode), entry);
        }
    }

    /// Returns whether there is anything to save.
    pub(super) fn has_news(&self) -> bool {
        !self.fresh.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Merges the new entries into the file through `temp`, which must be on the same file system.
    pub(super) fn save(&self, temp: &Path) -> io::Result<()> {
        let mut fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        let saved = Saved::load(&self.path);
        let mut entries: BTreeMap<InodeId, StatEntry<V>> = saved
            .entries()
            .filter(|entry| entry.seen + FORGET_AFTER_DAYS >= today())
            .map(|entry| ((entry.stamp.device, entry.stamp.inode), entry))
            .collect();
        entries.append(&mut fresh);
        fs::write(temp, encode(entries.values(), stamp::now(), boot()))?;
        fs::rename(temp, &self.path)
    }
}

impl StatCache<Digest> {
    /// Returns whether the file is undamaged; a missing one is.
    pub(super) fn is_sound(path: &Path) -> bool {
        let is_whole = |bytes: Vec<u8>| places::<Digest>(&bytes).is_some();
        fs::read(path).map_or_else(|e| e.kind() == io::ErrorKind::NotFound, is_whole)
    }
}

/// The file as it was read; empty if it is missing or damaged.
struct Saved<V> {
    bytes: Vec<u8>,
    /// Where the records start, and where the last one ends.
    places: Vec<usize>,
    /// Entries of files that changed after this time are not trusted.
    horizon: i64,
    values: PhantomData<fn() -> V>,
}

impl<V: Remembered> Saved<V> {
    fn load(path: &Path) -> Self {
        Self::decode(fs::read(path).unwrap_or_default(), boot())
    }

    fn decode(bytes: Vec<u8>, boot: Option<Digest>) -> Self {
        let Some(places) = places::<V>(&bytes) else {
            return Self { bytes: Vec::new(), places: Vec::new(), horizon: i64::MIN, values: PhantomData };
        };
        let saved_at = i64_at(&bytes, HEADER);
        let same_boot = boot.is_some_and(|boot| boot.as_bytes() == &bytes[HEADER + 8..HEADER + PRELUDE]);
        let horizon = if same_boot { i64::MAX } else { saved_at.saturating_sub(MINUTE) };
        Self { bytes, places, horizon, values: PhantomData }
    }

    fn get(&self, id: InodeId) -> Option<StatEntry<V>> {
        let id_at = |&place: &usize| (u64_at(&self.bytes, place), u64_at(&self.bytes, place + 8));
        let starts = self.places.split_last()?.1;
        let position = starts.binary_search_by_key(&id, id_at).ok()?;
        self.entry(position)
    }

    fn entries(&self) -> impl Iterator<Item = StatEntry<V>> {
        (1..self.places.len()).filter_map(|end| self.entry(end - 1))
    }

    fn entry(&self, position: usize) -> Option<StatEntry<V>> {
        let record = &self.bytes[self.places[position]..self.places[position + 1]];
        decode_record(record).filter(|entry| entry.stamp.changed <= self.horizon)
    }
}

/// Returns where the records start, and where the last one ends; `None` if the file is damaged.
fn places<V: Remembered>(bytes: &[u8]) -> Option<Vec<usize>> {
    let is_whole = bytes.len() >= HEADER + PRELUDE
        && bytes.starts_with(V::MAGIC)
        && &bytes[V::MAGIC.len()..HEADER] == Digest::of(&bytes[HEADER..]).as_bytes();
    if !is_whole {
        return None;
    }
    let mut places = vec![HEADER + PRELUDE];
    let mut end = HEADER + PRELUDE;
    while end < bytes.len() {
        end += RECORD
            + match V::LENGTH {
                Some(length) => length,
                None => 4 + u32_at(bytes.get(end..)?, RECORD)? as usize,
            };
        places.push(end);
    }
    (end == bytes.len()).then_some(places)
}

fn encode<'a, V: Remembered + 'a>(
    entries: impl Iterator<Item = &'a StatEntry<V>>,
    now: i64,
    boot: Option<Digest>,
) -> Vec<u8> {
    let mut rest = Vec::new();
    rest.extend(now.to_le_bytes());
    rest.extend(boot.map_or([0; 32], |boot| *boot.as_bytes()));
    for StatEntry { stamp, seen, value } in entries {
        rest.extend(stamp.device.to_le_bytes());
        rest.extend(stamp.inode.to_le_bytes());
        rest.extend(stamp.size.to_le_bytes());
        rest.extend(stamp.modified.to_le_bytes());
        rest.extend(stamp.changed.to_le_bytes());
        rest.extend(seen.to_le_bytes());
        let start = rest.len();
        if V::LENGTH.is_none() {
            rest.extend([0; 4]);
        }
        value.encode(&mut rest);
        if V::LENGTH.is_none() {
            let length = (rest.len() - start - 4) as u32;
            rest[start..start + 4].copy_from_slice(&length.to_le_bytes());
        }
    }
    let mut bytes = V::MAGIC.to_vec();
    bytes.extend(Digest::of(&rest).as_bytes());
    bytes.append(&mut rest);
    bytes
}

fn decode_record<V: Remembered>(record: &[u8]) -> Option<StatEntry<V>> {
    let value = record.get(RECORD + if V::LENGTH.is_some() { 0 } else { 4 }..)?;
    Some(StatEntry {
        stamp: Stamp {
            device: u64_at(record, 0),
            inode: u64_at(record, 8),
            size: u64_at(record, 16),
            modified: i64_at(record, 24),
            changed: i64_at(record, 32),
        },
        seen: u32_at(record, 40)?,
        value: V::decode(value)?,
    })
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().copied().map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(word)
}

fn i64_at(bytes: &[u8], offset: usize) -> i64 {
    u64_at(bytes, offset).cast_signed()
}

fn today() -> u32 {
    u32::try_from(stamp::now() / DAY).unwrap_or(0)
}

/// Returns what distinguishes this boot of the machine from others; `None` where the kernel does not say.
fn boot() -> Option<Digest> {
    static BOOT: OnceLock<Option<Digest>> = OnceLock::new();
    *BOOT.get_or_init(|| fs::read("/proc/sys/kernel/random/boot_id").ok().map(|id| Digest::of(&id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(inode: u64, changed: i64) -> StatEntry<Digest> {
        let stamp = Stamp { device: 7, inode, size: 5, modified: changed, changed };
        StatEntry { stamp, seen: today(), value: Digest::of(&inode.to_le_bytes()) }
    }

    fn cache_in(dir: &tempfile::TempDir) -> StatCache<Digest> {
        StatCache::new(dir.path().join("stat"))
    }

    #[test]
    fn a_saved_entry_is_found_by_the_next_process() {
        let dir = tempfile::tempdir().unwrap();
        let now = stamp::now();
        let entries: Vec<StatEntry<Digest>> =
            (0..100).map(|i| entry(i * 31 % 100, now - 3 * MINUTE)).collect();
        for half in entries.chunks(50) {
            let cache = cache_in(&dir);
            for e in half {
                cache.insert(e.stamp, e.value, now);
            }
            cache.save(&dir.path().join("temp")).unwrap();
        }
        let next = cache_in(&dir);
        for e in &entries {
            assert_eq!(next.get(&e.stamp), Some(e.value));
        }
        assert!(!next.has_news(), "looking changes nothing");
        assert_eq!(next.get(&entry(100, now).stamp), None);
    }

    #[test]
    fn any_change_of_the_stat_is_a_miss() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache_in(&dir);
        let known = entry(1, 5);
        cache.insert(known.stamp, known.value, stamp::now());
        let twins = [
            Stamp { device: 8, ..known.stamp },
            Stamp { inode: 2, ..known.stamp },
            Stamp { size: 6, ..known.stamp },
            Stamp { modified: 6, ..known.stamp },
            Stamp { changed: 6, ..known.stamp },
        ];
        for twin in twins {
            assert_eq!(cache.get(&twin), None, "{twin:?}");
        }
        assert_eq!(cache.get(&known.stamp), Some(known.value));
    }

    #[test]
    fn an_unsettled_file_is_not_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache_in(&dir);
        let now = stamp::now();
        let young = entry(1, now);
        cache.insert(young.stamp, young.value, now);
        assert_eq!(cache.get(&young.stamp), None);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let good = encode([entry(1, 5), entry(2, 6)].iter(), 9, boot());
        assert_eq!(Saved::<Digest>::decode(good.clone(), boot()).entries().count(), 2);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Saved::<Digest>::decode(bad, boot()).entries().count(), 0, "bit {bit}");
        }
    }

    #[test]
    fn after_a_reboot_only_files_that_had_reached_the_disk_are_trusted() {
        let (this, other) = (Digest::of(b"this"), Digest::of(b"other"));
        let now = stamp::now();
        let bytes = encode([entry(1, now - 2 * MINUTE), entry(2, now - 1)].iter(), now, Some(this));
        let found = |boot| {
            let saved = Saved::<Digest>::decode(bytes.clone(), boot);
            [saved.get((7, 1)).is_some(), saved.get((7, 2)).is_some()]
        };
        assert_eq!(found(Some(this)), [true, true]);
        assert_eq!(found(Some(other)), [true, false]);
        assert_eq!(found(None), [true, false]);
    }

    #[test]
    fn an_unused_entry_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let old = StatEntry { seen: today() - FORGET_AFTER_DAYS - 1, ..entry(1, 5) };
        fs::write(dir.path().join("stat"), encode([old].iter(), 9, boot())).unwrap();
        cache_in(&dir).save(&dir.path().join("temp")).unwrap();
        assert_eq!(cache_in(&dir).get(&old.stamp), None);

        fs::write(dir.path().join("stat"), encode([old].iter(), 9, boot())).unwrap();
        let asking = cache_in(&dir);
        assert_eq!(asking.get(&old.stamp), Some(old.value));
        asking.save(&dir.path().join("temp")).unwrap();
        assert_eq!(cache_in(&dir).get(&old.stamp), Some(old.value));
    }
}
