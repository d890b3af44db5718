//! The inner loops of the fused pass, over a block of labels.
//!
//! Logits are label-major: the values of one label for all rows of the batch are adjacent and form a *run* of
//! `stride` values. A block is a few hundred runs. `stride` is the number of rows rounded up to whole cache lines;
//! the padding rows have a scale of zero and so do not contribute to any sum.
//!
//! Results must have the same bits on every processor and for every number of threads: sums use a fixed number of lanes
//! and a fixed order, and a multiply-add is fused only where the code calls `times_plus`. Do not reorder operations.

use std::ops::Range;

use super::real::Real;
use super::terms::{LossTerms, STATIC_THRESHOLD, ThresholdParameters, ThresholdTerms};
use pipe_ml::config::threshold::{GlobalSignal, Squash};
use pipe_ml::multiversion;
use pipe_ml::signal::batch::{BatchSignals, SignalEntry};

/// Sums over rows have this many partial sums.
pub const LANES: usize = 8;
/// How many rows the loss is computed for at once, so that the processor works on several vectors at a time.
const WIDE: usize = 32;

/// The terms that are the same for all labels of a row.
#[derive(Debug, Clone)]
pub struct RowTerms<T> {
    /// mu of eq. 2; 0 if the logits are not standardised.
    pub mean: Vec<T>,
    /// 1 / (sigma + epsilon) of eq. 2; 1 if the logits are not standardised.
    pub inverse: Vec<T>,
    /// The weight of the row in the reduced loss; 0 for padding.
    pub scale: Vec<T>,
    /// c(x) of the row; empty if the thresholds do not fall back.
    pub density: Vec<T>,
}

impl<T: Real> RowTerms<T> {
    /// Returns c(x) of a row, if the thresholds fall back.
    #[inline(always)]
    fn density(&self, row: usize) -> Option<T> {
        if self.density.is_empty() { None } else { Some(self.density[row]) }
    }
}

/// The inputs of the loss of one block of labels.
pub struct BlockInput<'a, T> {
    pub first_label: usize,
    /// The logits.
    pub z: &'a [T],
    pub rows: &'a RowTerms<T>,
    pub loss: &'a LossTerms<T>,
    pub thresholds: &'a ThresholdTerms<T>,
    pub parameters: ThresholdParameters<'a, T>,
    /// The lambdas of eq. 1, one or one per label.
    pub lambda: &'a [T],
    pub signals: &'a BatchSignals,
}

/// The outputs of the loss of one block of labels.
pub struct BlockOutput<'a, T> {
    /// The gradient by the logits after standardisation.
    pub g: &'a mut [T],
    pub alpha: &'a mut [T],
    pub beta: &'a mut [T],
    pub bias: &'a mut [T],
    /// The contribution of each label to the gradient by lambda.
    pub lambda: &'a mut [T],
    /// The sum of the gradient over the labels of the block, by row.
    pub row_gradient: &'a mut [T],
    /// The sum of gradient times standardised logit over the labels of the block, by row.
    pub row_product: &'a mut [T],
}

/// The loss of a block, reduced as configured.
#[derive(Debug, Clone, Copy, Default)]
pub struct BlockLoss {
    pub bce: f64,
    pub margin: f64,
}

multiversion! {
    /// Computes the mean, and the sum of squared distances from it, over the labels of a block, by row.
    pub fn moments<T: Real>(z: &[T], mean: &mut [T], squares: &mut [T]) {
        let labels = T::of((z.len() / mean.len()) as f64);
        mean.fill(T::ZERO);
        squares.fill(T::ZERO);
        for run in z.chunks_exact(mean.len()) {
            for (sum, &z) in mean.iter_mut().zip(run) {
                *sum += z;
            }
        }
        for sum in mean.iter_mut() {
            *sum = *sum / labels;
        }
        for run in z.chunks_exact(mean.len()) {
            for ((square, &mean), &z) in squares.iter_mut().zip(mean.iter()).zip(run) {
                *square += (z - mean) * (z - mean);
            }
        }
    }
}

/// Computes loss and gradients over a block of labels.
pub fn loss_block<T: Real>(input: &BlockInput<T>, output: &mut BlockOutput<T>) -> BlockLoss {
    let stride = input.rows.scale.len();
    let mut elements = LabelElements::new(stride);
    let mut bases = vec![Theta { value: T::ZERO, slope: T::ZERO }; input.z.len() / stride];
    base_thresholds(input, &mut bases);
    let mut block = BlockLoss::default();
    let hinge = Hinge { margin: T::of(input.loss.margin), weight: T::of(input.loss.margin_weight) };
    let runs = input.z.chunks_exact(stride).zip(output.g.chunks_exact_mut(stride)).zip(bases);
    for (offset, ((z, g), base)) in runs.enumerate() {
        let label = input.first_label + offset;
        let entries = input.signals.of(label);
        let sums = if entries.is_empty() && input.rows.density.is_empty() {
            let sums = uniform_run(z, g, input.rows, hinge, base.value);
            RunSums { gradient: sums.gradient * base.slope, ..sums }
        } else {
            fill_elements(&mut elements, input, label, base, entries);
            let sums = mixed_run(z, g, input.rows, hinge, &elements);
            RunSums { gradient: weighted_sum(g, &elements.slope), ..sums }
        };
        block.bce += sums.bce.to_f64();
        block.margin += sums.margin.to_f64();
        let by_theta =
            ThetaGradient { label, offset, total: -sums.gradient, entries, g, slopes: &elements.slope };
        threshold_gradients(input, output.alpha, output.beta, output.bias, output.lambda, by_theta);
        if input.loss.standardise {
            row_sums(z, g, input.rows, output.row_gradient, output.row_product);
        }
    }
    block
}

multiversion! {
    /// Computes the scores of a block: the standardised logits less their thresholds.
    pub fn adjust_block<T: Real>(input: &BlockInput<T>, scores: &mut [T]) {
        let stride = input.rows.scale.len();
        for (offset, (z, scores)) in input.z.chunks_exact(stride).zip(scores.chunks_exact_mut(stride)).enumerate() {
            let label = input.first_label + offset;
            let base = theta(input, label, None, T::ZERO, T::ZERO).value;
            let rows = input.rows.mean.iter().zip(&input.rows.inverse);
            for ((score, &z), (&mean, &inverse)) in scores.iter_mut().zip(z).zip(rows) {
                *score = (z - mean) * inverse - base;
            }
            for (row, &density) in input.rows.density.iter().enumerate() {
                let base = theta(input, label, Some(density), T::ZERO, T::ZERO).value;
                scores[row] = (z[row] - input.rows.mean[row]) * input.rows.inverse[row] - base;
            }
            for entry in input.signals.of(label) {
                let row = entry.row as usize;
                let theta = theta_of(input, label, entry).value;
                scores[row] = (z[row] - input.rows.mean[row]) * input.rows.inverse[row] - theta;
            }
        }
    }
}

multiversion! {
    /// Computes the two operands of a block's scores: the standardised logits, and their thresholds.
    pub fn part_block<T: Real>(input: &BlockInput<T>, standardised: &mut [T], thresholds: &mut [T]) {
        let stride = input.rows.scale.len();
        let sides = standardised.chunks_exact_mut(stride).zip(thresholds.chunks_exact_mut(stride));
        for (offset, (z, (standardised, thresholds))) in input.z.chunks_exact(stride).zip(sides).enumerate() {
            let label = input.first_label + offset;
            let rows = input.rows.mean.iter().zip(&input.rows.inverse);
            for ((standardised, &z), (&mean, &inverse)) in standardised.iter_mut().zip(z).zip(rows) {
                *standardised = (z - mean) * inverse;
            }
            thresholds.fill(theta(input, label, None, T::ZERO, T::ZERO).value);
            for (threshold, &density) in thresholds.iter_mut().zip(&input.rows.density) {
                *threshold = theta(input, label, Some(density), T::ZERO, T::ZERO).value;
            }
            for entry in input.signals.of(label) {
                thresholds[entry.row as usize] = theta_of(input, label, entry).value;
            }
        }
    }
}

multiversion! {
    /// Takes the gradient back through the standardisation (eq. 2) and sums it over the rows. `shift` is the mean
    /// gradient of each row, and `tilt` the factor that comes from the standard deviation.
    pub fn unstandardise<T: Real>(
        z: &[T], g: &mut [T], rows: &RowTerms<T>, shift: &[T], tilt: &[T], label_sums: &mut [T],
    ) {
        let stride = shift.len();
        for ((z, g), sum) in z.chunks_exact(stride).zip(g.chunks_exact_mut(stride)).zip(label_sums) {
            let mut lanes = [T::ZERO; LANES];
            let back = lanes_of(shift).iter().zip(lanes_of(tilt));
            let rows = lanes_of(&rows.mean).iter().zip(lanes_of(&rows.inverse));
            let values = lanes_of(z).iter().zip(g.as_chunks_mut::<LANES>().0);
            for (((z, g), (mean, inverse)), (shift, tilt)) in values.zip(rows).zip(back) {
                for lane in 0..LANES {
                    let straight = (g[lane] - shift[lane]) * inverse[lane];
                    g[lane] = (mean[lane] - z[lane]).times_plus(tilt[lane], straight);
                    lanes[lane] += g[lane];
                }
            }
            *sum = fold(&lanes);
        }
    }
}

multiversion! {
    /// Computes the sum of each run.
    pub fn run_sums<T: Real>(g: &[T], stride: usize, sums: &mut [T]) {
        for (run, sum) in g.chunks_exact(stride).zip(sums) {
            *sum = lane_sum(run);
        }
    }
}

/// A threshold (eq. 1), and its derivative by the argument of the squashing function.
#[derive(Debug, Clone, Copy)]
struct Theta<T> {
    value: T,
    slope: T,
}

/// Computes the threshold of an element with signals.
#[inline(always)]
fn theta_of<T: Real>(input: &BlockInput<T>, label: usize, entry: &SignalEntry) -> Theta<T> {
    let density = input.rows.density(entry.row as usize);
    theta(input, label, density, T::of(entry.local), T::of(entry.global))
}

/// Computes the threshold of an element by eq. 1. With a density c, lambda is 1 - (1 - lambda) c.
#[inline(always)]
fn theta<T: Real>(input: &BlockInput<T>, label: usize, density: Option<T>, local: T, own: T) -> Theta<T> {
    let terms = input.thresholds;
    if !terms.variant.learns() {
        return Theta { value: T::of(STATIC_THRESHOLD), slope: T::ZERO };
    }
    let mut lambda = of_label(input.lambda, label);
    if let Some(density) = density {
        lambda = T::ONE - (T::ONE - lambda) * density;
    }
    let mut inside = input.parameters.bias[label];
    if terms.variant.uses_global() {
        let global = match terms.global {
            GlobalSignal::Idf => terms.idf[label],
            GlobalSignal::OwnLabels | GlobalSignal::Salience => own,
        };
        inside += lambda * input.parameters.alpha[label] * global;
    }
    if terms.variant.uses_local() {
        inside += (T::ONE - lambda) * input.parameters.beta[label] * local;
    }
    match terms.squash {
        Squash::None => Theta { value: inside, slope: T::ONE },
        Squash::Sigmoid => {
            let value = inside.sigmoid();
            Theta { value, slope: value * (T::ONE - value) }
        }
    }
}

multiversion! {
    /// Computes the threshold of each label for elements without a signal.
    fn base_thresholds<T: Real>(input: &BlockInput<T>, bases: &mut [Theta<T>]) {
        for (offset, base) in bases.iter_mut().enumerate() {
            *base = theta(input, input.first_label + offset, None, T::ZERO, T::ZERO);
        }
    }
}

/// Returns the entry of a label, from a vector with one entry per label or one entry for all.
#[inline(always)]
fn of_label<T: Copy>(values: &[T], label: usize) -> T {
    if values.len() == 1 { values[0] } else { values[label] }
}

/// The terms that differ between the elements (labels) of one row.
#[derive(Clone, Copy)]
struct LossElement<T> {
    theta: T,
    /// 1 for a negative, -1 for a positive: the loss of a positive is the mirrored loss of a negative.
    sign: T,
    /// The weight of the element in the cross-entropy.
    weight: T,
}

/// The constants of the margin loss: Delta of eq. 7, and its weight lambda_m in eq. 3.
#[derive(Clone, Copy)]
struct Hinge<T> {
    margin: T,
    weight: T,
}

/// Sums over one run.
struct RunSums<T> {
    bce: T,
    margin: T,
    /// The sum of the gradient by the logits, which is minus the gradient by theta.
    gradient: T,
}

/// Gives the elements of a run, chunk by chunk.
trait Elements<T> {
    /// Returns the `N` elements from `at` on.
    fn chunk<const N: usize>(&self, at: usize) -> ElementChunk<T, N>;
}

/// Some adjacent elements.
struct ElementChunk<T, const N: usize> {
    theta: [T; N],
    sign: [T; N],
    weight: [T; N],
}

/// The elements of a label that no row has and that has no signal: all are equal.
struct SameElement<T>(LossElement<T>);

impl<T: Real> Elements<T> for SameElement<T> {
    #[inline(always)]
    fn chunk<const N: usize>(&self, _: usize) -> ElementChunk<T, N> {
        ElementChunk { theta: [self.0.theta; N], sign: [self.0.sign; N], weight: [self.0.weight; N] }
    }
}

impl<T: Real> Elements<T> for &LabelElements<T> {
    #[inline(always)]
    fn chunk<const N: usize>(&self, at: usize) -> ElementChunk<T, N> {
        let some = |values: &[T]| {
            let mut chunk = [T::ZERO; N];
            chunk.copy_from_slice(&values[at..at + N]);
            chunk
        };
        ElementChunk { theta: some(&self.theta), sign: some(&self.sign), weight: some(&self.weight) }
    }
}

type Lanes<T> = [T; LANES];

multiversion! {
    /// Computes a label whose elements are all negative and have the same threshold.
    fn uniform_run<T: Real>(z: &[T], g: &mut [T], rows: &RowTerms<T>, hinge: Hinge<T>, theta: T) -> RunSums<T> {
        run(z, g, rows, hinge, SameElement(LossElement { theta, sign: T::ONE, weight: T::ONE }))
    }
}

multiversion! {
    /// Computes a label with positives or signals.
    fn mixed_run<T: Real>(
        z: &[T], g: &mut [T], rows: &RowTerms<T>, hinge: Hinge<T>, elements: &LabelElements<T>,
    ) -> RunSums<T> {
        run(z, g, rows, hinge, elements)
    }
}

/// Computes one label for all rows: eqs. 3 and 7, and their gradient by the standardised logit.
#[inline(always)]
fn run<T: Real, E: Elements<T>>(
    z: &[T],
    g: &mut [T],
    rows: &RowTerms<T>,
    hinge: Hinge<T>,
    elements: E,
) -> RunSums<T> {
    let mut sums = LaneSums { bce: [T::ZERO; LANES], hinges: [T::ZERO; LANES], total: [T::ZERO; LANES] };
    let wide = z.len() - z.len() % WIDE;
    add_chunks::<T, E, WIDE>(0..wide, z, g, rows, hinge, &elements, &mut sums);
    add_chunks::<T, E, LANES>(wide..z.len(), z, g, rows, hinge, &elements, &mut sums);
    RunSums { bce: fold(&sums.bce), margin: fold(&sums.hinges), gradient: fold(&sums.total) }
}

/// The partial sums of a run.
struct LaneSums<T> {
    bce: Lanes<T>,
    hinges: Lanes<T>,
    total: Lanes<T>,
}

/// Computes a part of a run, `N` rows at once. `N` does not change the bits: each lane adds its values one by one.
#[inline(always)]
fn add_chunks<T: Real, E: Elements<T>, const N: usize>(
    part: Range<usize>,
    z: &[T],
    g: &mut [T],
    rows: &RowTerms<T>,
    hinge: Hinge<T>,
    elements: &E,
    sums: &mut LaneSums<T>,
) {
    let values = z[part.clone()].as_chunks::<N>().0.iter().zip(g[part.clone()].as_chunks_mut::<N>().0);
    let (mean, inverse) = (chunks_of::<T, N>(&rows.mean, &part), chunks_of::<T, N>(&rows.inverse, &part));
    let rows = mean.iter().zip(inverse).zip(chunks_of::<T, N>(&rows.scale, &part));
    for (number, ((z, g), ((mean, inverse), scale))) in values.zip(rows).enumerate() {
        let at = elements.chunk::<N>(part.start + number * N);
        let (mut softplus, mut over) = ([T::ZERO; N], [T::ZERO; N]);
        for row in 0..N {
            let u = at.sign[row] * ((z[row] - mean[row]) * inverse[row] - at.theta[row]);
            let t = (-u.abs()).exp_of_negative();
            let upper = T::ONE / (T::ONE + t);
            let sigmoid = if u < T::ZERO { t * upper } else { upper };
            softplus[row] = u.positive_part() + t.ln_1p_of_unit();
            // Exactly at the margin the gradient is that of the positive side, as in PyTorch.
            let beyond = u + hinge.margin;
            let step = if beyond < T::ZERO { T::ZERO } else { hinge.weight };
            over[row] = beyond.positive_part();
            g[row] = scale[row] * at.sign[row] * at.weight[row].times_plus(sigmoid, step);
        }
        for first in (0..N).step_by(LANES) {
            for lane in 0..LANES {
                let row = first + lane;
                sums.bce[lane] = (scale[row] * at.weight[row]).times_plus(softplus[row], sums.bce[lane]);
                sums.hinges[lane] = scale[row].times_plus(over[row], sums.hinges[lane]);
                sums.total[lane] += g[row];
            }
        }
    }
}

/// The elements of a label with positives or signals, row by row.
struct LabelElements<T> {
    theta: Vec<T>,
    slope: Vec<T>,
    sign: Vec<T>,
    weight: Vec<T>,
}

impl<T: Real> LabelElements<T> {
    fn new(stride: usize) -> Self {
        let row = || vec![T::ZERO; stride];
        Self { theta: row(), slope: row(), sign: row(), weight: row() }
    }
}

multiversion! {
    /// Fills in the elements of one label.
    fn fill_elements<T: Real>(
        elements: &mut LabelElements<T>, input: &BlockInput<T>, label: usize, base: Theta<T>, entries: &[SignalEntry],
    ) {
        elements.theta.fill(base.value);
        elements.slope.fill(base.slope);
        elements.sign.fill(T::ONE);
        elements.weight.fill(T::ONE);
        for (row, &density) in input.rows.density.iter().enumerate() {
            let theta = theta(input, label, Some(density), T::ZERO, T::ZERO);
            elements.theta[row] = theta.value;
            elements.slope[row] = theta.slope;
        }
        for entry in entries {
            let row = entry.row as usize;
            let theta = theta_of(input, label, entry);
            elements.theta[row] = theta.value;
            elements.slope[row] = theta.slope;
            if entry.positive {
                elements.sign[row] = -T::ONE;
                elements.weight[row] = input.loss.positive_weights[label];
            }
        }
    }
}

multiversion! {
    /// Returns the sum of the values times their weights.
    fn weighted_sum<T: Real>(values: &[T], weights: &[T]) -> T {
        let mut lanes = [T::ZERO; LANES];
        for (values, weights) in lanes_of(values).iter().zip(lanes_of(weights)) {
            for lane in 0..LANES {
                lanes[lane] = values[lane].times_plus(weights[lane], lanes[lane]);
            }
        }
        fold(&lanes)
    }
}

/// The gradient of one label by theta before it is squashed.
struct ThetaGradient<'a, T> {
    label: usize,
    /// The position of the label in its block.
    offset: usize,
    /// The sum over all rows.
    total: T,
    entries: &'a [SignalEntry],
    g: &'a [T],
    slopes: &'a [T],
}

/// Computes the gradients of one label by the parameters of eq. 1.
fn threshold_gradients<T: Real>(
    input: &BlockInput<T>,
    alpha: &mut [T],
    beta: &mut [T],
    bias: &mut [T],
    lambda: &mut [T],
    by_theta: ThetaGradient<T>,
) {
    let terms = input.thresholds;
    let weight = of_label(input.lambda, by_theta.label);
    let gradient = |row: usize| -(by_theta.g[row] * by_theta.slopes[row]);
    let density = |row: usize| input.rows.density(row).unwrap_or(T::ONE);
    // The sums of the gradient times a signal, and the same times c(x), which is the part that lambda moves.
    let (mut by_own, mut by_dense_own, mut by_local) = (T::ZERO, T::ZERO, T::ZERO);
    for entry in by_theta.entries {
        let row = entry.row as usize;
        let (inside, own) = (gradient(row), T::of(entry.global));
        by_own += inside * own;
        by_dense_own += inside * density(row) * own;
        by_local += inside * density(row) * T::of(entry.local);
    }
    let falls_back = !input.rows.density.is_empty();
    let mut dense_total = by_theta.total;
    if falls_back {
        dense_total = T::ZERO;
        for (row, &density) in input.rows.density.iter().enumerate() {
            dense_total += gradient(row) * density;
        }
    }
    let (by_global, by_dense_global) = match (terms.variant.uses_global(), terms.global) {
        (false, _) => (T::ZERO, T::ZERO),
        (true, GlobalSignal::Idf) => {
            let idf = terms.idf[by_theta.label];
            (by_theta.total * idf, dense_total * idf)
        }
        (true, GlobalSignal::OwnLabels | GlobalSignal::Salience) => (by_own, by_dense_own),
    };
    let by_local = if terms.variant.uses_local() { by_local } else { T::ZERO };
    let by_lambda = input.parameters.alpha[by_theta.label] * by_dense_global
        - input.parameters.beta[by_theta.label] * by_local;
    bias[by_theta.offset] = by_theta.total;
    alpha[by_theta.offset] =
        if falls_back { by_global - (T::ONE - weight) * by_dense_global } else { weight * by_global };
    beta[by_theta.offset] = (T::ONE - weight) * by_local;
    lambda[by_theta.offset] = by_lambda;
}

multiversion! {
    /// Adds the gradient of one label, and the gradient times the standardised logit, to the sums of each row.
    fn row_sums<T: Real>(z: &[T], g: &[T], rows: &RowTerms<T>, gradient: &mut [T], product: &mut [T]) {
        let values = lanes_of(z).iter().zip(lanes_of(g));
        let rows = lanes_of(&rows.mean).iter().zip(lanes_of(&rows.inverse));
        let sums = gradient.as_chunks_mut::<LANES>().0.iter_mut().zip(product.as_chunks_mut::<LANES>().0);
        for (((z, g), (mean, inverse)), (gradient, product)) in values.zip(rows).zip(sums) {
            for lane in 0..LANES {
                let standardised = (z[lane] - mean[lane]) * inverse[lane];
                gradient[lane] += g[lane];
                product[lane] = g[lane].times_plus(standardised, product[lane]);
            }
        }
    }
}

/// Splits a part of a run into chunks.
#[inline(always)]
fn chunks_of<'a, T, const N: usize>(values: &'a [T], part: &Range<usize>) -> &'a [[T; N]] {
    values[part.clone()].as_chunks::<N>().0
}

/// Splits a run into lanes; the length of a run is a multiple of the lanes.
#[inline(always)]
fn lanes_of<T>(values: &[T]) -> &[[T; LANES]] {
    values.as_chunks::<LANES>().0
}

/// Returns the sum of a run: first within each lane, then over the lanes.
#[inline(always)]
fn lane_sum<T: Real>(run: &[T]) -> T {
    let mut lanes = [T::ZERO; LANES];
    for chunk in lanes_of(run) {
        for lane in 0..LANES {
            lanes[lane] += chunk[lane];
        }
    }
    fold(&lanes)
}

/// Adds up the lanes by halving them until one is left, an order that vector code can follow.
#[inline(always)]
fn fold<T: Real>(lanes: &Lanes<T>) -> T {
    let mut lanes = *lanes;
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}
