//! Shows a JSON object with a verdict, such as an audit that a command made, as a card with its fields.

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
        let passed = verdict.and_then(|name| self.value[name].as_bool());
        let heading = el("h3").child(el("span").text(text(title).unwrap_or(&self.name)));
        let heading = match self.value["protocol"].as_str() {
            Some("oracle") => heading.maybe(oracle_mark::badge(Protocol::Oracle)),
            _ => heading,
        };
        let card = match passed {
            Some(passed) => verdict_card(heading, passed),
            None => el("article").class("card").child(heading),
        };
        let card = card.maybe(text(sentence).map(|sentence| el("p").text(sentence)));
        let already_shown =
            [title.filter(|_| text(title).is_some()), sentence.filter(|_| text(sentence).is_some())];
        let rest =
            |name: &str| !already_shown.contains(&Some(name)) && (passed.is_none() || verdict != Some(name));
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

fn verdict_card(heading: HtmlElement, passed: bool) -> HtmlElement {
    let (word, status, class) =
        if passed { ("passed", "computed", "card passed") } else { ("failed", "failed", "card failed") };
    el("article").class(class).child(heading.child(verdict_badge(word, status)))
}

/// Returns a card with the name and the verdict of an audit. `None` means that it could not decide.
pub(super) fn audit_card(name: &str, passed: Option<bool>, protocol: Protocol) -> HtmlElement {
    let heading = el("h3").child(el("span").text(name)).maybe(oracle_mark::badge(protocol));
    match passed {
        Some(passed) => verdict_card(heading, passed),
        None => {
            el("article").class("card").child(heading.child(verdict_badge("not checked for leaks", "stale")))
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
    fn a_json_file_with_a_verdict_shows_it_with_its_conclusion() {
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
    fn a_verdict_on_oracle_values_is_marked() {
        let value = json!({ "passed": true, "protocol": "oracle", "sentence": "a is better" });
        let html = VerdictCard { name: "claim".into(), value }.html().into_string();
        assert!(html.contains(">oracle</abbr>"), "{html}");
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
