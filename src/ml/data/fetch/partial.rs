//! An incomplete download.
//!
//! During the transfer, the content is in `<file>.part`. Its source, and the version that the source stated (its `ETag` or
//! `Last-Modified`), are in `<file>.part.version`. A transfer is resumed only if the same source still has that version, so
//! that a file is never put together from two versions.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::FetchError;

/// Where an interrupted download continues, and which version of the content it is.
pub(super) struct ResumePoint {
    pub(super) from: u64,
    pub(super) version: String,
}

/// An incomplete download. Its file is locked, so that of two processes that want the same content one downloads it and
/// the other waits.
pub(super) struct PartialDownload {
    /// The source of the content.
    url: String,
    path: PathBuf,
    version_path: PathBuf,
    file: File,
}

impl PartialDownload {
    pub(super) fn open(target: &Path, url: &str) -> Result<Self, FetchError> {
        let with_suffix = |suffix: &str| {
            let mut name = target.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        let path = with_suffix(".part");
        let open = || {
            let file = OpenOptions::new().read(true).append(true).create(true).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        let file = open().map_err(FetchError::io("write", &path))?;
        Ok(Self { url: url.to_owned(), version_path: with_suffix(".part.version"), path, file })
    }

    pub(super) fn length(&self) -> Result<u64, FetchError> {
        self.file.metadata().map(|meta| meta.len()).map_err(FetchError::io("read", &self.path))
    }

    /// Returns where the download continues. That is nowhere if the content is from another source, or if the source did
    /// not state its version.
    pub(super) fn resumable(&self) -> Result<Option<ResumePoint>, FetchError> {
        let from = self.length()?;
        let stated = fs::read_to_string(&self.version_path).ok().filter(|_| from > 0);
        let version = stated.as_deref().and_then(|stated| stated.strip_prefix(&self.url)?.strip_prefix('\n'));
        Ok(version.map(|version| ResumePoint { from, version: version.to_owned() }))
    }

    /// Discards the content, before content of the given version arrives. Returns the new length, 0.
    pub(super) fn restart(&mut self, version: Option<&str>) -> Result<u64, FetchError> {
        let mut restart = || {
            self.file.set_len(0)?;
            self.file.seek(SeekFrom::Start(0))?;
            match version {
                Some(version) => fs::write(&self.version_path, format!("{}\n{version}", self.url)),
                None => remove_if_there(&self.version_path),
            }
        };
        restart().map_err(FetchError::io("write", &self.path))?;
        Ok(0)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), FetchError> {
        self.file.write_all(bytes).map_err(FetchError::io("write", &self.path))
    }

    /// Moves the complete content to `target`.
    pub(super) fn complete(self, target: &Path) -> Result<(), FetchError> {
        let complete = || {
            self.file.sync_all()?;
            remove_if_there(&self.version_path)?;
            fs::rename(&self.path, target)
        };
        complete().map_err(FetchError::io("write", target))
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
