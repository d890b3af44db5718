//! Escaping of text for XML and HTML.

use std::borrow::Cow;

/// Escapes `&`, `<`, `>` and `"`, so that the text can stand between tags and in attributes with double quotes.
///
/// Control characters other than tab and line ends, which XML cannot contain, become U+FFFD.
pub fn xml(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !matches!(c, '&' | '<' | '>' | '"') && !is_forbidden(c);
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if is_forbidden(c) => escaped.push(char::REPLACEMENT_CHARACTER),
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

fn is_forbidden(c: char) -> bool {
    c.is_control() && !matches!(c, '\t' | '\n' | '\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped_and_control_characters_are_replaced() {
        assert_eq!(
            xml("<a href=\"x\">R&D's\u{1b}\r\n\t"),
            "&lt;a href=&quot;x&quot;&gt;R&amp;D's\u{fffd}\r\n\t"
        );
        assert!(matches!(xml("plain text, ünïcödé"), Cow::Borrowed(_)));
    }
}
