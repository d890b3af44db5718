//! The shape of trees: which labels are below each node.

use rayon::prelude::*;

use super::clusters::Centroids;
use crate::config::model::LabelTreeConfig;
use crate::data::random::Streams;

/// A node of a tree.
pub(super) struct TreeNode {
    /// The labels below the node, ascending.
    pub labels: Vec<u32>,
    pub children: Children,
    /// Whether the node is the root of its tree, which all rows reach.
    pub is_root: bool,
}

/// The outcomes between which the classifiers of a node decide.
pub(super) enum Children {
    /// The numbers of the child nodes, ascending.
    Nodes(Vec<u32>),
    /// The labels of the node themselves.
    Labels,
}

/// Returns the number of groups into which to divide labels that do not fit a leaf. There are as few levels as possible,
/// and all of them have about the same number of groups per node.
fn groups(labels: usize, settings: &LabelTreeConfig) -> usize {
    let leaves = labels.div_ceil(settings.largest_leaf) as u64;
    let suffices = |groups: usize, levels: u32| (groups as u64).saturating_pow(levels) >= leaves;
    let levels = (1..u64::BITS).find(|&levels| suffices(settings.branches, levels)).unwrap_or(u64::BITS);
    (2..settings.branches).find(|&groups| suffices(groups, levels)).unwrap_or(settings.branches)
}

/// Divides labels into trees. A child always has a higher number than its parent.
pub(super) fn structure(
    labels: &[u32],
    centroids: &Centroids,
    features: usize,
    settings: &LabelTreeConfig,
    seed: u64,
) -> Vec<TreeNode> {
    let streams = Streams::new("label tree", seed);
    let new = |labels, is_root| TreeNode { labels, children: Children::Labels, is_root };
    let mut nodes: Vec<TreeNode> = (0..settings.trees).map(|_| new(labels.to_vec(), true)).collect();
    let mut level = 0..nodes.len();
    while !level.is_empty() {
        let numbered = nodes[level.clone()].par_iter().zip(level.clone());
        let divided: Vec<Option<Vec<Vec<u32>>>> = numbered
            .map_init(
                || vec![0f32; features],
                |centre, (node, number)| {
                    let large = node.labels.len() > settings.largest_leaf;
                    let mut random = streams.get(number as u64);
                    let groups = groups(node.labels.len(), settings);
                    large.then(|| centroids.divide(node.labels.clone(), groups, &mut random, centre))
                },
            )
            .collect();
        let next = nodes.len();
        for (parent, groups) in level.zip(divided) {
            let Some(groups) = groups else { continue };
            let first = nodes.len() as u32;
            nodes[parent].children = Children::Nodes((first..first + groups.len() as u32).collect());
            nodes.extend(groups.into_iter().map(|labels| new(labels, false)));
        }
        level = next..nodes.len();
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_few_and_have_equal_numbers_of_groups() {
        let groups = |labels, branches, largest_leaf| {
            groups(labels, &LabelTreeConfig { branches, largest_leaf, ..LabelTreeConfig::default() })
        };
        assert_eq!(groups(13_883, 256, 100), 139);
        assert_eq!(groups(500_000, 256, 100), 71);
        assert_eq!(groups(101, 256, 100), 2);
        assert_eq!(groups(13_883, 2, 100), 2);
        assert_eq!(groups(usize::MAX, 3, 1), 3);
    }
}
