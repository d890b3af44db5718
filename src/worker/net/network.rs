//! The forward and backward pass of a training step, and the forward pass of prediction.

use std::cell::RefCell;

use rayon::prelude::*;

use super::activation::{DropoutDraw, HiddenLayer};
use super::buffer::Buffer;
use super::dense::{OutputBlock, sum_partials};
use super::input::{BatchInputs, InputGroups};
use super::prototypes::Neighbourhoods;
use super::weights::{DenseLayer, Weights};
use crate::loss::fused::{LossPass, ThresholdGradients, stride};
use crate::loss::kernel::run_sums;
use crate::loss::terms::{LossTerms, LossValue, ThresholdParameters, ThresholdTerms};
use crate::optim::adamw::{AdamwStep, adamw};
use crate::optim::table::TableRows;
use pipe_ml::config::net::NetConfig;
use pipe_ml::signal::batch::BatchSignals;
use pipe_ml::signal::sparse_rows::SparseRows;

/// Memory that is reused from batch to batch.
#[derive(Default)]
pub struct Workspace {
    hidden: Vec<HiddenLayer>,
    /// The logits, label-major.
    z: Buffer,
    /// The gradient by the logits.
    g: Buffer,
    partial: Buffer,
    scratch: Buffer,
    /// The gradients by the outputs of the hidden layers.
    hidden_gradients: Vec<Buffer>,
    thresholds: ThresholdGradients<f32>,
    neighbourhoods: Neighbourhoods,
}

/// What the loss of a batch depends on, besides the weights.
#[derive(Clone, Copy)]
pub struct BatchLoss<'a> {
    pub terms: &'a LossTerms<f32>,
    pub thresholds: &'a ThresholdTerms<f32>,
    pub signals: &'a BatchSignals,
    pub rows: usize,
}

/// The step of the two largest parameters, the table and the weights of the output layer. The backward pass takes it row by
/// row and block by block, as soon as it has a gradient, while that is in the cache.
pub struct EarlyStep<'a> {
    pub step: AdamwStep,
    /// The first and second moments.
    pub moments: &'a mut (Weights, Weights),
}

/// The gradients of a step. Those by parameters that have taken their step early are empty.
pub struct Gradients {
    /// The gradients by every parameter but the table, which is empty here.
    pub rest: Weights,
    /// The gradients by the table rows of the inputs that occur in the batch, in order.
    pub table: Buffer,
}

impl Gradients {
    /// Returns gradients of the shape of `weights`, all zero.
    pub fn new(weights: &Weights) -> Self {
        Self { rest: weights.zeros_like(0), table: Buffer::default() }
    }
}

thread_local! {
    /// The gradient by the weights of a block of labels.
    static BLOCK_GRADIENT: RefCell<Buffer> = RefCell::default();
}

/// Seed and step of the dropout draws; `None` if nothing is dropped.
pub type Dropout = Option<(u64, u64)>;

impl Workspace {
    /// Computes the logits of a batch, label-major with [`stride`] values per label.
    pub fn forward(&mut self, config: &NetConfig, weights: &Weights, inputs: &BatchInputs, dropout: Dropout) {
        let stride = stride(inputs.rows());
        self.hidden.resize_with(config.hidden.len(), HiddenLayer::default);
        self.z.resize(weights.labels() * stride);
        let Some(last) = weights.layers.last() else {
            inputs.forward(&weights.table, &weights.input_bias, stride, &mut self.z, &mut self.scratch);
            return;
        };
        for layer in 0..config.hidden.len() {
            let (before, after) = self.hidden.split_at_mut(layer);
            let hidden = &mut after[0];
            hidden.resize(config.hidden[layer] * stride);
            match before.last() {
                None => inputs.forward(
                    &weights.table,
                    &weights.input_bias,
                    stride,
                    &mut hidden.before,
                    &mut self.scratch,
                ),
                Some(below) => weights.layers[layer - 1].forward(&below.after, stride, &mut hidden.before),
            }
            let draw = dropout.filter(|_| config.dropout > 0.0);
            let draw = draw.map(|(seed, step)| DropoutDraw { share: config.dropout, seed, step, layer });
            hidden.forward(config.activation, draw);
        }
        let x = &self.hidden[config.hidden.len() - 1].after;
        last.forward(x, stride, &mut self.z);
    }

    /// Computes the local signal of the prototypes for the rows of the last forward pass.
    pub fn prototype_signal(&mut self, weights: &Weights, rows: usize) -> SparseRows {
        let h: &[f32] = self.hidden.last().map_or(&[], |layer| &layer.after[..]);
        self.neighbourhoods.forward(weights, h, stride(rows), rows)
    }

    /// Returns the logits of the last forward pass.
    pub fn logits(&self) -> &[f32] {
        &self.z
    }

    /// Computes loss and gradients of the batch whose logits were computed last. With `early`, the table and the
    /// weights of the output layer take their step.
    pub fn backward(
        &mut self,
        config: &NetConfig,
        weights: &mut Weights,
        groups: &InputGroups,
        loss: BatchLoss,
        gradients: &mut Gradients,
        mut early: Option<EarlyStep>,
    ) -> LossValue {
        let stride = stride(loss.rows);
        self.thresholds.resize(weights.labels());
        self.g.resize(self.z.len());
        let rest = &mut gradients.rest;
        let parameters = ThresholdParameters {
            alpha: &weights.alpha,
            beta: &weights.beta,
            bias: &weights.bias,
            lambda: &weights.lambda,
        };
        let pass = LossPass::new(loss.terms, loss.thresholds, parameters, loss.signals, loss.rows);
        let value = if weights.layers.is_empty() {
            pass.run(&self.z, &mut self.g, &mut self.thresholds, &mut rest.input_bias)
        } else {
            let value = self.backward_output(&mut weights.layers, &pass, rest, stride, early.as_mut());
            if let (Some(layer), Some(gradient), true) =
                (self.hidden.last(), self.hidden_gradients.last_mut(), weights.prototypes() > 0)
            {
                let (h, factors) = (&layer.after, pass.local_factors());
                self.neighbourhoods.backward(weights, h, &self.g, &factors, rest, gradient);
            }
            self.backward_hidden(config, weights, rest, stride);
            run_sums(&self.hidden_gradients[0], stride, &mut rest.input_bias);
            value
        };
        rest.alpha.copy_from_slice(&self.thresholds.alpha);
        rest.beta.copy_from_slice(&self.thresholds.beta);
        rest.bias.copy_from_slice(&self.thresholds.bias);
        pass.lambda_gradient(&self.thresholds.lambda, &mut rest.lambda);
        let g = if weights.layers.is_empty() { &self.g } else { &self.hidden_gradients[0] };
        match early {
            Some(EarlyStep { step, moments: (first, second) }) => {
                gradients.table.resize(0);
                let table = TableRows {
                    width: weights.width,
                    parameters: &mut weights.table,
                    first: &mut first.table,
                    second: &mut second.table,
                };
                groups.step(g, stride, step, table, &mut self.scratch);
            }
            None => groups.backward(g, weights.width, stride, &mut gradients.table, &mut self.scratch),
        }
        value
    }

    /// Computes the loss and goes back through the output layer. Each block of labels is finished
    /// while it is in the cache: from its logits to the gradient of its weights, or, with `early`, to their step.
    fn backward_output(
        &mut self,
        layers: &mut [DenseLayer],
        pass: &LossPass<f32>,
        rest: &mut Weights,
        stride: usize,
        early: Option<&mut EarlyStep>,
    ) -> LossValue {
        let last = layers.len() - 1;
        let (layer, gradient) = (&mut layers[last], &mut rest.layers[last]);
        let (size, inputs) = (layer.block_outputs(), layer.inputs);
        let run = size * stride;
        let x: &[f32] = &self.hidden[last].after;
        let z: &[f32] = &self.z;

        let rows = pass.rows(z);
        let sums: Vec<_> = z
            .par_chunks(run)
            .zip(self.g.par_chunks_mut(run))
            .zip(self.thresholds.blocks(size))
            .enumerate()
            .map(|(block, ((z, g), gradients))| pass.block(block * size, z, g, &rows, gradients))
            .collect();
        let correction = pass.standardises().then(|| pass.standardisation_gradient(&sums, &rows));
        self.hidden_gradients.resize_with(last + 1, Buffer::default);
        let x_gradient = &mut self.hidden_gradients[last];
        x_gradient.resize(x.len());
        self.partial.resize(layer.outputs.div_ceil(size) * x.len());
        let weights = layer.weight.par_chunks_mut(size * inputs).zip(layer.bias.par_chunks(size));
        let blocks = weights
            .zip(z.par_chunks(run).zip(self.g.par_chunks_mut(run)))
            .zip(gradient.bias.par_chunks_mut(size).zip(self.partial.par_chunks_mut(x.len())));
        let back = |block: OutputBlock,
                    (z, g): (&[f32], &mut [f32]),
                    bias: &mut [f32],
                    partial: &mut [f32],
                    gradient: &mut [f32]| {
            match &correction {
                Some(correction) => pass.finish_block(z, g, &rows, correction, bias),
                None => pass.finish_plain_block(g, bias),
            }
            block.backward(x, g, stride, gradient, partial);
        };
        match early {
            Some(EarlyStep { step, moments: (first, second) }) => {
                gradient.weight.resize(0);
                let [first, second] =
                    [first, second].map(|moments| moments.layers[last].weight.par_chunks_mut(size * inputs));
                let moments = first.zip(second);
                blocks.zip(moments).for_each(
                    |((((weight, bias), logits), (bias_gradient, partial)), (first, second))| {
                        BLOCK_GRADIENT.with_borrow_mut(|gradient| {
                            gradient.resize(weight.len());
                            back(
                                OutputBlock::new(weight, bias, inputs),
                                logits,
                                bias_gradient,
                                partial,
                                gradient,
                            );
                            adamw(*step, weight, gradient, first, second);
                        });
                    },
                );
            }
            None => {
                gradient.weight.resize(layer.outputs * inputs);
                let gradients = gradient.weight.par_chunks_mut(size * inputs);
                blocks.zip(gradients).for_each(
                    |((((weight, bias), logits), (bias_gradient, partial)), gradient)| {
                        back(
                            OutputBlock::new(weight, bias, inputs),
                            logits,
                            bias_gradient,
                            partial,
                            gradient,
                        );
                    },
                );
            }
        }
        sum_partials(&self.partial, x_gradient);
        pass.value(&sums)
    }

    /// Goes back through the hidden layers, from the last to the first.
    fn backward_hidden(&mut self, config: &NetConfig, weights: &Weights, rest: &mut Weights, stride: usize) {
        for layer in (0..self.hidden.len()).rev() {
            let (below, from) = self.hidden_gradients.split_at_mut(layer);
            self.hidden[layer].backward(config.activation, &mut from[0]);
            if let Some(x_gradient) = below.last_mut() {
                let x = &self.hidden[layer - 1].after;
                x_gradient.resize(x.len());
                let (layer, gradient) = (&weights.layers[layer - 1], &mut rest.layers[layer - 1]);
                layer.backward(x, &from[0], stride, gradient, x_gradient, &mut self.partial);
            }
        }
    }
}
