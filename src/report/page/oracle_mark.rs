//! The mark of the oracle protocol on pages.

use super::html::{HtmlElement, el};
use pipe_ml::metric::marked::Protocol;

/// The explanation of the mark.
pub const MEANING: &str = "Oracle protocol: the true labels of the evaluated rows entered the thresholds. \
                           No deployed model can reach these values.";

/// Returns the mark of a protocol; `None` for the honest one, which a reader expects.
pub fn badge(protocol: Protocol) -> Option<HtmlElement> {
    match protocol {
        Protocol::Honest => None,
        Protocol::Oracle => Some(el("abbr").class("mark").attr("title", MEANING).text("oracle")),
    }
}
