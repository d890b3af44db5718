//! `B3SUMS`: the digests of the files in a directory that left the store. Where there is no store, it is all that shows whether
//! a copy is complete and undamaged. `b3sum --check B3SUMS` reads it, too.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::Store;
use super::error::StoreError;
use super::manifest::Stored;
use super::tree::{Tree, TreeNode};
use pipe_core::digest::BlobId;

pub const B3SUMS: &str = "B3SUMS";

/// What is known about a directory outside of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// Its content agrees with its `B3SUMS`, or the store knows it.
    Confirmed,
    /// Nothing says what its content should be.
    Unknown,
}

impl Store {
    /// Copies a directory to `to` like [`Store::place`], and adds `B3SUMS`.
    pub fn place_with_checksums(&self, stored: &Stored, to: &Path) -> Result<(), StoreError> {
        let tree = self.read_tree(stored.blob).map_err(|flaw| flaw.into_error())?;
        self.place(stored, to)?;
        let path = to.join(B3SUMS);
        let is_odd =
            |path: &Path| path == Path::new(B3SUMS) || path.to_str().is_none_or(|p| p.contains(['\n', '\\']));
        let has_links = tree.entries().iter().any(|entry| matches!(entry.node, TreeNode::Link { .. }));
        if has_links || tree.files().any(|(path, ..)| is_odd(path)) {
            // There are links, which cannot be listed; or a file of this name; or one whose name would have to be escaped.
            return Ok(());
        }
        fs::write(&path, encode(&tree)).map_err(|e| StoreError::writing(&path, e))
    }

    /// Adds `B3SUMS` to a directory of the user.
    pub fn write_checksums(&self, directory: &Path) -> Result<(), StoreError> {
        let path = directory.join(B3SUMS);
        let text = encode(&self.list_user_directory(directory)?);
        fs::write(&path, text).map_err(|e| StoreError::writing(&path, e))
    }

    /// Returns whether a directory is a copy of `stored`, with or without `B3SUMS`.
    pub fn is_copy(&self, stored: &Stored, path: &Path) -> Result<bool, StoreError> {
        let present = self.digest_user_file(path)?;
        if (present.blob, present.directory) == (stored.blob, stored.directory) {
            return Ok(true);
        }
        if !stored.directory || !present.directory {
            return Ok(false);
        }
        let expected = encode(&self.read_tree(stored.blob).map_err(|flaw| flaw.into_error())?);
        let sums = fs::read_to_string(path.join(B3SUMS)).unwrap_or_default();
        Ok(sums == expected && self.confirm(path).is_ok())
    }

    /// Checks a directory that did not come from the store of this project, or is a copy. Fails if a file differs from
    /// `B3SUMS`, is missing there, or is not there although `B3SUMS` lists it, or if there is a link inside of the directory.
    pub fn confirm(&self, directory: &Path) -> Result<Confirmation, StoreError> {
        let path = directory.join(B3SUMS);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let known = self.contains(self.digest_user_file(directory)?.blob)?;
                return Ok(if known { Confirmation::Confirmed } else { Confirmation::Unknown });
            }
            Err(error) => return Err(StoreError::reading(&path, error)),
        };
        let bad = |problem: String| StoreError::unusable(directory, problem);
        let mut listed =
            decode(&text).ok_or_else(|| bad(format!("its `{B3SUMS}` is not a list of digests")))?;
        let tree = self.list_user_directory(directory)?;
        let link = tree.entries().iter().find(|entry| matches!(entry.node, TreeNode::Link { .. }));
        if let Some(link) = link {
            let name = link.path.display();
            return Err(bad(format!(
                "`{B3SUMS}` does not list its symbolic link `{name}`; replace it by a copy of the file"
            )));
        }
        for (file, blob, _) in tree.files() {
            let name = file.to_string_lossy();
            match listed.remove(name.as_ref()) {
                _ if name == B3SUMS => {}
                Some(digest) if digest == blob => {}
                Some(_) => {
                    return Err(bad(format!("its file `{name}` is damaged: it differs from `{B3SUMS}`")));
                }
                None => return Err(bad(format!("`{B3SUMS}` does not list its file `{name}`"))),
            }
        }
        match listed.into_keys().next() {
            Some(missing) => Err(bad(format!("its file `{missing}` is missing"))),
            None => Ok(Confirmation::Confirmed),
        }
    }
}

fn encode(tree: &Tree) -> String {
    let files = tree.entries().iter().filter_map(|entry| match entry.node {
        TreeNode::File { blob, .. } => Some(format!("{blob}  {}\n", entry.path.display())),
        _ => None,
    });
    files.collect()
}

fn decode(text: &str) -> Option<BTreeMap<&str, BlobId>> {
    let lines = text.lines().map(|line| {
        let (digest, name) = line.split_once("  ")?;
        Some((name, BlobId::new(digest.parse().ok()?)))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn copy_of_a_directory() -> (tempfile::TempDir, Store, Stored) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("cache")).unwrap();
        let make = |out: &Path| {
            fs::create_dir_all(out.join("parts/0")).unwrap();
            fs::write(out.join("model.json"), "{}").unwrap();
            fs::write(out.join("parts/0/weights"), "weights").unwrap();
        };
        let stored = commit(&store, "a", make).outputs["out"];
        store.place_with_checksums(&stored, &dir.path().join("copy")).unwrap();
        (dir, store, stored)
    }

    #[test]
    fn a_copy_is_confirmed_without_the_store_that_it_came_from() {
        let (dir, store, stored) = copy_of_a_directory();
        let other = Store::open(&dir.path().join("other")).unwrap();
        let copy = dir.path().join("copy");
        assert_eq!(other.confirm(&copy).unwrap(), Confirmation::Confirmed);
        assert!(store.is_copy(&stored, &copy).unwrap());
        fs::remove_file(copy.join(B3SUMS)).unwrap();
        assert_eq!(other.confirm(&copy).unwrap(), Confirmation::Unknown);
        assert_eq!(store.confirm(&copy).unwrap(), Confirmation::Confirmed);
        assert!(store.is_copy(&stored, &copy).unwrap());
    }

    #[test]
    fn every_change_of_a_copy_is_noticed() {
        type Change = fn(&Path);
        let cases: [(&str, Change); 5] = [
            ("`parts/0/weights` is damaged", |copy| flip_bit(&copy.join("parts/0/weights"), 3)),
            ("`model.json` is missing", |copy| fs::remove_file(copy.join("model.json")).unwrap()),
            ("does not list its file `new`", |copy| fs::write(copy.join("new"), "").unwrap()),
            ("does not list its symbolic link `new`", |copy| {
                std::os::unix::fs::symlink("model.json", copy.join("new")).unwrap();
            }),
            ("is not a list of digests", |copy| fs::write(copy.join(B3SUMS), "nonsense\n").unwrap()),
        ];
        for (message, change) in cases {
            let (dir, store, stored) = copy_of_a_directory();
            let copy = dir.path().join("copy");
            change(&copy);
            let error = store.confirm(&copy).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
            assert!(!store.is_copy(&stored, &copy).unwrap());
        }
    }
}
