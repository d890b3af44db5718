//! What `stat` says about a file. If the stamp has not changed, neither has the content, with one exception that
//! [`Stamp::settled`] describes.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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

/// The kernel's clock for files moves in ticks of up to 10 ms.
const TICK: i64 = 20_000_000;

/// The tick of file systems that keep whole seconds only; FAT keeps only even ones.
const COARSE_TICK: i64 = 2 * SECOND;

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

    /// Returns whether a write after `read_at`, the time when reading began, would change the stamp. It might not if
    /// the file was written just before: two writes in one tick of the clock look the same (git calls this "racily
    /// clean"). Such a file is read again next time.
    pub(super) fn settled(&self, read_at: i64) -> bool {
        if self.modified == BLOB_TIME {
            return true;
        }
        let coarse = self.modified % SECOND == 0 && self.changed % SECOND == 0;
        let tick = if coarse { COARSE_TICK } else { TICK };
        self.modified.max(self.changed).saturating_add(tick) < read_at
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
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
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
        assert!(!stamp(now - TICK / 2, now - TICK / 2).settled(now));
        assert!(stamp(now - 2 * TICK, now - 2 * TICK).settled(now));
        assert!(!stamp(now - 2 * TICK, now).settled(now), "a new inode under an old mtime");
        assert!(!stamp(now + SECOND, now + SECOND).settled(now), "a clock that is ahead");
    }

    #[test]
    fn whole_seconds_need_a_longer_wait() {
        let now = 1_700_000_001 * SECOND + 500_000_000;
        assert!(!stamp(now / SECOND * SECOND, now / SECOND * SECOND).settled(now));
        let old = (now / SECOND - 3) * SECOND;
        assert!(stamp(old, old).settled(now));
    }

    #[test]
    fn a_blob_is_settled_at_once() {
        let now = now();
        assert!(stamp(BLOB_TIME, now).settled(now));
    }
}
