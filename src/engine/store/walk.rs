//! Finds everything in a directory, in no particular order.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use super::error::StoreError;
use super::stamp::Stamp;

/// One entry of a directory.
pub(super) struct WalkEntry {
    /// The path relative to the directory that was walked.
    pub(super) path: PathBuf,
    pub(super) what: WalkKind,
}

/// What an entry of a directory is.
pub(super) enum WalkKind {
    File { stamp: Stamp, executable: bool },
    Link { stamp: Stamp, target: PathBuf },
    EmptyDirectory,
}

/// Everything in a directory.
pub(super) struct Walked {
    pub(super) entries: Vec<WalkEntry>,
    /// Every directory, including the one that was walked, by its relative path.
    pub(super) directories: Vec<(PathBuf, Stamp)>,
    /// The full paths of the symbolic links that were followed.
    pub(super) followed: Vec<PathBuf>,
}

/// What to do with a symbolic link that leads out of the directory. A link that stays inside is always kept as a link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OutsideLinks {
    /// The output of a stage must be complete without the rest of the machine.
    Refuse,
    /// Data of the user may be on another disk: its content counts as if it were here.
    Follow,
}

/// Returns everything below `root`.
pub(super) fn walk(root: &Path, outside: OutsideLinks) -> Result<Walked, StoreError> {
    let canonical = root.canonicalize().map_err(|e| StoreError::reading(root, e))?;
    let found = Walked { entries: Vec::new(), directories: Vec::new(), followed: Vec::new() };
    let mut walk = Walk { root: canonical, outside, found, ancestors: Vec::new() };
    walk.directory(root, Path::new(""))?;
    Ok(walk.found)
}

struct Walk {
    root: PathBuf,
    outside: OutsideLinks,
    found: Walked,
    /// Device and inode of the directories above, to notice links that lead in circles.
    ancestors: Vec<(u64, u64)>,
}

impl Walk {
    fn directory(&mut self, full: &Path, relative: &Path) -> Result<(), StoreError> {
        let metadata = full.metadata().map_err(|e| StoreError::reading(full, e))?;
        let id = (metadata.dev(), metadata.ino());
        if self.ancestors.contains(&id) {
            return Err(StoreError::unusable(full, "this symbolic link leads back to a directory it is in"));
        }
        self.ancestors.push(id);
        self.found.directories.push((relative.to_owned(), Stamp::of(&metadata)));
        let mut empty = true;
        for entry in fs::read_dir(full).map_err(|e| StoreError::reading(full, e))? {
            let entry = entry.map_err(|e| StoreError::reading(full, e))?;
            empty = false;
            let (full, relative) = (full.join(entry.file_name()), relative.join(entry.file_name()));
            let kind = entry.file_type().map_err(|e| StoreError::reading(&full, e))?;
            if kind.is_symlink() {
                self.link(&full, relative)?;
            } else if kind.is_dir() {
                self.directory(&full, &relative)?;
            } else {
                let metadata = entry.metadata().map_err(|e| StoreError::reading(&full, e))?;
                self.file(&full, relative, &metadata)?;
            }
        }
        if empty && !relative.as_os_str().is_empty() {
            self.found.entries.push(WalkEntry { path: relative.to_owned(), what: WalkKind::EmptyDirectory });
        }
        self.ancestors.pop();
        Ok(())
    }

    fn file(&mut self, full: &Path, path: PathBuf, metadata: &Metadata) -> Result<(), StoreError> {
        if !metadata.is_file() {
            return Err(StoreError::unusable(full, "it is neither a file, a directory nor a symbolic link"));
        }
        let executable = metadata.permissions().mode() & 0o111 != 0;
        let what = WalkKind::File { stamp: Stamp::of(metadata), executable };
        self.found.entries.push(WalkEntry { path, what });
        Ok(())
    }

    fn link(&mut self, full: &Path, path: PathBuf) -> Result<(), StoreError> {
        let target = fs::read_link(full).map_err(|e| StoreError::reading(full, e))?;
        let resolved = full.canonicalize().map_err(|e| {
            StoreError::unusable(full, format!("the symbolic link to `{}` is broken ({e})", target.display()))
        })?;
        if stays_inside(&path, &target) && resolved.starts_with(&self.root) {
            let metadata = full.symlink_metadata().map_err(|e| StoreError::reading(full, e))?;
            let what = WalkKind::Link { stamp: Stamp::of(&metadata), target };
            self.found.entries.push(WalkEntry { path, what });
            return Ok(());
        }
        if self.outside == OutsideLinks::Refuse {
            let problem = format!(
                "the symbolic link to `{}` leads out of the output; write a copy instead",
                target.display()
            );
            return Err(StoreError::unusable(full, problem));
        }
        self.found.followed.push(full.to_owned());
        let metadata = full.metadata().map_err(|e| StoreError::reading(full, e))?;
        if metadata.is_dir() { self.directory(full, &path) } else { self.file(full, path, &metadata) }
    }
}

/// Returns whether the target of a link is below the directory that was walked, wherever that directory will be moved.
fn stays_inside(link: &Path, target: &Path) -> bool {
    let mut depth = link.components().count() - 1;
    for component in target.components() {
        match component {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names(root: &Path, outside: OutsideLinks) -> Result<Vec<String>, String> {
        let found = walk(root, outside).map_err(|e| e.to_string())?;
        let mut names: Vec<String> = found
            .entries
            .iter()
            .map(|found| {
                let kind = match found.what {
                    WalkKind::File { .. } => "file",
                    WalkKind::Link { .. } => "link",
                    WalkKind::EmptyDirectory => "empty",
                };
                format!("{kind} {}", found.path.display())
            })
            .collect();
        names.sort();
        Ok(names)
    }

    #[test]
    fn links_inside_stay_links_and_others_are_followed_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
        fs::create_dir_all(root.join("sub/empty")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(root.join("sub/a"), "a").unwrap();
        fs::write(outside.join("b"), "b").unwrap();
        symlink("sub/a", root.join("inside")).unwrap();
        let own = ["empty sub/empty", "file sub/a", "link inside"];
        assert_eq!(names(&root, OutsideLinks::Refuse).unwrap(), own);

        symlink(&outside, root.join("data")).unwrap();
        let followed = ["empty sub/empty", "file data/b", "file sub/a", "link inside"];
        assert_eq!(names(&root, OutsideLinks::Follow).unwrap(), followed);
        assert!(names(&root, OutsideLinks::Refuse).unwrap_err().contains("leads out"));
    }

    #[test]
    fn links_that_lead_nowhere_or_in_circles_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        symlink("nothing", dir.path().join("link")).unwrap();
        assert!(names(dir.path(), OutsideLinks::Follow).unwrap_err().contains("is broken"));

        let dir = tempfile::tempdir().unwrap();
        symlink(dir.path(), dir.path().join("self")).unwrap();
        assert!(names(dir.path(), OutsideLinks::Follow).unwrap_err().contains("leads back"));
    }

    #[test]
    fn a_socket_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        assert!(names(dir.path(), OutsideLinks::Follow).unwrap_err().contains("neither a file"));
    }

    #[test]
    fn a_link_through_the_directory_s_own_name_does_not_stay_inside() {
        assert!(stays_inside(Path::new("a/link"), Path::new("../b")));
        assert!(stays_inside(Path::new("link"), Path::new("./b")));
        assert!(!stays_inside(Path::new("link"), Path::new("../root/b")));
        assert!(!stays_inside(Path::new("link"), Path::new("/b")));
    }
}
