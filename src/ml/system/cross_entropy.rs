//! The cross-entropy of decisions.

use rayon::prelude::*;

use crate::metric::block::{DecisionBlock, SparseScores};
use crate::metric::rest::{bounded, false_term};

/// How many rows with sparse scores are summed side by side. The terms of a row are added one after the other, so that a
/// processor would wait for each sum.
const SIDE_BY_SIDE: usize = 8;

/// Returns the sum of -ln p, where p is the probability that the model gave to the true value of an entry.
/// Probabilities are kept one f32 step away from 0 and 1, the values they may have been rounded to.
pub fn cross_entropy(block: &DecisionBlock, truth: &[&[u32]]) -> f64 {
    let correction = |row: usize, label: u32| {
        let p = block.probability(row, label).map_or(0.0, bounded);
        (-p).ln_1p() - p.ln()
    };
    let if_none_is_true: Vec<f64> = match &block.sparse {
        Some(sparse) => sparse_sums(block, sparse),
        None => {
            let row_sum = |row: usize| block.row_probabilities(row).iter().map(|&p| false_term(p)).sum();
            (0..block.rows).into_par_iter().map(row_sum).collect()
        }
    };
    let corrections = |row: usize| truth[row].iter().map(|&label| correction(row, label)).sum::<f64>();
    // The rows are added in order, so that the sum does not depend on the number of threads.
    let rows = if_none_is_true.into_iter().enumerate().map(|(row, none)| none + corrections(row));
    rows.sum()
}

/// Returns for each row of a block the sum of the terms of all labels, added in the order of the labels, as if none were true.
fn sparse_sums(block: &DecisionBlock, sparse: &SparseScores) -> Vec<f64> {
    let rest = &sparse.rest.false_terms;
    let rows: Vec<usize> = (0..block.rows).collect();
    let sums = |rows: &[usize]| -> Vec<f64> {
        let own = |&row: &usize| {
            let terms = sparse.probabilities[row].iter().map(|&p| false_term(p)).collect::<Vec<f64>>();
            (block.row_candidates(row), terms)
        };
        let own: Vec<(&[u32], Vec<f64>)> = rows.iter().map(own).collect();
        let (mut sums, mut next, mut at) = ([0f64; SIDE_BY_SIDE], [0; SIDE_BY_SIDE], 0);
        loop {
            let candidates = own.iter().zip(&next).filter_map(|((labels, _), &next)| labels.get(next));
            let end = candidates.min().map_or(rest.len(), |&label| label as usize);
            for term in &rest[at..end] {
                for sum in &mut sums {
                    *sum += term;
                }
            }
            if end == rest.len() {
                return sums[..rows.len()].to_vec();
            }
            for (((labels, terms), next), sum) in own.iter().zip(&mut next).zip(&mut sums) {
                let is_own = labels.get(*next).is_some_and(|&label| label as usize == end);
                *sum += if is_own { terms[*next] } else { rest[end] };
                *next += usize::from(is_own);
            }
            at = end + 1;
        }
    };
    rows.par_chunks(SIDE_BY_SIDE).flat_map_iter(sums).collect()
}
