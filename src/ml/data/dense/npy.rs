//! The header of a `.npy` file: a magic number and a Python dictionary in text.

use super::super::compress::Input;
use super::super::error::DataError;
use super::element::Element;
use super::grid::{Grid, Order};

const LONGEST_HEADER: usize = 1 << 16;

/// Reads up to the first number.
pub(super) fn read_header(input: &mut Input) -> Result<(Grid, Order), DataError> {
    let mut start = [0; 8];
    if input.fill(&mut start)? < start.len() || !start.starts_with(b"\x93NUMPY") {
        return Err(DataError::file(input.path(), "it is not a NumPy array"));
    }
    // Version 1 has two bytes of length, the later ones four.
    let mut length = [0; 4];
    let width = if start[6] == 1 { 2 } else { 4 };
    input.fill(&mut length[..width])?;
    let length = u32::from_le_bytes(length) as usize;
    let mut header = vec![0; length.min(LONGEST_HEADER)];
    if length > LONGEST_HEADER || input.fill(&mut header)? < length {
        return Err(DataError::file(input.path(), "its header is cut off or too long"));
    }
    parse(&String::from_utf8_lossy(&header)).map_err(|reason| DataError::file(input.path(), reason))
}

/// `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`
fn parse(header: &str) -> Result<(Grid, Order), String> {
    let field = |name: &str| {
        let at = header.find(&format!("'{name}'")).ok_or_else(|| format!("its header has no `{name}`"))?;
        let rest = header[at + name.len() + 2..].trim_start();
        rest.strip_prefix(':').map(str::trim_start).ok_or_else(|| format!("its header has no `{name}`"))
    };
    let quoted = field("descr")?.strip_prefix('\'').and_then(|rest| rest.split('\'').next());
    let description = quoted.ok_or("it holds records, not numbers")?;
    let (big_endian, kind) = match description.split_at_checked(1) {
        Some(("<" | "|" | "=", kind)) => (false, kind),
        Some((">", kind)) => (true, kind),
        _ => (false, description),
    };
    let element = match kind {
        "b1" => Element::Bool,
        "i1" => Element::I8,
        "u1" => Element::U8,
        "i2" => Element::I16,
        "u2" => Element::U16,
        "i4" => Element::I32,
        "u4" => Element::U32,
        "i8" => Element::I64,
        "u8" => Element::U64,
        "f2" => Element::F16,
        "f4" => Element::F32,
        "f8" => Element::F64,
        _ => return Err(format!("its numbers have the type `{description}`, which cannot be read")),
    };
    let order = if field("fortran_order")?.starts_with("True") { Order::Columns } else { Order::Rows };
    let shape = field("shape")?.strip_prefix('(').and_then(|rest| rest.split(')').next()).unwrap_or_default();
    let sizes: Vec<u64> = shape
        .split(',')
        .map(str::trim)
        .filter(|size| !size.is_empty())
        .map(|size| size.parse().map_err(|_| format!("its shape ({shape}) is not readable")))
        .collect::<Result<_, _>>()?;
    match sizes[..] {
        [rows, cols] => Ok((Grid { rows, cols, element, big_endian }, order)),
        _ => Err(format!("its shape is ({shape}); two dimensions are needed, rows and columns")),
    }
}
