use super::*;
use crate::config::model::LabelTreeConfig;
use crate::data::examples::Unlabelled;
use crate::data::random::Random;

const FEATURES: usize = 40;
const LABELS: usize = 30;

/// Returns rows whose labels are visible in their features: label l has the features l and l + 1. Some rows have neither
/// features nor labels, the last two labels have no row, and label 0 has only row 0.
fn rows(count: usize) -> (Csr, Csr) {
    let mut random = Random::new("label tree test", 7);
    let (mut features, mut labels) = (vec![vec![0u32, 1]], vec![vec![0u32]]);
    for row in 1..count {
        let own: Vec<u32> = (0..3).map(|_| 1 + random.below(LABELS - 3) as u32).collect();
        let own = if row % 10 == 3 { Vec::new() } else { own };
        features.push(own.iter().flat_map(|&label| [label, label + 1]).collect());
        labels.push(own);
    }
    (Csr::from_rows(FEATURES, &features), Csr::from_rows(LABELS, &labels))
}

fn config(yaml: &str) -> LabelTreeConfig {
    serde_yaml::from_str(yaml).unwrap()
}

fn fit(features: &Csr, labels: &Csr, settings: &str, seed: u64) -> LabelTrees {
    let temp = tempfile::tempdir().unwrap();
    LabelTrees::fit(features, labels, &config(settings), seed, temp.path()).unwrap()
}

fn found(trees: &LabelTrees, features: &Csr) -> Vec<Vec<(u32, f32)>> {
    let rows: Vec<u32> = (0..features.rows() as u32).collect();
    trees.find(Unlabelled { features, rows: &rows })
}

const SMALL: &str = "{ branches: 2, largest_leaf: 4, beam: 3 }";

#[test]
fn labels_that_are_visible_in_the_features_score_highest() {
    let (features, labels) = rows(400);
    for yaml in [
        SMALL,
        "{ largest_leaf: 4, branches: 3, beam: 3 }",
        "{ largest_leaf: 100 }",
        "{ trees: 1, largest_leaf: 1, beam: 5 }",
    ] {
        let trees = fit(&features, &labels, yaml, 1);
        let mut hits = 0;
        for (row, found) in found(&trees, &features).into_iter().enumerate() {
            assert!(found.is_sorted_by(|a, b| a.0 < b.0), "{yaml}");
            assert!(found.iter().all(|&(_, score)| score > 0.0 && score <= 1.0), "{yaml}: {found:?}");
            let best = found.iter().max_by(|a, b| a.1.total_cmp(&b.1));
            hits += usize::from(best.is_some_and(|&(label, _)| labels.row(row).contains(&label)));
        }
        let labelled = (0..400).filter(|&row| !labels.row(row).is_empty()).count();
        assert!(hits * 10 > labelled * 9, "{yaml}: {hits} of {labelled}");
    }
}

#[test]
fn the_trees_and_their_scores_do_not_depend_on_the_number_of_threads() {
    let (features, labels) = rows(300);
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let trees = fit(&features, &labels, SMALL, 5);
            let scores = found(&trees, &features);
            let bits: Vec<u32> = trees.weights.values.iter().map(|weight| weight.to_bits()).collect();
            (trees.leaves.indices.to_vec(), bits, scores)
        })
    };
    let one = run(1);
    assert!(one == run(2) && one == run(7));
}

#[test]
fn another_seed_gives_other_trees() {
    let (features, labels) = rows(300);
    let leaves = |seed| fit(&features, &labels, SMALL, seed).leaves.indices.to_vec();
    assert_eq!(leaves(1), leaves(1));
    assert_ne!(leaves(1), leaves(2));
}

#[test]
fn every_tree_contains_each_label_with_rows_once() {
    let (features, labels) = rows(200);
    let trees = fit(&features, &labels, "{ trees: 2, largest_leaf: 4, branches: 3 }", 0);
    assert_eq!(trees.roots(), [0, 1]);
    let mut all = trees.leaves.indices.to_vec();
    all.sort_unstable();
    let twice: Vec<u32> = (0..LABELS as u32 - 2).flat_map(|label| [label, label]).collect();
    assert_eq!(all, twice);
    assert!((0..trees.leaves.rows()).all(|node| trees.leaves.row(node).len() <= 4));
}

#[test]
fn labels_without_rows_are_never_found_and_a_label_with_one_row_is() {
    let (features, labels) = rows(200);
    let trees = fit(&features, &labels, SMALL, 0);
    let found = found(&trees, &features);
    assert!(found.iter().flatten().all(|&(label, _)| (label as usize) < LABELS - 2));
    assert!(found[0].iter().any(|&(label, _)| label == 0), "{:?}", found[0]);
}

#[test]
fn rows_without_features_get_finite_scores() {
    let (features, labels) = rows(100);
    let trees = fit(&features, &labels, SMALL, 0);
    assert!(features.row(3).is_empty());
    let found = found(&trees, &features).swap_remove(3);
    assert!(!found.is_empty() && found.iter().all(|(_, score)| score.is_finite()), "{found:?}");
}

#[test]
fn data_without_labels_or_without_features_gives_no_error() {
    let blank = vec![Vec::<u32>::new(); 5];
    let (features, labels) = rows(5);
    let (no_features, no_labels) = (Csr::from_rows(FEATURES, &blank), Csr::from_rows(LABELS, &blank));
    let trees = fit(&features, &no_labels, SMALL, 0);
    assert_eq!(found(&trees, &features), vec![Vec::new(); 5]);
    let trees = fit(&no_features, &labels, SMALL, 0);
    assert_eq!(found(&trees, &features).len(), 5);
    let nothing = Csr::from_rows(FEATURES, &[[0u32; 0]; 0]);
    assert!(found(&trees, &nothing).is_empty());
}

#[test]
fn a_wide_beam_gives_the_product_of_the_probabilities_on_the_path() {
    let (features, labels) = rows(150);
    let trees = fit(&features, &labels, "{ trees: 1, branches: 2, largest_leaf: 4, beam: 100 }", 0);
    for (row, found) in found(&trees, &features).into_iter().enumerate() {
        assert_eq!(found.len(), LABELS - 2, "a beam that is wider than the tree finds all labels");
        for (label, score) in found {
            let evidence = trees.evidence(&features, row, label, 1000);
            let levels = |at: usize| {
                let name = format!("level {at}");
                let inputs = evidence.causes.iter().flat_map(|cause| &cause.inputs);
                inputs.filter(|input| input.name == name).map(|input| input.value).sum::<f64>()
            };
            // The deepest path has four classifiers: 28, 14, 7 and at most 4 labels.
            let steps: Vec<f64> = (1..=4).map(levels).filter(|&score| score != 0.0).collect();
            let logarithm: f64 = steps.iter().map(|score| -(1.0 - score).max(0.0).powi(3)).sum();
            assert!((logarithm.exp() - f64::from(score)).abs() < 1e-4, "{logarithm} {score}");
            assert!((steps.iter().sum::<f64>() - evidence.total()).abs() < 1e-9);
        }
    }
}

#[test]
fn dropped_weights_make_the_model_smaller() {
    let (features, labels) = rows(300);
    let weights = |yaml: &str| fit(&features, &labels, yaml, 0).weights;
    let (all, large) = (weights("{ smallest_weight: 0 }"), weights("{ smallest_weight: 0.3 }"));
    assert!(large.entries() < all.entries(), "{} {}", large.entries(), all.entries());
    large.check().unwrap();
}

#[test]
fn trees_are_loaded_unchanged_and_damaged_ones_are_refused() {
    let (features, labels) = rows(200);
    let temp = tempfile::tempdir().unwrap();
    let trees = LabelTrees::fit(&features, &labels, &config(SMALL), 0, temp.path()).unwrap();
    let loaded = LabelTrees::load(temp.path(), 3).unwrap();
    assert_eq!(found(&loaded, &features), found(&trees, &features));
    assert_eq!((loaded.features(), loaded.labels()), (FEATURES, LABELS));
    let other = fit(&features, &labels, "{ largest_leaf: 9 }", 0);
    crate::data::artifact::write_csr(&temp.path().join("leaves.csr"), &other.leaves).unwrap();
    let error = LabelTrees::load(temp.path(), 3).err().unwrap().to_string();
    assert!(error.contains("numbers of nodes"), "{error}");
}
