//! Extremely randomised trees as a scorer.

use anyhow::Result;
use rayon::prelude::*;

use super::{CAUSES, SCORE, Scorer};
use crate::data::csr::Csr;
use crate::data::examples::Unlabelled;
use crate::explanation::Evidence;
use crate::extra_trees::ExtraTrees;

impl Scorer for ExtraTrees {
    fn features(&self) -> usize {
        self.features()
    }

    fn labels(&self) -> usize {
        self.labels()
    }

    fn score(&mut self, rows: Unlabelled, into: &mut [f32]) -> Result<()> {
        let (this, width) = (&*self, self.labels());
        let scored = into.par_chunks_mut(width).zip(rows.rows);
        scored.for_each(|(into, &row)| this.score_row(rows.features, row as usize, into));
        Ok(())
    }

    fn evidence(&self, features: &Csr, row: usize, label: u32) -> Evidence {
        self.evidence(SCORE, features, row, label, CAUSES)
    }
}
