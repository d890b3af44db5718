//! Explains the score of a label by the training rows in the leaves that a row reaches.

use std::collections::BTreeMap;

use super::ExtraTrees;
use crate::data::csr::Csr;
use crate::explanation::{Cause, CauseSubject, Evidence};
use crate::signal::dot_index::entries;

impl ExtraTrees {
    /// Returns the evidence for the score of a row, whose name is `of`. A training row counts in each tree in which it shares the leaf with the row. At
    /// most `most` training rows are listed.
    pub fn evidence(&self, of: &str, features: &Csr, row: usize, label: u32, most: usize) -> Evidence {
        let trees = self.roots.len();
        let mut weights: BTreeMap<u32, (f64, usize)> = BTreeMap::new();
        for leaf in self.leaves_of(features, row) {
            for (row, share) in entries(&self.leaves, leaf) {
                let entry = weights.entry(row).or_default();
                entry.0 += f64::from(share) / trees as f64;
                entry.1 += 1;
            }
        }
        let mut near: Vec<(u32, (f64, usize))> = weights.into_iter().collect();
        near.sort_by(|a, b| b.1.0.total_cmp(&a.1.0).then(a.0.cmp(&b.0)));
        let has = |at: usize| self.labels.row(near[at].0 as usize).binary_search(&label).is_ok();
        let values: Vec<f64> = (0..near.len()).map(|at| if has(at) { near[at].1.0 } else { 0.0 }).collect();
        let with = (0..near.len()).filter(|&at| has(at)).count();
        let words = format!(
            "the weights of the training rows that have the label, {with} of {} that are in the same leaf as the row in at least \
             one of {trees} trees",
            near.len()
        );
        Evidence::new(of, words, &values, most, |at| {
            let (row, (weight, shared)) = near[at];
            let inputs = [("trees", shared as f64), ("weight", weight)];
            let cause = Cause::new(CauseSubject::training_row(row), &inputs, values[at]);
            Cause { has_label: Some(has(at)), ..cause }
        })
    }
}
