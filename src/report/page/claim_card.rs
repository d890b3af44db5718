//! Shows a [`ClaimVerdict`] as a card: its verdict, its sentence, and a small table with the comparisons.

use super::grid::{GridCell, GridColumn, GridRow, PageGrid};
use super::html::{Html, el};
use super::number::signed;
use super::verdict;
use crate::claim::{ClaimComparison, ClaimVerdict};
use pipe_ml::metric::marked::Marked;

/// Returns the claim with this name as a card.
pub fn html(name: &str, claim: &ClaimVerdict) -> Html {
    verdict::audit_card(name, Some(claim.passed), claim.protocol)
        .child(el("p").text(&format!("{}.", claim.sentence)))
        .child(comparisons(claim).html())
        .into()
}

fn comparisons(claim: &ClaimVerdict) -> PageGrid {
    let measured = |heading: &str| GridColumn::measured(Marked::new(claim.protocol, heading.to_owned()));
    let columns = vec![GridColumn::text("against"), measured("difference"), GridColumn::text("verdict")];
    let row = |comparison: &ClaimComparison| {
        let difference = comparison.difference;
        let cell = GridCell::number(signed(difference), difference);
        let cell = match (comparison.low, comparison.high) {
            (Some(low), Some(high)) => cell.below(format!("{} to {}", signed(low), signed(high))),
            _ => cell,
        };
        GridRow::plain(vec![GridCell::text(&comparison.than), cell, GridCell::text(claim.words(comparison))])
    };
    let intervals = match claim.comparisons.first() {
        Some(first) if first.low.is_some() => {
            // At most one decimal: 97.5 %.
            format!(", with {} % intervals", (first.confidence * 1000.0).round() / 10.0)
        }
        _ => String::new(),
    };
    PageGrid {
        caption: format!("Differences of {}{intervals}", claim.metric.title()),
        columns,
        rows: claim.comparisons.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(metric: &str, difference: f64, interval: [f64; 2], holds: bool) -> String {
        let claim: ClaimVerdict = serde_json::from_value(json!({
            "sentence": "the value is <high>", "passed": holds, "metric": metric, "protocol": "honest",
            "significant": true,
            "comparisons": [{
                "than": "static", "holds": holds, "value": 0.5, "other": 0.5 - difference, "difference": difference,
                "low": interval[0], "high": interval[1], "confidence": 0.95,
            }],
        }))
        .unwrap();
        html("recipe_wins", &claim).into_string()
    }

    #[test]
    fn a_claim_is_a_verdict_with_a_sentence_and_a_table() {
        let html = shown("macro_f1", 0.25, [0.125, 0.375], true);
        for part in [
            "<article class=\"card passed\">",
            "<p>the value is &lt;high&gt;.</p>",
            "static",
            "Differences of Macro F1, with 95 % intervals",
            "+0.1250 to +0.3750",
            ">significantly better<",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("<dt>"), "no dump of fields: {html}");
    }

    #[test]
    fn a_claim_that_failed_says_how() {
        let cases = [
            ("macro_f1", 0.1, [-0.1, 0.3], ">not significantly better<"),
            ("macro_f1", -0.1, [-0.3, 0.1], ">not significantly better<"),
            ("macro_f1", -0.2, [-0.3, -0.1], ">significantly worse<"),
            ("bce", 0.2, [0.1, 0.3], ">significantly worse<"),
        ];
        for (metric, difference, interval, words) in cases {
            let html = shown(metric, difference, interval, false);
            assert!(html.contains(words) && html.contains(">failed</span>"), "{words}: {html}");
            assert!(!html.contains(">yes<"), "{html}");
        }
    }
}
