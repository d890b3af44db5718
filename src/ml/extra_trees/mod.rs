//! Extremely randomised trees (Geurts, Ernst and Wehenkel 2006) for many labels.
//!
//! Each tree is grown on rows that are drawn with replacement. A node tries a random cut for each of a few random features, and takes
//! the one that leaves the least variance of the labels. A leaf keeps its training rows, so the score of a label is a weighted
//! share of training rows, like that of neighbours. The trees that did not draw a training row score it without its labels.

mod evidence;
mod files;
mod grow;
mod score;

use rayon::prelude::*;

use crate::config::model::ExtraTreesConfig;
use crate::data::csr::Csr;
use crate::data::random::Streams;
use crate::threshold::scores::by_column;
use grow::{GrownTree, TreeGrower};

/// Fitted trees. Their nodes are in preorder, one tree after the other.
pub struct ExtraTrees {
    /// The feature and the cut of each node; none in a leaf.
    splits: Csr,
    /// The training rows in each leaf, and their shares of the leaf.
    leaves: Csr,
    /// The labels of the training rows.
    labels: Csr,
    nodes: Vec<TreeNode>,
    roots: Vec<u32>,
}

/// A node, in the form that is fast to search.
#[derive(Debug, Clone, Copy, PartialEq)]
struct TreeNode {
    /// [`LEAF`] in a leaf.
    feature: u32,
    cut: f32,
    /// The node for values above the cut; the next node is for all others. In a leaf, its number among the leaves.
    next: u32,
}

const LEAF: u32 = u32::MAX;

impl ExtraTrees {
    /// Grows trees on rows with features and labels.
    pub fn fit(features: &Csr, labels: &Csr, settings: &ExtraTreesConfig, seed: u64) -> Self {
        let columns = by_column(features);
        let streams = Streams::new("extra trees", seed);
        let grow = |tree: usize| {
            let random = streams.get(tree as u64);
            TreeGrower::new(features, &columns, labels, settings, random).grow()
        };
        let grown: Vec<GrownTree> = (0..settings.trees).into_par_iter().with_max_len(1).map(grow).collect();
        let (splits, leaves) = join(features, grown);
        let (nodes, roots) = link(&splits).unwrap_or_default();
        Self { splits, leaves, labels: labels.clone(), nodes, roots }
    }

    /// Returns the number of features that a row may have.
    pub fn features(&self) -> usize {
        self.splits.cols
    }

    /// Returns the number of labels.
    pub fn labels(&self) -> usize {
        self.labels.cols
    }
}

/// Joins the nodes and leaves of all trees.
fn join(features: &Csr, trees: Vec<GrownTree>) -> (Csr, Csr) {
    let (mut split_ends, mut chosen, mut cuts) = (vec![0u64], Vec::new(), Vec::new());
    let (mut leaf_ends, mut rows, mut shares) = (vec![0u64], Vec::new(), Vec::new());
    for tree in trees {
        for split in tree.splits {
            if let Some((feature, cut)) = split {
                chosen.push(feature);
                cuts.push(cut);
            }
            split_ends.push(chosen.len() as u64);
        }
        leaf_ends.extend(tree.ends.iter().map(|end| (rows.len() + end) as u64));
        rows.extend(tree.rows);
        shares.extend(tree.shares);
    }
    let csr = |cols, ends: Vec<u64>, indices: Vec<u32>, values: Vec<f32>| Csr {
        cols,
        indptr: ends.into(),
        indices: indices.into(),
        values: values.into(),
    };
    (csr(features.cols, split_ends, chosen, cuts), csr(features.rows(), leaf_ends, rows, shares))
}

/// Returns all nodes and the roots of the trees; `None` if the last tree is not complete.
fn link(splits: &Csr) -> Option<(Vec<TreeNode>, Vec<u32>)> {
    let (mut nodes, mut roots) = (Vec::<TreeNode>::with_capacity(splits.rows()), Vec::new());
    // The inner nodes whose second child is still to come.
    let mut open = Vec::new();
    let (mut leaves, mut starts) = (0, true);
    for number in 0..splits.rows() {
        if starts {
            roots.push(number as u32);
        }
        starts = false;
        if let (Some(&feature), Some(&cut)) = (splits.row(number).first(), splits.row_values(number).first())
        {
            open.push(number);
            nodes.push(TreeNode { feature, cut, next: 0 });
            continue;
        }
        nodes.push(TreeNode { feature: LEAF, cut: 0.0, next: leaves });
        leaves += 1;
        match open.pop() {
            Some(parent) => nodes[parent].next = number as u32 + 1,
            None => starts = true,
        }
    }
    starts.then_some((nodes, roots))
}

#[cfg(test)]
mod tests;
