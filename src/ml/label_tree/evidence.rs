//! Explains the score of a label by the classifiers on the path to it.

use super::LabelTrees;
use super::predict::log_probability;
use crate::data::csr::Csr;
use crate::explanation::{Cause, CauseSubject, Evidence};
use crate::signal::dot_index::entries;

/// The name of the explained number: the sum of the scores of the classifiers on a path.
const SUM: &str = "s";

/// A classifier on the path to a label.
struct Step {
    node: usize,
    /// The position of the classifier in its node.
    place: usize,
}

impl LabelTrees {
    /// Explains the score of a row for a label by the tree that gives it the highest probability. The causes are the
    /// features, and their contributions in each classifier on the path; they add up to the sum of the scores of these
    /// classifiers. At most `most` causes are kept.
    pub fn evidence(&self, features: &Csr, row: usize, label: u32, most: usize) -> Evidence {
        let mut scores = Vec::new();
        let mut trees: Vec<(Vec<Step>, f32)> = Vec::new();
        for path in self.paths(label) {
            let logarithms = path.iter().map(|step| {
                self.node_scores(step.node, features, row, &mut scores);
                log_probability(scores[step.place])
            });
            let logarithm = logarithms.sum();
            trees.push((path, logarithm));
        }
        let best = trees.iter().enumerate().max_by(|a, b| a.1.1.total_cmp(&b.1.1).then(b.0.cmp(&a.0)));
        let Some((number, (path, logarithm))) = best else {
            return Evidence::none(SUM, "no training row has the label, so no tree contains it");
        };
        let constant = self.features() as u32;
        let inputs: Vec<(u32, f32)> = entries(features, row).chain([(constant, 1.0)]).collect();
        let by_level = |&(feature, x): &(u32, f32)| -> Vec<f64> {
            path.iter().map(|step| f64::from(x) * f64::from(self.weight(step, feature))).collect()
        };
        let parts: Vec<Vec<f64>> = inputs.iter().map(by_level).collect();
        let values: Vec<f64> = parts.iter().map(|levels| levels.iter().sum()).collect();
        let words = format!(
            "x * weight, over the features of the row and the {} classifiers on the path to the label in tree {} of \
             {}, which gives it the highest probability, {:.4}",
            path.len(),
            number + 1,
            trees.len(),
            logarithm.exp()
        );
        Evidence::new(SUM, words, &values, most, |at| {
            let (feature, x) = inputs[at];
            let names: Vec<String> = (1..=path.len()).map(|level| format!("level {level}")).collect();
            let levels = names.iter().map(String::as_str).zip(parts[at].iter().copied());
            let levels = levels.filter(|&(_, value)| value != 0.0);
            if feature == constant {
                let what = CauseSubject::Constant { name: "bias".to_owned() };
                return Cause::new(what, &levels.collect::<Vec<_>>(), values[at]);
            }
            let shown: Vec<(&str, f64)> = [("x", f64::from(x))].into_iter().chain(levels).collect();
            Cause::new(CauseSubject::Feature { feature, name: None }, &shown, values[at])
        })
    }

    /// Returns the path from the root to a label in each tree that contains it.
    fn paths(&self, label: u32) -> Vec<Vec<Step>> {
        let nodes = self.children.rows();
        let place_in = |matrix: &Csr, node: usize, of: u32| matrix.row(node).binary_search(&of).ok();
        let leaves = (0..nodes)
            .filter_map(|node| place_in(&self.leaves, node, label).map(|place| Step { node, place }));
        let mut parents = vec![None; nodes];
        for node in 0..nodes {
            for &child in self.children.row(node) {
                parents[child as usize] = Some(node);
            }
        }
        let path_to = |leaf: Step| {
            let mut at = leaf.node;
            let mut path = vec![leaf];
            while let Some(node) = parents[at] {
                let place = place_in(&self.children, node, at as u32);
                path.extend(place.map(|place| Step { node, place }));
                at = node;
            }
            path.reverse();
            path
        };
        leaves.map(path_to).collect()
    }

    /// Returns the weight of a feature in a classifier; 0 if it has none.
    fn weight(&self, step: &Step, feature: u32) -> f32 {
        let Ok(at) = self.inputs.row(step.node).binary_search(&feature) else { return 0.0 };
        let at = self.inputs.indptr[step.node] as usize + at;
        let place = self.weights.row(at).binary_search(&(step.place as u32));
        place.map_or(0.0, |place| self.weights.row_values(at)[place])
    }
}
