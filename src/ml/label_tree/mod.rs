//! Probabilistic label trees: linear classifiers in trees of similar labels, for many labels.
//!
//! Each tree divides the labels into groups by balanced 2-means of their centroids, until a group is small. A node has
//! one classifier per child, fitted on the training rows that have a label below the node. The probability of a label in
//! a tree is the product of exp(-max(0, 1 - s)^3) over the scores s of the classifiers on the path to it; a beam search
//! finds the labels with high probabilities. The score of a label is its mean probability over the trees, and 0 if no
//! tree found it.

mod clusters;
mod dual;
mod evidence;
mod files;
mod node_rows;
mod predict;
mod structure;
mod train;

use crate::data::csr::Csr;

/// Fitted trees.
pub struct LabelTrees {
    /// The number of nodes that a prediction follows per level of a tree.
    beam: usize,
    /// The child nodes of each node; none in a leaf.
    children: Csr,
    /// The labels of each leaf; none in other nodes.
    leaves: Csr,
    /// The features with weights of each node; the last column is the constant.
    inputs: Csr,
    /// A row for each entry of `inputs`: the weights of that feature in the classifiers of the node, by position of the
    /// child.
    weights: Csr,
}

impl LabelTrees {
    /// Returns the number of features that a row may have.
    pub fn features(&self) -> usize {
        self.inputs.cols - 1
    }

    /// Returns the number of labels.
    pub fn labels(&self) -> usize {
        self.leaves.cols
    }

    /// Returns the roots of the trees: the nodes that are no children.
    fn roots(&self) -> Vec<u32> {
        let mut is_root = vec![true; self.children.rows()];
        for &child in self.children.indices.iter() {
            is_root[child as usize] = false;
        }
        (0..self.children.rows() as u32).filter(|&node| is_root[node as usize]).collect()
    }
}

#[cfg(test)]
mod tests;
