//! Rows of a data set, with and without their labels. These are two types so that code that predicts cannot access the
//! labels.

use super::csr::Csr;

/// Some rows of a data set, without their labels.
#[derive(Clone, Copy)]
pub struct Unlabelled<'a> {
    pub features: &'a Csr,
    pub rows: &'a [u32],
}

/// Some rows of a data set with their labels.
#[derive(Clone, Copy)]
pub struct Examples<'a> {
    pub features: &'a Csr,
    pub labels: &'a Csr,
    pub rows: &'a [u32],
}

impl<'a> Examples<'a> {
    /// Returns the same rows without their labels.
    pub fn unlabelled(&self) -> Unlabelled<'a> {
        Unlabelled { features: self.features, rows: self.rows }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}
