//! The fused loss pass: loss and all gradients over the B x L logits of a batch, in parallel over blocks of labels.
//!
//! The equations are those of the paper: thresholds (1), standardisation (2), loss (3) and margin loss (7). The same
//! expression with autograd is [`super::reference`]. This pass is written by hand because it reads and writes the
//! logits once per sweep, where autograd makes a B x L tensor for every operation. It is part of the CPU engine,
//! [`crate::engine::cpu`].
//!
//! The blocks depend on the number of labels alone, and their sums are added in order, so that the result is the same
//! to the bit for any number of threads. Standardised logits need three sweeps (moments, loss, and back through the
//! standardisation), other logits one. A network runs the sweeps itself, block by block, while a block is in the
//! cache.

use rayon::prelude::*;

use super::kernel::{
    BlockInput, BlockLoss, BlockOutput, LANES, RowTerms, adjust_block, loss_block, moments, part_block,
    run_sums, unstandardise,
};
use super::real::Real;
use super::terms::{LossTerms, LossValue, ThresholdParameters, ThresholdTerms};
use pipe_ml::signal::batch::BatchSignals;

/// How many f32 a cache line holds; a multiple of the kernel's lanes.
const LINE: usize = 16;
const _: () = assert!(LINE.is_multiple_of(LANES));

/// Returns how many labels a block has: at most 32 blocks of at least 64 labels. It must depend on nothing else, or the
/// order of the sums would change.
pub fn block_labels(labels: usize) -> usize {
    labels.div_ceil(32).next_multiple_of(LINE).max(64)
}

/// Returns how many values are stored per label: the rows of a batch, rounded up to whole cache lines.
pub fn stride(rows: usize) -> usize {
    rows.next_multiple_of(LINE)
}

/// Everything that the loss of a batch depends on, except the logits.
pub struct LossPass<'a, T> {
    loss: &'a LossTerms<T>,
    thresholds: &'a ThresholdTerms<T>,
    parameters: ThresholdParameters<'a, T>,
    signals: &'a BatchSignals,
    /// The lambdas of eq. 1, one or one per label.
    lambda: Vec<T>,
    /// The derivative of each lambda by its parameter.
    lambda_slope: Vec<T>,
    /// The weight of each row in the reduced loss; zero for padding.
    scale: Vec<T>,
    labels: usize,
}

/// The gradients by the parameters of eq. 1, one entry per label.
#[derive(Debug, Clone, Default)]
pub struct ThresholdGradients<T> {
    pub alpha: Vec<T>,
    pub beta: Vec<T>,
    pub bias: Vec<T>,
    /// The contribution of each label to the gradient by the effective lambda; see [`LossPass::lambda_gradient`].
    pub lambda: Vec<T>,
}

/// One block of [`ThresholdGradients`].
pub struct GradientBlock<'a, T> {
    alpha: &'a mut [T],
    beta: &'a mut [T],
    bias: &'a mut [T],
    lambda: &'a mut [T],
}

/// The moments of a block's logits, by row.
struct BlockMoments<T> {
    labels: usize,
    mean: Vec<T>,
    /// The sum of the squared distances from the mean.
    squares: Vec<T>,
}

/// The contribution of a block to sums over all labels.
pub struct BlockSums<T> {
    loss: BlockLoss,
    /// The sum of the gradient, by row.
    row_gradient: Vec<T>,
    /// The sum of the gradient times the standardised logit, by row.
    row_product: Vec<T>,
}

/// The values by row that take a gradient back through the standardisation (eq. 2).
pub struct StandardisationGradient<T> {
    /// The mean of the gradient, which the mean of the logits gives back.
    shift: Vec<T>,
    /// The factor of the centred logits, which the standard deviation gives back.
    tilt: Vec<T>,
}

impl<'a, T: Real> LossPass<'a, T> {
    /// Prepares the pass over a batch of `rows` rows.
    pub fn new(
        loss: &'a LossTerms<T>,
        thresholds: &'a ThresholdTerms<T>,
        parameters: ThresholdParameters<'a, T>,
        signals: &'a BatchSignals,
        rows: usize,
    ) -> Self {
        let labels = signals.labels();
        let effective = parameters.lambda.iter().map(|&raw| thresholds.effective_lambda(raw));
        let (lambda, lambda_slope) = effective.unzip();
        let factor = T::of(loss.reduction.factor(rows, labels));
        let mut scale = vec![factor; rows];
        scale.resize(stride(rows), T::ZERO);
        Self { loss, thresholds, parameters, signals, lambda, lambda_slope, scale, labels }
    }

    /// Returns the factor of the local signal in the threshold of each label.
    pub fn local_factors(&self) -> Vec<T> {
        let lambda = |label: usize| self.lambda[if self.lambda.len() == 1 { 0 } else { label }];
        self.parameters
            .beta
            .iter()
            .enumerate()
            .map(|(label, &beta)| (T::ONE - lambda(label)) * beta)
            .collect()
    }

    /// Returns whether the logits are standardised (eq. 2).
    pub fn standardises(&self) -> bool {
        self.loss.standardise
    }

    /// Runs the first sweep, over a block of logits that are to be standardised.
    fn moments(&self, z: &[T]) -> BlockMoments<T> {
        let stride = self.scale.len();
        let mut found = BlockMoments {
            labels: z.len() / stride,
            mean: vec![T::ZERO; stride],
            squares: vec![T::ZERO; stride],
        };
        moments(z, &mut found.mean, &mut found.squares);
        found
    }

    /// Returns rows that are not standardised.
    fn plain_rows(&self) -> RowTerms<T> {
        let stride = self.scale.len();
        let mut density: Vec<T> = self.signals.density().iter().map(|&density| T::of(density)).collect();
        if !density.is_empty() {
            density.resize(stride, T::ONE);
        }
        let (mean, inverse) = (vec![T::ZERO; stride], vec![T::ONE; stride]);
        RowTerms { mean, inverse, scale: self.scale.clone(), density }
    }

    /// Returns rows that are standardised by the moments of all blocks, in order: eq. 2 with the divisor L - 1 in the
    /// variance.
    fn standardised_rows(&self, blocks: &[BlockMoments<T>]) -> RowTerms<T> {
        let mut rows = self.plain_rows();
        for row in 0..self.scale.len() {
            let (mean, deviation) = combined_moments(blocks, row);
            rows.mean[row] = T::of(mean);
            rows.inverse[row] = T::of(1.0 / (deviation + self.loss.standardise_eps));
        }
        rows
    }

    /// Runs the second sweep over a block: computes its loss and gradients. `g` receives the gradient by the
    /// standardised logits.
    pub fn block(
        &self,
        first_label: usize,
        z: &[T],
        g: &mut [T],
        rows: &RowTerms<T>,
        gradients: GradientBlock<T>,
    ) -> BlockSums<T> {
        let GradientBlock { alpha, beta, bias, lambda } = gradients;
        let mut row_gradient = vec![T::ZERO; self.scale.len()];
        let mut row_product = vec![T::ZERO; self.scale.len()];
        let loss = loss_block(
            &self.input(first_label, z, rows),
            &mut BlockOutput {
                g,
                alpha,
                beta,
                bias,
                lambda,
                row_gradient: &mut row_gradient,
                row_product: &mut row_product,
            },
        );
        BlockSums { loss, row_gradient, row_product }
    }

    /// Returns the inputs of the kernel for a block.
    fn input<'b>(&'b self, first_label: usize, z: &'b [T], rows: &'b RowTerms<T>) -> BlockInput<'b, T> {
        BlockInput {
            first_label,
            z,
            rows,
            loss: self.loss,
            thresholds: self.thresholds,
            parameters: self.parameters,
            lambda: &self.lambda,
            signals: self.signals,
        }
    }

    /// Computes the standardised logits less their thresholds. A label is predicted if the result is above zero.
    pub fn adjusted(&self, z: &[T], scores: &mut [T]) {
        let size = block_labels(self.labels);
        let run = size * self.scale.len();
        let rows = self.rows(z);
        let blocks = z.par_chunks(run).zip(scores.par_chunks_mut(run)).enumerate();
        blocks.for_each(|(block, (z, scores))| adjust_block(&self.input(block * size, z, &rows), scores));
    }

    /// Computes the two operands of the difference [`LossPass::adjusted`].
    pub fn parts(&self, z: &[T], standardised: &mut [T], thresholds: &mut [T]) {
        let size = block_labels(self.labels);
        let run = size * self.scale.len();
        let rows = self.rows(z);
        let sides = standardised.par_chunks_mut(run).zip(thresholds.par_chunks_mut(run));
        z.par_chunks(run).zip(sides).enumerate().for_each(|(block, (z, (standardised, thresholds)))| {
            part_block(&self.input(block * size, z, &rows), standardised, thresholds);
        });
    }

    /// Returns the terms of each row of a batch whose logits are complete. Runs the first sweep if the logits are
    /// standardised.
    pub fn rows(&self, z: &[T]) -> RowTerms<T> {
        if !self.standardises() {
            return self.plain_rows();
        }
        let run = block_labels(self.labels) * self.scale.len();
        let moments: Vec<_> = z.par_chunks(run).map(|z| self.moments(z)).collect();
        self.standardised_rows(&moments)
    }

    /// Prepares the third sweep. With c = z - mean and s the standard deviation of eq. 2, the gradient by z is
    /// (g - mean g) / (s + eps) - c · sum(g ĉ) / ((L - 1) s (s + eps)).
    pub fn standardisation_gradient(
        &self,
        blocks: &[BlockSums<T>],
        rows: &RowTerms<T>,
    ) -> StandardisationGradient<T> {
        let labels = self.labels as f64;
        let mut correction = StandardisationGradient { shift: self.scale.clone(), tilt: self.scale.clone() };
        for row in 0..self.scale.len() {
            let gradient: f64 = blocks.iter().map(|block| block.row_gradient[row].to_f64()).sum();
            let product: f64 = blocks.iter().map(|block| block.row_product[row].to_f64()).sum();
            let inverse = rows.inverse[row].to_f64();
            let deviation = 1.0 / inverse - self.loss.standardise_eps;
            let tilt = product * inverse / ((labels - 1.0) * deviation);
            correction.shift[row] = T::of(gradient / labels);
            // The deviation of a constant row is zero and has no gradient; PyTorch gives zero as well.
            correction.tilt[row] = T::of(if deviation > 0.0 { tilt } else { 0.0 });
        }
        correction
    }

    /// Runs the third sweep over a block. `label_sums` receives the gradient of each label, summed over the rows.
    pub fn finish_block(
        &self,
        z: &[T],
        g: &mut [T],
        rows: &RowTerms<T>,
        correction: &StandardisationGradient<T>,
        label_sums: &mut [T],
    ) {
        unstandardise(z, g, rows, &correction.shift, &correction.tilt, label_sums);
    }

    /// Finishes a block whose logits are not standardised: only the sums remain to be computed.
    pub fn finish_plain_block(&self, g: &[T], label_sums: &mut [T]) {
        run_sums(g, self.scale.len(), label_sums);
    }

    /// Adds up the loss of all blocks, in order (eq. 3).
    pub fn value(&self, blocks: &[BlockSums<T>]) -> LossValue {
        let bce = blocks.iter().map(|block| block.loss.bce).sum();
        let margin = blocks.iter().map(|block| block.loss.margin).sum();
        LossValue { bce, margin, total: bce + self.loss.margin_weight * margin }
    }

    /// Computes the gradient by the parameter behind lambda, one or one per label, from the contribution of each label.
    pub fn lambda_gradient(&self, parts: &[T], gradient: &mut [T]) {
        if let [one] = gradient {
            let sum: f64 = parts.iter().map(|part| part.to_f64()).sum();
            *one = T::of(sum) * self.lambda_slope[0];
        } else {
            for ((gradient, &part), &slope) in gradient.iter_mut().zip(parts).zip(&self.lambda_slope) {
                *gradient = part * slope;
            }
        }
    }

    /// Runs all sweeps over complete logits. `g` receives the gradient by the logits, and `label_sums` its sums over
    /// the rows.
    pub fn run(
        &self,
        z: &[T],
        g: &mut [T],
        gradients: &mut ThresholdGradients<T>,
        label_sums: &mut [T],
    ) -> LossValue {
        let size = block_labels(self.labels);
        let run = size * self.scale.len();
        let rows = self.rows(z);
        let sums: Vec<_> = z
            .par_chunks(run)
            .zip(g.par_chunks_mut(run))
            .zip(gradients.blocks(size))
            .enumerate()
            .map(|(block, ((z, g), gradients))| self.block(block * size, z, g, &rows, gradients))
            .collect();
        let correction = self.standardises().then(|| self.standardisation_gradient(&sums, &rows));
        let blocks = z.par_chunks(run).zip(g.par_chunks_mut(run)).zip(label_sums.par_chunks_mut(size));
        blocks.for_each(|((z, g), label_sums)| match &correction {
            Some(correction) => self.finish_block(z, g, &rows, correction, label_sums),
            None => self.finish_plain_block(g, label_sums),
        });
        self.value(&sums)
    }
}

impl<T: Real> ThresholdGradients<T> {
    /// Returns gradients of zero.
    pub fn new(labels: usize) -> Self {
        let zeros = || vec![T::ZERO; labels];
        Self { alpha: zeros(), beta: zeros(), bias: zeros(), lambda: zeros() }
    }

    /// Changes the number of labels.
    pub fn resize(&mut self, labels: usize) {
        for part in [&mut self.alpha, &mut self.beta, &mut self.bias, &mut self.lambda] {
            part.resize(labels, T::ZERO);
        }
    }

    /// Splits the gradients into blocks of `size` labels.
    pub fn blocks(&mut self, size: usize) -> impl IndexedParallelIterator<Item = GradientBlock<'_, T>> {
        let pairs = self.alpha.par_chunks_mut(size).zip(self.beta.par_chunks_mut(size));
        let others = self.bias.par_chunks_mut(size).zip(self.lambda.par_chunks_mut(size));
        pairs.zip(others).map(|((alpha, beta), (bias, lambda))| GradientBlock { alpha, beta, bias, lambda })
    }
}

/// Combines the moments of a row's blocks into its mean and standard deviation, by the formula of Chan, Golub and
/// LeVeque.
fn combined_moments<T: Real>(blocks: &[BlockMoments<T>], row: usize) -> (f64, f64) {
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    for block in blocks {
        let added = block.labels as f64;
        let distance = block.mean[row].to_f64() - mean;
        let total = count + added;
        mean += distance * added / total;
        squares += block.squares[row].to_f64() + distance * distance * count * added / total;
        count = total;
    }
    (mean, (squares / (count - 1.0)).sqrt())
}
