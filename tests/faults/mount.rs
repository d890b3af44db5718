//! File systems that are mounted for one trial.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::process::tool;

/// A mounted file system, unmounted at the end.
pub struct Mount {
    at: PathBuf,
    /// The server of a file system in user space.
    _server: Option<fuser::BackgroundSession>,
}

impl Mount {
    /// Takes over a file system in user space that was mounted here.
    pub fn served(at: &Path, server: fuser::BackgroundSession) -> Self {
        Self { at: at.to_owned(), _server: Some(server) }
    }

    /// Mounts a file system of memory with these options.
    pub fn tmpfs(at: &Path, options: &str) -> Result<Self> {
        std::fs::create_dir_all(at)?;
        tool("mount", &["-t", "tmpfs", "-o", options, "tmpfs", &at.to_string_lossy()])?;
        Ok(Self { at: at.to_owned(), _server: None })
    }

    /// Makes an ext4 file system with so many kilobytes and inodes in a file, and mounts it.
    pub fn ext4(at: &Path, image: &Path, kilobytes: u64, inodes: u64) -> Result<Self> {
        std::fs::create_dir_all(at)?;
        std::fs::File::create(image)?.set_len(kilobytes * 1024)?;
        let image = image.to_string_lossy();
        // No blocks are kept for root, who runs the trials.
        tool("mkfs.ext4", &["-q", "-F", "-m", "0", "-N", &inodes.to_string(), "-O", "^has_journal", &image])?;
        tool("mount", &["-o", "loop", &image, &at.to_string_lossy()])?;
        let mounted = Self { at: at.to_owned(), _server: None };
        let _ = std::fs::remove_dir(at.join("lost+found"));
        Ok(mounted)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).stderr(Stdio::null()).status();
    }
}

/// Returns whether this user may mount file systems.
pub fn is_allowed(directory: &Path) -> bool {
    let attempt = tempfile::tempdir_in(directory).map_err(anyhow::Error::from);
    attempt.and_then(|at| Mount::tmpfs(at.path(), "size=64k").map(drop)).is_ok()
}
