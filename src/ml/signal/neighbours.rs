//! [`NeighbourIndex`]: the nearest training rows by cosine of the features, found exactly. Ties go to the
//! lower row, so that the result depends only on the data.

use std::borrow::Cow;

use rayon::prelude::*;

use super::dot_index::{DotIndex, Product};
use super::sparse_rows::{LabelSums, SparseRows};
use crate::config::signal::Weighting;
use crate::data::csr::Csr;

/// An index of the rows that can be neighbours.
pub struct NeighbourIndex<'a> {
    features: Cow<'a, Csr>,
    rows: Cow<'a, [u32]>,
    index: DotIndex,
}

/// The neighbours of several queries, nearest first.
pub struct Neighbours {
    ends: Vec<u64>,
    /// Row of the data set and weight. The weights of a query sum to one.
    found: Vec<(u32, f32)>,
    /// The sum of the cosines of each query's neighbours, divided by the number of neighbours that were wanted.
    density: Vec<f32>,
}

impl<'a> NeighbourIndex<'a> {
    /// Indexes some rows of a matrix.
    pub fn new(features: &'a Csr, rows: &'a [u32]) -> Self {
        Self::build(Cow::Borrowed(features), Cow::Borrowed(rows))
    }

    /// Indexes some rows of a matrix, which are borrowed or owned.
    pub fn build(features: Cow<'a, Csr>, rows: Cow<'a, [u32]>) -> Self {
        let index = DotIndex::new(&features, &rows, Product::Cosine);
        Self { features, rows, index }
    }

    /// Returns the neighbours of the indexed rows themselves. A row is never its own neighbour.
    pub fn of_own_rows(&self, k: usize, weighting: Weighting) -> Neighbours {
        self.search(&self.features, &self.rows, k, weighting, true)
    }

    /// Returns the neighbours of rows of another matrix with the same features.
    pub fn of(&self, queries: &Csr, rows: &[u32], k: usize, weighting: Weighting) -> Neighbours {
        self.search(queries, rows, k, weighting, false)
    }

    /// Returns the neighbours of one row of another matrix with their cosines, nearest first.
    pub fn nearest(&self, queries: &Csr, row: usize, k: usize) -> Vec<(u32, f32)> {
        let found = self.index.nearest(queries, row, k, None, &mut self.index.scratch());
        found.into_iter().map(|(position, cosine)| (self.rows[position as usize], cosine)).collect()
    }

    fn search(&self, queries: &Csr, rows: &[u32], k: usize, weighting: Weighting, own: bool) -> Neighbours {
        let (lists, density): (Vec<Vec<(u32, f32)>>, _) = rows
            .par_iter()
            .enumerate()
            .map_init(
                || self.index.scratch(),
                |scratch, (position, &row)| {
                    let itself = own.then_some(position as u32);
                    let found = self.index.nearest(queries, row as usize, k, itself, scratch);
                    let named = |(position, weight): (u32, f32)| (self.rows[position as usize], weight);
                    let cosines: f32 = found.iter().map(|entry| entry.1).sum();
                    (weigh(found, weighting).map(named).collect(), cosines / k as f32)
                },
            )
            .unzip();
        let mut ends = vec![0];
        ends.extend(lists.iter().scan(0, |end, list| {
            *end += list.len() as u64;
            Some(*end)
        }));
        Neighbours { ends, found: lists.concat(), density }
    }
}

/// Turns cosines into weights that sum to one.
pub fn weigh(found: Vec<(u32, f32)>, weighting: Weighting) -> impl Iterator<Item = (u32, f32)> {
    let weight = move |cosine: f32| match weighting {
        Weighting::Uniform => 1.0,
        Weighting::CosineSquared => (cosine * cosine).max(f32::MIN_POSITIVE),
    };
    let total: f32 = found.iter().map(|&(_, cosine)| weight(cosine)).sum();
    found.into_iter().map(move |(position, cosine)| (position, weight(cosine) / total))
}

impl Neighbours {
    /// Returns the number of queries.
    pub fn len(&self) -> usize {
        self.ends.len() - 1
    }

    /// Returns whether there are no queries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the neighbours of one query and their weights.
    pub fn of(&self, query: usize) -> &[(u32, f32)] {
        &self.found[self.ends[query] as usize..self.ends[query + 1] as usize]
    }

    /// Returns how dense the neighbourhood of a query is: the mean cosine of its neighbours.
    pub fn density(&self, query: usize) -> f64 {
        self.density[query].into()
    }

    /// Returns the mean density of all queries.
    pub fn mean_density(&self) -> f64 {
        self.density.iter().map(|&density| f64::from(density)).sum::<f64>() / self.len().max(1) as f64
    }

    /// Returns the local signal of some queries: the weighted mean of the labels of their neighbours.
    pub fn signal(&self, queries: impl IntoIterator<Item = usize>, labels: &Csr) -> SparseRows {
        let mut sums = LabelSums::new(labels.cols);
        let mut signal = SparseRows::default();
        for query in queries {
            for &(row, weight) in self.of(query) {
                for &label in labels.row(row as usize) {
                    sums.add(label, f64::from(weight));
                }
            }
            signal.push(sums.drain());
        }
        signal
    }
}

#[cfg(test)]
mod tests {
    use super::super::dot_index::entries;
    use super::*;

    fn matrix(rows: &[&[(u32, f32)]], cols: usize) -> Csr {
        let mut indptr = vec![0];
        indptr.extend(rows.iter().scan(0, |end, row| {
            *end += row.len() as u64;
            Some(*end)
        }));
        let entries = rows.concat();
        Csr {
            cols,
            indptr: indptr.into(),
            indices: entries.iter().map(|entry| entry.0).collect::<Vec<_>>().into(),
            values: entries.iter().map(|entry| entry.1).collect::<Vec<_>>().into(),
        }
    }

    /// Finds neighbours by comparing all pairs in f64.
    fn by_brute_force(features: &Csr, query: usize, k: usize) -> Vec<u32> {
        let dense = |row: usize| {
            let mut dense = vec![0f64; features.cols];
            for (feature, value) in entries(features, row) {
                dense[feature as usize] = value.into();
            }
            let norm = dense.iter().map(|v| v * v).sum::<f64>().sqrt();
            dense.into_iter().map(|v| if norm > 0.0 { v / norm } else { 0.0 }).collect::<Vec<_>>()
        };
        let own = dense(query);
        let cosine = |row: usize| -> f64 { dense(row).iter().zip(&own).map(|(a, b)| a * b).sum() };
        let others = (0..features.rows()).filter(|&row| row != query);
        let mut all: Vec<_> = others.map(|row| (cosine(row), row as u32)).filter(|c| c.0 > 0.0).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        all.into_iter().take(k).map(|(_, row)| row).collect()
    }

    fn scattered(rows: usize, cols: u32) -> Csr {
        let mut state = 7u64;
        let mut next = move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u32
        };
        let mut all = Vec::new();
        for _ in 0..rows {
            let mut row: Vec<(u32, f32)> = Vec::new();
            for feature in 0..cols {
                if next() % 5 == 0 {
                    row.push((feature, (next() % 1000) as f32 / 500.0 - 0.5));
                }
            }
            all.push(row);
        }
        matrix(&all.iter().map(Vec::as_slice).collect::<Vec<_>>(), cols as usize)
    }

    #[test]
    fn the_nearest_rows_are_those_of_an_exhaustive_search() {
        let features = scattered(60, 25);
        let rows: Vec<u32> = (0..60).collect();
        let found = NeighbourIndex::new(&features, &rows).of_own_rows(7, Weighting::Uniform);
        for query in 0..60 {
            let ours: Vec<u32> = found.of(query).iter().map(|entry| entry.0).collect();
            assert_eq!(ours, by_brute_force(&features, query, 7), "row {query}");
        }
    }

    #[test]
    fn the_result_does_not_depend_on_the_number_of_threads() {
        let features = scattered(80, 30);
        let rows: Vec<u32> = (0..80).collect();
        let search = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let index = NeighbourIndex::new(&features, &rows);
            pool.install(|| index.of_own_rows(5, Weighting::CosineSquared).found)
        };
        assert_eq!(search(1), search(3));
    }

    #[test]
    fn a_row_is_never_its_own_neighbour_but_its_duplicate_is() {
        let features = matrix(&[&[(0, 1.0), (1, 2.0)], &[(0, 1.0), (1, 2.0)], &[(1, 1.0)], &[]], 2);
        let found = NeighbourIndex::new(&features, &[0, 1, 2, 3]).of_own_rows(2, Weighting::Uniform);
        assert_eq!(found.of(0), [(1, 0.5), (2, 0.5)]);
        assert_eq!(found.of(1), [(0, 0.5), (2, 0.5)]);
        assert_eq!(found.of(3), [], "a row without features has no neighbours");
    }

    #[test]
    fn neighbours_that_are_missing_make_a_neighbourhood_less_dense() {
        let features = matrix(&[&[(0, 1.0)], &[(0, 2.0)], &[(1, 1.0)]], 2);
        let found = NeighbourIndex::new(&features, &[0, 1, 2]).of_own_rows(4, Weighting::Uniform);
        assert_eq!([0, 1, 2].map(|query| found.density(query)), [0.25, 0.25, 0.0]);
        assert_eq!(found.mean_density(), 0.5 / 3.0);
    }

    #[test]
    fn the_signal_is_the_weighted_mean_of_the_neighbours_labels() {
        let features = matrix(&[&[(0, 1.0)], &[(0, 2.0)], &[(0, 3.0), (1, 4.0)]], 2);
        let labels = matrix(&[&[(0, 1.0)], &[(0, 1.0), (2, 1.0)], &[(1, 1.0)]], 3);
        let query = matrix(&[&[(0, 5.0)]], 2);
        let index = NeighbourIndex::new(&features, &[0, 1, 2]);
        let found = index.of(&query, &[0], 3, Weighting::CosineSquared);
        let weights = [1.0, 1.0, 0.36].map(|w: f64| w / 2.36);
        let signal = found.signal([0], &labels);
        let close = |(label, value): (u32, f64), expected: (u32, f64)| {
            assert_eq!(label, expected.0);
            assert!((value - expected.1).abs() < 1e-6, "{value} {expected:?}");
        };
        assert_eq!(signal.row(0).len(), 3);
        close(signal.row(0)[0], (0, weights[0] + weights[1]));
        close(signal.row(0)[1], (1, weights[2]));
        close(signal.row(0)[2], (2, weights[1]));
    }
}
