//! [`Top`]: the labels with the highest scores, best first. Of labels with equal scores the lower one comes first.

/// The error for a score that is not a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotANumber {
    pub label: usize,
}

/// Finds the `k` labels with the highest scores; reuses its memory from row to row.
#[derive(Debug, Clone)]
pub struct Top {
    k: usize,
    best: Vec<(f32, u32)>,
    labels: Vec<u32>,
}

impl Top {
    /// Creates a finder of `k` labels.
    pub fn new(k: usize) -> Self {
        // A user may ask for more labels than there are.
        let expected = k.min(100);
        Self { k, best: Vec::with_capacity(expected + 1), labels: Vec::with_capacity(expected) }
    }

    /// Returns the best labels, given the scores of labels 0, 1, 2, ...
    pub fn of_dense(&mut self, scores: &[f32]) -> Result<&[u32], NotANumber> {
        self.of(scores.iter().enumerate().map(|(label, &score)| (label as u32, score)))
    }

    /// Returns the best labels, given labels in ascending order with their scores.
    pub fn of(&mut self, scored: impl IntoIterator<Item = (u32, f32)>) -> Result<&[u32], NotANumber> {
        self.best.clear();
        for (label, score) in scored {
            if score.is_nan() {
                return Err(NotANumber { label: label as usize });
            }
            if self.best.len() < self.k || self.best.last().is_some_and(|last| score > last.0) {
                let place = self.best.partition_point(|other| other.0 >= score);
                self.best.insert(place, (score, label));
                self.best.truncate(self.k);
            }
        }
        self.labels.clear();
        self.labels.extend(self.best.iter().map(|best| best.1));
        Ok(&self.labels)
    }

    /// Returns the scores of the labels found last, best first.
    pub fn scores(&self) -> impl Iterator<Item = f32> + '_ {
        self.best.iter().map(|best| best.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_labels_come_first_and_ties_go_to_the_lower_label() {
        let mut top = Top::new(3);
        assert_eq!(top.of_dense(&[0.5, 2.0, 0.5, f32::NEG_INFINITY, 2.0]), Ok(&[1, 4, 0][..]));
        assert_eq!(top.scores().collect::<Vec<_>>(), [2.0, 2.0, 0.5]);
        assert_eq!(top.of_dense(&[1.0]), Ok(&[0][..]));
        assert_eq!(Top::new(0).of_dense(&[1.0]), Ok(&[][..]));
    }

    #[test]
    fn a_nan_score_is_an_error() {
        assert_eq!(Top::new(1).of_dense(&[3.0, 1.0, f32::NAN]), Err(NotANumber { label: 2 }));
    }
}
