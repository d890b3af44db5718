//! Products of matrices by libtorch on memory of our own.

use tch::{Device, Kind, Tensor};

/// A row-major matrix, or its transpose.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    transposed: bool,
}

impl<'a> Matrix<'a> {
    pub fn new(data: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns);
        Self { data, rows, columns, transposed: false }
    }

    pub fn transpose(self) -> Self {
        Self { transposed: !self.transposed, ..self }
    }

    fn size(&self) -> [i64; 2] {
        let (rows, columns) = (self.rows as i64, self.columns as i64);
        if self.transposed { [columns, rows] } else { [rows, columns] }
    }

    /// A tensor over the same memory, which must not outlive it.
    fn tensor(&self) -> Tensor {
        let across = self.columns as i64;
        let strides = if self.transposed { [1, across] } else { [across, 1] };
        let data = self.data.as_ptr().cast();
        // SAFETY: `data` has rows · columns values, checked when the view was made, and the
        // tensor is dropped in `multiply`, which borrows them.
        unsafe { Tensor::from_blob(data, &self.size(), &strides, Kind::Float, Device::Cpu) }
    }
}

/// `out` = a · b, or `out` += a · b. `out` is row-major.
pub fn multiply(a: Matrix, b: Matrix, out: &mut [f32], add: bool) {
    let ([rows, inner], [matching, columns]) = (a.size(), b.size());
    assert_eq!(inner, matching);
    assert_eq!(out.len() as i64, rows * columns);
    let data = out.as_mut_ptr().cast_const().cast();
    // SAFETY: `out` has rows · columns values, is borrowed mutably for the whole call, and shares
    // no memory with a and b, which are borrowed too.
    let out = unsafe { Tensor::from_blob(data, &[rows, columns], &[columns, 1], Kind::Float, Device::Cpu) };
    let _done = if add {
        out.addmm_out(&out, &a.tensor(), &b.tensor())
    } else {
        a.tensor().mm_out(&out, &b.tensor())
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_matrices_and_their_transposes_are_right() {
        tch::set_num_threads(1);
        let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let b = [1.0, 0.5, -1.0, 2.0, 0.0, 3.0];
        let mut out = [0.0; 4];
        multiply(Matrix::new(&a, 2, 3), Matrix::new(&b, 3, 2), &mut out, false);
        assert_eq!(out, [-1.0, 13.5, -1.0, 30.0]);
        multiply(Matrix::new(&a, 3, 2).transpose(), Matrix::new(&b, 2, 3).transpose(), &mut out, false);
        assert_eq!(out, [-2.5, 17.0, -2.0, 22.0]);
    }

    #[test]
    fn a_product_can_be_added_to_what_is_there() {
        let mut out = [10.0];
        multiply(Matrix::new(&[2.0], 1, 1), Matrix::new(&[3.0], 1, 1), &mut out, true);
        assert_eq!(out, [16.0]);
    }
}
