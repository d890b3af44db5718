//! Fits the classifiers of all nodes.

use rayon::prelude::*;

use super::LabelTrees;
use super::clusters::Centroids;
use super::dual::Classifier;
use super::node_rows::NodeRows;
use super::structure::{Children, TreeNode, structure};
use crate::config::model::LabelTreeConfig;
use crate::data::csr::Csr;
use crate::data::random::Streams;
use crate::threshold::scores::by_column;

/// The weights of the classifiers of a node, by feature.
#[derive(Default)]
struct NodeWeights {
    /// The features with weights, ascending.
    features: Vec<u32>,
    /// For each feature, the end of its weights.
    ends: Vec<usize>,
    /// The position of the child that each weight belongs to, ascending for each feature.
    places: Vec<u32>,
    weights: Vec<f32>,
}

impl LabelTrees {
    /// Fits trees on rows with features and labels. Labels without rows are left out of the trees.
    pub fn fit(features: &Csr, labels: &Csr, settings: &LabelTreeConfig, seed: u64) -> Self {
        let rows_of = by_column(labels);
        let used: Vec<u32> =
            (0..labels.cols as u32).filter(|&label| !rows_of.row(label as usize).is_empty()).collect();
        let nodes = {
            let centroids = Centroids::new(features, &rows_of);
            structure(&used, &centroids, features.cols, settings, seed)
        };
        let orders = Streams::new("label tree rows", seed);
        let numbered = nodes.par_iter().enumerate().with_max_len(1);
        let weights = numbered.map(|(number, node)| {
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
        });
        let weights: Vec<NodeWeights> = weights.collect();
        assemble(features.cols, labels.cols, &nodes, weights, settings.beam)
    }
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
    for (feature, place, weight) in entries {
        if arranged.features.last() != Some(&feature) {
            arranged.features.push(feature);
            arranged.ends.push(arranged.places.len());
        }
        arranged.places.push(place);
        arranged.weights.push(weight);
        if let Some(end) = arranged.ends.last_mut() {
            *end = arranged.places.len();
        }
    }
    arranged
}

/// Joins the weights of all nodes.
fn assemble(
    features: usize,
    labels: usize,
    nodes: &[TreeNode],
    fitted: Vec<NodeWeights>,
    beam: usize,
) -> LabelTrees {
    let (mut children, mut leaves): (Vec<&[u32]>, Vec<&[u32]>) = (Vec::new(), Vec::new());
    for node in nodes {
        let (own_children, own_labels) = match &node.children {
            Children::Nodes(children) => (children.as_slice(), Default::default()),
            Children::Labels => (Default::default(), node.labels.as_slice()),
        };
        children.push(own_children);
        leaves.push(own_labels);
    }
    let width = children.iter().chain(&leaves).map(|outcomes| outcomes.len()).max().unwrap_or_default();
    let entries = fitted.iter().map(|node| node.weights.len()).sum();
    let pairs: usize = fitted.iter().map(|node| node.features.len()).sum();
    let (mut input_ends, mut inputs) = (vec![0u64], Vec::with_capacity(pairs));
    let mut ends = Vec::with_capacity(pairs + 1);
    ends.push(0u64);
    let (mut places, mut weights) = (Vec::with_capacity(entries), Vec::with_capacity(entries));
    for node in fitted {
        let start = places.len();
        inputs.extend(node.features);
        input_ends.push(inputs.len() as u64);
        ends.extend(node.ends.iter().map(|&end| (start + end) as u64));
        places.extend(node.places);
        weights.extend(node.weights);
    }
    let inputs = Csr {
        cols: features + 1,
        indptr: input_ends.into(),
        indices: inputs.into(),
        values: Vec::new().into(),
    };
    LabelTrees {
        beam,
        children: Csr::from_rows(nodes.len(), &children),
        leaves: Csr::from_rows(labels, &leaves),
        inputs,
        weights: Csr { cols: width, indptr: ends.into(), indices: places.into(), values: weights.into() },
    }
}
