//! Matrix products, computed by libtorch on memory that Rust owns.

use tch::{Device, Kind, Tensor};

/// A view of a row-major matrix, or of its transpose.
#[derive(Clone, Copy)]
pub struct MatrixView<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    transposed: bool,
}

impl<'a> MatrixView<'a> {
    /// Returns a view of `rows` x `columns` values.
    pub fn new(data: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns);
        Self { data, rows, columns, transposed: false }
    }

    /// Returns a view of the transpose.
    pub fn transpose(self) -> Self {
        Self { transposed: !self.transposed, ..self }
    }

    /// Returns the number of rows and columns, after transposing.
    fn size(&self) -> [i64; 2] {
        let (rows, columns) = (self.rows as i64, self.columns as i64);
        if self.transposed { [columns, rows] } else { [rows, columns] }
    }

    /// Returns a tensor over the same memory. The tensor must not outlive that memory.
    fn tensor(&self) -> Tensor {
        let across = self.columns as i64;
        let strides = if self.transposed { [1, across] } else { [across, 1] };
        let data = self.data.as_ptr().cast();
        // SAFETY: `data` has rows · columns values, which `new` checked, and the tensor is dropped inside of
        // `multiply`, which borrows these values.
        unsafe { Tensor::from_blob(data, &self.size(), &strides, Kind::Float, Device::Cpu) }
    }
}

/// Computes `out` = a · b, or `out` += a · b if `add` is set. `out` is row-major.
pub fn multiply(a: MatrixView, b: MatrixView, out: &mut [f32], add: bool) {
    let ([rows, inner], [matching, columns]) = (a.size(), b.size());
    assert_eq!(inner, matching);
    assert_eq!(out.len() as i64, rows * columns);
    let data = out.as_mut_ptr().cast_const().cast();
    // SAFETY: `out` has rows · columns values, which was checked above; it is borrowed mutably for the whole call,
    // and so shares no memory with `a` and `b`, which are borrowed too.
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
    fn products_of_matrices_and_their_transposes_are_correct() {
        tch::set_num_threads(1);
        let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let b = [1.0, 0.5, -1.0, 2.0, 0.0, 3.0];
        let mut out = [0.0; 4];
        multiply(MatrixView::new(&a, 2, 3), MatrixView::new(&b, 3, 2), &mut out, false);
        assert_eq!(out, [-1.0, 13.5, -1.0, 30.0]);
        multiply(
            MatrixView::new(&a, 3, 2).transpose(),
            MatrixView::new(&b, 2, 3).transpose(),
            &mut out,
            false,
        );
        assert_eq!(out, [-2.5, 17.0, -2.0, 22.0]);
    }

    #[test]
    fn a_product_can_be_added_to_the_output() {
        let mut out = [10.0];
        multiply(MatrixView::new(&[2.0], 1, 1), MatrixView::new(&[3.0], 1, 1), &mut out, true);
        assert_eq!(out, [16.0]);
    }
}
