//! The inner loops of the fused pass, over a block of labels.
//!
//! Logits lie label-major: the values of one label for all rows of the batch are neighbours, and
//! a block is a few hundred such runs of `stride` values. `stride` is the number of rows rounded up
//! to whole cache lines; the rows that fill it up carry a scale of zero and so count for nothing.

use super::real::Real;
use super::terms::{LossTerms, STATIC_THRESHOLD, ThresholdTerms, Thresholds};
use super::widest::widest;
use pipe_ml::config::threshold::{GlobalSignal, Squash};
use pipe_ml::signal::batch::{BatchSignals, Entry};

/// Values handled side by side; sums over rows are kept in as many parts.
pub const LANES: usize = 8;

/// What is the same for all labels of a row: how to standardise its logits, and its share of the
/// reduced loss.
#[derive(Debug, Clone)]
pub struct RowTerms<T> {
    pub mean: Vec<T>,
    /// 1 / (standard deviation + eps).
    pub inverse: Vec<T>,
    pub scale: Vec<T>,
}

/// Reads of the loss over one block of labels.
pub struct BlockInput<'a, T> {
    pub first_label: usize,
    pub z: &'a [T],
    pub rows: &'a RowTerms<T>,
    pub loss: &'a LossTerms<T>,
    pub thresholds: &'a ThresholdTerms<T>,
    pub parameters: Thresholds<'a, T>,
    /// The lambdas that eq. 1 sees.
    pub lambda: &'a [T],
    pub signals: &'a BatchSignals,
}

/// Writes of the loss over one block of labels.
pub struct BlockOutput<'a, T> {
    /// Gradient by the (standardised) logits.
    pub g: &'a mut [T],
    pub alpha: &'a mut [T],
    pub beta: &'a mut [T],
    pub bias: &'a mut [T],
    /// Each label's part of the gradient by lambda.
    pub lambda: &'a mut [T],
    /// Sum over the block's labels of the gradient, by row.
    pub row_gradient: &'a mut [T],
    /// Sum over the block's labels of gradient times standardised logit, by row.
    pub row_product: &'a mut [T],
}

/// Sums over a block, reduced.
#[derive(Debug, Clone, Copy, Default)]
pub struct BlockLoss {
    pub bce: f64,
    pub margin: f64,
}

widest! {
    /// Mean, and sum of squared distances from it, over the labels of a block, by row.
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

/// Loss and gradients over a block of labels.
pub fn loss_block<T: Real>(input: &BlockInput<T>, output: &mut BlockOutput<T>) -> BlockLoss {
    let stride = input.rows.scale.len();
    let mut special = Special::new(stride);
    let mut bases = vec![Theta { value: T::ZERO, slope: T::ZERO }; input.z.len() / stride];
    base_thresholds(input, &mut bases);
    let mut block = BlockLoss::default();
    let kink = Kink { margin: T::of(input.loss.margin), weight: T::of(input.loss.margin_weight) };
    let runs = input.z.chunks_exact(stride).zip(output.g.chunks_exact_mut(stride)).zip(bases);
    for (offset, ((z, g), base)) in runs.enumerate() {
        let label = input.first_label + offset;
        let entries = input.signals.of(label);
        let sums = if entries.is_empty() {
            let sums = plain_run(z, g, input.rows, kink, base.value);
            RunSums { pull: sums.pull * base.slope, ..sums }
        } else {
            fill_special(&mut special, input, label, base, entries);
            let sums = special_run(z, g, input.rows, kink, &special);
            RunSums { pull: weighted_sum(g, &special.slope), ..sums }
        };
        block.bce += sums.bce.to_f64();
        block.margin += sums.margin.to_f64();
        let pull = Pull { label, offset, all: -sums.pull, entries, g, slopes: &special.slope };
        threshold_gradients(input, output.alpha, output.beta, output.bias, output.lambda, pull);
        if input.loss.standardise {
            row_sums(z, g, input.rows, output.row_gradient, output.row_product);
        }
    }
    block
}

widest! {
    /// What prediction needs of a block: the standardised logits less their thresholds.
    pub fn adjust_block<T: Real>(input: &BlockInput<T>, scores: &mut [T]) {
        let stride = input.rows.scale.len();
        for (offset, (z, scores)) in input.z.chunks_exact(stride).zip(scores.chunks_exact_mut(stride)).enumerate() {
            let label = input.first_label + offset;
            let base = theta(input, label, T::ZERO, T::ZERO).value;
            let rows = input.rows.mean.iter().zip(&input.rows.inverse);
            for ((score, &z), (&mean, &inverse)) in scores.iter_mut().zip(z).zip(rows) {
                *score = (z - mean) * inverse - base;
            }
            for entry in input.signals.of(label) {
                let row = entry.row as usize;
                let theta = theta(input, label, T::of(entry.local), T::of(entry.own)).value;
                scores[row] = (z[row] - input.rows.mean[row]) * input.rows.inverse[row] - theta;
            }
        }
    }
}

widest! {
    /// The two sides of a block's decisions: the standardised logits, and their thresholds.
    pub fn part_block<T: Real>(input: &BlockInput<T>, standardised: &mut [T], thresholds: &mut [T]) {
        let stride = input.rows.scale.len();
        let sides = standardised.chunks_exact_mut(stride).zip(thresholds.chunks_exact_mut(stride));
        for (offset, (z, (standardised, thresholds))) in input.z.chunks_exact(stride).zip(sides).enumerate() {
            let label = input.first_label + offset;
            let rows = input.rows.mean.iter().zip(&input.rows.inverse);
            for ((standardised, &z), (&mean, &inverse)) in standardised.iter_mut().zip(z).zip(rows) {
                *standardised = (z - mean) * inverse;
            }
            thresholds.fill(theta(input, label, T::ZERO, T::ZERO).value);
            for entry in input.signals.of(label) {
                thresholds[entry.row as usize] = theta(input, label, T::of(entry.local), T::of(entry.own)).value;
            }
        }
    }
}

widest! {
    /// Takes the gradient back through the standardisation, eq. 2, and sums it over the rows.
    /// `shift` is the mean gradient of each row, `tilt` what the standard deviation gives back.
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

widest! {
    /// The sum of each run.
    pub fn run_sums<T: Real>(g: &[T], stride: usize, sums: &mut [T]) {
        for (run, sum) in g.chunks_exact(stride).zip(sums) {
            *sum = lane_sum(run);
        }
    }
}

/// A threshold and its derivative by what is inside the squashing function.
#[derive(Debug, Clone, Copy)]
struct Theta<T> {
    value: T,
    slope: T,
}

/// Eq. 1.
#[inline(always)]
fn theta<T: Real>(input: &BlockInput<T>, label: usize, local: T, own: T) -> Theta<T> {
    let terms = input.thresholds;
    if !terms.variant.learns() {
        return Theta { value: T::of(STATIC_THRESHOLD), slope: T::ZERO };
    }
    let lambda = of_label(input.lambda, label);
    let mut inside = input.parameters.bias[label];
    if terms.variant.uses_global() {
        let global = match terms.global {
            GlobalSignal::Idf => terms.idf[label],
            GlobalSignal::OwnLabels => own,
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

widest! {
    /// The thresholds of a block's elements that have no signal.
    fn base_thresholds<T: Real>(input: &BlockInput<T>, bases: &mut [Theta<T>]) {
        for (offset, base) in bases.iter_mut().enumerate() {
            *base = theta(input, input.first_label + offset, T::ZERO, T::ZERO);
        }
    }
}

/// The entry of a vector that has one for each label, or one for all.
#[inline(always)]
fn of_label<T: Copy>(values: &[T], label: usize) -> T {
    if values.len() == 1 { values[0] } else { values[label] }
}

/// What tells an element of the batch from another of the same row.
#[derive(Clone, Copy)]
struct Element<T> {
    theta: T,
    /// 1 for a negative, -1 for a positive: the loss of a positive is that of a negative mirrored.
    sign: T,
    weight: T,
}

/// The margin loss: where it starts, and what it weighs.
#[derive(Clone, Copy)]
struct Kink<T> {
    margin: T,
    weight: T,
}

struct RunSums<T> {
    bce: T,
    margin: T,
    /// Sum of the gradient by theta, sign apart.
    pull: T,
}

/// The elements of a run, chunk by chunk.
trait Elements<T> {
    type Chunk;
    fn chunks(self) -> impl Iterator<Item = Self::Chunk>;
    fn at(chunk: &Self::Chunk, lane: usize) -> Element<T>;
}

/// A label without true labels or signals.
struct Alike<T>(Element<T>);

impl<T: Real> Elements<T> for Alike<T> {
    type Chunk = Element<T>;

    #[inline(always)]
    fn chunks(self) -> impl Iterator<Item = Element<T>> {
        std::iter::repeat(self.0)
    }

    #[inline(always)]
    fn at(chunk: &Element<T>, _: usize) -> Element<T> {
        *chunk
    }
}

type Lanes<T> = [T; LANES];

/// Theta, sign and weight, each row its own.
struct Each<'a, T>(&'a [Lanes<T>], &'a [Lanes<T>], &'a [Lanes<T>]);

impl<'a, T: Real> Elements<T> for Each<'a, T> {
    type Chunk = ((&'a Lanes<T>, &'a Lanes<T>), &'a Lanes<T>);

    #[inline(always)]
    fn chunks(self) -> impl Iterator<Item = Self::Chunk> {
        self.0.iter().zip(self.1).zip(self.2)
    }

    #[inline(always)]
    fn at(((theta, sign), weight): &Self::Chunk, lane: usize) -> Element<T> {
        Element { theta: theta[lane], sign: sign[lane], weight: weight[lane] }
    }
}

widest! {
    fn plain_run<T: Real>(z: &[T], g: &mut [T], rows: &RowTerms<T>, kink: Kink<T>, theta: T) -> RunSums<T> {
        run(z, g, rows, kink, Alike(Element { theta, sign: T::ONE, weight: T::ONE }))
    }
}

widest! {
    fn special_run<T: Real>(
        z: &[T], g: &mut [T], rows: &RowTerms<T>, kink: Kink<T>, special: &Special<T>,
    ) -> RunSums<T> {
        let elements = Each(lanes_of(&special.theta), lanes_of(&special.sign), lanes_of(&special.weight));
        run(z, g, rows, kink, elements)
    }
}

/// One label, all rows: eqs. 3 and 7 and their gradient by the standardised logit.
#[inline(always)]
fn run<T: Real, E: Elements<T>>(
    z: &[T],
    g: &mut [T],
    rows: &RowTerms<T>,
    kink: Kink<T>,
    elements: E,
) -> RunSums<T> {
    let mut bce = [T::ZERO; LANES];
    let mut hinges = [T::ZERO; LANES];
    let mut pull = [T::ZERO; LANES];
    let values = lanes_of(z).iter().zip(g.as_chunks_mut::<LANES>().0);
    let rows = lanes_of(&rows.mean).iter().zip(lanes_of(&rows.inverse)).zip(lanes_of(&rows.scale));
    for (((z, g), ((mean, inverse), scale)), chunk) in values.zip(rows).zip(elements.chunks()) {
        for lane in 0..LANES {
            let at = E::at(&chunk, lane);
            let u = at.sign * ((z[lane] - mean[lane]) * inverse[lane] - at.theta);
            let t = (-u.abs()).exp_of_negative();
            let upper = T::ONE / (T::ONE + t);
            let sigmoid = if u < T::ZERO { t * upper } else { upper };
            let softplus = u.positive_part() + t.ln_1p_of_unit();
            // At the kink the gradient passes, as in PyTorch.
            let over = u + kink.margin;
            let step = if over < T::ZERO { T::ZERO } else { kink.weight };
            let gradient = scale[lane] * at.sign * at.weight.times_plus(sigmoid, step);
            g[lane] = gradient;
            bce[lane] = (scale[lane] * at.weight).times_plus(softplus, bce[lane]);
            hinges[lane] = scale[lane].times_plus(over.positive_part(), hinges[lane]);
            pull[lane] += gradient;
        }
    }
    RunSums { bce: fold(&bce), margin: fold(&hinges), pull: fold(&pull) }
}

/// Elements of a label of which some are positive or have a signal, written out row by row.
struct Special<T> {
    theta: Vec<T>,
    slope: Vec<T>,
    sign: Vec<T>,
    weight: Vec<T>,
}

impl<T: Real> Special<T> {
    fn new(stride: usize) -> Self {
        let row = || vec![T::ZERO; stride];
        Self { theta: row(), slope: row(), sign: row(), weight: row() }
    }
}

widest! {
    /// Writes out the elements of one label.
    fn fill_special<T: Real>(
        special: &mut Special<T>, input: &BlockInput<T>, label: usize, base: Theta<T>, entries: &[Entry],
    ) {
        special.theta.fill(base.value);
        special.slope.fill(base.slope);
        special.sign.fill(T::ONE);
        special.weight.fill(T::ONE);
        for entry in entries {
            let row = entry.row as usize;
            let theta = theta(input, label, T::of(entry.local), T::of(entry.own));
            special.theta[row] = theta.value;
            special.slope[row] = theta.slope;
            if entry.positive {
                special.sign[row] = -T::ONE;
                special.weight[row] = input.loss.positive_weights[label];
            }
        }
    }
}

widest! {
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

/// The gradient by the inside of theta, of one label.
struct Pull<'a, T> {
    label: usize,
    offset: usize,
    /// Summed over all rows.
    all: T,
    entries: &'a [Entry],
    g: &'a [T],
    slopes: &'a [T],
}

fn threshold_gradients<T: Real>(
    input: &BlockInput<T>,
    alpha: &mut [T],
    beta: &mut [T],
    bias: &mut [T],
    lambda: &mut [T],
    pull: Pull<T>,
) {
    let terms = input.thresholds;
    let weight = of_label(input.lambda, pull.label);
    let (mut on_own, mut on_local) = (T::ZERO, T::ZERO);
    for entry in pull.entries {
        let row = entry.row as usize;
        let inside = -(pull.g[row] * pull.slopes[row]);
        on_own += inside * T::of(entry.own);
        on_local += inside * T::of(entry.local);
    }
    let on_global = match (terms.variant.uses_global(), terms.global) {
        (false, _) => T::ZERO,
        (true, GlobalSignal::Idf) => pull.all * terms.idf[pull.label],
        (true, GlobalSignal::OwnLabels) => on_own,
    };
    let on_local = if terms.variant.uses_local() { on_local } else { T::ZERO };
    let of_lambda =
        input.parameters.alpha[pull.label] * on_global - input.parameters.beta[pull.label] * on_local;
    bias[pull.offset] = pull.all;
    alpha[pull.offset] = weight * on_global;
    beta[pull.offset] = (T::ONE - weight) * on_local;
    lambda[pull.offset] = of_lambda;
}

widest! {
    /// Adds one label's gradient, plain and times the standardised logit, to the sums of each row.
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

/// Whole lanes; every run has only such.
#[inline(always)]
fn lanes_of<T>(values: &[T]) -> &[[T; LANES]] {
    values.as_chunks::<LANES>().0
}

/// The sum of a run, lane by lane and then over the lanes.
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

/// Halves the lanes until one is left: an order that vector code can follow.
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
