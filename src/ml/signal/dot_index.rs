//! Products of sparse rows with many others at once: an inverted index from feature to rows. Sums run in
//! the order of the features, so that a product depends on nothing but the two rows.

use std::cmp::Ordering;

use crate::ml::data::csr::Csr;

/// What counts as the product of two rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    Dot,
    /// Of both rows scaled to length one. A row without features is near to nothing.
    Cosine,
}

/// The rows that others are multiplied with. It keeps no reference to the matrix they came from.
pub struct DotIndex {
    rows: usize,
    product: Product,
    ends: Vec<u64>,
    /// Position among the indexed rows and the feature's value there, by feature.
    postings: Vec<(u32, f32)>,
}

/// Memory that a query needs, kept between queries.
pub struct Scratch {
    sums: Vec<f32>,
    touched: Vec<u32>,
}

impl DotIndex {
    pub fn new(features: &Csr, rows: &[u32], product: Product) -> Self {
        let mut ends = vec![0u64; features.cols + 1];
        for &row in rows {
            for &feature in features.row(row as usize) {
                ends[feature as usize + 1] += 1;
            }
        }
        for feature in 0..features.cols {
            ends[feature + 1] += ends[feature];
        }
        let mut next = ends.clone();
        let mut postings = vec![(0, 0.0); ends[features.cols] as usize];
        for (position, &row) in rows.iter().enumerate() {
            let scale = product.scale(features, row as usize);
            for (feature, value) in entries(features, row as usize) {
                let slot = &mut next[feature as usize];
                postings[*slot as usize] = (position as u32, value * scale);
                *slot += 1;
            }
        }
        Self { rows: rows.len(), product, ends, postings }
    }

    /// How many rows are indexed.
    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn scratch(&self) -> Scratch {
        Scratch { sums: vec![0.0; self.rows], touched: Vec::new() }
    }

    /// Adds the products of a row of `queries` with every indexed row to `sums`.
    pub fn add_products(&self, queries: &Csr, row: usize, sums: &mut [f32]) {
        let scale = self.product.scale(queries, row);
        for (feature, value) in entries(queries, row) {
            for &(position, other) in self.list(feature) {
                sums[position as usize] += value * scale * other;
            }
        }
    }

    /// The `k` indexed rows with the largest products above zero, largest first, as (position, product); ties go to the
    /// lower position. `itself` is never among them.
    pub fn nearest(
        &self,
        queries: &Csr,
        row: usize,
        k: usize,
        itself: Option<u32>,
        scratch: &mut Scratch,
    ) -> Vec<(u32, f32)> {
        let scale = self.product.scale(queries, row);
        for (feature, value) in entries(queries, row) {
            for &(position, other) in self.list(feature) {
                let sum = &mut scratch.sums[position as usize];
                if *sum == 0.0 {
                    scratch.touched.push(position);
                }
                *sum += value * scale * other;
            }
        }
        // A sum that passed through zero was listed twice; the second reading finds zero.
        let taken = scratch.touched.drain(..).map(|p| (p, std::mem::take(&mut scratch.sums[p as usize])));
        let mut found: Vec<_> = taken.filter(|&(p, product)| product > 0.0 && Some(p) != itself).collect();
        let nearer = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if found.len() > k {
            found.select_nth_unstable_by(k - 1, nearer);
            found.truncate(k);
        }
        found.sort_unstable_by(nearer);
        found
    }

    fn list(&self, feature: u32) -> &[(u32, f32)] {
        &self.postings[self.ends[feature as usize] as usize..self.ends[feature as usize + 1] as usize]
    }
}

impl Product {
    fn scale(self, features: &Csr, row: usize) -> f32 {
        match self {
            Self::Dot => 1.0,
            Self::Cosine => inverse_norm(features, row),
        }
    }
}

/// Feature and value of each entry of a row.
pub fn entries(features: &Csr, row: usize) -> impl Iterator<Item = (u32, f32)> {
    let values = features.row_values(row);
    let value = move |i: usize| values.get(i).copied().unwrap_or(1.0);
    features.row(row).iter().enumerate().map(move |(i, &feature)| (feature, value(i)))
}

/// One over the length of a row; zero for a row without features.
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

    #[test]
    fn products_are_of_whole_rows_or_of_rows_of_length_one() {
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
