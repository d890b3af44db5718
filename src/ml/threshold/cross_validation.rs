//! Decisions about training rows by cuts that were fitted without them.

use super::error::ThresholdError;
use super::rule::{Objective, Rule};
use super::scores::{Scores, ScoresOfRows};
use crate::data::csr::Csr;
use crate::data::random::Random;

/// Draws the fold of each row.
pub fn draw_folds(rows: usize, folds: usize, seed: u64) -> Vec<usize> {
    Random::new("folds of a selection", seed).folds(rows, folds)
}

/// Decides about the rows of each fold by cuts that are fitted on the rows of the other folds. Returns the predicted labels
/// of all rows.
pub fn decide_out_of_fold(
    rule: &Rule,
    objective: Objective,
    scores: &dyn Scores,
    labels: &Csr,
    fold_of: &[usize],
) -> Result<Csr, ThresholdError> {
    let mut predicted = vec![Vec::new(); labels.rows()];
    for fold in 0..fold_of.iter().max().map_or(0, |last| last + 1) {
        let (inside, outside): (Vec<u32>, Vec<u32>) =
            (0..labels.rows() as u32).partition(|&row| fold_of[row as usize] == fold);
        let others = ScoresOfRows { scores, rows: &outside };
        let cuts = rule.fit(&others, &labels.select_rows(&outside), objective)?;
        let decided = cuts.predict(&ScoresOfRows { scores, rows: &inside })?;
        for (at, row) in inside.into_iter().enumerate() {
            predicted[row as usize] = decided.row(at).to_vec();
        }
    }
    Ok(Csr::from_rows(labels.cols, &predicted))
}

#[cfg(test)]
mod tests {
    use super::super::scores::{DenseScores, ScoreLayout};
    use super::*;

    const ROWS: usize = 60;
    const LABELS: usize = 3;

    fn table() -> (DenseScores, Vec<Vec<u32>>) {
        let mut random = Random::new("cross validation test", 0);
        let scores: Vec<f32> = (0..ROWS * LABELS).map(|_| random.normal() as f32).collect();
        let truth = scores.chunks(LABELS).map(|row| {
            let is_true = |label: &u32| f64::from(row[*label as usize]) + random.normal() > 0.5;
            (0..LABELS as u32).filter(is_true).collect()
        });
        let truth = truth.collect();
        (DenseScores::new(ROWS, LABELS, ScoreLayout::RowMajor, scores.into()).unwrap(), truth)
    }

    #[test]
    fn the_decisions_about_a_fold_do_not_depend_on_its_labels() {
        let (scores, truth) = table();
        let fold_of = draw_folds(ROWS, 4, 1);
        let sizes: Vec<usize> = (0..4).map(|fold| fold_of.iter().filter(|&&of| of == fold).count()).collect();
        assert_eq!(sizes, [15; 4]);
        for rule in [Rule::Scut {}, Rule::Global {}, Rule::Rcut { k: None, max_k: 3 }] {
            let decide = |truth: &[Vec<u32>]| {
                let labels = Csr::from_rows(LABELS, truth);
                decide_out_of_fold(&rule, Objective::Macro, &scores, &labels, &fold_of).unwrap()
            };
            let before = decide(&truth);
            let mut changed = truth.clone();
            for row in (0..ROWS).filter(|&row| fold_of[row] == 2) {
                changed[row] = (0..LABELS as u32).filter(|label| !truth[row].contains(label)).collect();
            }
            let after = decide(&changed);
            let differs = |&row: &usize| before.row(row) != after.row(row);
            assert!((0..ROWS).filter(|&row| fold_of[row] == 2).all(|row| !differs(&row)), "{rule:?}");
            if rule == (Rule::Scut {}) {
                assert!((0..ROWS).any(|row| differs(&row)), "the other folds learn from these labels");
            }
        }
    }
}
