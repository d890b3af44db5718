//! The mark on a file or directory that `pipe` placed: the digest of its content, in an extended attribute.
//!
//! A file whose content matches its mark was placed by `pipe` and not edited since, whatever became of the cache. A file system
//! without extended attributes, or a file that came from version control, has no mark, which says nothing.

use std::path::Path;

use rustix::fs::{XattrFlags, lgetxattr, setxattr};

use pipe_core::digest::BlobId;

const NAME: &str = "user.pipe.blob";
/// The length of a digest in hexadecimal digits.
const LENGTH: usize = 64;

/// Marks a file or directory that is about to be placed. A failure is ignored: the lock and the cache know it, too.
pub(super) fn mark(path: &Path, content: BlobId) {
    let _ = setxattr(path, NAME, content.digest().to_hex().as_bytes(), XattrFlags::empty());
}

/// Returns whether the mark at a path says that `pipe` placed this content there. A link has no mark.
pub fn is_marked(path: &Path, content: BlobId) -> bool {
    let mut mark = [0; LENGTH];
    lgetxattr(path, NAME, &mut mark)
        .is_ok_and(|length| mark[..length] == *content.digest().to_hex().as_bytes())
}
