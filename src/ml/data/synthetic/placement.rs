//! Assigns labels to rows.
//!
//! Rows are positions on a circle of topics, and each label covers an arc of the circle. The arc has twice as many rows as
//! the label has; the rows of the label are drawn from it at random. Labels whose arcs overlap occur together, wide arcs
//! contain narrow ones as categories contain sub-categories, and rows that are close to each other share labels.

use super::super::csr::Csr;
use super::super::random::{Random, Streams};

/// The share of the rows of its arc that have a label.
const DENSITY: f64 = 0.5;

/// The labels of the rows of a part, and the position of each row on the circle, in `[0, 1)`.
pub(super) struct LabelPlacement {
    pub labels: Csr,
    pub topic: Vec<f32>,
}

/// Assigns each label to exactly `counts[label]` rows. `centres` are the centres of the arcs.
pub(super) fn place(
    counts: &[u64],
    centres: &[f64],
    rows: usize,
    purpose: &str,
    seed: u64,
) -> LabelPlacement {
    let row_at = Random::new(&format!("{purpose} order"), seed).permutation(rows);
    let streams = Streams::new(&format!("{purpose} labels"), seed);
    let mut on_rows: Vec<Vec<u32>> = Vec::with_capacity(counts.len());
    for (label, (&count, centre)) in counts.iter().zip(centres).enumerate() {
        let count = (count as usize).min(rows);
        let arc = ((count as f64 / DENSITY).ceil() as usize).min(rows);
        let start = (centre * rows as f64) as usize + rows - arc / 2;
        let mut random = streams.get(label as u64);
        let mut chosen = Vec::with_capacity(count);
        for step in 0..arc {
            if random.below(arc - step) < count - chosen.len() {
                chosen.push(row_at[(start + step) % rows]);
            }
        }
        on_rows.push(chosen);
    }
    let mut topic = vec![0.0; rows];
    for (at, &row) in row_at.iter().enumerate() {
        topic[row as usize] = at as f32 / rows as f32;
    }
    LabelPlacement { labels: transpose(&on_rows, rows), topic }
}

/// Turns the rows of each label into the labels of each row.
fn transpose(on_rows: &[Vec<u32>], rows: usize) -> Csr {
    let mut indptr = vec![0u64; rows + 1];
    for &row in on_rows.iter().flatten() {
        indptr[row as usize + 1] += 1;
    }
    for row in 0..rows {
        indptr[row + 1] += indptr[row];
    }
    let mut next = indptr.clone();
    let mut indices = vec![0u32; indptr[rows] as usize];
    for (label, on) in (0..).zip(on_rows) {
        for &row in on {
            indices[next[row as usize] as usize] = label;
            next[row as usize] += 1;
        }
    }
    Csr { cols: on_rows.len(), indptr: indptr.into(), indices: indices.into(), values: Vec::new().into() }
}

#[cfg(test)]
mod tests {
    use super::super::super::stats::column_counts;
    use super::*;

    #[test]
    fn every_label_occurs_exactly_as_often_as_requested() {
        let counts = [300, 1, 500, 1000, 7];
        let placed = place(&counts, &[0.1, 0.9, 0.999, 0.0, 0.5], 1000, "train", 4);
        assert_eq!(column_counts(&placed.labels, 0..1000), counts);
        assert!((0..1000).all(|row| placed.labels.row(row).is_sorted()));
    }

    #[test]
    fn labels_with_near_centres_occur_together() {
        let placed = place(&[100, 100, 100], &[0.30, 0.32, 0.8], 1000, "train", 4);
        let together = |a: u32, b: u32| {
            let both =
                |&row: &usize| placed.labels.row(row).contains(&a) && placed.labels.row(row).contains(&b);
            (0..1000).filter(both).count()
        };
        assert!(together(0, 1) > 25, "{}", together(0, 1));
        assert_eq!(together(0, 2), 0);
    }
}
