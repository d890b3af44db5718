use super::*;
use crate::data::random::Random;

const LABELS: usize = 7;

/// Returns rows whose labels follow from their features, with some noise. Some values are negative.
fn data(rows: usize, density: f64) -> (Csr, Csr) {
    let mut random = Random::new("extra trees test", 2);
    let (mut indptr, mut indices, mut values, mut labels) = (vec![0u64], vec![], vec![], vec![]);
    for _ in 0..rows {
        let mut own = Vec::new();
        for feature in 0..30u32 {
            if random.unit() < density {
                let value = random.normal() as f32;
                indices.push(feature);
                values.push(value);
                if value > 0.3 && random.unit() < 0.9 {
                    own.push(feature % LABELS as u32);
                }
            }
        }
        indptr.push(indices.len() as u64);
        labels.push(own);
    }
    let features = Csr { cols: 30, indptr: indptr.into(), indices: indices.into(), values: values.into() };
    (features, Csr::from_rows(LABELS, &labels))
}

fn settings(trees: usize) -> ExtraTreesConfig {
    ExtraTreesConfig { trees, ..ExtraTreesConfig::default() }
}

fn scores(trees: &ExtraTrees, features: &Csr, row: usize) -> Vec<f32> {
    let mut into = vec![9.0; LABELS];
    trees.score_row(features, row, &mut into);
    into
}

#[test]
fn every_drawn_row_reaches_the_leaf_that_it_is_in() {
    for density in [0.2, 1.0] {
        let (features, labels) = data(120, density);
        let trees = ExtraTrees::fit(&features, &labels, &settings(8), 1);
        assert_eq!((trees.roots.len(), trees.leaves.cols), (8, 120));
        let mut drawn = 0;
        for row in 0..120 {
            for leaf in trees.leaves_of(&features, row) {
                drawn += usize::from(trees.leaves.row(leaf).contains(&(row as u32)));
            }
        }
        assert_eq!(drawn, trees.leaves.entries(), "a row is in one leaf of a tree, the one that it reaches");
        // 1 - 1/e of all rows are drawn.
        assert!((500..720).contains(&drawn), "{drawn}");
        for leaf in 0..trees.leaves.rows() {
            let total: f32 = trees.leaves.row_values(leaf).iter().sum();
            assert!((total - 1.0).abs() < 1e-5);
        }
    }
}

#[test]
fn leaves_are_pure_or_as_small_as_allowed() {
    let (features, labels) = data(200, 0.3);
    for smallest_leaf in [1, 5] {
        let settings = ExtraTreesConfig { smallest_leaf, ..settings(4) };
        let trees = ExtraTrees::fit(&features, &labels, &settings, 1);
        for leaf in 0..trees.leaves.rows() {
            let rows = trees.leaves.row(leaf);
            assert!(rows.len() >= smallest_leaf);
            let pure = rows.iter().all(|&row| labels.row(row as usize) == labels.row(rows[0] as usize));
            assert!(pure || smallest_leaf > 1, "{rows:?}");
        }
    }
}

#[test]
fn the_cut_with_the_least_variance_is_chosen_among_the_tried_features() {
    // Only the second feature says anything about the label, and every feature is tried.
    let rows = 40;
    let indices: Vec<u32> = (0..rows).flat_map(|_| 0..3).collect();
    let mut random = Random::new("informative", 0);
    let mut values = Vec::new();
    for row in 0..rows {
        values.extend([random.unit() as f32, f32::from(u8::from(row % 4 == 0)), random.unit() as f32]);
    }
    let indptr: Vec<u64> = (0..=rows as u64).map(|row| 3 * row).collect();
    let features = Csr { cols: 3, indptr: indptr.into(), indices: indices.into(), values: values.into() };
    let labels: Vec<Vec<u32>> = (0..rows).map(|row| if row % 4 == 0 { vec![1] } else { vec![] }).collect();
    let settings = ExtraTreesConfig { features_per_node: Some(3), ..settings(10) };
    let trees = ExtraTrees::fit(&features, &Csr::from_rows(2, &labels), &settings, 0);
    for &root in &trees.roots {
        assert_eq!(trees.nodes[root as usize].feature, 1);
    }
    assert_eq!(trees.leaves.rows(), 20, "one cut is enough");
}

#[test]
fn the_trees_do_not_depend_on_the_number_of_threads_but_on_the_seed() {
    let (features, labels) = data(100, 0.3);
    let fit = |threads, seed| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let trees = pool.install(|| ExtraTrees::fit(&features, &labels, &settings(9), seed));
        (trees.splits, trees.leaves)
    };
    assert_eq!(fit(1, 3), fit(4, 3));
    assert_ne!(fit(1, 3), fit(1, 4));
}

#[test]
fn a_row_that_was_left_out_is_scored_by_the_other_trees_only() {
    let (features, labels) = data(60, 0.4);
    let trees = ExtraTrees::fit(&features, &labels, &settings(30), 5);
    let mut left_out = vec![9.0; LABELS];
    assert!(trees.score_left_out(&features, 11, &mut left_out));
    let mut expected = [0f64; LABELS];
    let mut count = 0;
    for leaf in trees.leaves_of(&features, 11) {
        let rows = trees.leaves.row(leaf);
        if rows.contains(&11) {
            continue;
        }
        count += 1;
        for (&row, &share) in rows.iter().zip(trees.leaves.row_values(leaf)) {
            for &label in labels.row(row as usize) {
                expected[label as usize] += f64::from(share);
            }
        }
    }
    assert!((5..20).contains(&count), "{count}");
    for (score, sum) in left_out.iter().zip(expected) {
        assert!((f64::from(*score) - sum / f64::from(count)).abs() < 1e-5);
    }
    assert_ne!(left_out, scores(&trees, &features, 11), "the other trees have seen the row");
}

#[test]
fn rows_without_features_and_equal_rows_end_in_one_leaf() {
    let features = Csr {
        cols: 5,
        indptr: vec![0, 0, 0, 1, 2].into(),
        indices: vec![3, 3].into(),
        values: vec![0.5, 0.5].into(),
    };
    let labels = Csr::from_rows(2, &[vec![0], vec![], vec![1], vec![0, 1]]);
    let trees = ExtraTrees::fit(&features, &labels, &settings(50), 0);
    assert!(trees.leaves.rows() <= 100, "there are only two different rows");
    for row in 0..4 {
        assert!(scores(&trees, &features, row).iter().all(|score| (0.0..=1.0).contains(score)));
    }
}

#[test]
fn saved_trees_are_opened_as_they_were_and_damage_is_noticed() {
    let (features, labels) = data(80, 0.3);
    let temp = tempfile::tempdir().unwrap();
    let trees = ExtraTrees::fit(&features, &labels, &settings(6), 1);
    trees.save(temp.path()).unwrap();
    let opened = ExtraTrees::load(temp.path()).unwrap();
    assert_eq!((&opened.nodes, &opened.roots), (&trees.nodes, &trees.roots));
    assert_eq!((opened.features(), opened.labels()), (30, LABELS));
    assert_eq!(scores(&opened, &features, 7), scores(&trees, &features, 7));
    let last = trees.splits.rows() as u32 - 1;
    let shorter = trees.splits.select_rows(&(0..last).collect::<Vec<u32>>());
    crate::data::artifact::write_csr(&temp.path().join("splits.csr"), &shorter).unwrap();
    let error = ExtraTrees::load(temp.path()).err().unwrap().to_string();
    assert!(error.contains("a tree is not complete"), "{error}");
}
