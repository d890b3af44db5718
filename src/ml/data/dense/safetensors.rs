//! Tensors of a `.safetensors` file: a JSON header, then the numbers.
//!
//! The file is read in one pass, also if it is compressed, and only the wanted tensors are decoded. The `safetensors` crate
//! reads a header only from a buffer that contains the whole file, so it would need all of it in memory.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::compress::InputFile;
use super::super::error::DataError;
use super::super::source::ReadOptions;
use super::DenseCollector;
use super::array::{ArrayLayout, ArrayOrder};
use super::element::ElementType;

/// The limit of the `safetensors` crate.
const MAX_HEADER: u64 = 100_000_000;

/// An entry of the JSON header.
#[derive(Debug, Deserialize)]
struct TensorHeader {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// Reads the features and, with `with_labels`, the labels. Returns the number of rows of the features.
pub(super) fn read(
    input: &mut InputFile,
    options: &ReadOptions,
    with_labels: bool,
    collector: &mut DenseCollector,
) -> Result<u64, DataError> {
    let tensors = read_header(input)?;
    let find = |name: &str| {
        tensors.get(name).ok_or_else(|| {
            let names: Vec<&str> = tensors.keys().map(String::as_str).collect();
            let reason = format!("it has no tensor `{name}`; it has: {}", names.join(", "));
            DataError::file(input.path(), reason)
        })
    };
    let features = find(options.input_column.as_deref().unwrap_or("features"))?;
    let mut wanted = vec![(features, true)];
    if with_labels {
        wanted.push((find(options.label_column.as_deref().unwrap_or("labels"))?, false));
    }
    wanted.sort_by_key(|(tensor, _)| tensor.data_offsets);
    let mut rows = 0;
    let mut position = 0;
    for (tensor, is_features) in wanted {
        let layout = tensor.layout().map_err(|reason| DataError::file(input.path(), reason))?;
        let (start, end) = tensor.data_offsets;
        skip(input, start.checked_sub(position).ok_or_else(|| overlap(input))?)?;
        position = end;
        if is_features {
            rows = layout.rows;
            collector.features(input, &layout, ArrayOrder::Rows)?;
        } else {
            collector.label_array(input, &layout, ArrayOrder::Rows)?;
        }
    }
    Ok(rows)
}

fn read_header(input: &mut InputFile) -> Result<BTreeMap<String, TensorHeader>, DataError> {
    let mut length = [0; 8];
    let short = |input: &InputFile| DataError::file(input.path(), "its header is cut off or too long");
    if input.fill(&mut length)? < length.len() {
        return Err(short(input));
    }
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER {
        return Err(short(input));
    }
    // Allocates only as much as the file contains: the announced length may be wrong.
    let mut header = Vec::new();
    while (header.len() as u64) < length {
        let from = header.len();
        header.resize(from + (length as usize - from).min(1 << 20), 0);
        let read = input.fill(&mut header[from..])?;
        if from + read < header.len() {
            return Err(short(input));
        }
    }
    let bad = |e: serde_json::Error| DataError::file(input.path(), format!("its header cannot be read: {e}"));
    let fields: BTreeMap<String, serde_json::Value> = serde_json::from_slice(&header).map_err(bad)?;
    let tensors = fields.into_iter().filter(|(name, _)| name != "__metadata__");
    tensors.map(|(name, value)| Ok((name, serde_json::from_value(value).map_err(bad)?))).collect()
}

impl TensorHeader {
    fn layout(&self) -> Result<ArrayLayout, String> {
        let element = match self.dtype.as_str() {
            "BOOL" => ElementType::Bool,
            "I8" => ElementType::I8,
            "U8" => ElementType::U8,
            "I16" => ElementType::I16,
            "U16" => ElementType::U16,
            "I32" => ElementType::I32,
            "U32" => ElementType::U32,
            "I64" => ElementType::I64,
            "U64" => ElementType::U64,
            "F16" => ElementType::F16,
            "BF16" => ElementType::BF16,
            "F32" => ElementType::F32,
            "F64" => ElementType::F64,
            other => return Err(format!("its numbers have the type `{other}`, which cannot be read")),
        };
        let [rows, cols] = self.shape[..] else {
            return Err(format!(
                "a tensor has the shape {:?}, but it must have two dimensions, rows and columns",
                self.shape
            ));
        };
        let layout = ArrayLayout { rows, cols, element, big_endian: false };
        let (start, end) = self.data_offsets;
        if layout.bytes().is_none() || end.checked_sub(start) != layout.bytes() {
            return Err("its header is inconsistent: the offsets of a tensor do not match its shape".into());
        }
        Ok(layout)
    }
}

fn overlap(input: &InputFile) -> DataError {
    DataError::file(input.path(), "its header is inconsistent: tensors overlap")
}

fn skip(input: &mut InputFile, mut count: u64) -> Result<(), DataError> {
    let mut skipped = vec![0; count.min(1 << 20) as usize];
    while count > 0 {
        let now = count.min(skipped.len() as u64) as usize;
        if input.fill(&mut skipped[..now])? < now {
            return Err(DataError::file(input.path(), "it ends before its last tensor"));
        }
        count -= now as u64;
    }
    Ok(())
}
