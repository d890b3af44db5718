//! Writes an explanation as text for a terminal, in lines of at most 100 characters unless names are long.

use std::fmt::Write as _;

use super::{
    Cause, CauseSubject, Evidence, Explanation, ExplanationTerm, LabelExplanation, PaperForm, TermInput,
};
use crate::metric::marked::Protocol;
use pipe_core::escape::terminal;

/// The number of causes that are shown for a number.
const MAX_CAUSES: usize = 5;
/// The number of neighbours without the label that are shown.
const MAX_WITHOUT_LABEL: usize = 3;
/// Longer names are shortened.
const MAX_NAME: usize = 30;
/// Longer texts are shortened.
const MAX_TEXT: usize = 60;

impl Explanation {
    /// Returns the explanation as text.
    pub fn text(&self) -> String {
        let protocol = match self.protocol {
            Protocol::Honest => "honest protocol",
            Protocol::Oracle => "ORACLE protocol: the row's own labels were read",
        };
        let mut out = format!("row {}, {protocol}\n", self.row);
        let _ = writeln!(out, "model: {}", self.model);
        let _ = writeln!(out, "local signal: {}", self.signal);
        for note in &self.notes {
            let _ = writeln!(out, "note: {note}");
        }
        for label in &self.labels {
            write_label(&mut out, label);
        }
        out
    }
}

/// Writes the explanation of one label.
fn write_label(out: &mut String, label: &LabelExplanation) {
    let decision = if label.predicted { "predicted" } else { "not predicted" };
    let name = label.name.as_ref().map(|name| format!(" {}", terminal(name))).unwrap_or_default();
    let _ = writeln!(out, "\nlabel {}{name}: {decision}", label.label);
    write_terms(out, "score", label.score, &label.score_terms);
    if let Some(threshold) = label.threshold {
        write_terms(out, "threshold", threshold, &label.threshold_terms);
    }
    let margin = label.margin.map(|margin| format!("margin {margin:+.4}"));
    let probability = label.probability.map(|probability| format!("probability {probability:.4}"));
    let outcome: Vec<String> = margin.into_iter().chain(probability).collect();
    if !outcome.is_empty() {
        let _ = writeln!(out, "  {}", outcome.join(", "));
    }
    for note in &label.notes {
        let _ = writeln!(out, "  note: {note}");
    }
    if let Some((form, margin)) = label.paper_form.as_ref().zip(label.margin) {
        write_paper_form(out, form, margin);
    }
    for term in label.score_terms.iter().chain(&label.threshold_terms) {
        if let Some(evidence) = &term.evidence {
            write_evidence(out, term, evidence);
        }
    }
}

/// Writes a value and the terms that add up to it.
fn write_terms(out: &mut String, what: &str, value: f64, terms: &[ExplanationTerm]) {
    let _ = writeln!(out, "  {what} {value:+.4}");
    for term in terms {
        let part = term.part.as_ref().map(|part| format!("{part}: ")).unwrap_or_default();
        let inputs = format_inputs(&term.inputs);
        let _ = writeln!(out, "   {:>+8.4}  {part}{}{inputs}", term.value, term.formula);
    }
}

/// Writes the decision in the form of eq. 1.
fn write_paper_form(out: &mut String, form: &PaperForm, margin: f64) {
    let sign = if margin > 0.0 { ">" } else { "<=" };
    let _ = writeln!(out, "  in the paper's form: z {:+.4} {sign} theta {:+.4}", form.z, form.theta);
    let terms = form.theta_terms.iter().map(|term| format!("{:+.4} {}", term.value, term.name));
    let _ = writeln!(out, "    theta = {}", terms.collect::<Vec<_>>().join(", "));
}

/// Writes the causes of one input of a term.
fn write_evidence(out: &mut String, term: &ExplanationTerm, evidence: &Evidence) {
    let about = term.part.as_deref().unwrap_or(&evidence.of);
    let value = term.inputs.iter().find(|input| input.name == evidence.of);
    let value = value.map(|input| format!(" {}", format_number(input.value))).unwrap_or_default();
    let _ = writeln!(out, "  {about}{value}: {}", evidence.words);
    let (with, without): (Vec<&Cause>, Vec<&Cause>) =
        evidence.causes.iter().partition(|cause| cause.value != 0.0 || cause.has_label != Some(false));
    for cause in with.iter().take(MAX_CAUSES) {
        let has = match cause.has_label {
            Some(true) => ", has it",
            Some(false) => ", has it not",
            None => "",
        };
        let _ = writeln!(
            out,
            "   {:>+8.4}  {}{has}{}",
            cause.value,
            format_subject(&cause.what),
            format_inputs(&cause.inputs)
        );
    }
    let hidden = with.iter().skip(MAX_CAUSES);
    let (count, sum) = hidden
        .fold((evidence.others, evidence.others_value), |(count, sum), cause| (count + 1, sum + cause.value));
    if count > 0 {
        let _ = writeln!(out, "   {sum:>+8.4}  {count} more");
    }
    let rows: Vec<String> =
        without.iter().filter_map(|cause| format_neighbour(cause)).take(MAX_WITHOUT_LABEL).collect();
    if !rows.is_empty() {
        let more = if without.len() > rows.len() { ", ..." } else { "" };
        let _ = writeln!(out, "    nearest without it (cosine): training rows {}{more}", rows.join(", "));
    }
}

/// Formats a training row and its cosine.
fn format_neighbour(cause: &Cause) -> Option<String> {
    let CauseSubject::TrainingRow { row, id, .. } = &cause.what else { return None };
    let cosine = cause.inputs.iter().find(|input| input.name == "cosine")?;
    let id = id.as_ref().map(|id| format!(" {}", shorten(id, MAX_NAME))).unwrap_or_default();
    Some(format!("{row}{id} ({:.4})", cosine.value))
}

/// Formats the inputs of a formula in brackets.
fn format_inputs(inputs: &[TermInput]) -> String {
    if inputs.is_empty() {
        return String::new();
    }
    let inputs = inputs.iter().map(|input| format!("{} {}", input.name, format_number(input.value)));
    format!("  ({})", inputs.collect::<Vec<_>>().join(", "))
}

/// Formats a number with four decimals, or without decimals if it is whole.
fn format_number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.4}") }
}

/// Formats what a cause is.
fn format_subject(subject: &CauseSubject) -> String {
    match subject {
        CauseSubject::TrainingRow { row, id, text } => {
            let id = id.as_ref().map(|id| format!(" {}", shorten(id, MAX_NAME))).unwrap_or_default();
            let text =
                text.as_ref().map(|text| format!(" `{}`", shorten(text, MAX_TEXT))).unwrap_or_default();
            format!("training row {row}{id}{text}")
        }
        CauseSubject::Feature { feature, name: None } => format!("feature {feature}"),
        CauseSubject::Feature { feature, name: Some(name) } => {
            format!("feature {feature} `{}`", shorten(name, MAX_NAME))
        }
        CauseSubject::Label { label, name: None } => format!("label {label}"),
        CauseSubject::Label { label, name: Some(name) } => {
            format!("label {label} `{}`", shorten(name, MAX_NAME))
        }
        CauseSubject::Constant { name } => name.clone(),
    }
}

/// Shortens a text to at most `most` characters, and puts it on one line.
fn shorten(text: &str, most: usize) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = terminal(&text);
    if text.chars().count() > most {
        text.chars().take(most - 3).chain("...".chars()).collect()
    } else {
        text.into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbour(row: u32, weight: f64, has: bool) -> Cause {
        let inputs = [("cosine", weight), ("weight", weight)];
        let value = if has { weight } else { 0.0 };
        Cause { has_label: Some(has), ..Cause::new(CauseSubject::training_row(row), &inputs, value) }
    }

    fn explained() -> Explanation {
        let causes = [(9, 0.25, true), (3, 0.125, true), (7, 0.5, false)];
        let causes = causes.map(|(row, weight, has)| neighbour(row, weight, has)).to_vec();
        let words = "the weights of 2 of 3 neighbours".to_owned();
        let evidence = Evidence { of: "r".into(), words, causes, others: 0, others_value: 0.0 };
        let term = ExplanationTerm {
            part: Some("neighbours".into()),
            evidence: Some(evidence),
            ..ExplanationTerm::new("w * ln(r + 0.005)", &[("w", 0.5), ("r", 0.375)], -0.4838)
        };
        let theta = [("cut", -1.0), ("local", 0.4838)];
        let theta_terms = theta.map(|(name, value)| TermInput { name: name.into(), value }).to_vec();
        let label = LabelExplanation {
            label: 4,
            name: Some("chest".into()),
            score_terms: vec![term],
            score: -0.4838,
            threshold_terms: vec![ExplanationTerm::new("soft", &[("prior", 50.0)], -1.0)],
            threshold: Some(-1.0),
            margin: Some(0.5162),
            probability: Some(0.25),
            predicted: true,
            paper_form: Some(PaperForm { z: 0.0, theta: -0.5162, theta_terms }),
            notes: vec!["a sentence".into()],
        };
        Explanation {
            row: 2,
            protocol: Protocol::Honest,
            model: "neighbours".into(),
            signal: "some".into(),
            labels: vec![label],
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_label_is_explained_by_its_terms_and_their_causes() {
        assert_eq!(
            explained().text(),
            "row 2, honest protocol\n\
             model: neighbours\n\
             local signal: some\n\
             \n\
             label 4 chest: predicted\n  \
               score -0.4838\n    \
                 -0.4838  neighbours: w * ln(r + 0.005)  (w 0.5000, r 0.3750)\n  \
               threshold -1.0000\n    \
                 -1.0000  soft  (prior 50)\n  \
               margin +0.5162, probability 0.2500\n  \
               note: a sentence\n  \
               in the paper's form: z +0.0000 > theta -0.5162\n    \
                 theta = -1.0000 cut, +0.4838 local\n  \
               neighbours 0.3750: the weights of 2 of 3 neighbours\n    \
                 +0.2500  training row 9, has it  (cosine 0.2500, weight 0.2500)\n    \
                 +0.1250  training row 3, has it  (cosine 0.1250, weight 0.1250)\n    \
                 nearest without it (cosine): training rows 7 (0.5000)\n"
        );
    }

    #[test]
    fn an_explanation_survives_json() {
        let json = serde_json::to_string(&explained()).unwrap();
        assert_eq!(serde_json::from_str::<Explanation>(&json).unwrap(), explained());
    }

    #[test]
    fn a_training_row_is_shown_with_its_id_and_the_beginning_of_its_text() {
        let shown = |id: Option<&str>, text: Option<&str>| {
            let (id, text) = (id.map(str::to_owned), text.map(str::to_owned));
            format_subject(&CauseSubject::TrainingRow { row: 7, id, text })
        };
        assert_eq!(shown(None, None), "training row 7");
        assert_eq!(
            shown(Some("comet-ms"), Some("a\n  search engine")),
            "training row 7 comet-ms `a search engine`"
        );
        assert_eq!(shown(None, Some(&"x".repeat(99))), format!("training row 7 `{}...`", "x".repeat(57)));
    }

    #[test]
    fn long_feature_names_are_shortened() {
        let name = Some("ä".repeat(40));
        let text = format_subject(&CauseSubject::Feature { feature: 1, name });
        assert_eq!(text, format!("feature 1 `{}...`", "ä".repeat(27)));
    }
}
