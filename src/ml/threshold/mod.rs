//! Rules that turn scores into decisions.
//!
//! A [`rule::Rule`] is fitted on scores of training rows that the model had not been fitted on (leave-one-out,
//! out-of-fold) and on the labels of those rows; it leaves [`cuts::Cuts`], which decide about any scores without
//! ever seeing labels. A label is predicted where its score is *above* its cut. Rows with equal scores for a label are
//! never told apart, a label that no fitting row has is never predicted, a score of minus infinity never is either,
//! and a score that is not a number is an error.
//!
//! The rules with names ending in *Cut* are Yang's (SIGIR 2001).

pub mod cuts;
pub mod error;
mod global;
mod online;
mod per_label;
mod plug_in;
mod proportion;
mod rank;
pub mod rule;
mod sample;
pub mod scores;
mod sweep;
#[cfg(test)]
mod tests;
