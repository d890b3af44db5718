//! Any bytes as gzip, bzip2 or zstd, which must be decompressed or refused. The first byte selects the format.

#![no_main]

use std::io::Cursor;
use std::path::Path;

use pipe_ml::data::compress::InputFile;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let magic: &[u8] = match bytes.first().map(|b| b % 3) {
        Some(0) => &[0x1f, 0x8b, 8],
        Some(1) => b"BZh1\x31\x41\x59\x26\x53\x59",
        _ => &[0x28, 0xb5, 0x2f, 0xfd],
    };
    let packed = [magic, bytes.get(1..).unwrap_or_default()].concat();
    let Ok(mut input) = InputFile::from_reader(Path::new("fuzz"), Cursor::new(packed)) else { return };
    let mut buffer = vec![0; 1 << 16];
    // A small file can have a huge content, so only the start is read.
    for _ in 0..64 {
        match input.fill(&mut buffer) {
            Ok(count) if count == buffer.len() => {}
            _ => return,
        }
    }
});
