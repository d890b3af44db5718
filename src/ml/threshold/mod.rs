//! Rules that turn scores into decisions.
//!
//! A [`rule::Rule`] is fitted on the labels of training rows and on scores that were made without these labels
//! (leave-one-out or out-of-fold). The result, [`cuts::Cuts`], decides about any scores without seeing labels.
//!
//! A label is predicted if its score is *above* its cut. Rows with equal scores for a label get equal
//! decisions. A label that no fitting row has is never predicted, and neither is a score of minus infinity. A
//! score that is not a number is an error.
//!
//! RCut, PCut, SCut, RTCut and SCutFBR are the rules of Yang (SIGIR 2001).

pub mod ceiling;
pub mod cross_validation;
pub mod cuts;
pub mod error;
mod global;
mod micro_macro;
mod online;
mod per_label;
mod plug_in;
mod proportion;
mod rank;
mod rank_in_score;
pub mod rule;
mod sample;
pub mod scores;
mod sweep;
#[cfg(test)]
mod tests;
