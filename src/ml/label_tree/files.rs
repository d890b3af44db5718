//! Saves and opens trees. The files are mapped into memory, so that only the nodes that are visited are read.

use std::fs;
use std::path::Path;

use super::LabelTrees;
use crate::data::artifact::{ArtifactCheck, open_csr, write_csr};
use crate::data::csr::Csr;
use crate::data::error::DataError;

const CHILDREN: &str = "children.csr";
const LEAVES: &str = "leaves.csr";
const INPUTS: &str = "inputs.csr";
const WEIGHTS: &str = "weights.csr";

impl LabelTrees {
    /// Creates a directory and writes the trees into it.
    pub fn save(&self, directory: &Path) -> Result<(), DataError> {
        fs::create_dir_all(directory).map_err(DataError::io("create", directory))?;
        let files = [
            (CHILDREN, &self.children),
            (LEAVES, &self.leaves),
            (INPUTS, &self.inputs),
            (WEIGHTS, &self.weights),
        ];
        for (name, matrix) in files {
            write_csr(&directory.join(name), matrix)?;
        }
        Ok(())
    }

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
