//! One part of a data set (training, validation or test) in the form that models use: sparse rows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::csr::{Csr, Features};
use super::error::DataError;
use super::examples::Examples;
use super::split_data::{PartName, SplitData};

/// The rows that a model is fitted on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FittedRows {
    /// The training part.
    #[default]
    Train,
    /// All parts: training, validation and test rows. Such a model cannot be evaluated.
    All,
}

impl FittedRows {
    /// Returns whether these are the training rows only.
    pub fn is_train(&self) -> bool {
        *self == Self::Train
    }

    /// Reads the labels of the rows. The parts follow each other in the order of [`PartName::ALL`].
    pub fn labels(self, data: &SplitData) -> Result<Csr, DataError> {
        Ok(stack(self.parts(data).map(|part| data.labels(part)).collect::<Result<_, _>>()?))
    }

    /// Reads the features of the rows, in the same order; dense features become sparse ones.
    pub fn features(self, data: &SplitData) -> Result<Csr, DataError> {
        Ok(stack(
            self.parts(data)
                .map(|part| Ok(sparse(data.features(part)?)))
                .collect::<Result<_, DataError>>()?,
        ))
    }

    fn parts(self, data: &SplitData) -> impl Iterator<Item = PartName> {
        PartName::ALL.into_iter().filter(move |&part| match self {
            Self::Train => part == PartName::Train,
            Self::All => data.has(part),
        })
    }
}

/// Puts matrices with the same columns, at least one, below each other. A matrix that is alone stays mapped from its file.
fn stack(mut matrices: Vec<Csr>) -> Csr {
    if matrices.len() == 1 {
        return matrices.remove(0);
    }
    let cols = matrices.first().map_or(0, |first| first.cols);
    let valued = matrices.iter().any(|matrix| !matrix.values.is_empty());
    let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for matrix in matrices {
        let before = indices.len() as u64;
        indptr.extend(matrix.indptr[1..].iter().map(|end| before + end));
        indices.extend_from_slice(&matrix.indices);
        values.extend_from_slice(&matrix.values);
        if valued {
            // A matrix of ones stores no values.
            values.resize(indices.len(), 1.0);
        }
    }
    Csr { cols, indptr: indptr.into(), indices: indices.into(), values: values.into() }
}

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
    fn stacked_matrices_keep_their_rows_and_values() {
        let ones = Csr::from_rows(4, &[vec![0, 3], vec![]]);
        let dense = DenseMatrix { rows: 1, cols: 4, values: vec![0.0, 2.5, 0.0, 1.0].into() };
        let all = stack(vec![ones.clone(), sparse(Features::Dense(dense)), ones.clone()]);
        assert_eq!((all.rows(), all.cols, all.check()), (5, 4, Ok(())));
        assert_eq!((all.row(0), all.row_values(0)), (&[0, 3][..], &[1.0, 1.0][..]));
        assert_eq!((all.row(2), all.row_values(2)), (&[1, 3][..], &[2.5, 1.0][..]));
        assert_eq!((all.row(1).len(), all.row(3), all.row(4).len()), (0, &[0, 3][..], 0));
        assert_eq!(stack(vec![ones.clone(), ones.clone()]).values.len(), 0, "ones stay ones");
        assert_eq!(stack(vec![ones.clone()]), ones);
    }

    #[test]
    fn dense_features_lose_only_zeros() {
        let dense = DenseMatrix { rows: 2, cols: 3, values: vec![0.0, 1.5, 0.0, 2.0, 0.0, -1.0].into() };
        let csr = sparse(Features::Dense(dense));
        assert_eq!((csr.row(0), csr.row_values(0)), (&[1][..], &[1.5][..]));
        assert_eq!((csr.row(1), csr.row_values(1)), (&[0, 2][..], &[2.0, -1.0][..]));
    }
}
