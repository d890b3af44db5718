//! The choice of the labels of a row that an explanation covers.

/// How many labels that are not predicted are explained in addition to the predicted ones.
const OTHERS: usize = 3;

/// Returns the predicted labels and then the best of the others, each best first. A label whose ranking value is
/// not finite cannot be predicted and is left out.
pub fn labels_to_explain(ranking: &[f32], predicted: &[u32]) -> Vec<u32> {
    let better = |a: &u32, b: &u32| ranking[*b as usize].total_cmp(&ranking[*a as usize]).then(a.cmp(b));
    let not_predicted =
        |label: &u32| ranking[*label as usize].is_finite() && predicted.binary_search(label).is_err();
    let mut others: Vec<u32> = (0..ranking.len() as u32).filter(not_predicted).collect();
    others.sort_unstable_by(better);
    others.truncate(OTHERS);
    let mut labels = predicted.to_vec();
    labels.sort_unstable_by(better);
    labels.extend(others);
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predicted_labels_come_before_labels_that_rank_higher_and_are_not_predicted() {
        let never = f32::NEG_INFINITY;
        assert_eq!(labels_to_explain(&[0.1, 0.5, never, 0.4, 0.9, 0.3, 0.2], &[0, 3]), [3, 0, 4, 1, 5]);
        assert_eq!(labels_to_explain(&[never, never], &[]), [0u32; 0]);
    }
}
