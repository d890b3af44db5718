//! Files that may be compressed. The compression is detected from the first bytes; the content is read as a stream.

mod bzip2;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::error::DataError;

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    /// Not at all.
    Plain,
    Gzip,
    Bzip2,
    Zstd,
}

impl Compression {
    /// Detects the compression from the first bytes of a file.
    fn of(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Self::Bzip2,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::Plain,
        }
    }

    /// Returns the name for messages.
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Bzip2 => "bzip2",
            Self::Zstd => "zstd",
        }
    }
}

/// The decompressed content of a file, whose start can be inspected before it is read.
pub struct InputFile {
    path: PathBuf,
    compression: Compression,
    head: Vec<u8>,
    /// The number of bytes of the head that have been read.
    taken: usize,
    rest: Box<dyn Read + Send>,
}

impl InputFile {
    const HEAD: usize = 1 << 16;

    /// Opens a file. bzip2 is decompressed on `threads` threads, other formats on the thread that reads.
    pub fn open(path: &Path, threads: usize) -> Result<Self, DataError> {
        let fail = DataError::io("open", path);
        let file = match File::open(path) {
            Ok(file) => file,
            Err(e) => return Err(fail(e)),
        };
        if file.metadata().is_ok_and(|m| m.is_dir()) {
            return Err(DataError::file(path, "it is a directory, but a file is expected"));
        }
        Self::new(path, file, threads)
    }

    /// Reads from a stream instead of a file; `path` is for messages.
    pub fn from_reader(path: &Path, reader: impl Read + Send + 'static) -> Result<Self, DataError> {
        Self::new(path, reader, 1)
    }

    fn new(path: &Path, mut reader: impl Read + Send + 'static, threads: usize) -> Result<Self, DataError> {
        let start = read_up_to(&mut reader, 4).map_err(DataError::io("read", path))?;
        let compression = Compression::of(&start);
        let whole = io::Cursor::new(start).chain(reader);
        let rest: Box<dyn Read + Send> = match compression {
            Compression::Plain => Box::new(whole),
            Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(whole)),
            Compression::Bzip2 => Box::new(bzip2::ParallelDecoder::new(whole, threads)),
            Compression::Zstd => {
                Box::new(zstd::stream::read::Decoder::new(whole).map_err(DataError::io("read", path))?)
            }
        };
        let mut input = Self { path: path.to_owned(), compression, head: Vec::new(), taken: 0, rest };
        input.head = read_up_to(&mut input.rest, Self::HEAD).map_err(|e| input.error(e))?;
        Ok(input)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the first 64 KiB of the content, or all of it if it is shorter.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Reads until `buffer` is full or the content ends. Returns the number of bytes.
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, DataError> {
        let from_head = (self.head.len() - self.taken).min(buffer.len());
        buffer[..from_head].copy_from_slice(&self.head[self.taken..self.taken + from_head]);
        self.taken += from_head;
        let mut filled = from_head;
        while filled < buffer.len() {
            match self.rest.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.error(e)),
            }
        }
        Ok(filled)
    }

    /// Reads the rest of the content.
    pub fn read_all(&mut self) -> Result<Vec<u8>, DataError> {
        let mut all = self.head[self.taken..].to_vec();
        self.taken = self.head.len();
        self.rest.read_to_end(&mut all).map_err(|e| self.error(e))?;
        Ok(all)
    }

    /// Returns the error for a failure of [`Read::read`].
    pub(super) fn error(&self, source: io::Error) -> DataError {
        match self.compression {
            Compression::Plain => DataError::io("read", &self.path)(source),
            compression => DataError::Archive {
                path: self.path.clone(),
                compression: compression.name(),
                reason: source.to_string(),
            },
        }
    }
}

impl Read for InputFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let from_head = (&self.head[self.taken..]).read(buffer)?;
        self.taken += from_head;
        if from_head > 0 { Ok(from_head) } else { self.rest.read(buffer) }
    }
}

fn read_up_to(reader: &mut impl Read, limit: usize) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    reader.take(limit as u64).read_to_end(&mut start)?;
    Ok(start)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use super::*;

    pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    pub(crate) fn bzip2(bytes: &[u8]) -> Vec<u8> {
        let mut writer = ::bzip2::write::BzEncoder::new(Vec::new(), ::bzip2::Compression::new(1));
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
        ::zstd::encode_all(bytes, 1).unwrap()
    }

    fn unpack(packed: Vec<u8>) -> Result<Vec<u8>, DataError> {
        InputFile::from_reader(Path::new("x"), io::Cursor::new(packed))?.read_all()
    }

    /// Returns about 400 KB of text that compresses moderately.
    pub(crate) fn sample() -> Vec<u8> {
        let mut state = 1_u32;
        let mut text = String::new();
        while text.len() < 400_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            text.push_str(&format!("{} {}:0.{}\n", state >> 28, state >> 16, state >> 7));
        }
        text.into_bytes()
    }

    #[test]
    fn every_compression_is_read_also_in_several_members() {
        let text = sample();
        for pack in [gzip, bzip2, zstd, |b: &[u8]| b.to_vec()] {
            assert_eq!(unpack(pack(&text)).unwrap(), text);
            let (one, two) = text.split_at(123_456);
            assert_eq!(unpack([pack(one), pack(b""), pack(two)].concat()).unwrap(), text);
            assert_eq!(unpack(pack(b"")).unwrap(), b"");
        }
    }

    #[test]
    fn a_truncated_or_damaged_file_is_reported_as_such() {
        let text = sample();
        for (pack, name) in [(gzip as fn(&[u8]) -> Vec<u8>, "gzip"), (bzip2, "bzip2"), (zstd, "zstd")] {
            let packed = pack(&text);
            for cut in [5, packed.len() / 2, packed.len() - 1] {
                let message = unpack(packed[..cut].to_vec()).unwrap_err().to_string();
                assert!(message.contains(name) && message.contains("truncated or damaged"), "{message}");
            }
            if name != "zstd" {
                // zstd without a content checksum cannot detect every changed byte.
                let mut damaged = packed.clone();
                damaged[packed.len() / 2] ^= 0x10;
                assert!(unpack(damaged).is_err(), "{name}");
            }
        }
    }

    #[test]
    fn the_start_of_the_content_can_be_inspected_before_it_is_read() {
        let text = sample();
        let mut input = InputFile::from_reader(Path::new("x"), io::Cursor::new(gzip(&text))).unwrap();
        assert_eq!(input.head(), &text[..1 << 16]);
        let mut start = [0; 100_000];
        assert_eq!(input.fill(&mut start).unwrap(), 100_000);
        assert_eq!(start[..], text[..100_000]);
        assert_eq!(input.read_all().unwrap(), text[100_000..]);
    }
}
