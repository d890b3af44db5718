//! The errors of the store. Each says what happened, where, and what to do next.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Store;
use super::layout::TAG;
use pipe_core::digest::StageKey;

/// Why an operation of the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot write to `{path}`: {source}; use --cache-dir or PIPE_CACHE to keep the cache elsewhere")]
    NotWritable { path: PathBuf, source: io::Error },

    #[error(
        "no space left while writing `{path}`: the file system at `{mount}` has {free} of {total} free; \
         free some space (`pipe cache gc` shows what the cache can spare, `pipe cache gc --yes --grace 0` deletes it \
         at once), or use --cache-dir or PIPE_CACHE \
         to keep the cache elsewhere"
    )]
    Full { path: PathBuf, mount: PathBuf, free: String, total: String },

    #[error("cannot {doing} `{path}`: {source}")]
    Io { doing: &'static str, path: PathBuf, source: io::Error },

    #[error("the cache at `{root}` was opened for reading only")]
    ReadOnly { root: PathBuf },

    #[error("the cache at `{root}` is in use by another `pipe`; wait until it has finished, then try again")]
    Busy { root: PathBuf },

    /// The damaged files have been moved to the trash, so the caller may compute the result again.
    #[error("the cache is damaged: {what}; run the pipeline again to compute it again")]
    Damaged { what: String },

    /// Imported content is not what it claims to be.
    #[error("{what}")]
    Foreign { what: String },

    #[error("the stage did not write its output `{output}` (expected at `{path}`)")]
    MissingOutput { output: String, path: PathBuf },

    #[error("cannot use `{path}`: {problem}")]
    Unusable { path: PathBuf, problem: String },

    #[error("`{path}` was written to while it was being read; run again when nothing writes to it")]
    Changing { path: PathBuf },

    #[error("the result was computed for key {computed}, but the claim is for {claimed}")]
    WrongKey { claimed: StageKey, computed: StageKey },
}

impl StoreError {
    pub(super) fn unusable(path: &Path, problem: impl Into<String>) -> Self {
        Self::Unusable { path: path.to_owned(), problem: problem.into() }
    }

    pub(crate) fn reading(path: &Path, source: io::Error) -> Self {
        Self::Io { doing: "read", path: path.to_owned(), source }
    }

    /// Returns the error of a failed write, which says whether the disk is full or not writable.
    pub(crate) fn writing(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                let space = Space::of(&path);
                Self::Full { path, mount: space.mount, free: space.free, total: space.total }
            }
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => Self::NotWritable { path, source },
            _ => Self::Io { doing: "write", path, source },
        }
    }
}

/// Why content of the store cannot be used.
#[derive(Debug)]
pub(super) enum Flaw {
    /// Says so as a sentence.
    Missing(String),
    /// What is at the path is not what should be there. The text completes the sentence "blob `...` ...".
    Bad(PathBuf, String),
    /// It could not be read at the moment, and may be undamaged.
    Unreadable(StoreError),
}

impl Flaw {
    pub(super) fn bad(path: &Path, flaw: impl Into<String>) -> Self {
        Self::Bad(path.to_owned(), flaw.into())
    }

    /// Returns the flaw of a blob whose file could not be read.
    pub(super) fn reading(path: &Path, error: io::Error) -> Self {
        if error.kind() == ErrorKind::NotFound {
            Self::Missing(format!("blob `{}` is missing", path.display()))
        } else if is_passing(path, &error) {
            Self::Unreadable(StoreError::reading(path, error))
        } else {
            Self::bad(path, format!("cannot be read ({error})"))
        }
    }

    /// Returns the error of an operation that needs the content.
    pub(super) fn into_error(self) -> StoreError {
        match self {
            Self::Unreadable(error) => error,
            flaw => StoreError::Damaged { what: flaw.to_string() },
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(text) => f.write_str(text),
            Self::Bad(path, flaw) => write!(f, "blob `{}` {flaw}", path.display()),
            Self::Unreadable(error) => error.fmt(f),
        }
    }
}

/// Returns whether an error says more about the moment (too few descriptors, no memory, a server that does not answer, a disk on
/// which nothing can be read) than about the file of the store that could not be read.
pub(super) fn is_passing(path: &Path, error: &io::Error) -> bool {
    const PASSING: [i32; 10] = [
        libc::EMFILE,
        libc::ENFILE,
        libc::ENOMEM,
        libc::ENOBUFS,
        libc::EAGAIN,
        libc::EINTR,
        libc::EBUSY,
        libc::ESTALE,
        libc::ETIMEDOUT,
        libc::EHOSTDOWN,
    ];
    let can_be_read = |tag: PathBuf| tag.metadata().is_ok() && fs::read(tag).is_ok();
    // Every file of the store is at most three directories below the one with the tag.
    let mut directories = path.ancestors().skip(1).take(3);
    error.raw_os_error().is_some_and(|code| PASSING.contains(&code))
        || !directories.any(|directory| can_be_read(directory.join(TAG)))
}

/// Reads, and after an error once more: a result must not be lost because one read failed.
pub(super) fn read_twice<T>(read: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match read() {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) => {
            std::thread::sleep(Duration::from_millis(20));
            read()
        }
        result => result,
    }
}

impl Store {
    /// Returns a sentence if the file system of the store is full: then this is why a stage failed, whatever its own
    /// message says.
    pub fn lack_of_space(&self) -> Option<String> {
        const NOTHING: u64 = 64 << 10;
        let root = self.root();
        let room = rustix::fs::statvfs(root).ok()?;
        if room.f_bavail * room.f_frsize > NOTHING {
            return None;
        }
        Some(StoreError::writing(root, ErrorKind::StorageFull.into()).to_string())
    }
}

/// The file system that a path is on, and its free space.
struct Space {
    mount: PathBuf,
    free: String,
    total: String,
}

impl Space {
    fn of(path: &Path) -> Self {
        let existing = path.ancestors().find(|p| p.exists()).unwrap_or(Path::new("/"));
        let (free, total) = match rustix::fs::statvfs(existing) {
            Ok(fs) => (bytes(fs.f_bavail * fs.f_frsize), bytes(fs.f_blocks * fs.f_frsize)),
            Err(_) => ("an unknown part".into(), "its size".into()),
        };
        Self { mount: mount_point(existing), free, total }
    }
}

/// Returns the topmost ancestor on the same device.
fn mount_point(path: &Path) -> PathBuf {
    use std::os::unix::fs::MetadataExt;
    let device = |p: &Path| p.metadata().map(|m| m.dev()).ok();
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let own = device(&path);
    path.ancestors().take_while(|p| device(p) == own).last().unwrap_or(&path).to_owned()
}

/// Formats a size as in `12.0 KB`: binary multiples, one decimal.
fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["bytes", "KB", "MB", "GB"] {
        if value < 1024.0 {
            return if unit == "bytes" { format!("{count} bytes") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        assert_eq!(bytes(0), "0 bytes");
        assert_eq!(bytes(1536), "1.5 KB");
        assert_eq!(bytes(3 << 40), "3.0 TB");
    }

    #[test]
    fn a_full_disk_names_the_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let error = StoreError::writing(&dir.path().join("not/there"), ErrorKind::StorageFull.into());
        let StoreError::Full { mount, .. } = &error else { panic!("{error}") };
        assert!(dir.path().canonicalize().unwrap().starts_with(mount));
        assert!(error.to_string().contains("free"), "{error}");
    }
}
