//! The header of a matrix file: its first 128 bytes.
//!
//! | bytes | content |
//! |---|---|
//! | 0..8 | `PIPE-CSR` or `PIPE-DNS` |
//! | 8..12 | version of the layout, 1 |
//! | 12..16 | 0x01020304, to detect the wrong byte order |
//! | 16..20 | 1 if values are stored, 0 for a matrix of ones |
//! | 20..24 | zero |
//! | 24..32 | rows |
//! | 32..40 | columns |
//! | 40..48 | stored entries |
//! | 48..96 | zero |
//! | 96..128 | blake3 of bytes 0..96 |
//!
//! Every number is little-endian. The sections follow the header. Each starts at the next multiple of 64; the gaps are
//! filled with zeros. `PIPE-CSR`: column indices (u32), values
//! (f32, if stored), row offsets (u64, rows + 1). `PIPE-DNS`: values (f32), row by row.
//!
//! The row offsets come last because a streaming writer knows them only at the end.

use std::path::Path;

use crate::data::error::DataError;

/// The length of the header in bytes.
pub(super) const LENGTH: usize = 128;
const VERSION: u32 = 1;
const BYTE_ORDER: u32 = 0x0102_0304;
/// The bytes that the checksum of the header covers.
const CHECKED: usize = 96;

#[cfg(target_endian = "big")]
compile_error!("artifacts are little-endian and mapped without conversion");

/// The two kinds of matrix files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MatrixKind {
    Csr,
    Dense,
}

impl MatrixKind {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            Self::Csr => b"PIPE-CSR",
            Self::Dense => b"PIPE-DNS",
        }
    }
}

/// The header of a matrix file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MatrixHeader {
    pub kind: MatrixKind,
    pub valued: bool,
    pub rows: u64,
    pub cols: u64,
    pub entries: u64,
}

/// The byte offsets of the sections of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sections {
    pub indices: u64,
    pub values: u64,
    pub indptr: u64,
    pub end: u64,
}

/// Returns the start of a section that comes at or after `offset`.
pub(super) fn aligned(offset: u64) -> Option<u64> {
    offset.checked_next_multiple_of(64)
}

impl MatrixHeader {
    /// Returns where the sections are; `None` if a number overflows 64 bits, which happens only in a damaged header.
    pub(super) fn sections(&self) -> Option<Sections> {
        let start = LENGTH as u64;
        let numbers = self.entries.checked_mul(4)?;
        let values = match self.kind {
            MatrixKind::Csr => aligned(start.checked_add(numbers)?)?,
            MatrixKind::Dense => start,
        };
        let behind_values = if self.valued { values.checked_add(numbers)? } else { values };
        let indptr = aligned(behind_values)?;
        let end = match self.kind {
            MatrixKind::Csr => indptr.checked_add(self.rows.checked_add(1)?.checked_mul(8)?)?,
            MatrixKind::Dense => behind_values,
        };
        Some(Sections { indices: start, values, indptr, end })
    }

    /// Returns the bytes of the header, including the checksum.
    pub(super) fn to_bytes(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(self.kind.magic());
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&BYTE_ORDER.to_le_bytes());
        bytes[16..20].copy_from_slice(&u32::from(self.valued).to_le_bytes());
        bytes[24..32].copy_from_slice(&self.rows.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.cols.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.entries.to_le_bytes());
        let check = blake3::hash(&bytes[..CHECKED]);
        bytes[CHECKED..].copy_from_slice(check.as_bytes());
        bytes
    }

    /// Reads the header of a whole file and checks it against the file's length.
    pub(super) fn read(file: &[u8], kind: MatrixKind, path: &Path) -> Result<(Self, Sections), DataError> {
        let bad = |reason: &str| DataError::artifact(path, reason);
        let bytes = file.first_chunk::<LENGTH>().ok_or_else(|| bad("it is shorter than a header"))?;
        if bytes[..8] != kind.magic()[..] {
            return Err(bad("it does not start like a matrix of the expected kind"));
        }
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        if u32_at(8) != VERSION {
            let version = u32_at(8);
            return Err(bad(&format!(
                "it has layout version {version}, but this program reads version {VERSION}"
            )));
        }
        if blake3::hash(&bytes[..CHECKED]).as_bytes()[..] != bytes[CHECKED..] || u32_at(12) != BYTE_ORDER {
            return Err(bad("its header is damaged"));
        }
        let header =
            Self { kind, valued: u32_at(16) == 1, rows: u64_at(24), cols: u64_at(32), entries: u64_at(40) };
        let sections = header.sections().ok_or_else(|| bad("its header contains impossible sizes"))?;
        if sections.end != file.len() as u64 {
            let (is, should) = (file.len(), sections.end);
            return Err(bad(&format!(
                "it has {is} bytes, but according to its header it should have {should}"
            )));
        }
        Ok((header, sections))
    }
}
