//! Hashes files. Large ones are cut into subtrees of blake3, which threads read and hash independently. Reading into
//! a small buffer costs no more than mapping the file, as `b3sum` does, and cannot kill the process when another
//! program truncates the file meanwhile.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use blake3::Hasher;
use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};

use super::threads::in_parallel;
use pipe_core::digest::Digest;

/// Files up to this size are hashed by one thread; a power of two, so that it is a whole subtree.
const ALONE: u64 = 1 << 20;

/// The number of bytes per read. They stay in the nearest caches; from 128 KiB on, copying takes five times as long.
const BUFFER: usize = 32 * 1024;

thread_local! {
    /// On the heap, so that only threads that hash files have it: a run has one thread per job on a cluster.
    static BYTES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Says whether to give up hashing, because the user asked to stop.
pub(super) type GiveUp<'a> = &'a (dyn Fn() -> bool + Sync);

/// Returns the digest of the first `length` bytes; a shorter file is an error.
pub(super) fn file(file: &File, length: u64) -> io::Result<Digest> {
    file_unless(file, length, &|| false)
}

/// Like [`file`], but ends with [`io::ErrorKind::Interrupted`] soon after `give_up` returns true.
pub(super) fn file_unless(file: &File, length: u64, give_up: GiveUp) -> io::Result<Digest> {
    if length <= ALONE {
        return Ok(absorb(Hasher::new(), file, 0, length)?.finalize().into());
    }
    in_parallel(
        || {
            let (left, right) = halves(file, 0, length, give_up)?;
            Ok(merge_subtrees_root(&left, &right, Mode::Hash).into())
        },
        || Ok(absorb(Hasher::new(), file, 0, length)?.finalize().into()),
    )
}

fn halves(
    file: &File,
    offset: u64,
    length: u64,
    give_up: GiveUp,
) -> io::Result<(ChainingValue, ChainingValue)> {
    let middle = left_subtree_len(length);
    let (left, right) = rayon::join(
        || subtree(file, offset, middle, give_up),
        || subtree(file, offset + middle, length - middle, give_up),
    );
    Ok((left?, right?))
}

fn subtree(file: &File, offset: u64, length: u64, give_up: GiveUp) -> io::Result<ChainingValue> {
    if give_up() {
        return Err(io::Error::new(io::ErrorKind::Interrupted, "the run was stopped"));
    }
    if length > ALONE {
        let (left, right) = halves(file, offset, length, give_up)?;
        return Ok(merge_subtrees_non_root(&left, &right, Mode::Hash));
    }
    let mut hasher = Hasher::new();
    hasher.set_input_offset(offset);
    Ok(absorb(hasher, file, offset, length)?.finalize_non_root())
}

fn absorb(mut hasher: Hasher, file: &File, mut offset: u64, mut length: u64) -> io::Result<Hasher> {
    BYTES.with_borrow_mut(|bytes| {
        bytes.resize(BUFFER, 0);
        while length > 0 {
            let bytes = &mut bytes[..BUFFER.min(length as usize)];
            file.read_exact_at(bytes, offset)?;
            hasher.update(bytes);
            offset += bytes.len() as u64;
            length -= bytes.len() as u64;
        }
        Ok(hasher)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn pieces_give_the_same_digest_as_the_whole() {
        let content: Vec<u8> = (0..5 * ALONE as u32 / 2 + 7).map(|i| (i ^ (i >> 8)) as u8).collect();
        let [small, large] = [BUFFER, ALONE as usize];
        for length in [0, 1, small - 1, small, small + 1, large, large + 1, 2 * large, content.len()] {
            let mut temp = tempfile::tempfile().unwrap();
            temp.write_all(&content[..length]).unwrap();
            let digest = file(&temp, length as u64).unwrap();
            assert_eq!(digest, Digest::of(&content[..length]), "{length} bytes");
        }
    }

    #[test]
    fn hashing_a_large_file_ends_soon_after_it_is_given_up() {
        let temp = tempfile::tempfile().unwrap();
        temp.set_len(1 << 40).unwrap();
        let checks = std::sync::atomic::AtomicUsize::new(0);
        let give_up = || checks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 100;
        let error = file_unless(&temp, 1 << 40, &give_up).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn a_file_that_shrinks_is_an_error() {
        let mut temp = tempfile::tempfile().unwrap();
        temp.write_all(b"short").unwrap();
        for length in [6, 3 * ALONE] {
            assert_eq!(file(&temp, length).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
