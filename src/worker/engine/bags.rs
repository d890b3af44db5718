//! The features of a batch on a device.

use tch::{Device, Kind, TchError, Tensor};

use crate::net::input::BatchInputs;

pub struct Bags {
    pub inputs: Tensor,
    pub values: Tensor,
    /// Where each row's entries start.
    pub starts: Tensor,
    /// The row of each entry.
    pub rows: Tensor,
    /// The inputs that occur, ascending, and the place of each entry's among them.
    pub distinct: Tensor,
    pub places: Tensor,
}

impl Bags {
    pub fn new(inputs: Tensor, values: Tensor, starts: Tensor, rows: Tensor) -> Result<Self, TchError> {
        let (distinct, places, _) = inputs.f_internal_unique2(true, true, false)?;
        Ok(Self { inputs, values, starts, rows, distinct, places })
    }

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
