//! Shows a JSON object with a verdict, such as an audit, as a card with its fields.

use serde_json::Value;

use super::html::{Html, HtmlElement, el};
use super::{oracle_mark, table_file};
use pipe_ml::metric::marked::Protocol;

/// A JSON value that is shown with its verdict, if it has one.
#[derive(Debug, Clone)]
pub struct VerdictCard {
    pub name: String,
    pub value: Value,
}

/// Fields with the conclusion of an audit; the first that exists is shown.
const SENTENCES: [&str; 4] = ["sentence", "summary", "conclusion", "message"];
const TITLES: [&str; 3] = ["title", "name", "audit"];
const VERDICTS: [&str; 2] = ["passed", "ok"];
/// Longer lists are shortened to this many items.
const LISTED: usize = 50;

impl VerdictCard {
    /// Returns the card as HTML.
    pub fn html(&self) -> Html {
        let field =
            |names: &[&'static str]| names.iter().copied().find(|name| self.value.get(name).is_some());
        let text = |name: Option<&str>| name.and_then(|name| self.value[name].as_str());
        let (title, sentence, verdict) = (field(&TITLES), field(&SENTENCES), field(&VERDICTS));
        let passed = verdict.map(|name| &self.value[name]);
        let heading = el("h3").child(el("span").text(text(title).unwrap_or(&self.name)));
        let heading = match self.value["protocol"].as_str() {
            Some("oracle") => heading.maybe(oracle_mark::badge(Protocol::Oracle)),
            _ => heading,
        };
        let (heading, class) = match passed {
            Some(Value::Bool(true)) => (heading.child(verdict_badge("passed", "computed")), "card passed"),
            Some(Value::Bool(false)) => (heading.child(verdict_badge("failed", "failed")), "card failed"),
            Some(Value::Null) => (heading.child(verdict_badge("not checked", "stale")), "card"),
            _ => (heading, "card"),
        };
        let is_badge = matches!(passed, Some(Value::Bool(_) | Value::Null));
        let card = el("article").class(class).child(heading);
        // The first finding of an audit is the most important one.
        let finding = self.value["findings"][0]["text"].as_str();
        let card = card.maybe(text(sentence).or(finding).map(|sentence| el("p").text(sentence)));
        let already_shown =
            [title.filter(|_| text(title).is_some()), sentence.filter(|_| text(sentence).is_some())];
        let rest = |name: &str| !already_shown.contains(&Some(name)) && (!is_badge || verdict != Some(name));
        let fields: Vec<(&String, &Value)> = match &self.value {
            Value::Object(fields) => fields.iter().filter(|(name, _)| rest(name)).collect(),
            _ => Vec::new(),
        };
        match (fields.is_empty(), &self.value) {
            (false, _) => card.child(facts(fields)).into(),
            (true, Value::Object(_)) => card.into(),
            (true, other) => card.child(value_html(other)).into(),
        }
    }
}

fn verdict_badge(word: &str, status: &'static str) -> HtmlElement {
    el("span").class("status").attr("data-status", status).text(word)
}

fn facts<'a>(fields: impl IntoIterator<Item = (&'a String, &'a Value)>) -> HtmlElement {
    let entries = fields.into_iter().map(|(name, value)| {
        let name = name.replace('_', " ");
        el("div").child(el("dt").text(&name)).child(el("dd").child(value_html(value)))
    });
    el("dl").class("facts").children(entries)
}

/// Returns a JSON value as HTML.
fn value_html(value: &Value) -> Html {
    match value {
        Value::Null => Html::text("–"),
        Value::Bool(true) => Html::text("yes"),
        Value::Bool(false) => Html::text("no"),
        Value::Number(number) if number.is_f64() => {
            Html::text(&number.as_f64().map_or_else(String::new, super::number::decimal))
        }
        Value::Number(number) => Html::text(&number.to_string()),
        Value::String(text) => Html::text(text),
        Value::Array(items) if items.is_empty() => Html::text("none"),
        Value::Array(items) if items.iter().all(is_flat) => match table_file::rows("", value) {
            Some(grid) => grid.html(),
            None => facts(items.iter().filter_map(Value::as_object).flatten()).into(),
        },
        Value::Array(items) => {
            let more = items.len().saturating_sub(LISTED);
            let items = items.iter().take(LISTED).map(|item| el("li").child(value_html(item)));
            let list = el("ul").children(items);
            match more {
                0 => list.into(),
                more => list.child(el("li").text(&format!("and {more} more"))).into(),
            }
        }
        Value::Object(fields) => facts(fields).into(),
    }
}

/// Whether this is a map of values that fit into cells.
fn is_flat(value: &Value) -> bool {
    value
        .as_object()
        .is_some_and(|fields| !fields.values().any(|field| field.is_object() || field.is_array()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::html::tests::hostile;
    use super::*;

    #[test]
    fn an_audit_shows_its_verdict_and_its_conclusion() {
        let value =
            json!({ "passed": false, "sentence": "2 rows leak", "rows": [1, 2], "checked": { "rows": 9 } });
        let html = VerdictCard { name: "leakage".into(), value }.html().into_string();
        for part in [
            "<article class=\"card failed\">",
            "<h3><span>leakage</span><span",
            ">failed</span>",
            "<p>2 rows leak</p>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(html.contains("<dt>checked</dt>") && !html.contains("<dt>passed</dt>"), "{html}");
    }

    #[test]
    fn an_audit_of_the_oracle_protocol_is_marked() {
        let value =
            json!({ "passed": false, "protocol": "oracle", "findings": [{ "text": "it reads labels" }] });
        let html = VerdictCard { name: "audit".into(), value }.html().into_string();
        assert!(html.contains(">oracle</abbr>") && html.contains("<p>it reads labels</p>"), "{html}");
    }

    #[test]
    fn an_audit_without_a_verdict_is_marked_as_not_checked() {
        let html =
            VerdictCard { name: "audit".into(), value: json!({ "passed": null }) }.html().into_string();
        assert!(html.contains(">not checked</span>") && !html.contains("<dt>passed</dt>"), "{html}");
    }

    proptest! {
        #[test]
        fn text_cannot_break_out_of_its_element(text in hostile()) {
            let value = json!({ "title": text, "sentence": text, (text.clone()): [text, { (text.clone()): text }] });
            let html = VerdictCard { name: text, value }.html().into_string();
            prop_assert!(!html.contains("<script") && !html.contains("<svg") && !html.contains("<!--"));
        }
    }
}
