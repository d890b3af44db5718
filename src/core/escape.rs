//! Escaping of text for XML and HTML, for spreadsheets, and for terminals.

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

/// Returns a field of a CSV file that a spreadsheet does not take for a formula.
///
/// Text that starts with `=`, `+`, `-`, `@`, a tab or a line end gets an apostrophe in front, and so does text that starts
/// with an apostrophe: removing one always restores the text. Numbers must not be passed.
pub fn csv_text(field: &str) -> Cow<'_, str> {
    let is_suspicious = field.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '\'']);
    if is_suspicious { Cow::Owned(format!("'{field}")) } else { Cow::Borrowed(field) }
}

/// Returns a text in which a terminal finds nothing to obey: characters that control it, or the direction of writing, are escaped.
pub fn terminal(text: &str) -> Cow<'_, str> {
    let is_harmless =
        |c: char| !c.is_control() && !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_harmless(c) { escaped.push(c) } else { escaped.extend(c.escape_default()) }
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
    fn text_that_a_spreadsheet_would_run_gets_an_apostrophe() {
        for field in ["=1+1", "+a", "-C", "@x", "\tx", "\rx", "\nx", "'x"] {
            assert_eq!(csv_text(field), format!("'{field}"));
        }
        assert!(matches!(csv_text("a=b, \"c\""), Cow::Borrowed(_)));
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        assert_eq!(terminal("a\u{1b}[31m\tb\nü\u{202e}"), "a\\u{1b}[31m\\tb\\nü\\u{202e}");
        assert!(matches!(terminal("größe 中"), Cow::Borrowed(_)));
    }

    #[test]
    fn markup_is_escaped_and_control_characters_are_replaced() {
        assert_eq!(
            xml("<a href=\"x\">R&D's\u{1b}\r\n\t"),
            "&lt;a href=&quot;x&quot;&gt;R&amp;D's\u{fffd}\r\n\t"
        );
        assert!(matches!(xml("plain text, ünïcödé"), Cow::Borrowed(_)));
    }
}
