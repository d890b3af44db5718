//! Grows one tree.

use std::ops::Range;

use crate::config::model::ExtraTreesConfig;
use crate::data::csr::Csr;
use crate::data::random::Random;
use crate::signal::dot_index::entries;

/// A tree in preorder.
#[derive(Default)]
pub(super) struct GrownTree {
    /// The feature and the cut of each node; `None` in a leaf.
    pub splits: Vec<Option<(u32, f32)>>,
    /// For each leaf, the end of its rows.
    pub ends: Vec<usize>,
    /// The rows in the leaves, ascending in each leaf.
    pub rows: Vec<u32>,
    /// The share of each row in its leaf.
    pub shares: Vec<f32>,
}

/// The rows of a node are searched for their features, instead of the features for their rows, if it has at most so many rows.
const FEW_ROWS: usize = 64;
/// The search for the value of a feature in a row costs about as much as this many steps along a column.
const SEARCH_COST: usize = 8;

/// What a tree is grown on, and the memory for it.
pub(super) struct TreeGrower<'a> {
    features: &'a Csr,
    /// The transposed features.
    columns: &'a Csr,
    labels: &'a Csr,
    /// How many features a node tries.
    tried: usize,
    smallest_leaf: usize,
    random: Random,
    /// How often each row was drawn.
    weights: Vec<u32>,
    /// The drawn rows. Those of a node follow each other.
    rows: Vec<u32>,
    /// Where each row is in `rows`; `u32::MAX` for rows that were not drawn.
    places: Vec<u32>,
    /// All features, in an order that draws change.
    order: Vec<u32>,
    /// The number of the last node in which a feature was listed.
    listed: Vec<u32>,
    /// The features of the rows of a node.
    present: Vec<u32>,
    node: NodeCounts,
    /// The drawn rows with each label on one side of a cut; 0 between two calls.
    side: Vec<u32>,
    /// The rows of the node that have the tried feature, and its values.
    found: Vec<(u32, f32)>,
}

/// The labels of the rows of a node, each row as often as it was drawn.
#[derive(Default)]
struct NodeCounts {
    number: u32,
    rows: u64,
    /// The rows with each label.
    labels: Vec<u32>,
    /// The labels that some row has.
    some: Vec<u32>,
    /// The sum of the squares of `labels`.
    squares: u64,
}

/// A cut that was tried.
#[derive(Clone, Copy)]
struct Split {
    feature: u32,
    cut: f32,
    /// The larger, the less variance is left.
    gain: f64,
}

impl<'a> TreeGrower<'a> {
    /// Draws the rows of a tree. `columns` are the transposed features.
    pub(super) fn new(
        features: &'a Csr,
        columns: &'a Csr,
        labels: &'a Csr,
        settings: &ExtraTreesConfig,
        mut random: Random,
    ) -> Self {
        let (rows, cols) = (features.rows(), features.cols);
        let mut weights = vec![0; rows];
        for _ in 0..rows {
            weights[random.below(rows)] += 1;
        }
        let drawn: Vec<u32> = (0..rows as u32).filter(|&row| weights[row as usize] > 0).collect();
        let mut places = vec![u32::MAX; rows];
        for (&row, place) in drawn.iter().zip(0..) {
            places[row as usize] = place;
        }
        let tried = settings.features_per_node.unwrap_or_else(|| (cols as f64).sqrt().round() as usize);
        Self {
            features,
            columns,
            labels,
            tried: tried.clamp(1, cols.max(1)),
            smallest_leaf: settings.smallest_leaf,
            random,
            weights,
            rows: drawn,
            places,
            order: (0..cols as u32).collect(),
            listed: vec![0; cols],
            present: Vec::new(),
            node: NodeCounts { labels: vec![0; labels.cols], ..NodeCounts::default() },
            side: vec![0; labels.cols],
            found: Vec::new(),
        }
    }

    /// Grows the tree.
    pub(super) fn grow(mut self) -> GrownTree {
        let mut tree = GrownTree::default();
        let mut open: Vec<Range<usize>> = std::iter::once(0..self.rows.len()).collect();
        while let Some(span) = open.pop() {
            let split = self.split(&span);
            tree.splits.push(split.map(|split| (split.feature, split.cut)));
            match split {
                Some(split) => {
                    let middle = self.divide(&span, split);
                    open.push(middle..span.end);
                    open.push(span.start..middle);
                }
                None => self.add_leaf(span, &mut tree),
            }
        }
        tree
    }

    /// Adds a leaf with its rows.
    fn add_leaf(&mut self, span: Range<usize>, tree: &mut GrownTree) {
        let rows = &mut self.rows[span];
        rows.sort_unstable();
        let weight = |&row: &u32| self.weights[row as usize];
        let total: u32 = rows.iter().map(weight).sum();
        tree.shares.extend(rows.iter().map(|row| weight(row) as f32 / total as f32));
        tree.rows.extend_from_slice(rows);
        tree.ends.push(tree.rows.len());
    }

    /// Chooses the cut of a node; `None` if it is a leaf.
    fn split(&mut self, span: &Range<usize>) -> Option<Split> {
        if span.len() < 2 * self.smallest_leaf || !self.count_labels(span) {
            return None;
        }
        let small = span.len() <= FEW_ROWS;
        if small {
            self.list_features(span);
        }
        let mut best: Option<Split> = None;
        for at in 0..self.tried {
            let other = at + self.random.below(self.order.len() - at);
            self.order.swap(at, other);
            let feature = self.order[at];
            // A feature that no row of the node has is the same in all of them.
            if small && self.listed[feature as usize] != self.node.number {
                continue;
            }
            let tried = self.try_feature(feature, span);
            if tried.is_some_and(|tried| best.is_none_or(|best| tried.gain > best.gain)) {
                best = tried;
            }
        }
        if best.is_some() {
            return best;
        }
        // None of the drawn features differs between the rows: one of the others decides.
        if !small {
            self.list_features(span);
        }
        for at in 0..self.present.len() {
            let other = at + self.random.below(self.present.len() - at);
            self.present.swap(at, other);
            let tried = self.try_feature(self.present[at], span);
            if tried.is_some() {
                return tried;
            }
        }
        None
    }

    /// Counts the labels of the rows of a node. Returns whether some rows have other labels than others.
    fn count_labels(&mut self, span: &Range<usize>) -> bool {
        let node = &mut self.node;
        node.number += 1;
        for label in node.some.drain(..) {
            node.labels[label as usize] = 0;
        }
        (node.rows, node.squares) = (0, 0);
        let mut sum = 0;
        for &row in &self.rows[span.clone()] {
            let weight = self.weights[row as usize];
            node.rows += u64::from(weight);
            for &label in self.labels.row(row as usize) {
                let count = &mut node.labels[label as usize];
                if *count == 0 {
                    node.some.push(label);
                }
                node.squares += u64::from(weight) * u64::from(2 * *count + weight);
                *count += weight;
                sum += u64::from(weight);
            }
        }
        node.squares < node.rows * sum
    }

    /// Lists the features that the rows of a node have.
    fn list_features(&mut self, span: &Range<usize>) {
        self.present.clear();
        for &row in &self.rows[span.clone()] {
            for &feature in self.features.row(row as usize) {
                let listed = &mut self.listed[feature as usize];
                if *listed != self.node.number {
                    *listed = self.node.number;
                    self.present.push(feature);
                }
            }
        }
    }

    /// Tries a random cut for a feature; `None` if the feature is the same in all rows, or if a side gets too few of them.
    fn try_feature(&mut self, feature: u32, span: &Range<usize>) -> Option<Split> {
        self.find_values(feature, span);
        let others = span.len() - self.found.len();
        let (mut low, mut high) = if others > 0 { (0.0, 0.0) } else { (f32::INFINITY, f32::NEG_INFINITY) };
        for &(_, value) in &self.found {
            low = value.min(low);
            high = value.max(high);
        }
        if low >= high {
            return None;
        }
        let drawn = low + self.random.unit() as f32 * (high - low);
        let cut = if drawn < high { drawn } else { low };
        // The side on which rows without the feature are not.
        let above = cut >= 0.0;
        let (mut distinct, mut rows, mut squares, mut products) = (0, 0u64, 0u64, 0u64);
        let on_side = |value: f32| (value > cut) == above;
        for &(row, _) in self.found.iter().filter(|(_, value)| on_side(*value)) {
            let weight = self.weights[row as usize];
            distinct += 1;
            rows += u64::from(weight);
            for &label in self.labels.row(row as usize) {
                let count = &mut self.side[label as usize];
                squares += u64::from(weight) * u64::from(2 * *count + weight);
                products += u64::from(weight) * u64::from(self.node.labels[label as usize]);
                *count += weight;
            }
        }
        for &(row, _) in self.found.iter().filter(|(_, value)| on_side(*value)) {
            for &label in self.labels.row(row as usize) {
                self.side[label as usize] = 0;
            }
        }
        if distinct < self.smallest_leaf || span.len() - distinct < self.smallest_leaf {
            return None;
        }
        // The variance that is left falls with the sum of squared counts per row of both sides.
        let other_squares = self.node.squares + squares - 2 * products;
        let gain = squares as f64 / rows as f64 + other_squares as f64 / (self.node.rows - rows) as f64;
        Some(Split { feature, cut, gain })
    }

    /// Finds the rows of a node that have a feature.
    fn find_values(&mut self, feature: u32, span: &Range<usize>) {
        self.found.clear();
        let column = self.columns.row(feature as usize);
        if column.len() <= SEARCH_COST * span.len() {
            let inside = |&(row, _): &(u32, f32)| span.contains(&(self.places[row as usize] as usize));
            self.found.extend(entries(self.columns, feature as usize).filter(inside));
        } else {
            for &row in &self.rows[span.clone()] {
                self.found.extend(find(self.features, row as usize, feature).map(|value| (row, value)));
            }
        }
    }

    /// Moves the rows below the cut to the front of a node. Returns where the others start.
    fn divide(&mut self, span: &Range<usize>, split: Split) -> usize {
        let value = |row: u32| find(self.features, row as usize, split.feature).unwrap_or(0.0);
        let (below, above): (Vec<u32>, Vec<u32>) =
            self.rows[span.clone()].iter().partition(|&&row| value(row) <= split.cut);
        let middle = span.start + below.len();
        for (place, row) in (span.start..).zip(below.into_iter().chain(above)) {
            self.rows[place] = row;
            self.places[row as usize] = place as u32;
        }
        middle
    }
}

/// Returns the stored value of a feature in a row.
pub(super) fn find(features: &Csr, row: usize, feature: u32) -> Option<f32> {
    let at = features.row(row).binary_search(&feature).ok()?;
    Some(features.row_values(row).get(at).copied().unwrap_or(1.0))
}
