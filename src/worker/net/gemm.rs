//! Matrix products on memory that Rust owns.
//!
//! Every value of a product is a sum of chains of fused multiply-adds over the inner dimension, in order. A chain has at most
//! 192 terms. This is the order of libtorch's products on AMD processors, and here the bits are the same on every processor.
//! Products with fewer than 4 rows or 12 columns are left to libtorch. On AMD processors with AVX-512, where libtorch uses
//! AVX2, the products of a training step take half of its time.

use std::ops::Range;

use pipe_ml::multiversion::Instructions;
use tch::{Device, Kind, Tensor};

use super::buffer::Buffer;

/// The most terms of a chain.
const BLOCK: usize = 192;
/// How many vectors of columns a tile has.
const VECTORS: usize = 2;

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
    fn size(&self) -> [usize; 2] {
        if self.transposed { [self.columns, self.rows] } else { [self.rows, self.columns] }
    }

    /// Returns the distances between adjacent rows and between adjacent columns.
    fn strides(&self) -> [usize; 2] {
        if self.transposed { [1, self.columns] } else { [self.columns, 1] }
    }

    /// Returns a tensor over the same memory. The tensor must not outlive that memory.
    fn tensor(&self) -> Tensor {
        let [size, strides] = [self.size(), self.strides()].map(|pair| pair.map(|value| value as i64));
        let data = self.data.as_ptr().cast();
        // SAFETY: `data` has rows · columns values, which `new` checked, and the tensor is dropped inside of
        // `multiply_by_libtorch`, which borrows these values.
        unsafe { Tensor::from_blob(data, &size, &strides, Kind::Float, Device::Cpu) }
    }
}

/// Computes `out` = a · b, or `out` += a · b if `add` is set. `out` is row-major.
pub fn multiply(a: MatrixView, b: MatrixView, out: &mut [f32], add: bool) {
    let ([rows, inner], [matching, columns]) = (a.size(), b.size());
    assert_eq!(inner, matching);
    assert_eq!(out.len(), rows * columns);
    if rows < 4 || columns < 12 || inner == 0 {
        // In such products, libtorch adds in other orders, on which published results depend.
        return multiply_by_libtorch(a, b, out, add);
    }
    match Instructions::of_this_processor() {
        // SAFETY: the processor has these instructions.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => unsafe { avx512(a, b, out, add) },
        // SAFETY: the processor has these instructions.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => unsafe { avx2(a, b, out, add) },
        _ => product::<[f32; 8], 4>(a, b, out, add),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn avx512(a: MatrixView, b: MatrixView, out: &mut [f32], add: bool) {
    product::<std::arch::x86_64::__m512, 8>(a, b, out, add);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2(a: MatrixView, b: MatrixView, out: &mut [f32], add: bool) {
    product::<std::arch::x86_64::__m256, 6>(a, b, out, add);
}

/// Computes a product in tiles of `R` rows.
#[inline(always)]
fn product<V: Vector, const R: usize>(a: MatrixView, b: MatrixView, out: &mut [f32], add: bool) {
    let ([rows, inner], [_, columns]) = (a.size(), b.size());
    let width = VECTORS * V::LANES;
    // Between one and two blocks, the terms are halved, and an odd one is a chain of its own.
    let length = if (BLOCK + 1..2 * BLOCK).contains(&inner) { inner / 2 } else { BLOCK };
    let mut panel = Buffer::zeros(length.min(inner) * width);
    for start in (0..inner).step_by(length) {
        let terms = start..inner.min(start + length);
        let add = add || start > 0;
        for column in (0..columns).step_by(width) {
            let across = column..columns.min(column + width);
            copy_part(b, &terms, &across, width, &mut panel);
            let panel = &panel[..terms.len() * width];
            let full = rows - rows % R;
            for row in (0..full).step_by(R) {
                tile::<V, R>(a, row, terms.start, panel, &mut out[row * columns..], columns, &across, add);
            }
            for row in full..rows {
                tile::<V, 1>(a, row, terms.start, panel, &mut out[row * columns..], columns, &across, add);
            }
        }
    }
}

/// Copies some rows and columns of a matrix into a panel of `width` columns.
#[inline(always)]
fn copy_part(b: MatrixView, rows: &Range<usize>, columns: &Range<usize>, width: usize, panel: &mut [f32]) {
    let [along, across] = b.strides();
    for (row, panel) in rows.clone().zip(panel.chunks_exact_mut(width)) {
        if across == 1 {
            panel[..columns.len()].copy_from_slice(&b.data[row * along..][columns.clone()]);
        } else {
            for (slot, column) in panel.iter_mut().zip(columns.clone()) {
                *slot = b.data[row * along + column * across];
            }
        }
    }
}

/// Computes `R` rows of a panel of columns, for the terms that the panel has. `out` starts with the first of these rows.
#[inline(always)]
#[expect(clippy::too_many_arguments)]
fn tile<V: Vector, const R: usize>(
    a: MatrixView,
    row: usize,
    term: usize,
    panel: &[f32],
    out: &mut [f32],
    columns: usize,
    across: &Range<usize>,
    add: bool,
) {
    let width = VECTORS * V::LANES;
    let [down, along] = a.strides();
    let from = &a.data[row * down + term * along..];
    assert!((R - 1) * down + (panel.len() / width - 1) * along < from.len());
    let mut sums = [[V::splat(0.0); VECTORS]; R];
    for (term, panel) in panel.chunks_exact(width).enumerate() {
        let b: [V; VECTORS] = std::array::from_fn(|vector| V::load(&panel[vector * V::LANES..]));
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the largest index was checked above.
            let a = V::splat(unsafe { *from.get_unchecked(row * down + term * along) });
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum = a.times_plus(b, *sum);
            }
        }
    }
    for (sums, out) in sums.iter().zip(out.chunks_mut(columns)) {
        for (sum, out) in sums.iter().zip(out[across.clone()].chunks_mut(V::LANES)) {
            if out.len() == V::LANES {
                // Multiplied by one, the old value is added and rounded as by a sum.
                let sum = if add { V::splat(1.0).times_plus(V::load(out), *sum) } else { *sum };
                sum.store(out);
            } else {
                let mut values = [0.0; 16];
                sum.store(&mut values);
                for (out, value) in out.iter_mut().zip(values) {
                    *out = if add { *out + value } else { value };
                }
            }
        }
    }
}

/// Some adjacent values. The processor must have the instructions of the type.
trait Vector: Copy {
    /// How many values there are.
    const LANES: usize;

    /// Returns a vector of equal values.
    fn splat(value: f32) -> Self;

    /// Returns the first values.
    fn load(values: &[f32]) -> Self;

    /// Writes the values.
    fn store(self, values: &mut [f32]);

    /// Returns self · factor + addend, rounded once.
    fn times_plus(self, factor: Self, addend: Self) -> Self;
}

impl Vector for [f32; 8] {
    const LANES: usize = 8;

    fn splat(value: f32) -> Self {
        [value; 8]
    }

    fn load(values: &[f32]) -> Self {
        std::array::from_fn(|lane| values[lane])
    }

    fn store(self, values: &mut [f32]) {
        values[..8].copy_from_slice(&self);
    }

    fn times_plus(self, factor: Self, addend: Self) -> Self {
        std::array::from_fn(|lane| self[lane].mul_add(factor[lane], addend[lane]))
    }
}

macro_rules! vector {
    ($type:ident, $lanes:literal, $splat:ident, $load:ident, $store:ident, $times_plus:ident) => {
        #[cfg(target_arch = "x86_64")]
        impl Vector for std::arch::x86_64::$type {
            const LANES: usize = $lanes;

            #[inline(always)]
            fn splat(value: f32) -> Self {
                // SAFETY: the processor has the instruction.
                unsafe { std::arch::x86_64::$splat(value) }
            }

            #[inline(always)]
            fn load(values: &[f32]) -> Self {
                // SAFETY: the processor has the instruction, and the slice has enough values.
                unsafe { std::arch::x86_64::$load(values[..$lanes].as_ptr()) }
            }

            #[inline(always)]
            fn store(self, values: &mut [f32]) {
                // SAFETY: the processor has the instruction, and the slice has enough values.
                unsafe { std::arch::x86_64::$store(values[..$lanes].as_mut_ptr(), self) }
            }

            #[inline(always)]
            fn times_plus(self, factor: Self, addend: Self) -> Self {
                // SAFETY: the processor has the instruction.
                unsafe { std::arch::x86_64::$times_plus(self, factor, addend) }
            }
        }
    };
}

vector!(__m512, 16, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_fmadd_ps);
vector!(__m256, 8, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_fmadd_ps);

/// The same as [`multiply`], by libtorch, whose bits depend on the processor.
pub fn multiply_by_libtorch(a: MatrixView, b: MatrixView, out: &mut [f32], add: bool) {
    let size = [a.size()[0], b.size()[1]];
    assert_eq!(out.len(), size[0] * size[1]);
    let size = size.map(|value| value as i64);
    let data = out.as_mut_ptr().cast_const().cast();
    // SAFETY: `out` has rows · columns values, which was checked above; it is borrowed mutably for the whole call,
    // and so shares no memory with `a` and `b`, which are borrowed too.
    let out = unsafe { Tensor::from_blob(data, &size, &[size[1], 1], Kind::Float, Device::Cpu) };
    let _done = if add {
        out.addmm_out(&out, &a.tensor(), &b.tensor())
    } else {
        a.tensor().mm_out(&out, &b.tensor())
    };
}

#[cfg(test)]
mod tests {
    use pipe_ml::data::random::Random;

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

    /// Returns random values.
    fn values(random: &mut Random, count: usize) -> Vec<f32> {
        (0..count).map(|_| random.normal() as f32).collect()
    }

    /// Computes a product value by value, as the module says.
    fn by_definition(a: MatrixView, b: MatrixView, out: &mut [f32], add: bool) {
        let ([_, inner], [_, columns]) = (a.size(), b.size());
        let ([down, along], [under, across]) = (a.strides(), b.strides());
        let ends = match inner {
            0..=192 => vec![inner],
            193..384 => vec![inner / 2, inner / 2 * 2, inner],
            _ => (1..inner.div_ceil(192)).map(|block| block * 192).chain([inner]).collect(),
        };
        for (at, out) in out.iter_mut().enumerate() {
            let (row, column) = (at / columns, at % columns);
            let factors =
                |term: usize| (a.data[row * down + term * along], b.data[term * under + column * across]);
            let mut start = 0;
            for (block, &end) in ends.iter().enumerate() {
                let sum = (start..end).map(factors).fold(0.0, |sum: f32, (a, b)| a.mul_add(b, sum));
                *out = if add || block > 0 { *out + sum } else { sum };
                start = end;
            }
        }
    }

    #[test]
    fn products_have_the_bits_of_their_definition() {
        let mut random = Random::new("gemm", 1);
        for (rows, inner, columns) in
            [(4, 1, 12), (7, 5, 16), (17, 192, 33), (20, 193, 50), (9, 300, 64), (13, 385, 48), (64, 600, 15)]
        {
            let (a, b) = (values(&mut random, rows * inner), values(&mut random, inner * columns));
            let start = values(&mut random, rows * columns);
            let lefts = [MatrixView::new(&a, rows, inner), MatrixView::new(&a, inner, rows).transpose()];
            let rights =
                [MatrixView::new(&b, inner, columns), MatrixView::new(&b, columns, inner).transpose()];
            for (a, b) in lefts.into_iter().flat_map(|a| rights.map(|b| (a, b))) {
                for add in [false, true] {
                    let result = |of: fn(MatrixView, MatrixView, &mut [f32], bool)| {
                        let mut out = start.clone();
                        of(a, b, &mut out, add);
                        out.iter().map(|value| value.to_bits()).collect::<Vec<_>>()
                    };
                    let expected = result(by_definition);
                    assert_eq!(result(multiply), expected, "{rows} x {inner} x {columns}, add: {add}");
                    assert_eq!(result(product::<[f32; 8], 4>), expected);
                    #[cfg(target_arch = "x86_64")]
                    if Instructions::of_this_processor() >= Instructions::Avx2 {
                        // SAFETY: the processor has the instructions.
                        assert_eq!(result(|a, b, out, add| unsafe { avx2(a, b, out, add) }), expected);
                    }
                }
            }
        }
    }

    #[test]
    fn products_are_those_of_libtorch_up_to_rounding() {
        tch::set_num_threads(1);
        let mut random = Random::new("gemm", 2);
        let (rows, inner, columns) = (70, 450, 40);
        let (a, b) = (values(&mut random, rows * inner), values(&mut random, inner * columns));
        let (a, b) = (MatrixView::new(&a, rows, inner), MatrixView::new(&b, inner, columns));
        let (mut ours, mut theirs) = (vec![0.0; rows * columns], vec![0.0; rows * columns]);
        multiply(a, b, &mut ours, false);
        multiply_by_libtorch(a, b, &mut theirs, false);
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert!((ours - theirs).abs() < 1e-3, "{ours} is not {theirs}");
        }
    }
}
