//! Splits of rows into training, validation and test parts. A split depends on row numbers and labels, never on features.
//! Rows keep their order within a part.

use pipe_core::issue::Issue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::csr::Csr;
use super::random::Random;
use super::stratify::stratify;

/// How the test rows are chosen. With neither `holdout` nor `folds`, the parts are those of the source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Split {
    /// Use only this many training rows, from the first on.
    pub first: Option<usize>,
    /// The share of the rows that becomes the test part.
    pub holdout: Option<f64>,
    /// The number of folds, of which `fold` is the test part.
    pub folds: Option<usize>,
    /// The fold that is the test part, counted from 0.
    pub fold: usize,
    /// Give every label about the same share of rows in each part (iterative stratification, Sechidis et al. 2011) instead
    /// of drawing rows at random.
    pub stratified: bool,
    /// The seed of the choice of rows.
    pub seed: u64,
    /// Append the test rows of the source to its training rows before the split, instead of ignoring them.
    pub pool: bool,
}

/// Rows that are taken from the training part to choose epochs and thresholds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Validation {
    /// The share of the training rows.
    pub fraction: f64,
    /// The seed of the choice of rows.
    #[serde(default)]
    pub seed: u64,
    /// Use iterative stratification instead of drawing at random.
    #[serde(default)]
    pub stratified: bool,
}

/// The row numbers of each part, in ascending order. No row is in two parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    pub train: Vec<u32>,
    pub validation: Vec<u32>,
    pub test: Vec<u32>,
}

impl Parts {
    /// Returns the training and validation rows in ascending order. Filters are fitted on these, so that a validation part
    /// does not change their result.
    pub(crate) fn all_but_test(&self) -> Vec<u32> {
        let mut rows = [self.train.as_slice(), &self.validation].concat();
        rows.sort_unstable();
        rows
    }
}

/// Why rows cannot be split.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    #[error("{rows} rows cannot be split: the {part} part would be empty")]
    EmptyPart { rows: usize, part: &'static str },
}

impl Split {
    /// Returns whether the parts are those of the source.
    pub fn is_given(&self) -> bool {
        self.holdout.is_none() && self.folds.is_none()
    }

    /// Returns the fields whose values cannot be used.
    pub fn issues(&self) -> Vec<Issue> {
        let mut issues = Vec::new();
        let mut issue = |field: &str, message: String| issues.push(Issue::new(field, message));
        if self.holdout.is_some() && self.folds.is_some() {
            issue("folds", "`holdout` and `folds` exclude each other: keep one of them".to_owned());
        }
        if let Some(share) = self.holdout.filter(|share| !is_share(*share)) {
            issue("holdout", not_a_share(share));
        }
        match self.folds {
            Some(folds) if folds < 2 => issue("folds", "at least 2 folds are needed".to_owned()),
            Some(folds) if self.fold >= folds => {
                issue("fold", format!("there is no fold {}; the folds are 0 to {}", self.fold, folds - 1));
            }
            None if self.fold > 0 => issue("fold", "`fold` needs `folds`".to_owned()),
            _ => {}
        }
        if self.first == Some(0) {
            issue("first", "at least one row is needed".to_owned());
        }
        for (field, is_set) in [("stratified", self.stratified), ("pool", self.pool)] {
            if is_set && self.is_given() {
                issue(field, format!("`{field}` needs `holdout` or `folds`"));
            }
        }
        issues
    }

    /// Splits rows into a training and a test part. If the parts are those of the source, `rows` are the training rows.
    pub fn divide(&self, rows: &[u32], labels: &Csr) -> Result<Parts, SplitError> {
        let rows = &rows[..self.first.unwrap_or(usize::MAX).min(rows.len())];
        let (train, test) = match (self.holdout, self.folds) {
            (Some(share), _) => {
                draw(rows, labels, share, self.stratified, &mut Random::new("holdout", self.seed))
            }
            (None, Some(folds)) => {
                let sizes: Vec<usize> =
                    (0..folds).map(|fold| (rows.len() + folds - 1 - fold) / folds).collect();
                let parts =
                    assign(rows, labels, &sizes, self.stratified, &mut Random::new("folds", self.seed));
                divided(rows, |at| parts[at] as usize == self.fold)
            }
            (None, None) => (rows.to_vec(), Vec::new()),
        };
        for (part, is_empty) in
            [("training", train.is_empty()), ("test", test.is_empty() && !self.is_given())]
        {
            if is_empty {
                return Err(SplitError::EmptyPart { rows: rows.len(), part });
            }
        }
        Ok(Parts { train, validation: Vec::new(), test })
    }
}

impl Validation {
    /// Returns the fields whose values cannot be used.
    pub fn issues(&self) -> Vec<Issue> {
        if is_share(self.fraction) {
            Vec::new()
        } else {
            vec![Issue::new("fraction", not_a_share(self.fraction))]
        }
    }

    /// Moves rows from the training part to the validation part. The test part has no influence.
    pub fn cut(&self, parts: &mut Parts, labels: &Csr) -> Result<(), SplitError> {
        let mut random = Random::new("validation", self.seed);
        let (train, validation) = draw(&parts.train, labels, self.fraction, self.stratified, &mut random);
        for (part, is_empty) in [("training", train.is_empty()), ("validation", validation.is_empty())] {
            if is_empty {
                return Err(SplitError::EmptyPart { rows: parts.train.len(), part });
            }
        }
        (parts.train, parts.validation) = (train, validation);
        Ok(())
    }
}

fn is_share(share: f64) -> bool {
    share > 0.0 && share < 1.0
}

fn not_a_share(share: f64) -> String {
    format!("{share} is not a share of the rows: a number between 0 and 1 is expected")
}

/// Draws a share of the rows. Returns (kept, drawn).
fn draw(
    rows: &[u32],
    labels: &Csr,
    share: f64,
    stratified: bool,
    random: &mut Random,
) -> (Vec<u32>, Vec<u32>) {
    let drawn = (rows.len() as f64 * share).round() as usize;
    let part_of = assign(rows, labels, &[rows.len() - drawn, drawn], stratified, random);
    divided(rows, |at| part_of[at] == 1)
}

/// Returns the part of each row. Part `p` gets exactly `sizes[p]` rows.
fn assign(rows: &[u32], labels: &Csr, sizes: &[usize], stratified: bool, random: &mut Random) -> Vec<u32> {
    if stratified {
        return stratify(rows, labels, sizes, random);
    }
    let mut part_of: Vec<u32> =
        sizes.iter().zip(0..).flat_map(|(&size, part)| std::iter::repeat_n(part, size)).collect();
    random.shuffle(&mut part_of);
    part_of
}

/// Returns (the rows at the other positions, the rows at the chosen positions).
fn divided(rows: &[u32], chosen: impl Fn(usize) -> bool) -> (Vec<u32>, Vec<u32>) {
    let (test, train): (Vec<usize>, Vec<usize>) = (0..rows.len()).partition(|&at| chosen(at));
    let rows_at = |positions: Vec<usize>| positions.into_iter().map(|at| rows[at]).collect();
    (rows_at(train), rows_at(test))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::stats::column_counts;
    use super::super::test_matrix::ones;
    use super::*;

    fn labels(rows: &[Vec<u32>], cols: usize) -> Csr {
        ones(cols, rows)
    }

    fn divide(split: &Split, labels: &Csr) -> Result<Parts, SplitError> {
        split.divide(&(0..labels.rows() as u32).collect::<Vec<_>>(), labels)
    }

    fn unlabelled(rows: usize) -> Csr {
        labels(&vec![Vec::new(); rows], 1)
    }

    /// Creates labels with a long tail: label `l` occurs in about one of `l + 2` rows.
    fn long_tail(rows: usize, cols: u32, seed: u64) -> Csr {
        let mut random = Random::new("test", seed);
        let row = |random: &mut Random| (0..cols).filter(|l| random.below(*l as usize + 2) == 0).collect();
        let rows: Vec<Vec<u32>> = (0..rows).map(|_| row(&mut random)).collect();
        labels(&rows, cols as usize)
    }

    proptest! {
        #[test]
        fn every_row_is_in_exactly_one_part(
            rows in 4usize..300, share in 0.3f64..0.7, folds in 2usize..4, by_folds: bool, stratified: bool, seed: u64,
        ) {
            let data = long_tail(rows, 8, seed);
            let split = Split {
                holdout: (!by_folds).then_some(share),
                folds: by_folds.then_some(folds),
                stratified,
                seed,
                ..Split::default()
            };
            let mut parts = divide(&split, &data).unwrap();
            let test = parts.test.clone();
            let right = if by_folds { rows.div_ceil(folds) } else { (rows as f64 * share).round() as usize };
            prop_assert_eq!(parts.test.len(), right);
            if parts.train.len() >= 4 {
                Validation { fraction: 0.5, seed, stratified }.cut(&mut parts, &data).unwrap();
                prop_assert!(!parts.validation.is_empty());
            }
            prop_assert_eq!(&parts.test, &test, "the validation part comes from training rows");
            let mut all = [parts.train, parts.validation, parts.test].concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..rows as u32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn every_row_is_in_the_test_part_of_one_fold() {
        let data = long_tail(103, 6, 1);
        for stratified in [false, true] {
            let split = |fold| Split { folds: Some(5), fold, stratified, seed: 3, ..Split::default() };
            let mut tested: Vec<u32> =
                (0..5).flat_map(|fold| divide(&split(fold), &data).unwrap().test).collect();
            tested.sort_unstable();
            assert_eq!(tested, (0..103).collect::<Vec<_>>());
        }
    }

    #[test]
    fn first_keeps_rows_from_the_start_of_the_file() {
        let split = Split { first: Some(50), holdout: Some(0.2), ..Split::default() };
        let parts = divide(&split, &unlabelled(200)).unwrap();
        assert_eq!((parts.train.len(), parts.test.len()), (40, 10));
        assert!(parts.train.iter().chain(&parts.test).all(|&row| row < 50));
    }

    #[test]
    fn different_seeds_draw_different_rows() {
        let split = |seed| Split { holdout: Some(0.5), seed, ..Split::default() };
        let data = unlabelled(100);
        assert_eq!(divide(&split(1), &data), divide(&split(1), &data));
        assert_ne!(divide(&split(1), &data), divide(&split(2), &data));
    }

    #[test]
    fn stratification_preserves_label_shares_better_than_random_draws() {
        let data = long_tail(2000, 60, 5);
        let whole = column_counts(&data, 0..2000);
        let error = |stratified| -> f64 {
            let split = Split { holdout: Some(0.2), stratified, seed: 1, ..Split::default() };
            let test = divide(&split, &data).unwrap().test;
            let counts = column_counts(&data, test);
            counts.iter().zip(&whole).map(|(&c, &w)| (c as f64 - 0.2 * w as f64).abs()).sum::<f64>() / 60.0
        };
        assert!(error(true) < 0.2 * error(false), "{} against {}", error(true), error(false));
    }

    #[test]
    fn a_part_that_would_be_empty_is_an_error() {
        let split = Split { holdout: Some(0.01), ..Split::default() };
        let empty = SplitError::EmptyPart { rows: 10, part: "test" };
        assert_eq!(divide(&split, &unlabelled(10)), Err(empty));
    }

    #[test]
    fn invalid_values_are_reported_with_their_field() {
        let fields = |split: Split| split.issues().into_iter().map(|issue| issue.field).collect::<Vec<_>>();
        assert!(fields(Split::default()).is_empty());
        assert_eq!(fields(Split { holdout: Some(1.0), ..Split::default() }), ["holdout"]);
        assert_eq!(fields(Split { folds: Some(5), fold: 5, ..Split::default() }), ["fold"]);
        assert_eq!(fields(Split { holdout: Some(0.2), folds: Some(5), ..Split::default() }), ["folds"]);
        assert_eq!(
            fields(Split { stratified: true, pool: true, ..Split::default() }),
            ["stratified", "pool"]
        );
    }
}
