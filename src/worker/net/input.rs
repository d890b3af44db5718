//! The sparse input layer: for each row of a batch, the sum of the table rows of its features.

use std::sync::OnceLock;

use rayon::prelude::*;

use super::buffer::Buffer;
use super::features::FeatureMap;
use crate::optim::adamw::{AdamwStep, adamw};
use crate::optim::table::TableRows;
use pipe_ml::data::csr::Csr;
use pipe_ml::multiversion;

/// How many table rows a task of the backward pass has.
const TOGETHER: usize = 64;

/// The features of a batch, row by row.
pub struct BatchInputs {
    /// Where the entries of each row start, and where the last row ends.
    row_starts: Vec<u32>,
    /// Input and value of each entry, row by row.
    entries: Vec<(u32, f32)>,
    /// The same, grouped by input, as soon as someone asks for it.
    groups: OnceLock<InputGroups>,
}

/// The features of a batch, grouped by input, as the backward pass and the optimiser need them.
///
/// A *position* is an index into the list of inputs that occur in the batch.
pub struct InputGroups {
    /// The inputs that occur, ascending, each with the index where its entries end.
    inputs: Vec<(u32, u32)>,
    /// Row and value of each entry, input by input. If features share an input, a row may occur twice.
    entries: Vec<(u32, f32)>,
}

impl BatchInputs {
    /// Collects the features of some rows of a data set.
    pub fn new(map: &FeatureMap, features: &Csr, rows: &[u32]) -> Self {
        let mut row_starts = vec![0];
        let mut entries = Vec::new();
        for &row in rows {
            let values = features.row_values(row as usize);
            for (position, &feature) in features.row(row as usize).iter().enumerate() {
                if let Some((input, sign)) = map.input(feature) {
                    entries.push((input, sign * values.get(position).copied().unwrap_or(1.0)));
                }
            }
            row_starts.push(entries.len() as u32);
        }
        Self { row_starts, entries, groups: OnceLock::new() }
    }

    /// Returns the features grouped by input, as a training step needs them.
    pub fn groups(&self) -> &InputGroups {
        self.groups.get_or_init(|| InputGroups::new(self))
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.row_starts.len() - 1
    }

    /// Returns input and value of every entry, row by row.
    pub fn entries(&self) -> &[(u32, f32)] {
        &self.entries
    }

    /// Returns the index where the entries of a row start.
    pub fn start(&self, row: usize) -> u32 {
        self.row_starts[row]
    }

    /// Returns input and value of the entries of one row.
    pub fn row(&self, row: usize) -> &[(u32, f32)] {
        &self.entries[self.row_starts[row] as usize..self.row_starts[row + 1] as usize]
    }

    /// Computes `out` (unit-major, `stride` values per unit) = bias + the sum of each row's table rows.
    pub fn forward(&self, table: &[f32], bias: &[f32], stride: usize, out: &mut [f32], scratch: &mut Buffer) {
        let width = bias.len();
        scratch.resize(self.rows() * width);
        scratch.par_chunks_mut(width).enumerate().for_each(|(row, sums)| {
            sums.copy_from_slice(bias);
            for &(input, value) in self.row(row) {
                let start = input as usize * width;
                add_scaled(sums, &table[start..start + width], value);
            }
        });
        transpose(scratch, self.rows(), width, stride, out);
    }
}

impl InputGroups {
    /// Groups the features of a batch by input.
    pub fn new(batch: &BatchInputs) -> Self {
        let mut sorted: Vec<(u64, f32)> = Vec::with_capacity(batch.entries.len());
        for row in 0..batch.rows() {
            let key = |input: u32| u64::from(input) << 32 | row as u64;
            sorted.extend(batch.row(row).iter().map(|&(input, value)| (key(input), value)));
        }
        sorted.sort_by_key(|entry| entry.0);
        let mut groups = Self { inputs: Vec::new(), entries: Vec::with_capacity(sorted.len()) };
        for (key, value) in sorted {
            let input = (key >> 32) as u32;
            groups.entries.push((key as u32, value));
            let end = groups.entries.len() as u32;
            match groups.inputs.last_mut() {
                Some(last) if last.0 == input => last.1 = end,
                _ => groups.inputs.push((input, end)),
            }
        }
        groups
    }

    /// Returns how many different inputs occur.
    pub fn distinct(&self) -> usize {
        self.inputs.len()
    }

    /// Returns the input at a position; inputs ascend with the position.
    pub fn input(&self, position: usize) -> u32 {
        self.inputs[position].0
    }

    /// Returns the positions of the inputs from `from` up to but not including `to`.
    pub fn positions(&self, from: usize, to: usize) -> std::ops::Range<usize> {
        let first_from = |bound: usize| self.inputs.partition_point(|entry| (entry.0 as usize) < bound);
        first_from(from)..first_from(to)
    }

    /// Returns row and value of the entries of the input at a position.
    fn entries_at(&self, position: usize) -> &[(u32, f32)] {
        let start = if position == 0 { 0 } else { self.inputs[position - 1].1 };
        &self.entries[start as usize..self.inputs[position].1 as usize]
    }

    /// Computes the gradient by the table rows that occur, ordered by position, from the unit-major gradient by the
    /// layer's output.
    pub fn backward(
        &self,
        g: &[f32],
        width: usize,
        stride: usize,
        gradient: &mut Buffer,
        scratch: &mut Buffer,
    ) {
        scratch.resize(stride * width);
        transpose(g, width, stride, width, scratch);
        let by_row: &[f32] = scratch;
        gradient.resize(self.distinct() * width);
        let rows = gradient.par_chunks_mut(width).with_min_len(TOGETHER);
        rows.enumerate().for_each(|(position, sums)| self.row_gradient(by_row, position, sums));
    }

    /// Takes a step with the table rows that occur, each as soon as its gradient is known.
    pub fn step(&self, g: &[f32], stride: usize, step: AdamwStep, table: TableRows, scratch: &mut Buffer) {
        let width = table.width;
        scratch.resize(stride * width);
        transpose(g, width, stride, width, scratch);
        let by_row: &[f32] = scratch;
        table.of(self).par_chunks_mut(TOGETHER).enumerate().for_each(|(chunk, rows)| {
            let mut sums = Buffer::zeros(width);
            for (offset, row) in rows.iter_mut().enumerate() {
                self.row_gradient(by_row, chunk * TOGETHER + offset, &mut sums);
                adamw(step, row.parameters, &sums, row.first, row.second);
            }
        });
    }

    /// Computes the gradient by the table row at a position from the gradient by the layer's output, row by row.
    fn row_gradient(&self, by_row: &[f32], position: usize, sums: &mut [f32]) {
        sums.fill(0.0);
        for &(row, value) in self.entries_at(position) {
            add_scaled(sums, &by_row[row as usize * sums.len()..][..sums.len()], value);
        }
    }
}

multiversion! {
    /// Adds `factor` times the values to the sums.
    fn add_scaled(sums: &mut [f32], values: &[f32], factor: f32) {
        for (sum, &value) in sums.iter_mut().zip(values) {
            *sum = factor.mul_add(value, *sum);
        }
    }
}

/// Computes `out[column * stride + row] = values[row * columns + column]`; the padding up to `stride` is zero.
fn transpose(values: &[f32], rows: usize, columns: usize, stride: usize, out: &mut [f32]) {
    const TILE: usize = 32;
    out.par_chunks_mut(TILE * stride).enumerate().for_each(|(tile, out)| {
        let first = tile * TILE;
        for (offset, run) in out.chunks_exact_mut(stride).enumerate() {
            let column = first + offset;
            for (row, slot) in run[..rows].iter_mut().enumerate() {
                *slot = values[row * columns + column];
            }
            run[rows..].fill(0.0);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> BatchInputs {
        let features = Csr {
            cols: 4,
            indptr: vec![0, 2, 2, 4].into(),
            indices: vec![0, 3, 1, 3].into(),
            values: vec![2.0, 1.0, 0.5, -1.0].into(),
        };
        BatchInputs::new(&FeatureMap::All { features: 4 }, &features, &[2, 1, 0])
    }

    #[test]
    fn a_row_sums_the_table_rows_of_its_features() {
        let table = [1.0, 10.0, 2.0, 20.0, 3.0, 30.0, 4.0, 40.0];
        let mut out = [9.0; 8];
        batch().forward(&table, &[100.0, 200.0], 4, &mut out, &mut Buffer::default());
        assert_eq!(out, [97.0, 100.0, 106.0, 0.0, 170.0, 200.0, 260.0, 0.0]);
    }

    #[test]
    fn the_gradient_reaches_only_the_inputs_that_occur() {
        let groups = InputGroups::new(&batch());
        let g = [1.0, 2.0, 4.0, 0.0, 10.0, 20.0, 40.0, 0.0];
        let mut gradient = Buffer::default();
        groups.backward(&g, 2, 4, &mut gradient, &mut Buffer::default());
        assert_eq!(
            (0..groups.distinct()).map(|position| groups.input(position)).collect::<Vec<_>>(),
            [0, 1, 3]
        );
        assert_eq!(&gradient[..], [8.0, 80.0, 0.5, 5.0, 3.0, 30.0]);
    }
}
