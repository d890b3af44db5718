//! Writes and opens trees. The files are mapped into memory, so that only the nodes that are visited are read.

use std::fs;
use std::path::{Path, PathBuf};

use super::LabelTrees;
use super::structure::{Children, TreeNode};
use super::train::NodeWeights;
use crate::data::artifact::{ArtifactCheck, CsrWriter, open_csr, write_csr};
use crate::data::csr::Csr;
use crate::data::error::DataError;

const CHILDREN: &str = "children.csr";
const LEAVES: &str = "leaves.csr";
const INPUTS: &str = "inputs.csr";
const WEIGHTS: &str = "weights.csr";

/// Writes the files of trees node by node, so that the weights of all nodes are never in memory together.
pub(super) struct TreeWriter {
    directory: PathBuf,
    inputs: CsrWriter,
    weights: CsrWriter,
}

impl TreeWriter {
    /// Creates the directory and the files.
    pub(super) fn create(directory: &Path) -> Result<Self, DataError> {
        fs::create_dir_all(directory).map_err(DataError::io("create", directory))?;
        Ok(Self {
            directory: directory.to_owned(),
            inputs: CsrWriter::create(&directory.join(INPUTS), false)?,
            weights: CsrWriter::create(&directory.join(WEIGHTS), true)?,
        })
    }

    /// Appends the weights of the next node.
    pub(super) fn push(&mut self, node: &NodeWeights) -> Result<(), DataError> {
        if !node.by_feature.values.iter().all(|weight| weight.is_finite()) {
            return Err(DataError::Request("the model has weights that are not finite".into()));
        }
        self.inputs.push(&node.features, &[])?;
        self.weights.append(&node.by_feature)
    }

    /// Completes the files.
    pub(super) fn finish(self, features: usize, labels: usize, nodes: &[TreeNode]) -> Result<(), DataError> {
        let (mut children, mut leaves): (Vec<&[u32]>, Vec<&[u32]>) = (Vec::new(), Vec::new());
        for node in nodes {
            let (own_children, own_labels) = match &node.children {
                Children::Nodes(children) => (children.as_slice(), Default::default()),
                Children::Labels => (Default::default(), node.labels.as_slice()),
            };
            children.push(own_children);
            leaves.push(own_labels);
        }
        let width = children.iter().chain(&leaves).map(|outcomes| outcomes.len()).max().unwrap_or_default();
        write_csr(&self.directory.join(CHILDREN), &Csr::from_rows(nodes.len(), &children))?;
        write_csr(&self.directory.join(LEAVES), &Csr::from_rows(labels, &leaves))?;
        self.inputs.close(features + 1)?;
        self.weights.close(width)
    }
}

impl LabelTrees {
    /// Opens saved trees. A search follows `beam` nodes per level.
    pub fn load(directory: &Path, beam: usize) -> Result<Self, DataError> {
        let open = |name: &str| open_csr(&directory.join(name), ArtifactCheck::Header);
        let trees = Self {
            beam,
            children: open(CHILDREN)?,
            leaves: open(LEAVES)?,
            inputs: open(INPUTS)?,
            weights: open(WEIGHTS)?,
        };
        match trees.inconsistency() {
            Some(reason) => Err(DataError::artifact(directory, reason)),
            None => Ok(trees),
        }
    }

    /// Returns what is inconsistent in the sizes of the files, if anything is.
    fn inconsistency(&self) -> Option<&'static str> {
        let nodes = self.children.rows();
        if [&self.leaves, &self.inputs].iter().any(|matrix| matrix.rows() != nodes) || self.inputs.cols == 0 {
            return Some("its files have different numbers of nodes");
        }
        if self.weights.rows() != self.inputs.entries() {
            return Some("its files have different numbers of features with weights");
        }
        // A search ends because numbers rise on the way down.
        let falls = |node: usize| self.children.row(node).iter().any(|&child| child as usize <= node);
        if (0..nodes).any(falls) || self.children.cols != nodes {
            return Some("a node has a child with a lower number");
        }
        let outcomes = |matrix: &Csr| (0..nodes).map(|node| matrix.row(node).len()).max().unwrap_or_default();
        let widest = outcomes(&self.children).max(outcomes(&self.leaves));
        (self.weights.cols > widest).then_some("it has weights without a label or a child node")
    }
}
