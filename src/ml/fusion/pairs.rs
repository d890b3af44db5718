//! The (row, label) pairs that the weights are fitted on: all true pairs, and a weighted sample of the others.

use rayon::prelude::*;

use super::regression::PairSample;
use super::{Fusion, FusionError};
use crate::data::csr::Csr;
use crate::data::random::Random;
use crate::score::table::ScoreTable;

/// How false pairs are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairOptions {
    /// The number of pairs to draw. True pairs among them are dropped.
    pub pairs: usize,
    pub seed: u64,
}

/// Samples pairs and computes their columns.
pub(super) fn sample(
    fusion: &Fusion,
    tables: &[ScoreTable],
    labels: &Csr,
    options: PairOptions,
) -> Result<PairSample, FusionError> {
    let positives = labels.entries();
    if positives == 0 {
        return Err(FusionError::NoPositives);
    }
    let all = labels.rows() * labels.cols;
    let true_pairs =
        (0..labels.rows()).flat_map(|row| labels.row(row).iter().map(move |&label| (row, label)));
    let mut pairs: Vec<(usize, u32)> = true_pairs.collect();
    let mut random = Random::new("fusion pairs", options.seed);
    let drawn = (0..options.pairs).map(|_| random.below(all));
    let drawn = drawn.map(|place| (place / labels.cols, (place % labels.cols) as u32));
    pairs.extend(drawn.filter(|&(row, label)| labels.row(row).binary_search(&label).is_err()));
    let negatives = pairs.len() - positives;
    if negatives == 0 {
        return Err(FusionError::NoNegatives);
    }
    let columns = tables.len() + 1;
    let mut x = vec![0f64; pairs.len() * columns];
    x.par_chunks_mut(columns).zip(&pairs).for_each(|(x, &(row, label))| {
        for ((x, term), table) in x.iter_mut().zip(&fusion.terms).zip(tables) {
            *x = term.of(table.score(row, label));
        }
        x[columns - 1] = fusion.idf(label);
    });
    let weight = (all - positives) as f64 / negatives as f64;
    Ok(PairSample { columns, x, positives, negative_weight: weight })
}
