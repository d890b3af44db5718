//! Hashing files. Large ones are cut into subtrees of blake3 that threads read and hash
//! independently. Reading rather than mapping them costs nothing measurable and cannot kill the
//! process when somebody truncates the file meanwhile.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use blake3::Hasher;
use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};

use crate::digest::Digest;

/// What one thread reads at once: a power of two, so that it is a whole subtree, and small enough
/// to be hashed while still in the processor's cache.
const PIECE: u64 = 512 * 1024;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The digest of the first `length` bytes; a shorter file is an error.
pub(super) fn file(file: &File, length: u64) -> io::Result<Digest> {
    if length <= PIECE {
        return piece(file, 0, length, |bytes| Digest::from(blake3::hash(bytes)));
    }
    let (left, right) = halves(file, 0, length)?;
    Ok(merge_subtrees_root(&left, &right, Mode::Hash).into())
}

fn halves(file: &File, offset: u64, length: u64) -> io::Result<(ChainingValue, ChainingValue)> {
    let middle = left_subtree_len(length);
    let (left, right) =
        rayon::join(|| subtree(file, offset, middle), || subtree(file, offset + middle, length - middle));
    Ok((left?, right?))
}

fn subtree(file: &File, offset: u64, length: u64) -> io::Result<ChainingValue> {
    if length > PIECE {
        let (left, right) = halves(file, offset, length)?;
        return Ok(merge_subtrees_non_root(&left, &right, Mode::Hash));
    }
    piece(file, offset, length, |bytes| {
        let mut hasher = Hasher::new();
        hasher.set_input_offset(offset).update(bytes);
        hasher.finalize_non_root()
    })
}

fn piece<T>(file: &File, offset: u64, length: u64, hash: impl FnOnce(&[u8]) -> T) -> io::Result<T> {
    BUFFER.with_borrow_mut(|buffer| {
        let length = length as usize;
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        let bytes = &mut buffer[..length];
        file.read_exact_at(bytes, offset)?;
        Ok(hash(bytes))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn pieces_give_the_same_digest_as_the_whole() {
        let content: Vec<u8> = (0..5 * PIECE as u32 / 2 + 7).map(|i| (i ^ (i >> 8)) as u8).collect();
        let piece = PIECE as usize;
        for length in [0, 1, 1024, piece - 1, piece, piece + 1, 2 * piece, 2 * piece + 1, content.len()] {
            let mut temp = tempfile::tempfile().unwrap();
            temp.write_all(&content[..length]).unwrap();
            let digest = file(&temp, length as u64).unwrap();
            assert_eq!(digest, Digest::of(&content[..length]), "{length} bytes");
        }
    }

    #[test]
    fn a_file_that_shrinks_is_an_error() {
        let mut temp = tempfile::tempfile().unwrap();
        temp.write_all(b"short").unwrap();
        for length in [6, 3 * PIECE] {
            assert_eq!(file(&temp, length).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
