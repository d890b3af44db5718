//! Writes a report as JUnit XML, which every CI service can show.

use std::fmt::Write;

use super::report::{CheckOutcome, VerifyReport};

/// Returns the XML with one test case per check. Undeclared inputs, drift and damage are failures; a check without an answer is an error.
pub fn junit(report: &VerifyReport, suite: &str) -> String {
    let count = |outcome| report.count(outcome);
    let failures = [CheckOutcome::Undeclared, CheckOutcome::Drift, CheckOutcome::Damage]
        .map(count)
        .iter()
        .sum::<usize>();
    let totals = format!(
        "name=\"{}\" tests=\"{}\" failures=\"{failures}\" errors=\"{}\" skipped=\"{}\"",
        escape(suite),
        report.checks.len(),
        count(CheckOutcome::CannotTell),
        count(CheckOutcome::NotChecked),
    );
    let mut xml = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite {totals}>\n");
    for check in &report.checks {
        // Writing to a String cannot fail.
        let _ = write!(xml, "<testcase classname=\"{}\" name=\"{}\"", check.what, escape(&check.name));
        let element = match check.outcome {
            CheckOutcome::Same => "",
            CheckOutcome::NotChecked => "skipped",
            CheckOutcome::CannotTell => "error",
            CheckOutcome::Undeclared | CheckOutcome::Drift | CheckOutcome::Damage => "failure",
        };
        if element.is_empty() {
            xml.push_str("/>\n");
            continue;
        }
        let (message, detail) = (escape(&check.message), escape(&check.detail));
        let _ = writeln!(xml, "><{element} message=\"{message}\">{detail}</{element}></testcase>");
    }
    xml.push_str("</testsuite>\n</testsuites>\n");
    xml
}

/// Escapes text for XML. Line ends and tabs would be lost in attributes, so they become references.
fn escape(text: &str) -> String {
    let escaped = pipe_core::escape::xml(text).replace(['\r', '\u{fffe}', '\u{ffff}'], "\u{fffd}");
    escaped.replace('\n', "&#10;").replace('\t', "&#9;")
}

#[cfg(test)]
mod tests {
    use super::super::report::Check;
    use super::*;

    #[test]
    fn outcomes_become_what_ci_services_count() {
        let checks = vec![
            Check::same("stage", "data"),
            Check::drift("stage", "train[\"a<b\"]", "lr 1 -> 2 & more").with_detail("-a\n+b\u{1}".into()),
            Check::cannot_tell("stage", "eval", "not in the cache"),
        ];
        let xml = junit(&VerifyReport { checks }, "x.yaml");
        assert!(xml.contains("tests=\"3\" failures=\"1\" errors=\"1\" skipped=\"0\""), "{xml}");
        assert!(
            xml.contains("name=\"train[&quot;a&lt;b&quot;]\"><failure message=\"lr 1 -&gt; 2 &amp; more\">"),
            "{xml}"
        );
        assert!(xml.contains(">-a&#10;+b\u{fffd}</failure>"), "{xml}");
        assert!(xml.contains("<testcase classname=\"stage\" name=\"data\"/>"), "{xml}");
    }
}
