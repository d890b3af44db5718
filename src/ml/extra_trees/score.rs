//! The leaves that a row reaches, and its scores.

use super::grow::find;
use super::{ExtraTrees, LEAF};
use crate::data::csr::Csr;
use crate::signal::dot_index::entries;

impl ExtraTrees {
    /// Returns the leaf that a row reaches in the tree with the given root.
    fn leaf(&self, root: u32, features: &Csr, row: usize) -> usize {
        let mut at = root as usize;
        loop {
            let node = self.nodes[at];
            if node.feature == LEAF {
                return node.next as usize;
            }
            let value = find(features, row, node.feature).unwrap_or(0.0);
            at = if value > node.cut { node.next as usize } else { at + 1 };
        }
    }

    /// Returns the leaf that a row reaches in each tree.
    pub(super) fn leaves_of(&self, features: &Csr, row: usize) -> impl Iterator<Item = usize> {
        self.roots.iter().map(move |&root| self.leaf(root, features, row))
    }

    /// Computes the scores of a row: the mean over the trees of the share of a leaf's rows that have the label.
    pub fn score_row(&self, features: &Csr, row: usize, into: &mut [f32]) {
        self.mean(self.leaves_of(features, row), into);
    }

    /// Computes the scores of a training row by the trees that did not draw it. Returns whether there is such a tree.
    pub fn score_left_out(&self, features: &Csr, row: usize, into: &mut [f32]) -> bool {
        // A row that was drawn reaches the leaf that it is in.
        let is_new = |leaf: &usize| self.leaves.row(*leaf).binary_search(&(row as u32)).is_err();
        self.mean(self.leaves_of(features, row).filter(is_new), into) > 0
    }

    /// Computes the mean of the labels over leaves. Returns the number of leaves.
    fn mean(&self, leaves: impl Iterator<Item = usize>, into: &mut [f32]) -> usize {
        into.fill(0.0);
        let mut count = 0;
        for leaf in leaves {
            count += 1;
            for (row, share) in entries(&self.leaves, leaf) {
                for &label in self.labels.row(row as usize) {
                    into[label as usize] += share;
                }
            }
        }
        let scale = 1.0 / count.max(1) as f32;
        for score in into.iter_mut() {
            *score *= scale;
        }
        count
    }
}
