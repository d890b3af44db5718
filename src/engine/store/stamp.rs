//! What `stat` says about a file. If the stamp has not changed, neither has the content, with the exceptions that
//! [`Stamp::settled`] describes.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;

/// The identity, size and times of a file. Times are nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) size: u64,
    pub(super) modified: i64,
    pub(super) changed: i64,
}

const SECOND: i64 = 1_000_000_000;
pub(super) const MINUTE: i64 = 60 * SECOND;

/// The modification time that every blob gets before it is hashed. Any later write sets it to the present, so that
/// even a write in the same tick of the clock is visible.
pub(super) const BLOB_TIME: i64 = SECOND;

pub(super) fn blob_time() -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(BLOB_TIME as u64)
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        let nanos = |seconds: i64, rest: i64| seconds.saturating_mul(SECOND).saturating_add(rest);
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: nanos(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanos(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Like [`Stamp::of`].
    pub(super) fn of_stat(stat: &Stat) -> Self {
        let nanos = |seconds: i64, rest: u64| seconds.saturating_mul(SECOND).saturating_add(rest as i64);
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size as u64,
            modified: nanos(stat.st_mtime, stat.st_mtime_nsec),
            changed: nanos(stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Returns whether a write after `read_at`, the time when reading began, would change the stamp. It might not if
    /// the file was written less than a minute before, for two reasons; such a file is read again next time.
    /// - Two writes in one tick of the clock look the same (git calls this "racily clean"). Ticks take 10 ms, or 2 s on
    ///   file systems that keep whole seconds.
    /// - A write through a shared mapping sets the times only if the page was clean. The kernel writes a dirty page to the
    ///   disk, and so makes it clean, after 35 s. (On tmpfs it never does: there, such writes stay invisible.)
    ///
    /// No process writes to a blob: it was entered after the stage had ended, and it is read-only.
    pub(super) fn settled(&self, read_at: i64) -> bool {
        self.modified == BLOB_TIME || self.modified.max(self.changed).saturating_add(MINUTE) < read_at
    }

    /// Adds everything to a hash, so that hashes differ if stamps do.
    pub(super) fn add_to(&self, hasher: &mut blake3::Hasher) {
        for number in [self.device, self.inode, self.size] {
            hasher.update(&number.to_le_bytes());
        }
        for time in [self.modified, self.changed] {
            hasher.update(&time.to_le_bytes());
        }
    }

    /// Returns whether the stamps agree in everything that a write to the file would change. Links, renames and
    /// permissions do not count.
    pub(super) fn same_writes(&self, other: &Self) -> bool {
        (self.device, self.inode, self.size, self.modified)
            == (other.device, other.inode, other.size, other.modified)
    }
}

/// Returns the present time as a stamp has it.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
    #[cfg(test)]
    let now = now + AHEAD.get();
    now
}

#[cfg(test)]
thread_local! {
    static AHEAD: std::cell::Cell<i64> = const { std::cell::Cell::new(0) };
}

/// Runs a test's `work` with the clock of this thread two minutes ahead, as if files had been written before.
#[cfg(test)]
pub(super) fn two_minutes_later<T>(work: impl FnOnce() -> T) -> T {
    AHEAD.set(2 * MINUTE);
    let done = work();
    AHEAD.set(0);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(modified: i64, changed: i64) -> Stamp {
        Stamp { device: 1, inode: 2, size: 3, modified, changed }
    }

    #[test]
    fn a_file_touched_just_before_it_was_read_is_not_settled() {
        let now = 1_700_000_000 * SECOND + 123_456_789;
        assert!(!stamp(now, now).settled(now));
        assert!(!stamp(now - 40 * SECOND, now - 40 * SECOND).settled(now), "a page may still be dirty");
        assert!(stamp(now - 2 * MINUTE, now - 2 * MINUTE).settled(now));
        assert!(!stamp(now - 2 * MINUTE, now).settled(now), "a new inode under an old mtime");
        assert!(!stamp(now + SECOND, now + SECOND).settled(now), "a clock that is ahead");
    }

    #[test]
    fn both_ways_to_ask_for_a_stamp_agree() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let metadata = file.as_file().metadata().unwrap();
        assert_eq!(Stamp::of_stat(&rustix::fs::stat(file.path()).unwrap()), Stamp::of(&metadata));
    }

    #[test]
    fn a_blob_is_settled_at_once() {
        let now = now();
        assert!(stamp(BLOB_TIME, now).settled(now));
    }
}
