//! The features of a batch on a device, in the form that libtorch's `embedding_bag` takes.

use tch::{Device, Kind, TchError, Tensor};

use crate::net::input::BatchInputs;

/// The features of a batch: one bag of entries per row.
pub struct FeatureBags {
    /// The input of each entry.
    pub inputs: Tensor,
    /// The value of each entry.
    pub values: Tensor,
    /// Where the entries of each row start.
    pub starts: Tensor,
    /// The row of each entry.
    pub rows: Tensor,
    /// The inputs that occur, ascending.
    pub distinct: Tensor,
    /// The position of each entry's input in `distinct`.
    pub positions: Tensor,
}

impl FeatureBags {
    /// Completes a batch whose entries are on the device.
    pub fn new(inputs: Tensor, values: Tensor, starts: Tensor, rows: Tensor) -> Result<Self, TchError> {
        let (distinct, positions, _) = inputs.f_internal_unique2(true, true, false)?;
        Ok(Self { inputs, values, starts, rows, distinct, positions })
    }

    /// Copies the features of a batch to a device.
    pub fn upload(batch: &BatchInputs, kind: Kind, device: Device) -> Result<Self, TchError> {
        let indices = |values: Vec<i64>| Tensor::f_from_slice(&values)?.f_to_device(device);
        let entries = batch.entries();
        let values: Vec<f32> = entries.iter().map(|entry| entry.1).collect();
        let values = Tensor::f_from_slice(&values)?.f_to_kind(kind)?.f_to_device(device)?;
        let inputs = indices(entries.iter().map(|entry| entry.0.into()).collect())?;
        let starts = indices((0..batch.rows()).map(|row| batch.start(row).into()).collect())?;
        let rows = (0..batch.rows()).flat_map(|row| std::iter::repeat_n(row as i64, batch.row(row).len()));
        Self::new(inputs, values, starts, indices(rows.collect())?)
    }
}
