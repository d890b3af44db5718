//! Kernel ridge regression, exact within blocks of rows.
//!
//! With a kernel k, M = K + ridge I and A = M^-1 Y, the scores of a new row are k(x, .) A.

use std::path::Path;

use anyhow::{Result, ensure};
use rayon::prelude::*;

use super::block_centres;
use super::kernel::{Kernel, KernelIndex};
use super::product::multiply;
use super::{CAUSES, ModelSize, SCORE, Scorer, write_dense};
use crate::data::artifact::{ArtifactCheck, open_csr, open_dense, write_csr};
use crate::data::csr::{Csr, DenseMatrix};
use crate::data::examples::Unlabelled;
use crate::explanation::{Cause, CauseSubject, Evidence};

/// How many rows one thread scores at a time.
const ROWS: usize = 64;

const FEATURES: &str = "features.csr";
const CENTRES: &str = "centres.dense";
/// Row `b` lists the training rows of block `b`.
const BLOCK_ROWS: &str = "block_rows.csr";
/// Row `b` lists the labels that occur in block `b`.
const BLOCK_LABELS: &str = "block_labels.csr";

/// Computes the product of two matrices, row-major, into the third argument.
pub type MatrixProduct = fn(&[f32], &DenseMatrix, &mut [f32]);

/// A fitted kernel ridge regression.
pub struct KernelRidge {
    kernel: Kernel,
    labels: usize,
    features: Csr,
    centres: DenseMatrix,
    blocks: Vec<KernelBlock>,
    product: MatrixProduct,
}

/// The regression within one block of rows.
pub struct KernelBlock {
    pub rows: Vec<u32>,
    /// The labels that occur in the block; the score of all others is 0.
    pub labels: Vec<u32>,
    /// A, rows x labels.
    pub dual: DenseMatrix,
    /// The index of the rows.
    pub index: KernelIndex,
}

impl KernelBlock {
    /// Returns the scores of some rows of `queries` for the block's labels, row-major.
    fn score(&self, product: MatrixProduct, queries: &Csr, rows: &[u32]) -> Vec<f32> {
        let size = self.index.rows();
        let mut kernels = vec![0f32; rows.len() * size];
        for (&row, kernels) in rows.iter().zip(kernels.chunks_exact_mut(size)) {
            self.index.similarities(queries, row as usize, kernels);
        }
        let mut scores = vec![0f32; rows.len() * self.labels.len()];
        if !self.labels.is_empty() {
            product(&kernels, &self.dual, &mut scores);
        }
        scores
    }
}

impl KernelRidge {
    /// Creates a model from fitted blocks. `product` computes its scores.
    pub fn new(
        kernel: Kernel,
        labels: usize,
        features: Csr,
        centres: DenseMatrix,
        blocks: Vec<KernelBlock>,
        product: MatrixProduct,
    ) -> Self {
        Self { kernel, labels, features, centres, blocks, product }
    }

    /// Returns the blocks.
    pub fn blocks(&self) -> &[KernelBlock] {
        &self.blocks
    }

    /// Opens a saved model.
    pub fn load(directory: &Path, size: ModelSize, gamma: f64) -> Result<Self> {
        let at = |name: &str| directory.join(name);
        let kernel = Kernel::load(directory, gamma)?;
        let features = open_csr(&at(FEATURES), ArtifactCheck::Deep)?;
        let centres = open_dense(&at(CENTRES), ArtifactCheck::Deep)?;
        let rows = open_csr(&at(BLOCK_ROWS), ArtifactCheck::Deep)?;
        let labels = open_csr(&at(BLOCK_LABELS), ArtifactCheck::Deep)?;
        size.check(directory, features.cols, labels.cols)?;
        ensure!(
            centres.cols == features.cols
                && rows.cols == features.rows()
                && rows.rows() == labels.rows()
                && rows.rows() == centres.rows
                && rows.rows() > 0,
            "{}: the blocks do not match the training rows; the model is damaged",
            directory.display()
        );
        let load_block = |number: usize| -> Result<KernelBlock> {
            let path = at(&dual_name(number));
            let dual = open_dense(&path, ArtifactCheck::Deep)?;
            let (rows, labels) = (rows.row(number).to_vec(), labels.row(number).to_vec());
            let fits = labels.is_empty() || (dual.rows, dual.cols) == (rows.len(), labels.len());
            ensure!(fits, "{}: the size does not match its block; the model is damaged", path.display());
            let index = KernelIndex::new(kernel, &features, &rows);
            Ok(KernelBlock { rows, labels, dual, index })
        };
        let blocks = (0..rows.rows()).map(load_block).collect::<Result<_>>()?;
        Ok(Self { kernel, labels: labels.cols, features, centres, blocks, product: multiply })
    }

    /// Creates a directory and writes everything that [`Self::load`] needs into it.
    pub fn save(&self, directory: &Path) -> Result<()> {
        std::fs::create_dir_all(directory)?;
        self.kernel.save(directory)?;
        let at = |name: &str| directory.join(name);
        write_csr(&at(FEATURES), &self.features)?;
        write_dense(&at(CENTRES), &self.centres)?;
        let of_blocks =
            |field: fn(&KernelBlock) -> &Vec<u32>| self.blocks.iter().map(field).collect::<Vec<_>>();
        write_csr(&at(BLOCK_ROWS), &Csr::from_rows(self.features.rows(), &of_blocks(|block| &block.rows)))?;
        write_csr(&at(BLOCK_LABELS), &Csr::from_rows(self.labels, &of_blocks(|block| &block.labels)))?;
        for (number, block) in self.blocks.iter().enumerate() {
            write_dense(&at(&dual_name(number)), &block.dual)?;
        }
        Ok(())
    }

    /// Returns, for each block, the indices of the rows that it scores.
    fn by_block(&self, rows: Unlabelled) -> Vec<Vec<u32>> {
        let mut indices = vec![Vec::new(); self.blocks.len()];
        let block_of = |&row: &u32| self.nearest(rows.features, row as usize);
        let blocks: Vec<usize> = rows.rows.par_iter().map(block_of).collect();
        for (block, index) in blocks.into_iter().zip(0..) {
            indices[block].push(index);
        }
        indices
    }

    /// Returns the block that scores a row.
    fn nearest(&self, features: &Csr, row: usize) -> usize {
        match self.blocks.len() {
            1 => 0,
            _ => block_centres::nearest(features, row, &self.centres),
        }
    }
}

/// Returns the name of the file with A of a block.
fn dual_name(block: usize) -> String {
    format!("dual-{block}.dense")
}

impl Scorer for KernelRidge {
    fn features(&self) -> usize {
        self.features.cols
    }

    fn labels(&self) -> usize {
        self.labels
    }

    fn score(&mut self, rows: Unlabelled, into: &mut [f32]) -> Result<()> {
        into.fill(0.0);
        for (block, indices) in self.blocks.iter().zip(self.by_block(rows)) {
            let scored = indices.par_chunks(ROWS).map(|indices| {
                let chosen: Vec<u32> = indices.iter().map(|&index| rows.rows[index as usize]).collect();
                block.score(self.product, rows.features, &chosen)
            });
            let scored: Vec<Vec<f32>> = scored.collect();
            let width = block.labels.len().max(1);
            let scores = scored.iter().flat_map(|scores| scores.chunks_exact(width));
            for (&index, scores) in indices.iter().zip(scores) {
                let into = &mut into[index as usize * self.labels..][..self.labels];
                for (&label, &score) in block.labels.iter().zip(scores) {
                    into[label as usize] = score;
                }
            }
        }
        Ok(())
    }

    /// Returns training rows as causes. The model keeps no labels, so that a cause does not say whether its row has the
    /// label.
    fn evidence(&self, features: &Csr, row: usize, label: u32) -> Evidence {
        let block = &self.blocks[self.nearest(features, row)];
        let (rows, blocks) = (block.rows.len(), self.blocks.len());
        let among = if blocks == 1 {
            format!("{rows} training rows")
        } else {
            format!("the {rows} rows of one of {blocks} blocks")
        };
        let Ok(column) = block.labels.binary_search(&label) else {
            return Evidence::none(SCORE, format!("no row has the label, among {among}"));
        };
        let mut measures = vec![0f32; block.rows.len()];
        block.index.measures(features, row, &mut measures);
        let coefficient = |at: usize| f64::from(block.dual.row(at)[column]);
        let similarity = |at: usize| f64::from(self.kernel.of(measures[at]));
        let values: Vec<f64> = (0..measures.len()).map(|at| similarity(at) * coefficient(at)).collect();
        let words = format!("k * coefficient, over {among}");
        Evidence::new(SCORE, words, &values, CAUSES, |at| {
            let measure = (self.kernel.measure_name(), measures[at].into());
            let inputs = [measure, ("k", similarity(at)), ("coefficient", coefficient(at))];
            Cause::new(CauseSubject::training_row(block.rows[at]), &inputs, values[at])
        })
    }
}
