//! Loss and gradients over the B x L logits of a batch, in parallel over blocks of labels.
//!
//! The blocks are fixed by the number of labels alone and their sums are added in order, so that
//! the result is the same to the bit for any number of threads. Standardised logits need three sweeps
//! (moments, loss, back through the standardisation), others one; a network that computes its
//! logits by blocks runs the sweeps itself, while the block is still in the cache.

use rayon::prelude::*;

use super::kernel::{
    BlockInput, BlockLoss, BlockOutput, LANES, RowTerms, adjust_block, loss_block, moments, part_block,
    run_sums, unstandardise,
};
use super::real::Real;
use super::terms::{LossTerms, LossValue, ThresholdTerms, Thresholds};
use pipe_ml::signal::batch::BatchSignals;

/// Numbers in a cache line; a multiple of the kernel's lanes.
const LINE: usize = 16;
const _: () = assert!(LINE.is_multiple_of(LANES));

/// How many labels make a block: at most 32 blocks, none smaller than 64 labels.
pub fn block_labels(labels: usize) -> usize {
    labels.div_ceil(32).next_multiple_of(LINE).max(64)
}

/// The rows of a batch as they lie in memory: rounded up to whole cache lines.
pub fn stride(rows: usize) -> usize {
    rows.next_multiple_of(LINE)
}

/// Everything that one batch's loss depends on, apart from the logits.
pub struct Pass<'a, T> {
    loss: &'a LossTerms<T>,
    thresholds: &'a ThresholdTerms<T>,
    parameters: Thresholds<'a, T>,
    signals: &'a BatchSignals,
    lambda: Vec<T>,
    lambda_slope: Vec<T>,
    scale: Vec<T>,
    labels: usize,
}

/// Where the gradients by the learnable numbers of eq. 1 go, one entry per label.
#[derive(Debug, Clone, Default)]
pub struct ThresholdGradients<T> {
    pub alpha: Vec<T>,
    pub beta: Vec<T>,
    pub bias: Vec<T>,
    /// Each label's part, by the effective lambda; see [`Pass::lambda_gradient`].
    pub lambda: Vec<T>,
}

/// One block's part of [`ThresholdGradients`].
pub struct GradientBlock<'a, T> {
    alpha: &'a mut [T],
    beta: &'a mut [T],
    bias: &'a mut [T],
    lambda: &'a mut [T],
}

/// Mean and spread of a block's logits by row.
struct Moments<T> {
    labels: usize,
    mean: Vec<T>,
    squares: Vec<T>,
}

/// What a block adds to sums over all labels.
pub struct BlockSums<T> {
    loss: BlockLoss,
    row_gradient: Vec<T>,
    row_product: Vec<T>,
}

/// What takes a gradient back through the standardisation.
pub struct WayBack<T> {
    shift: Vec<T>,
    tilt: Vec<T>,
}

impl<'a, T: Real> Pass<'a, T> {
    pub fn new(
        loss: &'a LossTerms<T>,
        thresholds: &'a ThresholdTerms<T>,
        parameters: Thresholds<'a, T>,
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

    pub fn standardises(&self) -> bool {
        self.loss.standardise
    }

    /// The first sweep over a block of standardised logits.
    fn moments(&self, z: &[T]) -> Moments<T> {
        let stride = self.scale.len();
        let mut found =
            Moments { labels: z.len() / stride, mean: vec![T::ZERO; stride], squares: vec![T::ZERO; stride] };
        moments(z, &mut found.mean, &mut found.squares);
        found
    }

    /// Rows as they are.
    fn plain_rows(&self) -> RowTerms<T> {
        let stride = self.scale.len();
        RowTerms { mean: vec![T::ZERO; stride], inverse: vec![T::ONE; stride], scale: self.scale.clone() }
    }

    /// Rows standardised by the moments of all blocks, in order; eq. 2 with the divisor L - 1.
    fn standardised_rows(&self, blocks: &[Moments<T>]) -> RowTerms<T> {
        let mut rows = self.plain_rows();
        for row in 0..self.scale.len() {
            let (mean, deviation) = joined(blocks, row);
            rows.mean[row] = T::of(mean);
            rows.inverse[row] = T::of(1.0 / (deviation + self.loss.standardise_eps));
        }
        rows
    }

    /// Loss and gradient of one block; `g` gets the gradient by the standardised logits.
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

    /// The standardised logits less their thresholds: above zero means the label is predicted.
    pub fn adjusted(&self, z: &[T], scores: &mut [T]) {
        let size = block_labels(self.labels);
        let run = size * self.scale.len();
        let rows = self.rows(z);
        let blocks = z.par_chunks(run).zip(scores.par_chunks_mut(run)).enumerate();
        blocks.for_each(|(block, (z, scores))| adjust_block(&self.input(block * size, z, &rows), scores));
    }

    /// What [`Pass::adjusted`] is the difference of.
    pub fn parts(&self, z: &[T], standardised: &mut [T], thresholds: &mut [T]) {
        let size = block_labels(self.labels);
        let run = size * self.scale.len();
        let rows = self.rows(z);
        let sides = standardised.par_chunks_mut(run).zip(thresholds.par_chunks_mut(run));
        z.par_chunks(run).zip(sides).enumerate().for_each(|(block, (z, (standardised, thresholds)))| {
            part_block(&self.input(block * size, z, &rows), standardised, thresholds);
        });
    }

    /// The rows of a batch whose logits are all there.
    pub fn rows(&self, z: &[T]) -> RowTerms<T> {
        if !self.standardises() {
            return self.plain_rows();
        }
        let run = block_labels(self.labels) * self.scale.len();
        let moments: Vec<_> = z.par_chunks(run).map(|z| self.moments(z)).collect();
        self.standardised_rows(&moments)
    }

    /// What the third sweep needs: with c = z - mean and s the deviation, the gradient by z is
    /// (g - mean g) / (s + eps) - c · sum(g ĉ) / ((L - 1) s (s + eps)).
    pub fn way_back(&self, blocks: &[BlockSums<T>], rows: &RowTerms<T>) -> WayBack<T> {
        let labels = self.labels as f64;
        let mut back = WayBack { shift: self.scale.clone(), tilt: self.scale.clone() };
        for row in 0..self.scale.len() {
            let gradient: f64 = blocks.iter().map(|block| block.row_gradient[row].to_f64()).sum();
            let product: f64 = blocks.iter().map(|block| block.row_product[row].to_f64()).sum();
            let inverse = rows.inverse[row].to_f64();
            let deviation = 1.0 / inverse - self.loss.standardise_eps;
            let tilt = product * inverse / ((labels - 1.0) * deviation);
            back.shift[row] = T::of(gradient / labels);
            // A constant row has no spread to give back; PyTorch says zero, too.
            back.tilt[row] = T::of(if deviation > 0.0 { tilt } else { 0.0 });
        }
        back
    }

    /// The third sweep over a block; `label_sums` gets each label's gradient summed over the rows.
    pub fn finish_block(
        &self,
        z: &[T],
        g: &mut [T],
        rows: &RowTerms<T>,
        back: &WayBack<T>,
        label_sums: &mut [T],
    ) {
        unstandardise(z, g, rows, &back.shift, &back.tilt, label_sums);
    }

    /// The same where nothing was standardised: only the sums are left to do.
    pub fn finish_plain_block(&self, g: &[T], label_sums: &mut [T]) {
        run_sums(g, self.scale.len(), label_sums);
    }

    pub fn value(&self, blocks: &[BlockSums<T>]) -> LossValue {
        let bce = blocks.iter().map(|block| block.loss.bce).sum();
        let margin = blocks.iter().map(|block| block.loss.margin).sum();
        LossValue { bce, margin, total: bce + self.loss.margin_weight * margin }
    }

    /// From each label's part to the gradient by the parameter behind lambda, one or per label.
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

    /// All sweeps over logits that are there already: the gradient by the logits into `g`, its
    /// sums over rows into `label_sums`.
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
        let back = self.standardises().then(|| self.way_back(&sums, &rows));
        let blocks = z.par_chunks(run).zip(g.par_chunks_mut(run)).zip(label_sums.par_chunks_mut(size));
        blocks.for_each(|((z, g), label_sums)| match &back {
            Some(back) => self.finish_block(z, g, &rows, back, label_sums),
            None => self.finish_plain_block(g, label_sums),
        });
        self.value(&sums)
    }
}

impl<T: Real> ThresholdGradients<T> {
    pub fn new(labels: usize) -> Self {
        let zeros = || vec![T::ZERO; labels];
        Self { alpha: zeros(), beta: zeros(), bias: zeros(), lambda: zeros() }
    }

    pub fn resize(&mut self, labels: usize) {
        for part in [&mut self.alpha, &mut self.beta, &mut self.bias, &mut self.lambda] {
            part.resize(labels, T::ZERO);
        }
    }

    pub fn blocks(&mut self, size: usize) -> impl IndexedParallelIterator<Item = GradientBlock<'_, T>> {
        let pairs = self.alpha.par_chunks_mut(size).zip(self.beta.par_chunks_mut(size));
        let others = self.bias.par_chunks_mut(size).zip(self.lambda.par_chunks_mut(size));
        pairs.zip(others).map(|((alpha, beta), (bias, lambda))| GradientBlock { alpha, beta, bias, lambda })
    }
}

/// Mean and standard deviation of a row from its blocks, after Chan, Golub and LeVeque.
fn joined<T: Real>(blocks: &[Moments<T>], row: usize) -> (f64, f64) {
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
