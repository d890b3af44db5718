//! Fits the classifiers of all nodes.

use std::ops::Range;
use std::path::Path;

use rayon::prelude::*;

use super::LabelTrees;
use super::clusters::Centroids;
use super::dual::Classifier;
use super::files::TreeWriter;
use super::node_rows::NodeRows;
use super::structure::{Children, TreeNode, structure};
use crate::config::model::LabelTreeConfig;
use crate::data::artifact::RowBatch;
use crate::data::csr::Csr;
use crate::data::error::DataError;
use crate::data::random::Streams;
use crate::threshold::scores::by_column;

/// About how many features of rows are in the nodes that are fitted together. Their weights are in memory until all of these
/// nodes are fitted.
const FITTED_TOGETHER: usize = 1 << 23;

/// The weights of the classifiers of a node, by feature.
#[derive(Default)]
pub(super) struct NodeWeights {
    /// The features with weights, ascending.
    pub features: Vec<u32>,
    /// The number of weights of each feature, the position of the child that each weight belongs to, and the weights.
    pub by_feature: RowBatch,
}

impl LabelTrees {
    /// Fits trees on rows with features and labels, and writes their files into a directory, which it creates. Labels without
    /// rows are left out of the trees.
    pub fn fit(
        features: &Csr,
        labels: &Csr,
        settings: &LabelTreeConfig,
        seed: u64,
        directory: &Path,
    ) -> Result<Self, DataError> {
        let rows_of = by_column(labels);
        let used: Vec<u32> =
            (0..labels.cols as u32).filter(|&label| !rows_of.row(label as usize).is_empty()).collect();
        let nodes = {
            let centroids = Centroids::new(features, &rows_of);
            structure(&used, &centroids, features.cols, settings, seed)
        };
        let orders = Streams::new("label tree rows", seed);
        let weights_of = |number: usize| {
            let node = &nodes[number];
            let mut rows = if node.is_root {
                (0..features.rows() as u32).collect()
            } else {
                rows_with(&rows_of, &node.labels)
            };
            // Coordinate descent is slow if similar rows follow each other.
            orders.get(number as u64).shuffle(&mut rows);
            let positives: Vec<Vec<u32>> = match &node.children {
                Children::Labels => {
                    node.labels.iter().map(|&label| rows_of.row(label as usize).to_vec()).collect()
                }
                Children::Nodes(children) => {
                    let labels = children.iter().map(|&child| &nodes[child as usize].labels);
                    labels.map(|labels| rows_with(&rows_of, labels)).collect()
                }
            };
            fit_node(features, &rows, &positives, settings)
        };
        let mut writer = TreeWriter::create(directory)?;
        for together in fitted_together(&nodes, features, &rows_of) {
            let weights = together.into_par_iter().with_max_len(1).map(weights_of);
            for node in weights.collect::<Vec<NodeWeights>>() {
                writer.push(&node)?;
            }
        }
        writer.finish(features.cols, labels.cols, &nodes)?;
        Self::load(directory, settings.beam)
    }
}

/// Divides the numbers of the nodes into ranges that are fitted together.
fn fitted_together(nodes: &[TreeNode], features: &Csr, rows_of: &Csr) -> Vec<Range<usize>> {
    let per_row = features.entries() / features.rows().max(1) + 1;
    let size = |node: &TreeNode| {
        per_row * node.labels.iter().map(|&label| rows_of.row(label as usize).len()).sum::<usize>()
    };
    let (mut ranges, mut first, mut sum) = (Vec::new(), 0, 0);
    for (number, node) in nodes.iter().enumerate() {
        sum += size(node);
        if sum >= FITTED_TOGETHER || number + 1 == nodes.len() {
            ranges.push(first..number + 1);
            (first, sum) = (number + 1, 0);
        }
    }
    ranges
}

/// Returns the rows that have at least one of the labels, ascending.
fn rows_with(rows_of: &Csr, labels: &[u32]) -> Vec<u32> {
    let mut rows: Vec<u32> = labels.iter().flat_map(|&label| rows_of.row(label as usize)).copied().collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// Fits the classifiers of a node. `positives` has the rows of each child, ascending.
fn fit_node(features: &Csr, rows: &[u32], positives: &[Vec<u32>], settings: &LabelTreeConfig) -> NodeWeights {
    let mut places: Vec<(u32, u32)> = rows.iter().copied().zip(0..).collect();
    places.sort_unstable();
    let node_rows = NodeRows::new(features, rows);
    let fit_child = |positives: &Vec<u32>| -> Vec<(u32, f32)> {
        let positives: Vec<u32> = positives
            .iter()
            .filter_map(|row| places.binary_search_by_key(row, |place| place.0).ok().map(|at| places[at].1))
            .collect();
        let cost = settings.cost / (positives.len().max(1) as f64).powf(settings.cost_decay);
        let fitted = Classifier::fit(&node_rows, &positives, cost as f32);
        let weights = node_rows.features().iter().copied().zip(fitted.weights);
        let large = weights.filter(|(_, weight)| f64::from(weight.abs()) >= settings.smallest_weight);
        large.chain([(features.cols as u32, fitted.bias)]).collect()
    };
    let fitted: Vec<Vec<(u32, f32)>> = positives.par_iter().map(fit_child).collect();
    by_feature(fitted)
}

/// Arranges the weights of classifiers by feature.
fn by_feature(classifiers: Vec<Vec<(u32, f32)>>) -> NodeWeights {
    let mut entries: Vec<(u32, u32, f32)> = Vec::with_capacity(classifiers.iter().map(Vec::len).sum());
    for (classifier, place) in classifiers.into_iter().zip(0..) {
        entries.extend(classifier.into_iter().map(|(feature, weight)| (feature, place, weight)));
    }
    entries.sort_unstable_by_key(|&(feature, place, _)| (feature, place));
    let mut arranged = NodeWeights::default();
    for of_feature in entries.chunk_by(|a, b| a.0 == b.0) {
        arranged.features.push(of_feature[0].0);
        arranged.by_feature.lengths.push(of_feature.len() as u32);
    }
    arranged.by_feature.indices = entries.iter().map(|&(_, place, _)| place).collect();
    arranged.by_feature.values = entries.iter().map(|&(_, _, weight)| weight).collect();
    arranged
}
