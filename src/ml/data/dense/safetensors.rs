//! Tensors of a `.safetensors` file: a JSON header, then the numbers, read in one pass.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::compress::Input;
use super::super::error::DataError;
use super::super::source::ReadOptions;
use super::Collector;
use super::element::Element;
use super::grid::{Grid, Order};

/// The limit that the format's own library sets.
const LONGEST_HEADER: u64 = 100_000_000;

#[derive(Debug, Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// Reads the features and, if wanted, the labels; says how many rows the features have.
pub(super) fn read(
    input: &mut Input,
    options: &ReadOptions,
    with_labels: bool,
    collector: &mut Collector,
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
        let grid = tensor.grid().map_err(|reason| DataError::file(input.path(), reason))?;
        let (start, end) = tensor.data_offsets;
        skip(input, start.checked_sub(position).ok_or_else(|| overlap(input))?)?;
        position = end;
        match is_features {
            true => {
                rows = grid.rows;
                collector.features(input, &grid, Order::Rows)?;
            }
            false => collector.label_grid(input, &grid, Order::Rows)?,
        }
    }
    Ok(rows)
}

fn read_header(input: &mut Input) -> Result<BTreeMap<String, Tensor>, DataError> {
    let mut length = [0; 8];
    let short = |input: &Input| DataError::file(input.path(), "its header is cut off or too long");
    if input.fill(&mut length)? < length.len() {
        return Err(short(input));
    }
    let length = u64::from_le_bytes(length);
    if length > LONGEST_HEADER {
        return Err(short(input));
    }
    // Grows with what is there, not with what the header claims.
    let mut header = Vec::new();
    while (header.len() as u64) < length {
        let from = header.len();
        header.resize(from + (length as usize - from).min(1 << 20), 0);
        let read = input.fill(&mut header[from..])?;
        if from + read < header.len() {
            return Err(short(input));
        }
    }
    let bad =
        |e: serde_json::Error| DataError::file(input.path(), format!("its header is not readable: {e}"));
    let fields: BTreeMap<String, serde_json::Value> = serde_json::from_slice(&header).map_err(bad)?;
    let tensors = fields.into_iter().filter(|(name, _)| name != "__metadata__");
    tensors.map(|(name, value)| Ok((name, serde_json::from_value(value).map_err(bad)?))).collect()
}

impl Tensor {
    fn grid(&self) -> Result<Grid, String> {
        let element = match self.dtype.as_str() {
            "BOOL" => Element::Bool,
            "I8" => Element::I8,
            "U8" => Element::U8,
            "I16" => Element::I16,
            "U16" => Element::U16,
            "I32" => Element::I32,
            "U32" => Element::U32,
            "I64" => Element::I64,
            "U64" => Element::U64,
            "F16" => Element::F16,
            "BF16" => Element::BF16,
            "F32" => Element::F32,
            "F64" => Element::F64,
            other => return Err(format!("its numbers have the type `{other}`, which cannot be read")),
        };
        let [rows, cols] = self.shape[..] else {
            return Err(format!("a tensor has the shape {:?}; rows and columns are needed", self.shape));
        };
        let grid = Grid { rows, cols, element, big_endian: false };
        let (start, end) = self.data_offsets;
        match end.checked_sub(start) == grid.bytes() && grid.bytes().is_some() {
            true => Ok(grid),
            false => Err("its header is inconsistent: the place of a tensor does not fit its shape".into()),
        }
    }
}

fn overlap(input: &Input) -> DataError {
    DataError::file(input.path(), "its header is inconsistent: tensors overlap")
}

fn skip(input: &mut Input, mut count: u64) -> Result<(), DataError> {
    let mut waste = vec![0; count.min(1 << 20) as usize];
    while count > 0 {
        let now = count.min(waste.len() as u64) as usize;
        if input.fill(&mut waste[..now])? < now {
            return Err(DataError::file(input.path(), "it ends before its last tensor does"));
        }
        count -= now as u64;
    }
    Ok(())
}
