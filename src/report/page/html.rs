//! Builds HTML that no text can break: names of elements and attributes are known at compile time, and everything else is
//! escaped.
//!
//! The builder is hand-written (about 100 lines without tests) instead of a template crate such as `maud`, whose macros
//! would have to be compiled for a handful of pages. The escaping is shared with SVG and JUnit files
//! ([`pipe_core::escape`]).

use std::fmt::{Display, Write};

use pipe_core::escape::xml;
use serde::Serialize;

/// Finished markup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Html(String);

/// An element under construction.
#[derive(Debug, Clone)]
pub struct HtmlElement {
    name: &'static str,
    attributes: String,
    content: String,
}

/// Elements that have no content and no end tag.
const VOID: [&str; 6] = ["br", "col", "img", "input", "link", "meta"];

/// Creates an element.
pub fn el(name: &'static str) -> HtmlElement {
    HtmlElement { name, attributes: String::new(), content: String::new() }
}

impl Html {
    /// Returns escaped text.
    pub fn text(text: &str) -> Self {
        let mut html = Self::default();
        escape(text, &mut html.0);
        html
    }

    /// Returns a style sheet or a script of ours. The content of `style` and `script` elements is not escaped.
    pub fn asset(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// Returns a value that scripts can read. No text in it can end the element that contains it.
    pub fn json(value: &impl Serialize) -> Self {
        let text = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
        let mut html = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                    let _ = write!(html, "\\u{:04x}", u32::from(c));
                }
                c => html.push(c),
            }
        }
        Self(html)
    }

    /// Appends markup.
    pub fn push(&mut self, other: impl Into<Html>) {
        self.0.push_str(&other.into().0);
    }

    /// Whether there is no markup.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the markup as a string.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl HtmlElement {
    /// Adds an attribute.
    pub fn attr(mut self, name: &'static str, value: impl Display) -> Self {
        let _ = write!(self.attributes, " {name}=\"");
        escape(&value.to_string(), &mut self.attributes);
        self.attributes.push('"');
        self
    }

    /// Sets the classes.
    pub fn class(self, names: &'static str) -> Self {
        self.attr("class", names)
    }

    /// Adds an attribute without a value.
    pub fn flag(mut self, name: &'static str) -> Self {
        let _ = write!(self.attributes, " {name}");
        self
    }

    /// Appends escaped text.
    pub fn text(mut self, text: &str) -> Self {
        escape(text, &mut self.content);
        self
    }

    /// Appends markup.
    pub fn child(mut self, child: impl Into<Html>) -> Self {
        self.content.push_str(&child.into().0);
        self
    }

    /// Appends markup, if there is any.
    pub fn maybe(self, child: Option<impl Into<Html>>) -> Self {
        match child {
            Some(child) => self.child(child),
            None => self,
        }
    }

    /// Appends several pieces of markup.
    pub fn children<T: Into<Html>>(self, children: impl IntoIterator<Item = T>) -> Self {
        children.into_iter().fold(self, Self::child)
    }
}

impl From<HtmlElement> for Html {
    fn from(HtmlElement { name, attributes, content }: HtmlElement) -> Self {
        let is_void = VOID.contains(&name);
        Self(if is_void {
            format!("<{name}{attributes}>")
        } else {
            format!("<{name}{attributes}>{content}</{name}>")
        })
    }
}

impl FromIterator<Html> for Html {
    fn from_iter<T: IntoIterator<Item = Html>>(parts: T) -> Self {
        let mut html = Self::default();
        for part in parts {
            html.push(part);
        }
        html
    }
}

/// Appends text, escaped for use between tags and in attributes with double quotes.
fn escape(text: &str, out: &mut String) {
    let escaped = xml(text);
    if escaped.contains(['\'', '\r']) {
        out.push_str(&escaped.replace('\'', "&#39;").replace('\r', "\n"));
    } else {
        out.push_str(&escaped);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Generates text that tries to break out of its element.
    pub(crate) fn hostile() -> impl Strategy<Value = String> {
        let pieces = prop_oneof![
            Just("<script>alert(1)</script>".to_owned()),
            Just("</script>".to_owned()),
            Just("<!--".to_owned()),
            Just("]]>".to_owned()),
            Just("\" onload=\"alert(1)".to_owned()),
            Just("' onload='alert(1)".to_owned()),
            Just("&lt;".to_owned()),
            Just("</td></table>".to_owned()),
            Just("<svg/onload=alert(1)>".to_owned()),
            Just("javascript:alert(1)".to_owned()),
            Just("\u{2028}\u{0}\u{202e}".to_owned()),
            any::<String>(),
        ];
        proptest::collection::vec(pieces, 1..4).prop_map(|pieces| pieces.concat())
    }

    /// Returns what a browser shows of escaped text.
    fn unescaped(html: &str) -> String {
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")]
            .into_iter()
            .fold(html.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    proptest! {
        #[test]
        fn a_browser_shows_text_and_attributes_unchanged(text in hostile()) {
            let shown: String = text
                .chars()
                .map(|c| match c {
                    '\t' | '\n' => c,
                    '\r' => '\n',
                    c if c.is_control() => char::REPLACEMENT_CHARACTER,
                    c => c,
                })
                .collect();
            let html = Html::from(el("p").attr("title", &text).text(&text)).into_string();
            let inside = html.strip_prefix("<p title=\"").and_then(|rest| rest.strip_suffix("</p>")).unwrap();
            let (title, content) = inside.split_once("\">").unwrap();
            prop_assert!(!title.contains(['"', '<', '>', '\'']) && !content.contains(['<', '>']));
            prop_assert_eq!(unescaped(title), shown.clone());
            prop_assert_eq!(unescaped(content), shown);
        }

        #[test]
        fn a_value_for_scripts_is_unchanged_and_cannot_end_its_element(text in hostile()) {
            let json = Html::json(&[&text]).into_string();
            let dangerous = ['<', '>', '&', '\u{2028}', '\u{2029}'];
            prop_assert!(!json.contains(dangerous));
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), [text]);
        }
    }

    #[test]
    fn elements_without_content_have_no_end_tag() {
        let html = Html::from(el("p").child(el("br")).child(el("b").text("a & b")));
        assert_eq!(html.into_string(), "<p><br><b>a &amp; b</b></p>");
    }
}
