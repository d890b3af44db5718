//! One part of a data set (training, validation or test) in the form that models use: sparse rows.

use super::csr::{Csr, Features};
use super::error::DataError;
use super::examples::Examples;
use super::split_data::{PartName, SplitData};

/// All rows of one part of a data set, with their labels.
pub struct DatasetPart {
    pub features: Csr,
    pub labels: Csr,
    /// The numbers of all rows, ascending from 0.
    pub rows: Vec<u32>,
}

impl DatasetPart {
    /// Reads a part; dense features become sparse ones.
    pub fn open(data: &SplitData, part: PartName) -> Result<Self, DataError> {
        let features = sparse(data.features(part)?);
        let rows = (0..features.rows() as u32).collect();
        Ok(Self { features, labels: data.labels(part)?, rows })
    }

    /// Returns a view of the rows with their labels.
    pub fn examples(&self) -> Examples<'_> {
        Examples { features: &self.features, labels: &self.labels, rows: &self.rows }
    }
}

/// Converts dense features into sparse rows, dropping zeros. Sparse features are returned unchanged.
pub fn sparse(features: Features) -> Csr {
    let dense = match features {
        Features::Sparse(csr) => return csr,
        Features::Dense(dense) => dense,
    };
    let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for row in 0..dense.rows {
        for (column, &value) in dense.row(row).iter().enumerate().filter(|(_, value)| **value != 0.0) {
            indices.push(column as u32);
            values.push(value);
        }
        indptr.push(indices.len() as u64);
    }
    Csr { cols: dense.cols, indptr: indptr.into(), indices: indices.into(), values: values.into() }
}

#[cfg(test)]
mod tests {
    use super::super::csr::DenseMatrix;
    use super::*;

    #[test]
    fn dense_features_lose_only_zeros() {
        let dense = DenseMatrix { rows: 2, cols: 3, values: vec![0.0, 1.5, 0.0, 2.0, 0.0, -1.0].into() };
        let csr = sparse(Features::Dense(dense));
        assert_eq!((csr.row(0), csr.row_values(0)), (&[1][..], &[1.5][..]));
        assert_eq!((csr.row(1), csr.row_values(1)), (&[0, 2][..], &[2.0, -1.0][..]));
    }
}
