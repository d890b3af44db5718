//! Saves and opens trees.

use std::fs;
use std::path::Path;

use super::{ExtraTrees, LEAF, link};
use crate::data::artifact::{ArtifactCheck, open_csr, write_csr};
use crate::data::error::DataError;

const SPLITS: &str = "splits.csr";
const LEAVES: &str = "leaves.csr";
const LABELS: &str = "labels.csr";

impl ExtraTrees {
    /// Creates a directory and writes the trees into it.
    pub fn save(&self, directory: &Path) -> Result<(), DataError> {
        fs::create_dir_all(directory).map_err(DataError::io("create", directory))?;
        for (name, matrix) in [(SPLITS, &self.splits), (LEAVES, &self.leaves), (LABELS, &self.labels)] {
            write_csr(&directory.join(name), matrix)?;
        }
        Ok(())
    }

    /// Opens saved trees.
    pub fn load(directory: &Path) -> Result<Self, DataError> {
        let open = |name: &str| open_csr(&directory.join(name), ArtifactCheck::Deep);
        let (splits, leaves, labels) = (open(SPLITS)?, open(LEAVES)?, open(LABELS)?);
        let damaged = |reason: &str| DataError::artifact(directory, reason);
        if splits.values.len() != splits.entries()
            || (0..splits.rows()).any(|node| splits.row(node).len() > 1)
        {
            return Err(damaged("a node has no cut or several cuts"));
        }
        let (nodes, roots) = link(&splits).ok_or_else(|| damaged("a tree is not complete"))?;
        let count = nodes.iter().filter(|node| node.feature == LEAF).count();
        if leaves.rows() != count || leaves.cols != labels.rows() || roots.is_empty() {
            return Err(damaged("the sizes of its files do not fit together"));
        }
        Ok(Self { splits, leaves, labels, nodes, roots })
    }
}
