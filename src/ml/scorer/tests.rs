//! Tests of all scorers.

use super::kernel::{Kernel, KernelIndex};
use super::kernel_ridge::{KernelBlock, KernelRidge};
use super::linear_ridge::LinearRidge;
use super::nearest_labels::NearestLabels;
use super::product::multiply;
use super::*;
use crate::config::model::{ExtraTreesConfig, KernelDistance, LabelTreeConfig};
use crate::config::signal::Weighting;
use crate::data::random::Random;
use crate::explanation::CauseSubject;
use crate::signal::dot_index::{DotIndex, Product};
use crate::signal::neighbours::weigh;

const FEATURES: usize = 40;
const LABELS: usize = 9;

/// Returns random sparse rows.
fn rows(count: usize) -> Csr {
    let mut random = Random::new("scorer rows", 3);
    let (mut indptr, mut indices, mut values) = (vec![0u64], Vec::new(), Vec::new());
    for _ in 0..count {
        for feature in 0..FEATURES as u32 {
            if random.unit() < 0.3 {
                indices.push(feature);
                values.push(random.unit() as f32 + 0.1);
            }
        }
        indptr.push(indices.len() as u64);
    }
    Csr { cols: FEATURES, indptr: indptr.into(), indices: indices.into(), values: values.into() }
}

fn dense(rows: usize, cols: usize) -> DenseMatrix {
    let mut random = Random::new("scorer weights", 5);
    let values: Vec<f32> = (0..rows * cols).map(|_| random.unit() as f32 - 0.5).collect();
    DenseMatrix { rows, cols, values: values.into() }
}

fn train_labels(count: usize) -> Csr {
    let of_row = |row: usize| vec![(row % LABELS) as u32, (row / 2 % LABELS) as u32];
    Csr::from_rows(LABELS, &(0..count).map(of_row).collect::<Vec<_>>())
}

/// Returns a kernel model of two blocks; the second one lacks the first three labels.
fn kernel_ridge(distance: KernelDistance) -> KernelRidge {
    let features = rows(700);
    let kernel = Kernel::fit(3.0, distance, &features, 0);
    let block = |rows: std::ops::Range<u32>, labels: std::ops::Range<u32>| {
        let rows: Vec<u32> = rows.collect();
        let index = KernelIndex::new(kernel, &features, &rows);
        let dual = dense(rows.len(), labels.len());
        KernelBlock { rows, labels: labels.collect(), dual, index }
    };
    let blocks = vec![block(0..400, 0..LABELS as u32), block(400..700, 3..LABELS as u32)];
    KernelRidge::new(kernel, LABELS, features, dense(2, FEATURES), blocks, multiply)
}

fn every_scorer() -> Vec<(&'static str, Box<dyn Scorer>)> {
    let tree = LabelTreeConfig { largest_leaf: 2, beam: 2, ..LabelTreeConfig::default() };
    let trees = tempfile::tempdir().unwrap();
    let extra_trees = ExtraTreesConfig { trees: 5, ..ExtraTreesConfig::default() };
    vec![
        ("ridge", Box::new(LinearRidge { constant: 0.3, weights: dense(FEATURES + 1, LABELS) })),
        ("kernel_ridge", Box::new(kernel_ridge(KernelDistance::Cosine))),
        ("euclidean kernel_ridge", Box::new(kernel_ridge(KernelDistance::Euclidean))),
        (
            "neighbours",
            Box::new(NearestLabels::new(rows(300), train_labels(300), 7, Weighting::CosineSquared)),
        ),
        (
            "label_tree",
            Box::new(LabelTrees::fit(&rows(300), &train_labels(300), &tree, 0, trees.path()).unwrap()),
        ),
        ("extra_trees", Box::new(ExtraTrees::fit(&rows(300), &train_labels(300), &extra_trees, 0))),
    ]
}

fn scores(scorer: &mut dyn Scorer, features: &Csr, rows: &[u32]) -> Vec<f32> {
    let mut scores = vec![9.0; rows.len() * LABELS];
    scorer.score(Unlabelled { features, rows }, &mut scores).unwrap();
    scores
}

#[test]
fn the_scores_of_a_row_are_the_same_to_the_bit_in_any_batch_and_with_any_number_of_threads() {
    let features = rows(150);
    let all: Vec<u32> = (0..150).collect();
    for (name, mut scorer) in every_scorer() {
        let together = scores(&mut *scorer, &features, &all);
        assert!(together.iter().any(|&score| score != together[0]), "{name}");
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            for size in [1, 2, 3, 7, 64] {
                let in_chunks = |scorer: &mut dyn Scorer| {
                    all.chunks(size).flat_map(|rows| scores(scorer, &features, rows)).collect::<Vec<f32>>()
                };
                let apart = pool.install(|| in_chunks(&mut *scorer));
                assert_eq!(apart, together, "{name} in batches of {size}");
            }
        }
    }
}

#[test]
fn neighbours_of_a_sample_are_found_among_its_rows_only_and_keep_their_numbers() {
    let (features, labels) = (rows(300), train_labels(300));
    let sample: Vec<u32> = (0..300).filter(|row| row % 3 == 1).collect();
    let weighting = Weighting::CosineSquared;
    let mut fitted = NearestLabels::of_a_sample(features.clone(), &labels, sample.clone(), 7, weighting);
    let mut alone =
        NearestLabels::new(features.select_rows(&sample), labels.select_rows(&sample), 7, weighting);
    let all: Vec<u32> = (0..300).collect();
    let expected = scores(&mut alone, &features, &all);
    assert_eq!(scores(&mut fitted, &features, &all), expected);
    for (left_out, row) in fitted.found_left_out(0..300).into_iter().zip(0..) {
        match sample.binary_search(&(row as u32)) {
            Ok(position) => assert_eq!(vec![left_out], alone.found_left_out(position..position + 1)),
            Err(_) => {
                let mut scores = vec![0.0; LABELS];
                write_found(&[left_out], LABELS, &mut scores);
                assert_eq!(scores, expected[row * LABELS..][..LABELS]);
            }
        }
    }
    let temp = tempfile::tempdir().unwrap();
    fitted.save(temp.path()).unwrap();
    let size = ModelSize { features: FEATURES, labels: LABELS };
    let mut opened = NearestLabels::load(temp.path(), size, 7, weighting).unwrap();
    assert_eq!(scores(&mut opened, &features, &all), expected);
    let evidence = opened.evidence(&features, 0, 0);
    assert!(!evidence.causes.is_empty());
    let named = |row: &u32| CauseSubject::training_row(*row);
    assert!(
        evidence.causes.iter().all(|cause| sample.iter().map(named).any(|subject| subject == cause.what))
    );
}

#[test]
fn a_kernel_model_is_opened_as_it_was_saved() {
    for distance in [KernelDistance::Cosine, KernelDistance::Euclidean] {
        let temp = tempfile::tempdir().unwrap();
        let mut model = kernel_ridge(distance);
        model.save(temp.path()).unwrap();
        let size = ModelSize { features: FEATURES, labels: LABELS };
        let mut opened = KernelRidge::load(temp.path(), size, 3.0).unwrap();
        let (features, all) = (rows(20), (0..20).collect::<Vec<u32>>());
        assert_eq!(scores(&mut opened, &features, &all), scores(&mut model, &features, &all));
    }
}

#[test]
fn neighbours_give_the_sums_over_a_row_of_all_labels() {
    let (features, labels) = (rows(300), train_labels(300));
    for weighting in [Weighting::Uniform, Weighting::CosineSquared] {
        let fitted = NearestLabels::new(features.clone(), labels.clone(), 7, weighting);
        let index = DotIndex::new(&features, &(0..300).collect::<Vec<u32>>(), Product::Cosine);
        for (found, row) in fitted.found_left_out(0..300).into_iter().zip(0..) {
            let mut sums = [0f32; LABELS];
            let near = index.nearest(&features, row, 7, Some(row as u32), &mut index.scratch());
            for (near, weight) in weigh(near, weighting) {
                for &label in labels.row(near as usize) {
                    sums[label as usize] += weight;
                }
            }
            let expected: Vec<(u32, f32)> = (0..).zip(sums).filter(|label| label.1 > 0.0).collect();
            assert_eq!(found, expected);
        }
    }
}
