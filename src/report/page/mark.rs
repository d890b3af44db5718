//! How the oracle protocol is marked wherever its figures show.

use super::html::{Element, el};
use pipe_ml::metric::marked::Protocol;

pub const MEANING: &str = "Oracle protocol: the true labels of the evaluated rows entered the thresholds. \
                           No deployed model can reach these figures.";

/// Nothing for the honest protocol, which is what a reader expects.
pub fn badge(protocol: Protocol) -> Option<Element> {
    match protocol {
        Protocol::Honest => None,
        Protocol::Oracle => Some(el("abbr").class("mark").attr("title", MEANING).text("oracle")),
    }
}
