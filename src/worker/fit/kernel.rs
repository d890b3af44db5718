//! Kernel ridge regression, exact inside blocks of rows: k(x, x') = exp(gamma (cos(x, x') - 1)), M = K + ridge I,
//! A = M^-1 Y; a new row scores k(x, .) A. Left out, row i scores y_i - A_i / (M^-1)_ii.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use pipe_ml::data::artifact::{Check, DenseWriter, open_csr, open_dense, write_csr};
use pipe_ml::data::csr::{Csr, Dense};
use pipe_ml::data::examples::Unlabelled;
use pipe_ml::explanation::{Cause, Evidence, Subject};
use pipe_ml::signal::dot_index::{DotIndex, Product};
use rayon::prelude::*;

use super::blocks::{self, Blocks};
use super::tiles::Inverse;
use super::{CAUSES, LeftOut, Lesson, SCORE, Scorer};
use crate::net::gemm::{Matrix, multiply};

/// Rows that one thread scores at a time.
const ROWS: usize = 64;

const FEATURES: &str = "features.csr";
const CENTRES: &str = "centres.dense";
/// Row `b` lists the training rows of block `b`.
const BLOCK_ROWS: &str = "block_rows.csr";
/// Row `b` lists the labels that occur in block `b`.
const BLOCK_LABELS: &str = "block_labels.csr";

pub struct KernelRidge {
    gamma: f32,
    labels: usize,
    features: Csr,
    centres: Dense,
    blocks: Vec<Block>,
    /// What leaving a row out needs; only where the model was fitted.
    fitted: Option<Fitted>,
}

struct Block {
    rows: Vec<u32>,
    /// Those that occur; the others score 0.
    labels: Vec<u32>,
    /// A: rows x labels.
    dual: Dense,
    index: DotIndex,
}

struct Fitted {
    labels: Csr,
    /// Block of each row, and its place there.
    places: Vec<(u32, u32)>,
    /// (M^-1)_ii of each row.
    diagonal: Vec<f64>,
}

fn kernel(gamma: f32, cosine: f32) -> f32 {
    (gamma * (cosine - 1.0)).exp()
}

impl Block {
    fn fit(
        lesson: &Lesson,
        rows: Vec<u32>,
        gamma: f32,
        ridge: f32,
        device: tch::Device,
    ) -> Result<(Self, Vec<f64>)> {
        let index = DotIndex::new(&lesson.features, &rows, Product::Cosine);
        let inverse = Inverse::of(rows.len(), device, |at, values| {
            index.add_products(&lesson.features, rows[at] as usize, values);
            values.iter_mut().for_each(|value| *value = kernel(gamma, *value));
            values[at] += ridge;
        })
        .context("the kernel matrix cannot be inverted")?;
        let mut labels: Vec<u32> =
            rows.iter().flat_map(|&row| lesson.labels.row(row as usize)).copied().collect();
        labels.sort_unstable();
        labels.dedup();
        let place = |label: u32| labels.partition_point(|&other| other < label);
        let width = labels.len();
        let mut dual = vec![0f32; rows.len() * width];
        inverse.solve(
            width,
            |columns, right| {
                for (at, &row) in rows.iter().enumerate() {
                    let places = lesson.labels.row(row as usize).iter().map(|&label| place(label));
                    for column in places.filter(|column| columns.contains(column)) {
                        right[at * columns.len() + column - columns.start] = 1.0;
                    }
                }
            },
            |columns, solution| {
                for (row, part) in solution.chunks_exact(columns.len()).enumerate() {
                    dual[row * width..][columns.clone()].copy_from_slice(part);
                }
            },
        )?;
        let diagonal = inverse.diagonal()?;
        let dual = Dense { rows: rows.len(), cols: width, values: dual.into() };
        Ok((Self { rows, labels, dual, index }, diagonal))
    }

    /// Scores a few rows of `queries`; `scatter` gets each row's place and its scores by the block's labels.
    fn score(&self, gamma: f32, queries: &Csr, rows: &[u32]) -> Vec<f32> {
        let size = self.index.rows();
        let mut kernels = vec![0f32; rows.len() * size];
        for (&row, kernels) in rows.iter().zip(kernels.chunks_exact_mut(size)) {
            self.index.add_products(queries, row as usize, kernels);
            kernels.iter_mut().for_each(|value| *value = kernel(gamma, *value));
        }
        let mut scores = vec![0f32; rows.len() * self.labels.len()];
        if !self.labels.is_empty() {
            let dual = Matrix::new(&self.dual.values, size, self.labels.len());
            multiply(Matrix::new(&kernels, rows.len(), size), dual, &mut scores, false);
        }
        scores
    }
}

impl KernelRidge {
    pub fn fit(lesson: Lesson, blocks: Blocks, gamma: f64, ridge: f64, device: tch::Device) -> Result<Self> {
        let (gamma, ridge) = (gamma as f32, ridge as f32);
        let rows = lesson.features.rows();
        let mut places = vec![(0, 0); rows];
        let mut diagonal = vec![0f64; rows];
        let mut fitted = Vec::new();
        for (number, rows) in blocks.rows.into_iter().enumerate() {
            let (block, inverse) = Block::fit(&lesson, rows, gamma, ridge, device)?;
            for (at, (&row, value)) in block.rows.iter().zip(inverse).enumerate() {
                places[row as usize] = (number as u32, at as u32);
                diagonal[row as usize] = value;
            }
            fitted.push(block);
        }
        Ok(Self {
            gamma,
            labels: lesson.labels.cols,
            features: lesson.features,
            centres: blocks.centres,
            blocks: fitted,
            fitted: Some(Fitted { labels: lesson.labels, places, diagonal }),
        })
    }

    pub fn load(directory: &Path, gamma: f64) -> Result<Self> {
        let at = |name: &str| directory.join(name);
        let features = open_csr(&at(FEATURES), Check::Header)?;
        let centres = open_dense(&at(CENTRES), Check::Header)?;
        let rows = open_csr(&at(BLOCK_ROWS), Check::Header)?;
        let labels = open_csr(&at(BLOCK_LABELS), Check::Header)?;
        ensure!(
            centres.cols == features.cols
                && rows.cols == features.rows()
                && rows.rows() == labels.rows()
                && rows.rows() == centres.rows
                && rows.rows() > 0,
            "{}: the blocks do not fit the rows",
            directory.display()
        );
        let block = |number: usize| -> Result<Block> {
            let path = at(&dual_name(number));
            let dual = open_dense(&path, Check::Header)?;
            let (rows, labels) = (rows.row(number).to_vec(), labels.row(number).to_vec());
            let fits = labels.is_empty() || (dual.rows, dual.cols) == (rows.len(), labels.len());
            ensure!(fits, "{}: its size does not fit its block", path.display());
            let index = DotIndex::new(&features, &rows, Product::Cosine);
            Ok(Block { rows, labels, dual, index })
        };
        let blocks = (0..rows.rows()).map(block).collect::<Result<_>>()?;
        Ok(Self { gamma: gamma as f32, labels: labels.cols, features, centres, blocks, fitted: None })
    }

    /// Places of `rows` by the block that scores them.
    fn by_block(&self, rows: Unlabelled) -> Vec<Vec<u32>> {
        let mut places = vec![Vec::new(); self.blocks.len()];
        let near = |&row: &u32| self.nearest(rows.features, row as usize);
        let blocks: Vec<usize> = rows.rows.par_iter().map(near).collect();
        blocks.into_iter().zip(0..).for_each(|(block, place)| places[block].push(place));
        places
    }

    /// The block that scores a row.
    fn nearest(&self, features: &Csr, row: usize) -> usize {
        match self.blocks.len() {
            1 => 0,
            _ => blocks::nearest(features, row, &self.centres),
        }
    }
}

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
        for (block, places) in self.blocks.iter().zip(self.by_block(rows)) {
            let scored = places.par_chunks(ROWS).map(|places| {
                let chosen: Vec<u32> = places.iter().map(|&place| rows.rows[place as usize]).collect();
                block.score(self.gamma, rows.features, &chosen)
            });
            let scored: Vec<Vec<f32>> = scored.collect();
            let width = block.labels.len().max(1);
            let scores = scored.iter().flat_map(|scores| scores.chunks_exact(width));
            for (&place, scores) in places.iter().zip(scores) {
                let into = &mut into[place as usize * self.labels..][..self.labels];
                for (&label, &score) in block.labels.iter().zip(scores) {
                    into[label as usize] = score;
                }
            }
        }
        Ok(())
    }

    /// The model keeps no labels, so that its causes do not say whether they have the label.
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
        let mut cosines = vec![0f32; block.rows.len()];
        block.index.add_products(features, row, &mut cosines);
        let coefficient = |at: usize| f64::from(block.dual.row(at)[column]);
        let similarity = |at: usize| f64::from(kernel(self.gamma, cosines[at]));
        let values: Vec<f64> = (0..cosines.len()).map(|at| similarity(at) * coefficient(at)).collect();
        let words = format!("k * coefficient, over {among}");
        Evidence::new(SCORE, words, &values, CAUSES, |at| {
            let inputs =
                [("cosine", cosines[at].into()), ("k", similarity(at)), ("coefficient", coefficient(at))];
            Cause::new(Subject::TrainingRow { row: block.rows[at] }, &inputs, values[at])
        })
    }

    fn left_out(&self) -> Option<&dyn LeftOut> {
        self.fitted.as_ref().map(|_| self as &dyn LeftOut)
    }

    fn save(&self, directory: &Path) -> Result<()> {
        std::fs::create_dir_all(directory)?;
        let at = |name: &str| directory.join(name);
        write_csr(&at(FEATURES), &self.features)?;
        write_dense(&at(CENTRES), &self.centres)?;
        let lists = |list: fn(&Block) -> &Vec<u32>| self.blocks.iter().map(list).collect::<Vec<_>>();
        write_csr(&at(BLOCK_ROWS), &Csr::from_rows(self.features.rows(), &lists(|block| &block.rows)))?;
        write_csr(&at(BLOCK_LABELS), &Csr::from_rows(self.labels, &lists(|block| &block.labels)))?;
        for (number, block) in self.blocks.iter().enumerate() {
            write_dense(&at(&dual_name(number)), &block.dual)?;
        }
        Ok(())
    }
}

impl LeftOut for KernelRidge {
    fn scores(&self, row: usize, into: &mut [f32]) {
        into.fill(0.0);
        let Some(fitted) = &self.fitted else { return };
        let (block, at) = fitted.places[row];
        let block = &self.blocks[block as usize];
        let diagonal = fitted.diagonal[row];
        if block.labels.is_empty() {
            return;
        }
        for (&label, &dual) in block.labels.iter().zip(block.dual.row(at as usize)) {
            into[label as usize] = (-f64::from(dual) / diagonal) as f32;
        }
        fitted.labels.row(row).iter().for_each(|&label| into[label as usize] += 1.0);
    }
}

pub fn write_dense(path: &Path, matrix: &Dense) -> Result<()> {
    let mut writer = DenseWriter::create(path, matrix.cols)?;
    writer.append(&matrix.values)?;
    writer.finish().context("the model holds numbers that are not finite")?;
    Ok(())
}
