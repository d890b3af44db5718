//! Label trees as a scorer.

use anyhow::Result;

use super::{CAUSES, LabelSearch, Scorer, write_found};
use crate::data::csr::Csr;
use crate::data::examples::Unlabelled;
use crate::explanation::Evidence;
use crate::label_tree::LabelTrees;

impl Scorer for LabelTrees {
    fn features(&self) -> usize {
        self.features()
    }

    fn labels(&self) -> usize {
        self.labels()
    }

    fn score(&mut self, rows: Unlabelled, into: &mut [f32]) -> Result<()> {
        write_found(&self.found(rows), self.labels(), into);
        Ok(())
    }

    fn search(&self) -> Option<&dyn LabelSearch> {
        Some(self)
    }

    fn evidence(&self, features: &Csr, row: usize, label: u32) -> Evidence {
        self.evidence(features, row, label, CAUSES)
    }
}

impl LabelSearch for LabelTrees {
    fn found(&self, rows: Unlabelled) -> Vec<Vec<(u32, f32)>> {
        self.find(rows)
    }
}
