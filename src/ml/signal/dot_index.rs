//! [`DotIndex`]: products of one sparse row with many others at once, by inverted indices from features to rows.
//!
//! There is one index for each block of rows. Sums run in the order of the features, so that a product
//! depends only on the two rows.

use std::cmp::Ordering;

use rayon::prelude::*;

use crate::data::csr::Csr;

/// The product of two rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    Dot,
    /// The product of both rows scaled to length one; zero for a row without features.
    Cosine,
}

/// The number of rows per block, so that the sums of a block fit the cache of a core.
const BLOCK_ROWS: usize = 1 << 15;

/// An index of the rows that others are multiplied with. It does not refer to the matrix of these rows.
pub struct DotIndex {
    rows: usize,
    product: Product,
    blocks: Vec<IndexBlock>,
}

/// An inverted index of consecutive rows.
struct IndexBlock {
    rows: usize,
    /// The end of the list of each feature.
    ends: Vec<u32>,
    /// Rows of the block by feature, and the values of the features in these rows.
    places: Vec<u16>,
    values: Vec<f32>,
}

/// Memory that queries reuse.
pub struct DotScratch {
    sums: Vec<f32>,
}

impl DotIndex {
    /// Indexes some rows of a matrix.
    pub fn new(features: &Csr, rows: &[u32], product: Product) -> Self {
        let blocks =
            rows.par_chunks(BLOCK_ROWS).map(|rows| IndexBlock::new(features, rows, product)).collect();
        Self { rows: rows.len(), product, blocks }
    }

    /// Returns the number of indexed rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns memory for queries.
    pub fn scratch(&self) -> DotScratch {
        DotScratch { sums: vec![0.0; self.rows.min(BLOCK_ROWS)] }
    }

    /// Adds the products of a row of `queries` with every indexed row to `sums`.
    pub fn add_products(&self, queries: &Csr, row: usize, sums: &mut [f32]) {
        let scale = self.product.scale(queries, row);
        for (block, sums) in self.blocks.iter().zip(sums.chunks_mut(BLOCK_ROWS)) {
            block.add_products(queries, row, scale, sums);
        }
    }

    /// Returns the `k` indexed rows with the largest products above zero, largest first, as (position,
    /// product). Ties go to the lower position. The position `itself` is left out.
    pub fn nearest(
        &self,
        queries: &Csr,
        row: usize,
        k: usize,
        itself: Option<u32>,
        scratch: &mut DotScratch,
    ) -> Vec<(u32, f32)> {
        let scale = self.product.scale(queries, row);
        let mut best = LargestProducts::new(k.min(self.rows));
        for (number, block) in self.blocks.iter().enumerate() {
            let sums = &mut scratch.sums[..block.rows];
            sums.fill(0.0);
            block.add_products(queries, row, scale, sums);
            let start = number * BLOCK_ROWS;
            if let Some(own) =
                itself.and_then(|own| (own as usize).checked_sub(start)).filter(|&own| own < block.rows)
            {
                sums[own] = 0.0;
            }
            best.offer(start as u32, sums);
        }
        best.into_sorted()
    }
}

impl IndexBlock {
    fn new(features: &Csr, rows: &[u32], product: Product) -> Self {
        let entries_in_all: usize = rows.iter().map(|&row| features.row(row as usize).len()).sum();
        assert!(u32::try_from(entries_in_all).is_ok(), "a block of rows has more than 2^32 features");
        let mut ends = vec![0u32; features.cols + 1];
        for &row in rows {
            for &feature in features.row(row as usize) {
                ends[feature as usize + 1] += 1;
            }
        }
        for feature in 0..features.cols {
            ends[feature + 1] += ends[feature];
        }
        let (mut places, mut values) = (vec![0; entries_in_all], vec![0.0; entries_in_all]);
        let mut next = ends.clone();
        for (place, &row) in rows.iter().enumerate() {
            let scale = product.scale(features, row as usize);
            for (feature, value) in entries(features, row as usize) {
                let slot = &mut next[feature as usize];
                (places[*slot as usize], values[*slot as usize]) = (place as u16, value * scale);
                *slot += 1;
            }
        }
        Self { rows: rows.len(), ends, places, values }
    }

    fn add_products(&self, queries: &Csr, row: usize, scale: f32, sums: &mut [f32]) {
        for (feature, value) in entries(queries, row) {
            let list = self.ends[feature as usize] as usize..self.ends[feature as usize + 1] as usize;
            for (&place, other) in self.places[list.clone()].iter().zip(&self.values[list]) {
                sums[place as usize] += value * scale * other;
            }
        }
    }
}

/// The largest of many products that are offered in the order of their positions.
struct LargestProducts {
    k: usize,
    found: Vec<(u32, f32)>,
    /// What a product must exceed to be found. A later product loses a tie.
    minimum: f32,
}

impl LargestProducts {
    fn new(k: usize) -> Self {
        let minimum = if k == 0 { f32::INFINITY } else { 0.0 };
        Self { k, found: Vec::with_capacity(Self::room(k)), minimum }
    }

    /// Returns the number of products that are collected before all but the `k` best are dropped.
    fn room(k: usize) -> usize {
        4 * k + 64
    }

    fn offer(&mut self, start: u32, products: &[f32]) {
        const LANES: usize = 32;
        for (chunk, products) in products.chunks(LANES).enumerate() {
            // Most chunks have no large product: the compiler turns this into one vectorised comparison.
            if !products.iter().fold(false, |any, &product| any | (product > self.minimum)) {
                continue;
            }
            for (place, &product) in
                products.iter().enumerate().filter(|&(_, &product)| product > self.minimum)
            {
                self.found.push((start + (chunk * LANES + place) as u32, product));
            }
            if self.found.len() + LANES > Self::room(self.k) {
                self.keep_largest();
            }
        }
    }

    /// Drops all but the `k` largest products.
    fn keep_largest(&mut self) {
        if self.found.len() > self.k {
            self.found.select_nth_unstable_by(self.k - 1, nearer);
            self.found.truncate(self.k);
            self.minimum = self.found[self.k - 1].1;
        }
    }

    fn into_sorted(mut self) -> Vec<(u32, f32)> {
        self.keep_largest();
        self.found.sort_unstable_by(nearer);
        self.found
    }
}

/// Orders products, largest first, then by position.
fn nearer(a: &(u32, f32), b: &(u32, f32)) -> Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

impl Product {
    /// Returns the factor of a row.
    pub(super) fn scale(self, features: &Csr, row: usize) -> f32 {
        match self {
            Self::Dot => 1.0,
            Self::Cosine => inverse_norm(features, row),
        }
    }
}

/// Iterates over the features and values of a row.
pub fn entries(features: &Csr, row: usize) -> impl Iterator<Item = (u32, f32)> {
    let values = features.row_values(row);
    let value = move |i: usize| values.get(i).copied().unwrap_or(1.0);
    features.row(row).iter().enumerate().map(move |(i, &feature)| (feature, value(i)))
}

/// Returns one over the length of a row; zero for a row without features.
pub fn inverse_norm(features: &Csr, row: usize) -> f32 {
    let square: f64 = entries(features, row).map(|(_, value)| f64::from(value).powi(2)).sum();
    match square.partial_cmp(&0.0) {
        Some(Ordering::Greater) => (1.0 / square.sqrt()) as f32,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::random::Random;

    #[test]
    fn the_largest_products_are_found_across_blocks_and_ties_go_to_the_lower_position() {
        // Row i has one feature with value v_i, so its product with a query of value 1 is v_i. Many v_i are equal.
        let mut random = Random::new("dot index", 0);
        let count = 2 * BLOCK_ROWS + 100;
        let values: Vec<f32> = (0..count).map(|_| (random.unit() * 9.0).floor() as f32 - 2.0).collect();
        let one = |values: Vec<f32>| Csr {
            cols: 1,
            indptr: (0..=values.len() as u64).collect::<Vec<_>>().into(),
            indices: vec![0; values.len()].into(),
            values: values.into(),
        };
        let mut expected: Vec<(u32, f32)> = values.iter().enumerate().map(|(i, &v)| (i as u32, v)).collect();
        expected.retain(|&(_, value)| value > 0.0);
        expected.sort_by(nearer);
        let rows: Vec<u32> = (0..count as u32).collect();
        let index = DotIndex::new(&one(values), &rows, Product::Dot);
        let query = one(vec![1.0]);
        let mut scratch = index.scratch();
        for k in [0, 1, 7, 1000, count, usize::MAX] {
            let itself = expected[k.min(1000) / 2].0;
            let found = index.nearest(&query, 0, k, Some(itself), &mut scratch);
            let wanted: Vec<_> = expected.iter().copied().filter(|&(p, _)| p != itself).take(k).collect();
            assert_eq!(found, wanted, "{k}");
        }
    }

    #[test]
    fn products_are_plain_or_scaled_to_rows_of_length_one() {
        let features = Csr {
            cols: 3,
            indptr: vec![0, 2, 3, 3].into(),
            indices: vec![0, 1, 1].into(),
            values: vec![3.0, 4.0, 2.0].into(),
        };
        let rows = [0, 1, 2];
        let products = |product| {
            let mut sums = vec![0.0; 3];
            DotIndex::new(&features, &rows, product).add_products(&features, 0, &mut sums);
            sums
        };
        assert_eq!(products(Product::Dot), [25.0, 8.0, 0.0]);
        let cosines = products(Product::Cosine);
        assert!((cosines[0] - 1.0).abs() < 1e-6 && (cosines[1] - 0.8).abs() < 1e-6 && cosines[2] == 0.0);
    }
}
