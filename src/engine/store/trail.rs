//! The symbolic links and directories on the way to a file of the user. The file itself does not change if a link or a
//! directory on the way is exchanged and put back, but a stage that ran meanwhile has read something else.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::stamp::Stamp;

/// As many links as Linux follows.
const MOST_LINKS: usize = 40;

/// What the kernel passes on the way to one or more files, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Trail {
    links: BTreeMap<PathBuf, (Stamp, PathBuf)>,
    directories: BTreeMap<PathBuf, Stamp>,
}

impl Trail {
    /// Adds everything on the way to `path`, but not the file or directory that it leads to.
    pub(super) fn follow(&mut self, path: &Path) -> io::Result<()> {
        let mut left = components(&std::path::absolute(path)?);
        let mut at = PathBuf::from("/");
        let mut followed = 0;
        while let Some(name) = left.pop() {
            if name == ".." {
                at.pop();
                continue;
            }
            let step = at.join(&name);
            if self.directories.contains_key(&step) && !left.is_empty() {
                at = step;
                continue;
            }
            let metadata = step.symlink_metadata()?;
            if metadata.is_symlink() {
                followed += 1;
                if followed > MOST_LINKS {
                    return Err(io::Error::from_raw_os_error(libc::ELOOP));
                }
                let target = fs::read_link(&step)?;
                left.extend(components(&target));
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                if let Entry::Vacant(vacant) = self.links.entry(step) {
                    vacant.insert((Stamp::of(&metadata), target));
                }
            } else {
                if !left.is_empty() {
                    self.directories.insert(step.clone(), Stamp::of(&metadata));
                }
                at = step;
            }
        }
        Ok(())
    }

    /// Returns whether the way has not changed until `now`.
    ///
    /// Files may come and go in a directory on the way. They change both of its times, and hide that the directory itself
    /// was moved away and back in the meantime; otherwise a move is visible, because it changes only the second time.
    pub(super) fn is_same(&self, now: &Self) -> bool {
        self.links == now.links
            && self.directories.len() == now.directories.len()
            && self.directories.iter().zip(&now.directories).all(|((path, before), (now_path, now))| {
                path == now_path
                    && (before.device, before.inode) == (now.device, now.inode)
                    && (before.changed == now.changed || before.modified != now.modified)
            })
    }
}

/// Returns the names in a path, last one first.
fn components(path: &Path) -> Vec<OsString> {
    let names = path.components().rev();
    names
        .filter(|component| matches!(component, Component::Normal(_) | Component::ParentDir))
        .map(|component| component.as_os_str().to_owned())
        .collect()
}
