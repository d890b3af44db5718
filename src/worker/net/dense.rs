//! A dense layer over unit-major activations, computed in blocks of its outputs.

use rayon::prelude::*;

use super::buffer::Buffer;
use super::gemm::{MatrixView, multiply};
use super::weights::DenseLayer;
use crate::loss::fused::block_labels;
use crate::loss::kernel::run_sums;

/// The weights of a block of outputs.
pub struct OutputBlock<'a> {
    weight: &'a [f32],
    bias: &'a [f32],
    inputs: usize,
}

impl DenseLayer {
    /// Returns how many outputs a block has. It depends on the width of the layer alone.
    pub fn block_outputs(&self) -> usize {
        block_labels(self.outputs)
    }

    /// Returns the blocks, in order.
    pub fn blocks(&self) -> impl IndexedParallelIterator<Item = OutputBlock<'_>> {
        let size = self.block_outputs();
        let weights = self.weight.par_chunks(size * self.inputs);
        let inputs = self.inputs;
        weights
            .zip(self.bias.par_chunks(size))
            .map(move |(weight, bias)| OutputBlock::new(weight, bias, inputs))
    }

    /// Computes `out` = weight · x + bias.
    pub fn forward(&self, x: &[f32], stride: usize, out: &mut [f32]) {
        let run = self.block_outputs() * stride;
        self.blocks().zip(out.par_chunks_mut(run)).for_each(|(block, out)| block.forward(x, stride, out));
    }

    /// Computes the gradients by weight, bias and input of a hidden layer.
    pub fn backward(
        &self,
        x: &[f32],
        g: &[f32],
        stride: usize,
        gradient: &mut DenseLayer,
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

impl<'a> OutputBlock<'a> {
    /// Returns a block with these weights and biases.
    pub fn new(weight: &'a [f32], bias: &'a [f32], inputs: usize) -> Self {
        Self { weight, bias, inputs }
    }

    /// Computes this block's outputs.
    pub fn forward(&self, x: &[f32], stride: usize, out: &mut [f32]) {
        for (run, &bias) in out.chunks_exact_mut(stride).zip(self.bias) {
            run.fill(bias);
        }
        let weight = MatrixView::new(self.weight, self.bias.len(), self.inputs);
        multiply(weight, MatrixView::new(x, self.inputs, stride), out, true);
    }

    /// Computes the gradient by the block's weights, and the block's part of the gradient by the input.
    pub fn backward(&self, x: &[f32], g: &[f32], stride: usize, gradient: &mut [f32], x_partial: &mut [f32]) {
        let weight = MatrixView::new(self.weight, self.bias.len(), self.inputs);
        let g = MatrixView::new(g, self.bias.len(), stride);
        multiply(g, MatrixView::new(x, self.inputs, stride).transpose(), gradient, false);
        multiply(weight.transpose(), g, x_partial, false);
    }
}

/// Sums equally long parts in order, so that the bits do not depend on the number of threads.
pub fn sum_partials(partial: &[f32], out: &mut [f32]) {
    const CHUNK: usize = 1024;
    let len = out.len();
    out.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, out)| {
        let start = chunk * CHUNK;
        out.fill(0.0);
        for part in partial.chunks_exact(len) {
            for (sum, value) in out.iter_mut().zip(&part[start..]) {
                *sum += value;
            }
        }
    });
}
