//! The evidence for the share of neighbours that have a label.

use super::{Cause, CauseSubject, Evidence};
use crate::config::signal::Weighting;
use crate::data::csr::Csr;
use crate::signal::neighbours::weigh;

/// Returns the contribution of each neighbour. `near` are rows of `labels` with their cosines, nearest first; `row_at` gives
/// their numbers among all training rows.
pub fn evidence(
    of: &str,
    near: &[(u32, f32)],
    weighting: Weighting,
    labels: &Csr,
    label: u32,
    row_at: impl Fn(u32) -> u32,
) -> Evidence {
    let weights: Vec<f32> = weigh(near.to_vec(), weighting).map(|(_, weight)| weight).collect();
    let has = |at: usize| labels.row(near[at].0 as usize).binary_search(&label).is_ok();
    let value = |at: usize| if has(at) { f64::from(weights[at]) } else { 0.0 };
    let values: Vec<f64> = (0..near.len()).map(value).collect();
    let (count, with) = (near.len(), (0..near.len()).filter(|&at| has(at)).count());
    let words = format!("the weights of the neighbours that have the label, {with} of {count}");
    Evidence::new(of, words, &values, count, |at| {
        let (row, cosine) = near[at];
        let inputs = [("cosine", cosine.into()), ("weight", weights[at].into())];
        Cause {
            has_label: Some(has(at)),
            ..Cause::new(CauseSubject::training_row(row_at(row)), &inputs, values[at])
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_with_the_label_come_first_and_make_the_share() {
        let labels = Csr::from_rows(3, &[vec![0], vec![1, 2], vec![0, 2]]);
        let near = [(0, 0.8), (2, 0.6), (1, 0.0)];
        let evidence = evidence("r", &near, Weighting::CosineSquared, &labels, 2, |row| row);
        let rows: Vec<_> =
            evidence.causes.iter().map(|cause| (cause.what.clone(), cause.has_label)).collect();
        let cause = |row, has| (CauseSubject::training_row(row), Some(has));
        assert_eq!(rows, [cause(2, true), cause(1, true), cause(0, false)]);
        assert!((evidence.total() - 0.36).abs() < 1e-6, "{}", evidence.total());
        assert!(evidence.words.ends_with("2 of 3"), "{}", evidence.words);
    }
}
