//! [`ThresholdError`]: scores that a rule cannot use.

/// The reason why a rule cannot be fitted or cannot decide.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ThresholdError {
    #[error(
        "the score of row {row} for label {label} is not a number: the model has diverged; look at its \
         training history"
    )]
    NotANumber { row: usize, label: usize },
    #[error(
        "the score {value} for label {label} is not a probability: set `scale: logit` if the scores are logits, or \
         use a rule that needs no probabilities"
    )]
    NotAProbability { label: usize, value: f32 },
    #[error(
        "the scores are {rows} rows x {labels} labels, but {expected}: a rule needs scores of the \
         same rows and labels"
    )]
    Shape { rows: usize, labels: usize, expected: String },
    #[error(
        "a rule that predicts a share of the rows (`pcut`) decides about all rows together: it cannot decide \
         about one row alone"
    )]
    NeedsAllRows,
    #[error("this rule cannot be fitted for this objective")]
    Objective,
}
