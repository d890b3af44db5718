//! Rows of a data set, with and without their labels. The two are apart so that what predicts
//! cannot look at the answer.

use super::csr::Csr;

/// Chosen rows, features only.
#[derive(Clone, Copy)]
pub struct Unlabelled<'a> {
    pub features: &'a Csr,
    pub rows: &'a [u32],
}

/// Chosen rows with their labels.
#[derive(Clone, Copy)]
pub struct Examples<'a> {
    pub features: &'a Csr,
    pub labels: &'a Csr,
    pub rows: &'a [u32],
}

impl<'a> Examples<'a> {
    pub fn unlabelled(&self) -> Unlabelled<'a> {
        Unlabelled { features: self.features, rows: self.rows }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}
