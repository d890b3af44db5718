//! Training rows that are kept on a device, where batches are gathered from lists of row numbers.

use tch::{Device, Kind, TchError, Tensor};

use super::feature_bags::FeatureBags;
use super::transfer::upload;
use crate::net::features::FeatureMap;
use pipe_ml::data::csr::Csr;

/// The features of all training rows, on a device.
pub struct DeviceRows {
    inputs: Tensor,
    values: Tensor,
    starts: Tensor,
    lengths: Tensor,
    /// A copy of the lengths in host memory. The host can add them up without waiting for the device.
    row_lengths: Vec<u32>,
}

impl DeviceRows {
    /// Copies all rows of a data set, as inputs of the network, to a device.
    pub fn new(map: &FeatureMap, features: &Csr, kind: Kind, device: Device) -> Result<Self, TchError> {
        let (mut inputs, mut values) = (Vec::new(), Vec::new());
        let (mut starts, mut row_lengths) = (Vec::new(), Vec::new());
        for row in 0..features.rows() {
            starts.push(inputs.len() as i64);
            let given = features.row_values(row);
            for (position, &feature) in features.row(row).iter().enumerate() {
                if let Some((input, sign)) = map.input(feature) {
                    inputs.push(input as i32);
                    values.push(sign * given.get(position).copied().unwrap_or(1.0));
                }
            }
            row_lengths.push((inputs.len() as i64 - starts[row]) as u32);
        }
        let lengths: Vec<i64> = row_lengths.iter().map(|&length| length.into()).collect();
        Ok(Self {
            inputs: upload(&inputs, Kind::Int, device)?,
            values: upload(&values, kind, device)?,
            starts: upload(&starts, Kind::Int64, device)?,
            lengths: upload(&lengths, Kind::Int64, device)?,
            row_lengths,
        })
    }

    /// Gathers the features of some rows. Only the list of rows is copied to the device.
    pub fn gather(&self, rows: &[u32]) -> Result<FeatureBags, TchError> {
        let device = self.starts.device();
        let counting = |end: i64| Tensor::f_arange(end, (Kind::Int64, device));
        let entries: i64 = rows.iter().map(|&row| i64::from(self.row_lengths[row as usize])).sum();
        let rows: Vec<i64> = rows.iter().map(|&row| row.into()).collect();
        let chosen = upload(&rows, Kind::Int64, device)?;
        let lengths = self.lengths.f_index_select(0, &chosen)?;
        let starts = lengths.f_cumsum(0, Kind::Int64)?.f_sub(&lengths)?;
        let row_of_entry =
            counting(rows.len() as i64)?.f_repeat_interleave_self_tensor(&lengths, 0, entries)?;
        let shift = self.starts.f_index_select(0, &chosen)?.f_sub(&starts)?;
        let positions = counting(entries)?.f_add(&shift.f_index_select(0, &row_of_entry)?)?;
        let inputs = self.inputs.f_index_select(0, &positions)?.f_to_kind(Kind::Int64)?;
        let values = self.values.f_index_select(0, &positions)?;
        FeatureBags::new(inputs, values, starts, row_of_entry)
    }
}
