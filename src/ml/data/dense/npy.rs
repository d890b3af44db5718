//! The header of a `.npy` file: a magic number and a Python dictionary as text.

use super::super::compress::InputFile;
use super::super::error::DataError;
use super::array::{ArrayLayout, ArrayOrder};
use super::element::ElementType;

const MAX_HEADER: usize = 1 << 16;

/// Reads the header of an array of rows and columns, so that the numbers follow in `input`.
pub(crate) fn read_header(input: &mut InputFile) -> Result<(ArrayLayout, ArrayOrder), DataError> {
    let header = read_any_header(input)?;
    match header.sizes[..] {
        [rows, cols] => Ok((header.layout(rows, cols), header.order)),
        _ => Err(header.wrong_shape(input, "two dimensions, rows and columns")),
    }
}

/// Reads the header of a list of numbers, which becomes an array of one column.
pub(crate) fn read_list_header(input: &mut InputFile) -> Result<ArrayLayout, DataError> {
    let header = read_any_header(input)?;
    match header.sizes[..] {
        [length] => Ok(header.layout(length, 1)),
        _ => Err(header.wrong_shape(input, "one dimension")),
    }
}

/// The header of an array of any shape.
struct NpyHeader {
    sizes: Vec<u64>,
    element: ElementType,
    big_endian: bool,
    order: ArrayOrder,
}

impl NpyHeader {
    fn layout(&self, rows: u64, cols: u64) -> ArrayLayout {
        ArrayLayout { rows, cols, element: self.element, big_endian: self.big_endian }
    }

    fn wrong_shape(&self, input: &InputFile, expected: &str) -> DataError {
        let sizes: Vec<String> = self.sizes.iter().map(u64::to_string).collect();
        let reason = format!("its shape is ({}), but it must have {expected}", sizes.join(", "));
        DataError::file(input.path(), reason)
    }
}

fn read_any_header(input: &mut InputFile) -> Result<NpyHeader, DataError> {
    let mut start = [0; 8];
    if input.fill(&mut start)? < start.len() || !start.starts_with(b"\x93NUMPY") {
        return Err(DataError::file(input.path(), "it is not a NumPy array"));
    }
    // The length has two bytes in version 1 and four bytes in later versions.
    let mut length = [0; 4];
    let width = if start[6] == 1 { 2 } else { 4 };
    input.fill(&mut length[..width])?;
    let length = u32::from_le_bytes(length) as usize;
    let mut header = vec![0; length.min(MAX_HEADER)];
    if length > MAX_HEADER || input.fill(&mut header)? < length {
        return Err(DataError::file(input.path(), "its header is cut off or too long"));
    }
    parse(&String::from_utf8_lossy(&header)).map_err(|reason| DataError::file(input.path(), reason))
}

/// Parses a dictionary such as `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`
fn parse(header: &str) -> Result<NpyHeader, String> {
    let field = |name: &str| {
        let at = header.find(&format!("'{name}'")).ok_or_else(|| format!("its header has no `{name}`"))?;
        let rest = header[at + name.len() + 2..].trim_start();
        rest.strip_prefix(':').map(str::trim_start).ok_or_else(|| format!("its header has no `{name}`"))
    };
    let quoted = field("descr")?.strip_prefix('\'').and_then(|rest| rest.split('\'').next());
    let description = quoted.ok_or("it contains records, not numbers")?;
    let (big_endian, kind) = match description.split_at_checked(1) {
        Some(("<" | "|" | "=", kind)) => (false, kind),
        Some((">", kind)) => (true, kind),
        _ => (false, description),
    };
    let element = match kind {
        "b1" => ElementType::Bool,
        "i1" => ElementType::I8,
        "u1" => ElementType::U8,
        "i2" => ElementType::I16,
        "u2" => ElementType::U16,
        "i4" => ElementType::I32,
        "u4" => ElementType::U32,
        "i8" => ElementType::I64,
        "u8" => ElementType::U64,
        "f2" => ElementType::F16,
        "f4" => ElementType::F32,
        "f8" => ElementType::F64,
        _ => return Err(format!("its numbers have the type `{description}`, which cannot be read")),
    };
    let order =
        if field("fortran_order")?.starts_with("True") { ArrayOrder::Columns } else { ArrayOrder::Rows };
    let shape = field("shape")?.strip_prefix('(').and_then(|rest| rest.split(')').next()).unwrap_or_default();
    let sizes = shape
        .split(',')
        .map(str::trim)
        .filter(|size| !size.is_empty())
        .map(|size| size.parse().map_err(|_| format!("its shape ({shape}) cannot be read")))
        .collect::<Result<_, _>>()?;
    Ok(NpyHeader { sizes, element, big_endian, order })
}
