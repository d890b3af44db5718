//! The page for trying a model in a browser.

use hyper::body::Bytes;
use hyper::header::HeaderValue;

use pipe_report::page::html::{Html, el};
use pipe_report::page::{Page, PageScript, Section};

/// A page and the policy that the browser has to follow.
pub(super) struct ServedPage {
    pub html: Bytes,
    pub policy: HeaderValue,
}

/// Returns the page. It needs no token, so that it does not contain the name of the model, which its script asks for.
pub(super) fn page() -> ServedPage {
    let mut ask = Section::new("try", "Try it");
    let field = |id: &'static str, label: &str, control: Html| {
        el("div").class("field").child(el("label").attr("for", id).text(label)).child(control)
    };
    let token = el("input").attr("id", "token").attr("type", "password").attr("autocomplete", "off");
    let row = el("textarea").attr("id", "row").attr("rows", "5").attr("autofocus", "");
    ask.add(
        el("form")
            .attr("id", "ask")
            .child(field("token", "Token", token.into()).attr("id", "token-field"))
            .child(field("row", "Text", row.into()).attr("id", "row-field"))
            .child(el("button").attr("type", "submit").text("Predict"))
            .child(el("p").attr("id", "said").attr("role", "status").text("This page needs JavaScript.")),
    );
    ask.add(el("div").attr("id", "labels"));
    let mut explanation = Section::new("why", "Why");
    explanation.add(
        el("div")
            .attr("id", "explanation")
            .attr("aria-live", "polite")
            .child(el("p").class("note").text("Choose a label to see what its score is made of.")),
    );
    let lead = el("p")
        .text("This page asks the server that it comes from. ")
        .child(el("a").attr("href", "openapi.json").text("openapi.json"));
    let page = Page {
        title: "A served model".to_owned(),
        lead: lead.text(" describes the same interface for programs.").into(),
        sections: vec![ask, explanation],
        script: PageScript::AskModel,
    };
    let policy = format!("{}; frame-ancestors 'none'", page.policy());
    // A policy consists of digests and words of ours.
    let policy = HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"));
    ServedPage { html: page.render().into(), policy }
}
