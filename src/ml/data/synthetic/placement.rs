//! Which rows carry which labels.
//!
//! Rows lie on a circle of topics, and each label covers an arc of it, twice as long as the label
//! is frequent; inside the arc it is put on as many rows, drawn at random, as its count says.
//! Labels whose arcs overlap occur together, wide arcs hold narrow ones as categories hold their
//! sub-categories, and rows that are near each other share labels.

use super::super::csr::Csr;
use super::super::random::{Random, Streams};

/// On this share of the rows of its arc a label occurs.
const DENSITY: f64 = 0.5;

/// The labels of one part's rows, and where on the circle, in `[0, 1)`, each row lies.
pub(super) struct LabelPlacement {
    pub labels: Csr,
    pub topic: Vec<f32>,
}

/// Puts each label on exactly `counts[label]` of the `rows`. `centres` says where on the circle its
/// arc lies.
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
    row_at.iter().enumerate().for_each(|(at, &row)| topic[row as usize] = at as f32 / rows as f32);
    LabelPlacement { labels: transpose(&on_rows, rows), topic }
}

/// From the rows of each label to the labels of each row.
fn transpose(on_rows: &[Vec<u32>], rows: usize) -> Csr {
    let mut indptr = vec![0u64; rows + 1];
    on_rows.iter().flatten().for_each(|&row| indptr[row as usize + 1] += 1);
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
    fn every_label_gets_exactly_its_count() {
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
