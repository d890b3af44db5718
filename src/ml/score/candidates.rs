//! [`Candidates`]: which labels of a row are kept if a full table would be too large.

use super::ScoreScale;

/// A table with at most this many entries is kept whole.
pub const MAX_WHOLE: u64 = 40_000_000;
/// The number of labels per row that are kept of a larger table.
const DEFAULT_KEEP: usize = 200;

/// Chooses the labels of each row with the highest scores; the others share one score, `rest`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidates {
    pub keep: usize,
    pub scale: ScoreScale,
}

impl Candidates {
    /// Decides how many labels to keep per row; `None` if all are kept.
    pub fn choose(asked: Option<usize>, rows: usize, labels: usize, scale: ScoreScale) -> Option<Self> {
        let large = (rows as u64).saturating_mul(labels as u64) > MAX_WHOLE;
        let keep = asked.or(large.then_some(DEFAULT_KEEP))?;
        (keep < labels).then_some(Self { keep, scale })
    }

    /// Finds the labels of a row to keep, ascending. Responses and shares of zero and below are never kept,
    /// because they count as zero anyway.
    pub fn of(&self, scores: &[f32], chosen: &mut Vec<u32>) {
        let is_kept = |score: f32| self.scale == ScoreScale::LogOdds || score > 0.0;
        chosen.clear();
        chosen.extend((0..scores.len() as u32).filter(|&label| is_kept(scores[label as usize])));
        if chosen.len() > self.keep {
            let score = |label: u32| scores[label as usize];
            let better = |a: &u32, b: &u32| score(*b).total_cmp(&score(*a)).then(a.cmp(b));
            chosen.select_nth_unstable_by(self.keep - 1, better);
            chosen.truncate(self.keep);
            chosen.sort_unstable();
        }
    }
}

/// Keeps the labels of a row with the highest scores. The labels are ascending, before and after.
pub fn keep_best(found: &mut Vec<(u32, f32)>, keep: usize) {
    if found.len() > keep {
        found.select_nth_unstable_by(keep - 1, |a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.truncate(keep);
        found.sort_unstable_by_key(|&(label, _)| label);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_labels_are_kept_and_ties_go_to_the_lower_label() {
        let mut chosen = Vec::new();
        Candidates { keep: 2, scale: ScoreScale::LogOdds }.of(&[-3.0, -1.0, -2.0, -1.0, -1.0], &mut chosen);
        assert_eq!(chosen, [1, 3]);
        Candidates { keep: 3, scale: ScoreScale::Response }.of(&[-3.0, 0.5, 0.0, 0.1], &mut chosen);
        assert_eq!(chosen, [1, 3]);
    }

    #[test]
    fn the_best_of_some_labels_are_those_of_the_whole_row() {
        let scores = [0.2, 0.0, 0.7, 0.2, 0.0, 0.1, 0.2, 0.9];
        for keep in 1..8 {
            let mut found: Vec<(u32, f32)> = (0..).zip(scores).filter(|&(_, score)| score > 0.0).collect();
            keep_best(&mut found, keep);
            let mut chosen = Vec::new();
            Candidates { keep, scale: ScoreScale::Probability }.of(&scores, &mut chosen);
            assert_eq!(found.iter().map(|&(label, _)| label).collect::<Vec<_>>(), chosen, "{keep}");
        }
    }

    #[test]
    fn small_tables_are_kept_whole_by_default() {
        let choose = |asked, rows, labels| Candidates::choose(asked, rows, labels, ScoreScale::Response);
        assert_eq!(choose(None, 12_920, 983), None);
        assert_eq!(choose(None, 1_186_239, 13_330).map(|c| c.keep), Some(DEFAULT_KEEP));
        assert_eq!(choose(Some(50), 12_920, 983).map(|c| c.keep), Some(50));
        assert_eq!(choose(Some(983), 12_920, 983), None);
    }
}
