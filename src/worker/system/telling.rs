//! Which labels of a row are worth explaining.

/// How many labels that are not predicted are explained beside those that are.
const OTHERS: usize = 3;

/// The predicted labels, then the best of the others, best first. Where the ranking is not finite a label could not
/// have been predicted.
pub fn most_telling(ranking: &[f32], predicted: &[u32]) -> Vec<u32> {
    let better = |a: &u32, b: &u32| ranking[*b as usize].total_cmp(&ranking[*a as usize]).then(a.cmp(b));
    let missed =
        |label: &u32| ranking[*label as usize].is_finite() && predicted.binary_search(label).is_err();
    let mut others: Vec<u32> = (0..ranking.len() as u32).filter(missed).collect();
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
    fn what_is_predicted_comes_before_what_ranks_higher_and_is_not() {
        let never = f32::NEG_INFINITY;
        assert_eq!(most_telling(&[0.1, 0.5, never, 0.4, 0.9, 0.3, 0.2], &[0, 3]), [3, 0, 4, 1, 5]);
        assert_eq!(most_telling(&[never, never], &[]), [0u32; 0]);
    }
}
