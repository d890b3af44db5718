//! An optimiser step over all parameters: exact AdamW, AdamW with a lazy input layer, or SGD.

use rayon::prelude::*;

use super::adamw::{AdamwStep, adamw, adamw_without_gradient, descend};
use crate::engine::EngineState;
use crate::net::buffer::Buffer;
use crate::net::input::InputGroups;
use crate::net::network::Gradients;
use crate::net::weights::Weights;
use pipe_ml::config::optimiser::{OptimiserConfig, OptimiserKind};

/// How many parameters one task updates.
const CHUNK: usize = 1 << 14;
/// How many rows of the table one task updates.
const ROWS: usize = 128;

/// An optimiser. Its moments are in the [`EngineState`].
#[derive(Clone)]
pub struct CpuOptimiser {
    config: OptimiserConfig,
}

impl CpuOptimiser {
    /// Returns an optimiser with a configuration.
    pub fn new(config: OptimiserConfig) -> Self {
        Self { config }
    }

    /// Takes one step. Threshold parameters that do not learn are not changed, not even by weight decay, as PyTorch
    /// does with parameters that have no gradient.
    pub fn step(
        &self,
        lr: f64,
        state: &mut EngineState,
        gradients: &Gradients,
        inputs: &InputGroups,
        thresholds_learn: bool,
    ) {
        state.steps += 1;
        let weights = &mut state.weights;
        let scale = self.clip_scale(gradients, thresholds_learn);
        let learning = weights.named().len() - if thresholds_learn { 0 } else { 4 };
        let Some(moments) = &mut state.moments else {
            let (decay, rate) = (1.0 - lr * self.config.weight_decay, lr * scale);
            return descend_all(decay as f32, rate as f32, weights, gradients, inputs, learning);
        };
        let step = AdamwStep::new(&self.config, lr, state.steps, scale);
        let (first, second) = &mut **moments;
        let table = InputTable {
            width: weights.width,
            parameters: &mut weights.table,
            first: &mut first.table,
            second: &mut second.table,
            gradient: &gradients.table,
            inputs,
        };
        match self.config.kind {
            OptimiserKind::LazyAdamw => table.step_lazily(step),
            _ => table.step_exactly(step),
        }
        let slots = weights.buffers_mut().into_iter().zip(gradients.rest.named());
        let moments = first.buffers_mut().into_iter().zip(second.buffers_mut());
        for ((parameters, (_, _, gradient)), (first, second)) in slots.zip(moments).take(learning).skip(1) {
            let chunks = parameters.par_chunks_mut(CHUNK).zip(gradient.par_chunks(CHUNK));
            let moments = first.par_chunks_mut(CHUNK).zip(second.par_chunks_mut(CHUNK));
            chunks.zip(moments).for_each(|((p, g), (m, v))| adamw(step, p, g, m, v));
        }
    }

    /// Returns the factor that reduces the norm of all gradients to the limit.
    fn clip_scale(&self, gradients: &Gradients, thresholds_learn: bool) -> f64 {
        let Some(limit) = self.config.clip.value() else { return 1.0 };
        let mut parts = gradients.rest.named();
        parts.truncate(parts.len() - if thresholds_learn { 0 } else { 4 });
        let buffers = parts.into_iter().map(|part| part.2).chain([&gradients.table]);
        let norm = buffers.map(|buffer| sum_of_squares(buffer)).sum::<f64>().sqrt();
        (limit / (norm + 1e-6)).min(1.0)
    }
}

/// Returns the sum of the squares. The chunks are added in order, so that the bits do not depend on the number of
/// threads.
fn sum_of_squares(values: &[f32]) -> f64 {
    let square = |chunk: &[f32]| chunk.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>();
    let parts: Vec<f64> = values.par_chunks(CHUNK).map(square).collect();
    parts.iter().sum()
}

/// Takes a step of plain gradient descent for the first `learning` parameters.
fn descend_all(
    decay: f32,
    rate: f32,
    weights: &mut Weights,
    gradients: &Gradients,
    inputs: &InputGroups,
    learning: usize,
) {
    let width = weights.width;
    if decay != 1.0 {
        weights.table.par_chunks_mut(CHUNK).for_each(|chunk| {
            for parameter in chunk {
                *parameter *= decay;
            }
        });
    }
    rows_of(&mut weights.table, width, inputs).zip(gradients.table.par_chunks(width)).for_each(|(row, g)| {
        descend(1.0, rate, row, g);
    });
    let slots = weights.buffers_mut().into_iter().zip(gradients.rest.named());
    for (parameters, (_, _, gradient)) in slots.take(learning).skip(1) {
        let chunks = parameters.par_chunks_mut(CHUNK).zip(gradient.par_chunks(CHUNK));
        chunks.for_each(|(p, g)| descend(decay, rate, p, g));
    }
}

/// The table of the input layer, with its moments and its gradient.
struct InputTable<'a> {
    width: usize,
    parameters: &'a mut Buffer,
    first: &'a mut Buffer,
    second: &'a mut Buffer,
    gradient: &'a Buffer,
    inputs: &'a InputGroups,
}

impl InputTable<'_> {
    /// Updates only the rows of the inputs that occur.
    fn step_lazily(self, step: AdamwStep) {
        let parameters = rows_of(self.parameters, self.width, self.inputs);
        let first = rows_of(self.first, self.width, self.inputs);
        let second = rows_of(self.second, self.width, self.inputs);
        let gradient = self.gradient.par_chunks(self.width);
        parameters.zip(gradient).zip(first.zip(second)).with_min_len(ROWS).for_each(|((p, g), (m, v))| {
            adamw(step, p, g, m, v);
        });
    }

    /// Updates every row; rows of inputs that do not occur have a gradient of zero.
    fn step_exactly(self, step: AdamwStep) {
        let (width, inputs, gradient) = (self.width, self.inputs, self.gradient);
        let parameters = self.parameters.par_chunks_mut(ROWS * width);
        let moments = self.first.par_chunks_mut(ROWS * width).zip(self.second.par_chunks_mut(ROWS * width));
        parameters.zip(moments).enumerate().for_each(|(chunk, (p, (m, v)))| {
            let (start, rows) = (chunk * ROWS, p.len() / width);
            let mut next = 0;
            let idle = |from: usize, to: usize, p: &mut [f32], m: &mut [f32], v: &mut [f32]| {
                let span = from * width..to * width;
                adamw_without_gradient(step, &mut p[span.clone()], &mut m[span.clone()], &mut v[span]);
            };
            for position in inputs.positions(start, start + rows) {
                let row = inputs.input(position) as usize - start;
                idle(next, row, p, m, v);
                let span = row * width..(row + 1) * width;
                let g = &gradient[position * width..(position + 1) * width];
                adamw(step, &mut p[span.clone()], g, &mut m[span.clone()], &mut v[span]);
                next = row + 1;
            }
            idle(next, rows, p, m, v);
        });
    }
}

/// Returns the rows of the inputs that occur, in order, each once.
fn rows_of<'a>(
    table: &'a mut [f32],
    width: usize,
    inputs: &InputGroups,
) -> impl IndexedParallelIterator<Item = &'a mut [f32]> {
    let mut rows = Vec::with_capacity(inputs.distinct());
    let (mut left, mut at) = (table, 0);
    for position in 0..inputs.distinct() {
        let row = inputs.input(position) as usize;
        let (_, from) = left.split_at_mut((row - at) * width);
        let (found, after) = from.split_at_mut(width);
        rows.push(found);
        (left, at) = (after, row + 1);
    }
    rows.into_par_iter()
}
