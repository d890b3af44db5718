//! The table of the input layer, with its moments, and its rows.

use crate::net::input::InputGroups;

/// How many rows of the table one task updates.
pub(super) const ROWS: usize = 128;

/// The table of the input layer, with its moments.
pub struct TableRows<'a> {
    pub width: usize,
    pub parameters: &'a mut [f32],
    pub first: &'a mut [f32],
    pub second: &'a mut [f32],
}

/// A row of the table.
pub struct TableRow<'a> {
    pub parameters: &'a mut [f32],
    pub first: &'a mut [f32],
    pub second: &'a mut [f32],
}

impl<'a> TableRows<'a> {
    /// Returns the rows of the inputs that occur, in order, each once.
    pub fn of(self, inputs: &InputGroups) -> Vec<TableRow<'a>> {
        let parameters = rows_of(self.parameters, self.width, inputs).into_iter();
        let first = rows_of(self.first, self.width, inputs);
        let second = rows_of(self.second, self.width, inputs);
        let rows = parameters.zip(first.into_iter().zip(second));
        rows.map(|(parameters, (first, second))| TableRow { parameters, first, second }).collect()
    }
}

/// Returns the rows of the inputs that occur, in order, each once.
pub(super) fn rows_of<'a>(table: &'a mut [f32], width: usize, inputs: &InputGroups) -> Vec<&'a mut [f32]> {
    let mut rows = Vec::with_capacity(inputs.distinct());
    let (mut left, mut at) = (table, 0);
    for position in 0..inputs.distinct() {
        let row = inputs.input(position) as usize;
        let (_, from) = left.split_at_mut((row - at) * width);
        let (found, after) = from.split_at_mut(width);
        rows.push(found);
        (left, at) = (after, row + 1);
    }
    rows
}
