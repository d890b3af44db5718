//! Scores rows by a beam search in each tree.

use rayon::prelude::*;

use super::LabelTrees;
use crate::data::csr::Csr;
use crate::data::examples::Unlabelled;
use crate::signal::dot_index::entries;

/// The largest number of rows that a thread searches at a time. The rows that visit a node visit it one after the other, so that its
/// weights stay in the cache.
const MAX_ROWS_AT_ONCE: usize = 256;

/// A node that a row visits.
#[derive(Clone, Copy)]
struct Visit {
    node: u32,
    /// The position of the row among those that are searched together.
    row: u32,
    /// The logarithm of the probability of the node.
    logarithm: f32,
}

impl LabelTrees {
    /// Returns the labels that the search finds for each row, ascending, with their scores, which are above 0.
    pub fn find(&self, rows: Unlabelled) -> Vec<Vec<(u32, f32)>> {
        let roots = self.roots();
        let per_thread = rows.rows.len().div_ceil(rayon::current_num_threads());
        let chunks = rows.rows.par_chunks(per_thread.clamp(1, MAX_ROWS_AT_ONCE));
        let chunks = chunks.map(|chunk| self.find_in_chunk(&roots, Unlabelled { rows: chunk, ..rows }));
        chunks.collect::<Vec<_>>().concat()
    }

    fn find_in_chunk(&self, roots: &[u32], rows: Unlabelled) -> Vec<Vec<(u32, f32)>> {
        let mut found = vec![Vec::new(); rows.rows.len()];
        for &root in roots {
            self.search(root, rows, &mut found);
        }
        let share = 1.0 / roots.len() as f32;
        found.into_iter().map(|found| mean_per_label(found, share)).collect()
    }

    /// Adds the labels that a beam search finds in a tree to those of each row, with their probabilities.
    fn search(&self, root: u32, rows: Unlabelled, found: &mut [Vec<(u32, f32)>]) {
        let all = 0..rows.rows.len() as u32;
        let mut level: Vec<Visit> = all.map(|row| Visit { node: root, row, logarithm: 0.0 }).collect();
        let mut next: Vec<Vec<Visit>> = vec![Vec::new(); rows.rows.len()];
        let mut scores = Vec::new();
        while !level.is_empty() {
            level.sort_unstable_by_key(|visit| (visit.node, visit.row));
            for &Visit { node, row, logarithm } in &level {
                let data_row = rows.rows[row as usize] as usize;
                self.node_scores(node as usize, rows.features, data_row, &mut scores);
                let logarithms = scores.iter().map(|&score| logarithm + log_probability(score));
                let labels = self.leaves.row(node as usize).iter().copied();
                let probable = labels.zip(logarithms.clone()).map(|(label, log)| (label, log.exp()));
                found[row as usize].extend(probable.filter(|&(_, probability)| probability > 0.0));
                let children = self.children.row(node as usize).iter().copied().zip(logarithms);
                next[row as usize].extend(children.map(|(node, logarithm)| Visit { node, row, logarithm }));
            }
            level.clear();
            for visits in &mut next {
                keep_best(visits, self.beam);
                level.append(visits);
            }
        }
    }

    /// Computes the scores of a row by the classifiers of a node.
    pub(super) fn node_scores(&self, node: usize, features: &Csr, row: usize, scores: &mut Vec<f32>) {
        let start = self.inputs.indptr[node] as usize;
        let inputs = self.inputs.row(node);
        scores.clear();
        scores.resize(self.leaves.row(node).len() + self.children.row(node).len(), 0.0);
        let constant = (self.features() as u32, 1.0);
        let mut from = 0;
        for (feature, value) in entries(features, row).chain([constant]) {
            from += inputs[from..].partition_point(|&input| input < feature);
            if inputs.get(from) == Some(&feature) {
                let at = start + from;
                for (&place, weight) in self.weights.row(at).iter().zip(self.weights.row_values(at)) {
                    scores[place as usize] += weight * value;
                }
            }
        }
    }
}

/// Keeps the visits with the highest probabilities; of equal ones those of the lower nodes.
fn keep_best(visits: &mut Vec<Visit>, count: usize) {
    if visits.len() > count {
        let better = |a: &Visit, b: &Visit| b.logarithm.total_cmp(&a.logarithm).then(a.node.cmp(&b.node));
        visits.select_nth_unstable_by(count - 1, better);
        visits.truncate(count);
    }
}

/// Adds up the probabilities of each label, in the order of the trees, and multiplies the sums with `share`.
fn mean_per_label(mut found: Vec<(u32, f32)>, share: f32) -> Vec<(u32, f32)> {
    found.sort_by_key(|&(label, _)| label);
    let labels = found.chunk_by(|a, b| a.0 == b.0);
    labels.map(|same| (same[0].0, share * same.iter().map(|found| found.1).sum::<f32>())).collect()
}

/// Returns the logarithm of the probability that belongs to a score.
pub(super) fn log_probability(score: f32) -> f32 {
    -(1.0 - score).max(0.0).powi(3)
}
