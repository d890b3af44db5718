//! Reading and writing of parameters in safetensors files.

use std::borrow::Cow;
use std::fs::File;
use std::path::Path;

use safetensors::{Dtype, SafeTensors, View};

use crate::net::buffer::Buffer;
use crate::net::weights::Weights;

/// The reason why a safetensors file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TensorsError {
    #[error("{}: {source}", path.display())]
    Io { path: std::path::PathBuf, source: std::io::Error },
    #[error("{} is not a readable safetensors file: {message}", path.display())]
    Format { path: std::path::PathBuf, message: String },
    #[error("{}: `{name}` has the shape {found:?}, but {expected:?} is expected", path.display())]
    Shape { path: std::path::PathBuf, name: String, found: Vec<usize>, expected: Vec<usize> },
    #[error("{}: `{name}` is missing", path.display())]
    Missing { path: std::path::PathBuf, name: String },
}

/// A parameter as the `safetensors` crate writes it.
struct TensorView<'a> {
    shape: Vec<usize>,
    values: &'a [f32],
}

impl View for TensorView<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(bytemuck::cast_slice(self.values))
    }

    fn data_len(&self) -> usize {
        size_of_val(self.values)
    }
}

/// Writes sets of weights, each with a prefix to its names, and waits until they are on disk.
pub fn save(path: &Path, sets: &[(&str, &Weights)]) -> Result<(), TensorsError> {
    let io = |source| TensorsError::Io { path: path.to_owned(), source };
    let named = sets.iter().flat_map(|(prefix, weights)| {
        let parts = weights.named().into_iter();
        parts.map(move |(name, shape, values)| (format!("{prefix}{name}"), TensorView { shape, values }))
    });
    safetensors::serialize_to_file(named, None, path)
        .map_err(|error| TensorsError::Format { path: path.to_owned(), message: error.to_string() })?;
    File::open(path).and_then(|file| file.sync_all()).map_err(io)
}

/// Fills sets of weights with the parameters that a file has under their prefixes. Every shape must match.
pub fn load(path: &Path, sets: &mut [(&str, &mut Weights)]) -> Result<(), TensorsError> {
    let io = |source| TensorsError::Io { path: path.to_owned(), source };
    // Not mapped: a user may name any directory, and a file that is cut short while it is mapped ends the process.
    let bytes = std::fs::read(path).map_err(io)?;
    let format = |error: safetensors::SafeTensorError| TensorsError::Format {
        path: path.to_owned(),
        message: error.to_string(),
    };
    let tensors = SafeTensors::deserialize(&bytes).map_err(format)?;
    for (prefix, weights) in sets {
        let expected: Vec<_> =
            weights.named().into_iter().map(|(name, shape, _)| (format!("{prefix}{name}"), shape)).collect();
        for (buffer, (name, shape)) in weights.buffers_mut().into_iter().zip(expected) {
            let missing = |_| TensorsError::Missing { path: path.to_owned(), name: name.clone() };
            let tensor = tensors.tensor(&name).map_err(missing)?;
            if tensor.shape() != shape || tensor.dtype() != Dtype::F32 {
                let found = tensor.shape().to_vec();
                return Err(TensorsError::Shape { path: path.to_owned(), name, found, expected: shape });
            }
            let values = tensor.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            *buffer = Buffer::from_values(values);
        }
    }
    Ok(())
}
