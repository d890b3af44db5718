//! An optimiser step over all parameters: exact AdamW, AdamW with a lazy input layer, or SGD.

use rayon::prelude::*;

use super::adamw::{AdamwStep, adamw, descend};
use super::deferred::DeferredSteps;
use super::table::{ROWS, TableRows, rows_of};
use crate::engine::EngineState;
use crate::net::input::InputGroups;
use crate::net::network::{EarlyStep, Gradients};
use crate::net::weights::Weights;
use pipe_ml::config::optimiser::{OptimiserConfig, OptimiserKind};

/// How many parameters one task updates.
const CHUNK: usize = 1 << 14;

/// An optimiser. Its moments are in the [`EngineState`].
///
/// With exact AdamW, the table rows of inputs that do not occur in a batch take their steps later. So the rows of a batch
/// have to [catch up](CpuOptimiser::catch_up) before they are read, and all rows have to be
/// [settled](CpuOptimiser::settle) before the state is read as a whole.
#[derive(Clone)]
pub struct CpuOptimiser {
    config: OptimiserConfig,
    deferred: DeferredSteps,
}

impl CpuOptimiser {
    /// Returns an optimiser with a configuration.
    pub fn new(config: OptimiserConfig) -> Self {
        Self { config, deferred: DeferredSteps::default() }
    }

    /// Brings the table rows of some inputs up to date.
    pub fn catch_up(&mut self, state: &mut EngineState, inputs: &InputGroups) {
        if let Some(table) = table_of(state) {
            self.deferred.catch_up(table, inputs);
        }
    }

    /// Brings the whole state up to date.
    pub fn settle(&mut self, state: &mut EngineState) {
        if let Some(table) = table_of(state).filter(|_| !self.deferred.is_empty()) {
            self.deferred.settle(table);
        }
    }

    /// Returns whether the whole state is up to date.
    pub fn is_settled(&self) -> bool {
        self.deferred.is_empty()
    }

    /// Continues from another state, which is up to date.
    pub fn restart(&mut self) {
        self.deferred.forget();
    }

    /// Returns the step that the backward pass takes. The rows of its inputs must be up to date ([`Self::catch_up`]). `None` for
    /// plain gradient descent, and if the gradients of all parameters are needed first, to clip them.
    pub fn early_step<'a>(
        &self,
        lr: f64,
        steps: u64,
        moments: Option<&'a mut (Weights, Weights)>,
    ) -> Option<EarlyStep<'a>> {
        let moments = moments.filter(|_| self.config.clip.value().is_none())?;
        Some(EarlyStep { step: AdamwStep::new(&self.config, lr, steps + 1, 1.0), moments })
    }

    /// Takes one step. Parameters that have taken it early are not changed, nor are threshold parameters that do not learn, not
    /// even by weight decay: PyTorch treats parameters without a gradient in the same way.
    pub fn step(
        &mut self,
        lr: f64,
        state: &mut EngineState,
        gradients: &Gradients,
        inputs: &InputGroups,
        thresholds_learn: bool,
    ) {
        self.catch_up(state, inputs);
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
        let table = TableRows {
            width: weights.width,
            parameters: &mut weights.table,
            first: &mut first.table,
            second: &mut second.table,
        };
        let rows = table.of(inputs).into_par_iter().zip(gradients.table.par_chunks(weights.width));
        rows.with_min_len(ROWS).for_each(|(row, g)| adamw(step, row.parameters, g, row.first, row.second));
        if self.config.kind != OptimiserKind::LazyAdamw {
            self.deferred.record(step, weights.inputs, inputs);
        }
        let slots = weights.buffers_mut().into_iter().zip(gradients.rest.named());
        let moments = first.buffers_mut().into_iter().zip(second.buffers_mut());
        for ((parameters, (_, _, gradient)), (first, second)) in slots.zip(moments).take(learning).skip(1) {
            // The gradient of parameters that have taken the step is empty, so there are no chunks.
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
    let rows = rows_of(&mut weights.table, width, inputs).into_par_iter();
    rows.zip(gradients.table.par_chunks(width)).for_each(|(row, g)| descend(1.0, rate, row, g));
    let slots = weights.buffers_mut().into_iter().zip(gradients.rest.named());
    for (parameters, (_, _, gradient)) in slots.take(learning).skip(1) {
        let chunks = parameters.par_chunks_mut(CHUNK).zip(gradient.par_chunks(CHUNK));
        chunks.for_each(|(p, g)| descend(decay, rate, p, g));
    }
}

/// Returns the table of a state that has moments.
fn table_of(state: &mut EngineState) -> Option<TableRows<'_>> {
    let (first, second) = &mut **state.moments.as_mut()?;
    Some(TableRows {
        width: state.weights.width,
        parameters: &mut state.weights.table,
        first: &mut first.table,
        second: &mut second.table,
    })
}
