//! Shows an [`Audit`] as a card: its verdict as a sentence, its findings, and what each change did to the decisions.

use super::grid::{GridCell, GridColumn, GridRow, PageGrid};
use super::html::{Html, HtmlElement, el};
use super::number::{decimal, grouped};
use super::verdict;
use pipe_ml::metric::audit::{Audit, AuditFinding, AuditValues, FindingSeverity, capitalised};
use pipe_ml::metric::marked::Marked;

/// Returns the audit with this name as a card.
pub fn html(name: &str, audit: &Audit) -> Html {
    let findings = audit.findings.iter().map(finding);
    verdict::audit_card(name, audit.passed, audit.protocol)
        .child(el("p").text(&conclusion(audit)))
        .child(el("ul").class("findings").children(findings))
        .maybe((!audit.trials.is_empty()).then(|| trials(audit).html()))
        .into()
}

/// Returns the verdict as a sentence.
fn conclusion(audit: &Audit) -> String {
    let rows = format!("{} rows of the {} part", grouped(audit.rows), audit.part.name());
    let reads_labels =
        audit.trials.iter().any(|trial| trial.change.of_labels() && trial.changed_decisions > 0);
    match audit.passed {
        Some(true) => {
            format!("No decision changed when the labels of the {rows} were permuted or removed.")
        }
        Some(false) if reads_labels => {
            format!(
                "The decisions depend on the labels that they are judged by: they changed when the labels of the {rows} were permuted or removed."
            )
        }
        Some(false) => format!("The labels of the {rows} influenced the training."),
        None => format!("Only the predictions for the {rows} are known, not the model that made them."),
    }
}

fn finding(finding: &AuditFinding) -> HtmlElement {
    let mark = match finding.weight {
        FindingSeverity::Leak => Some("Leak"),
        FindingSeverity::Caution => Some("Caution"),
        FindingSeverity::NotChecked => Some("Not checked"),
        FindingSeverity::Note => None,
    };
    let item = el("li").maybe(mark.map(|mark| el("strong").text(&format!("{mark}: "))));
    item.text(&format!("{}.", capitalised(&finding.text, mark.is_none())))
}

fn trials(audit: &Audit) -> PageGrid {
    let measured = |heading: &str| GridColumn::measured(Marked::new(audit.protocol, heading.to_owned()));
    let columns = vec![
        GridColumn::text("changed"),
        GridColumn::number("decisions"),
        GridColumn::number("rows"),
        measured("macro-F1"),
        measured("micro-F1"),
    ];
    let count = |count: u64| GridCell::number(grouped(count), count as f64);
    let row = |changed: &str, counts: [GridCell; 2], values: &AuditValues| {
        let values = [values.macro_f1, values.micro_f1].map(|value| GridCell::number(decimal(value), value));
        GridRow::plain([GridCell::text(changed)].into_iter().chain(counts).chain(values).collect())
    };
    let mut rows = vec![row("nothing", [GridCell::none(), GridCell::none()], &audit.as_is)];
    rows.extend(audit.trials.iter().map(|trial| {
        let counts = [count(trial.changed_decisions), count(trial.changed_rows)];
        row(trial.change.words(), counts, &trial.figures)
    }));
    PageGrid {
        caption: "How many decisions change with the labels or the features, and in how many rows".into(),
        columns,
        rows,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(passed: Option<bool>, protocol: &str, changed: u64) -> String {
        let values = json!({ "macro_f1": 0.5, "micro_f1": 0.25, "predicted": 7 });
        let audit: Audit = serde_json::from_value(json!({
            "passed": passed, "protocol": protocol, "part": "test", "rows": 1200, "labels": 3, "as_is": values,
            "trials": [{
                "change": "labels-permuted", "changed_decisions": changed, "changed_rows": changed, "figures": values,
                "macro_f1_of_given": null,
            }],
            "duplicates": null,
            "coverage": {
                "labels": 3, "absent_from_train": 0, "absent_from_evaluated": 0, "evaluated_but_unlearnt": 0, "cap": 1.0,
                "learnable_cap": 1.0,
            },
            "loss": null,
            "selection": {
                "known": true, "by_validation": false, "by_oracle": false, "on_evaluated_rows": false,
                "evaluated_in_validation": null,
            },
            "findings": [
                { "weight": "caution", "text": "2 of 3 <rows>" }, { "weight": "note", "text": "the epoch is known" },
            ],
        }))
        .unwrap();
        html("leakage", &audit).into_string()
    }

    #[test]
    fn an_audit_is_a_verdict_with_its_findings_and_a_small_table() {
        let html = shown(Some(true), "honest", 0);
        for part in [
            "<article class=\"card passed\">",
            ">passed</span>",
            "<p>No decision changed when the labels of the 1\u{202f}200 rows of the test part were permuted or removed.</p>",
            "<li><strong>Caution: </strong>2 of 3 &lt;rows&gt;.</li><li>The epoch is known.</li>",
            "labels permuted among the rows",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("<dt>"), "no dump of fields: {html}");
    }

    #[test]
    fn an_audit_that_failed_or_could_not_decide_says_so() {
        let failed = shown(Some(false), "oracle", 3);
        assert!(
            failed.contains("The decisions depend on the labels") && failed.contains(">failed</span>"),
            "{failed}"
        );
        assert_eq!(failed.matches(">oracle</abbr>").count(), 3, "the card and two columns: {failed}");
        let open = shown(None, "honest", 0);
        assert!(
            open.contains("Only the predictions") && open.contains(">not checked for leaks</span>"),
            "{open}"
        );
    }
}
