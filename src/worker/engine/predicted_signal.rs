//! The local signal `predicted`: eqs. 4-6 with the model's own probabilities instead of labels.

use super::BatchScores;
use pipe_ml::config::signal::SignalConfig;
use pipe_ml::signal::propagate::propagate;
use pipe_ml::signal::sparse_rows::SparseRows;

/// Computes the local signal from scores without a local signal. No gradient flows through it.
pub fn predicted_signal(scores: &BatchScores, config: &SignalConfig) -> SparseRows {
    let likely = largest_probabilities(scores, config.predicted_labels);
    propagate(&likely, scores.labels(), config.leave_self_out, config.eps)
}

/// Returns the `count` largest probabilities of each row; of equal ones, that of the lower label.
fn largest_probabilities(scores: &BatchScores, count: usize) -> SparseRows {
    let mut tops: Vec<Vec<(f32, u32)>> = vec![Vec::with_capacity(count + 1); scores.rows];
    let mut cutoffs = vec![f32::NEG_INFINITY; scores.rows];
    for label in 0..scores.labels() {
        for (row, &score) in scores.of_label(label).iter().enumerate() {
            if score > cutoffs[row] {
                let top = &mut tops[row];
                let position = top.partition_point(|kept| kept.0 >= score);
                top.insert(position, (score, label as u32));
                top.truncate(count);
                if top.len() == count {
                    cutoffs[row] = top[count - 1].0;
                }
            }
        }
    }
    let mut rows = SparseRows::default();
    for mut top in tops {
        top.sort_unstable_by_key(|kept| kept.1);
        rows.push(top.into_iter().map(|(score, label)| (label, 1.0 / (1.0 + f64::from(-score).exp()))));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::buffer::Buffer;

    #[test]
    fn the_largest_probabilities_of_each_row_are_kept() {
        let by_label = [[0.0, 3.0], [2.0, -1.0], [-5.0, 3.0], [1.0, 0.0f32]];
        let values = Buffer::from_values(by_label.concat().into_iter());
        let scores = BatchScores { rows: 2, stride: 2, values };
        let rows = largest_probabilities(&scores, 2);
        let labels = |row: usize| rows.row(row).iter().map(|entry| entry.0).collect::<Vec<_>>();
        assert_eq!(labels(0), [1, 3]);
        assert_eq!(labels(1), [0, 2]);
        assert!((rows.row(0)[0].1 - 1.0 / (1.0 + (-2f64).exp())).abs() < 1e-12);
    }
}
