//! The features of a batch on a device, in the form that libtorch's `embedding_bag` takes.

use tch::{Device, Kind, TchError, Tensor};

use super::transfer::upload;
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
    /// The inputs that occur, ascending, as many as there are entries: the last one is repeated. Their number without
    /// the repetitions is known on the device only.
    pub distinct: Tensor,
    /// The position of each entry's input in `distinct`, at its first occurrence.
    pub positions: Tensor,
    /// For each element of `distinct`, the position of its first occurrence.
    pub first: Tensor,
}

impl FeatureBags {
    /// Completes a batch whose entries are on the device.
    pub fn new(inputs: Tensor, values: Tensor, starts: Tensor, rows: Tensor) -> Result<Self, TchError> {
        let entries = inputs.size1()?;
        let (sorted, order) = inputs.f_sort_stable(true, 0, false)?;
        // Rows without features have no entries; then there is no first one either.
        let is_new = sorted.f_narrow(0, 1.min(entries), (entries - 1).max(0))?;
        let is_new = is_new.f_ne_tensor(&sorted.f_narrow(0, 0, (entries - 1).max(0))?)?;
        let rank = sorted.f_zeros_like()?;
        rank.f_narrow(0, 1.min(entries), (entries - 1).max(0))?.f_copy_(&is_new)?;
        let rank = rank.f_cumsum(0, Kind::Int64)?;
        let positions = rank.f_scatter(0, &order, &rank)?;
        let counting = Tensor::f_arange(entries, (Kind::Int64, inputs.device()))?;
        let first = counting.f_minimum(&rank.f_narrow(0, (entries - 1).max(0), 1.min(entries))?)?;
        let distinct = sorted.f_scatter(0, &rank, &sorted)?.f_index_select(0, &first)?;
        Ok(Self { inputs, values, starts, rows, distinct, positions, first })
    }

    /// Copies the features of a batch to a device.
    pub fn upload(batch: &BatchInputs, kind: Kind, device: Device) -> Result<Self, TchError> {
        let indices = |values: Vec<i64>| upload(&values, Kind::Int64, device);
        let entries = batch.entries();
        let values: Vec<f32> = entries.iter().map(|entry| entry.1).collect();
        let values = upload(&values, kind, device)?;
        let inputs = indices(entries.iter().map(|entry| entry.0.into()).collect())?;
        let starts = indices((0..batch.rows()).map(|row| batch.start(row).into()).collect())?;
        let rows = (0..batch.rows()).flat_map(|row| std::iter::repeat_n(row as i64, batch.row(row).len()));
        Self::new(inputs, values, starts, indices(rows.collect())?)
    }
}
