//! What is uploaded: blobs, which are compressed and checked while they are sent, and manifests.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::store::{Store, StoreError};
use pipe_core::digest::{BlobId, Digest};

/// How much of a blob decides whether it is compressed.
const SAMPLE: u64 = 1 << 20;

/// Content for a remote, which can be read again if a request failed.
pub(super) trait Outgoing {
    /// Opens the content. Reading fails at the end if it is damaged, so that damaged content is never complete.
    fn open(&self) -> io::Result<Box<dyn Read + Send>>;

    /// Returns the number of bytes, as far as it is known before they are read.
    fn length(&self) -> Length;
}

/// The number of bytes of some content.
pub(super) enum Length {
    Exactly(u64),
    /// What it is before it is compressed.
    About(u64),
}

impl Outgoing for Arc<[u8]> {
    fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(io::Cursor::new(Self::clone(self))))
    }

    fn length(&self) -> Length {
        Length::Exactly(self.len() as u64)
    }
}

/// A blob that is uploaded. Content whose beginning does not shrink is stored in a frame of zstd as it is, which takes no
/// time and has a known length.
pub(super) struct OutgoingBlob {
    path: PathBuf,
    id: BlobId,
    bytes: u64,
    shrinks: bool,
    flaw: Arc<OnceLock<String>>,
}

impl OutgoingBlob {
    pub(super) fn new(store: &Store, id: BlobId) -> Result<Self, StoreError> {
        let (file, bytes) = store.open_blob(id)?;
        let path = store.blob_path(id);
        let shrinks = shrinks(&file).map_err(|error| StoreError::reading(&path, error))?;
        Ok(Self { path, id, bytes, shrinks, flaw: Arc::default() })
    }

    /// Returns why the blob could not be read, if so.
    pub(super) fn flaw(&self) -> Option<&String> {
        self.flaw.get()
    }
}

fn shrinks(file: &File) -> io::Result<bool> {
    let mut sample = Vec::new();
    file.take(SAMPLE).read_to_end(&mut sample)?;
    let compressed = zstd::bulk::compress(&sample, zstd::DEFAULT_COMPRESSION_LEVEL)?;
    Ok(compressed.len() < sample.len() / 20 * 19)
}

impl Outgoing for OutgoingBlob {
    fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        let file = File::open(&self.path)?;
        let flaw = Arc::clone(&self.flaw);
        let blob = CheckedBlob { file, id: self.id, hasher: blake3::Hasher::new(), flaw };
        if self.shrinks {
            let level = zstd::DEFAULT_COMPRESSION_LEVEL;
            return Ok(Box::new(zstd::stream::read::Encoder::new(blob, level)?));
        }
        Ok(Box::new(RawFrame::new(blob, self.bytes)))
    }

    fn length(&self) -> Length {
        if self.shrinks {
            Length::About(self.bytes)
        } else {
            Length::Exactly(RawFrame::<File>::length(self.bytes))
        }
    }
}

/// A blob whose end is an error if it does not have the content that its name says.
struct CheckedBlob {
    file: File,
    id: BlobId,
    hasher: blake3::Hasher,
    flaw: Arc<OnceLock<String>>,
}

impl Read for CheckedBlob {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer).and_then(|count| {
            self.hasher.update(&buffer[..count]);
            let is_end = count == 0 && !buffer.is_empty();
            if is_end && Digest::from(self.hasher.finalize()) != self.id.digest() {
                let what = format!("blob {} does not have the content that its name says", self.id.short());
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            Ok(count)
        });
        read.inspect_err(|error| drop(self.flaw.set(error.to_string())))
    }
}

/// A frame of zstd with the content as it is (RFC 8878, section 3.1.1). Written by hand because the library does not tell the
/// length of a frame before it has compressed everything.
struct RawFrame<R> {
    content: R,
    /// What of the content does not belong to a block yet.
    left: u64,
    /// What of the current block was not read yet.
    in_block: u64,
    /// The header of the frame or of a block.
    header: io::Cursor<Vec<u8>>,
    is_complete: bool,
}

const LARGEST_BLOCK: u64 = 128 << 10;
/// The magic number, a descriptor that announces eight bytes with the size of the content, and a window of 128 KiB.
const FRAME_START: [u8; 6] = [0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0x38];
const BLOCK_HEADER: u64 = 3;

impl<R: Read> RawFrame<R> {
    fn new(content: R, bytes: u64) -> Self {
        let header = [&FRAME_START[..], &bytes.to_le_bytes()].concat();
        Self { content, left: bytes, in_block: 0, header: io::Cursor::new(header), is_complete: false }
    }

    /// Returns the length of the frame of so many bytes.
    fn length(bytes: u64) -> u64 {
        let blocks = bytes.div_ceil(LARGEST_BLOCK).max(1);
        FRAME_START.len() as u64 + 8 + blocks * BLOCK_HEADER + bytes
    }

    fn begin_block(&mut self) {
        self.in_block = self.left.min(LARGEST_BLOCK);
        self.left -= self.in_block;
        self.is_complete = self.left == 0;
        // Both are below 2^24: the last bit says whether it is the last block, and the next two that its content is as it is.
        let header = (self.in_block << 3 | u64::from(self.is_complete)).to_le_bytes();
        self.header = io::Cursor::new(header[..3].to_vec());
    }
}

impl<R: Read> Read for RawFrame<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.in_block == 0
            && self.header.position() == self.header.get_ref().len() as u64
            && !self.is_complete
        {
            self.begin_block();
        }
        let count = self.header.read(buffer)?;
        if count > 0 || buffer.is_empty() {
            return Ok(count);
        }
        let most = usize::try_from(self.in_block).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            // The content finds out at its end whether it is damaged.
            return match self.content.read(&mut [0])? {
                0 => Ok(0),
                _ => Err(io::Error::new(io::ErrorKind::InvalidData, "a blob became longer")),
            };
        }
        let count = self.content.read(&mut buffer[..most])?;
        if count == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a blob became shorter"));
        }
        self.in_block -= count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_any_length_can_be_decompressed_and_has_the_announced_length() {
        for bytes in [0, 1, LARGEST_BLOCK - 1, LARGEST_BLOCK, LARGEST_BLOCK + 1, 3 * LARGEST_BLOCK, 500_000] {
            let content: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
            let mut frame = Vec::new();
            RawFrame::new(content.as_slice(), bytes).read_to_end(&mut frame).unwrap();
            assert_eq!(frame.len() as u64, RawFrame::<File>::length(bytes));
            assert_eq!(zstd::decode_all(frame.as_slice()).unwrap(), content, "{bytes}");
        }
        let mut cut = RawFrame::new(&b"short"[..], 6);
        assert!(cut.read_to_end(&mut Vec::new()).is_err());
    }
}
