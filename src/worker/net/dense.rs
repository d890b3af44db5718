//! A dense layer over unit-major activations, computed by blocks of its outputs.

use rayon::prelude::*;

use super::buffer::Buffer;
use super::gemm::{Matrix, multiply};
use super::weights::Dense;
use crate::loss::fused::block_labels;
use crate::loss::kernel::run_sums;

/// A block of outputs: the weights that make them.
pub struct Block<'a> {
    weight: &'a [f32],
    bias: &'a [f32],
    inputs: usize,
}

impl Dense {
    /// How many outputs a block has.
    pub fn block_outputs(&self) -> usize {
        block_labels(self.outputs)
    }

    /// The blocks, in order.
    pub fn blocks(&self) -> impl IndexedParallelIterator<Item = Block<'_>> {
        let size = self.block_outputs();
        let weights = self.weight.par_chunks(size * self.inputs);
        let inputs = self.inputs;
        weights.zip(self.bias.par_chunks(size)).map(move |(weight, bias)| Block { weight, bias, inputs })
    }

    /// `out` = weight · x + bias, for hidden layers.
    pub fn forward(&self, x: &[f32], stride: usize, out: &mut [f32]) {
        let run = self.block_outputs() * stride;
        self.blocks().zip(out.par_chunks_mut(run)).for_each(|(block, out)| block.forward(x, stride, out));
    }

    /// The gradients by weight, bias and input, for hidden layers.
    pub fn backward(
        &self,
        x: &[f32],
        g: &[f32],
        stride: usize,
        gradient: &mut Dense,
        x_gradient: &mut [f32],
        partial: &mut Buffer,
    ) {
        let size = self.block_outputs();
        partial.resize(self.outputs.div_ceil(size) * x_gradient.len());
        self.blocks()
            .zip(g.par_chunks(size * stride))
            .zip(partial.par_chunks_mut(x_gradient.len()))
            .zip(gradient.weight.par_chunks_mut(size * self.inputs))
            .zip(gradient.bias.par_chunks_mut(size))
            .for_each(|((((block, g), partial), weight), bias)| {
                run_sums(g, stride, bias);
                block.backward(x, g, stride, weight, partial);
            });
        sum_partials(partial, x_gradient);
    }
}

impl Block<'_> {
    pub fn forward(&self, x: &[f32], stride: usize, out: &mut [f32]) {
        for (run, &bias) in out.chunks_exact_mut(stride).zip(self.bias) {
            run.fill(bias);
        }
        let weight = Matrix::new(self.weight, self.bias.len(), self.inputs);
        multiply(weight, Matrix::new(x, self.inputs, stride), out, true);
    }

    /// The gradient by the block's weights, and its part of the gradient by the input.
    pub fn backward(&self, x: &[f32], g: &[f32], stride: usize, gradient: &mut [f32], x_partial: &mut [f32]) {
        let weight = Matrix::new(self.weight, self.bias.len(), self.inputs);
        let g = Matrix::new(g, self.bias.len(), stride);
        multiply(g, Matrix::new(x, self.inputs, stride).transpose(), gradient, false);
        multiply(weight.transpose(), g, x_partial, false);
    }
}

/// The sum of equally long parts, in order.
pub fn sum_partials(partial: &[f32], out: &mut [f32]) {
    const CHUNK: usize = 1024;
    let len = out.len();
    out.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, out)| {
        let start = chunk * CHUNK;
        out.fill(0.0);
        for part in partial.chunks_exact(len) {
            out.iter_mut().zip(&part[start..]).for_each(|(sum, value)| *sum += value);
        }
    });
}
