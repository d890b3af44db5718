//! Training rows that lie on a device, so that a batch is gathered there from a list of rows.

use tch::{Device, Kind, TchError, Tensor};

use super::bags::Bags;
use crate::net::features::FeatureMap;
use pipe_ml::data::csr::Csr;

pub struct Held {
    inputs: Tensor,
    values: Tensor,
    starts: Tensor,
    lengths: Tensor,
    /// The lengths once more, on the host: with their sum known there, the device is never waited for.
    row_lengths: Vec<u32>,
}

impl Held {
    /// All rows of a data set, as the network sees them.
    pub fn new(map: &FeatureMap, features: &Csr, kind: Kind, device: Device) -> Result<Self, TchError> {
        let (mut inputs, mut values) = (Vec::new(), Vec::new());
        let (mut starts, mut row_lengths) = (Vec::new(), Vec::new());
        for row in 0..features.rows() {
            starts.push(inputs.len() as i64);
            let given = features.row_values(row);
            for (place, &feature) in features.row(row).iter().enumerate() {
                if let Some((input, sign)) = map.input(feature) {
                    inputs.push(input as i32);
                    values.push(sign * given.get(place).copied().unwrap_or(1.0));
                }
            }
            row_lengths.push((inputs.len() as i64 - starts[row]) as u32);
        }
        let lengths: Vec<i64> = row_lengths.iter().map(|&length| length.into()).collect();
        Ok(Self {
            inputs: Tensor::f_from_slice(&inputs)?.f_to_device(device)?,
            values: Tensor::f_from_slice(&values)?.f_to_kind(kind)?.f_to_device(device)?,
            starts: Tensor::f_from_slice(&starts)?.f_to_device(device)?,
            lengths: Tensor::f_from_slice(&lengths)?.f_to_device(device)?,
            row_lengths,
        })
    }

    /// The features of some rows. Only the list of rows goes to the device.
    pub fn gather(&self, rows: &[u32]) -> Result<Bags, TchError> {
        let device = self.starts.device();
        let count = |upto: i64| Tensor::f_arange(upto, (Kind::Int64, device));
        let entries: i64 = rows.iter().map(|&row| i64::from(self.row_lengths[row as usize])).sum();
        let rows: Vec<i64> = rows.iter().map(|&row| row.into()).collect();
        let chosen = Tensor::f_from_slice(&rows)?.f_to_device(device)?;
        let lengths = self.lengths.f_index_select(0, &chosen)?;
        let starts = lengths.f_cumsum(0, Kind::Int64)?.f_sub(&lengths)?;
        let row_of_entry = count(rows.len() as i64)?.f_repeat_interleave_self_tensor(&lengths, 0, entries)?;
        let shift = self.starts.f_index_select(0, &chosen)?.f_sub(&starts)?;
        let places = count(entries)?.f_add(&shift.f_index_select(0, &row_of_entry)?)?;
        let inputs = self.inputs.f_index_select(0, &places)?.f_to_kind(Kind::Int64)?;
        let values = self.values.f_index_select(0, &places)?;
        Bags::new(inputs, values, starts, row_of_entry)
    }
}
