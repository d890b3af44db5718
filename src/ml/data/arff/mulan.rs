//! The XML file in which Mulan names the labels: `<labels><label name="a"/>...</labels>`, nested for hierarchies.
//!
//! Reads only the parts of XML that these files use: tags, attributes, comments and entities.

use crate::data::error::Fault;

/// Returns the names of the labels in the order of the file.
pub(crate) fn label_names(xml: &[u8]) -> Result<Vec<String>, Fault> {
    let mut names = Vec::new();
    let mut seen_root = false;
    let mut at = 0;
    while let Some(open) = find(xml, at, b"<") {
        if xml[open..].starts_with(b"<!--") {
            at = find(xml, open, b"-->").ok_or_else(|| Fault::new(open, "this comment is not closed"))? + 3;
            continue;
        }
        let close = end_of_tag(xml, open).ok_or_else(|| Fault::new(open, "this tag is not closed"))?;
        let tag = &xml[open + 1..close];
        let name_end = tag.iter().position(|b| b.is_ascii_whitespace() || *b == b'/').unwrap_or(tag.len());
        match &tag[..name_end] {
            b"labels" => seen_root = true,
            b"label" => {
                let name = attribute(&tag[name_end..], b"name");
                names.push(name.ok_or_else(|| Fault::new(open, "this label has no name"))?);
            }
            _ => {}
        }
        at = close + 1;
    }
    if !seen_root {
        return Err(Fault::new(0, "there is no `<labels>` element: this is not a Mulan label file"));
    }
    if names.is_empty() {
        return Err(Fault::new(0, "this file names no labels"));
    }
    Ok(names)
}

fn find(text: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    text.get(from..)?.windows(what.len()).position(|window| window == what).map(|at| from + at)
}

/// Returns the offset of the `>` that closes a tag. A `>` inside quotes does not close it.
fn end_of_tag(xml: &[u8], open: usize) -> Option<usize> {
    let mut quote = None;
    for (at, &byte) in xml.iter().enumerate().skip(open) {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

/// Returns the value of an attribute: `name = "value"`.
fn attribute(mut tag: &[u8], wanted: &[u8]) -> Option<String> {
    loop {
        let equals = tag.iter().position(|&b| b == b'=')?;
        let key = tag[..equals].trim_ascii();
        let value = tag[equals + 1..].trim_ascii_start();
        let (&quote, rest) = value.split_first()?;
        let end = rest.iter().position(|&b| b == quote).filter(|_| matches!(quote, b'"' | b'\''))?;
        if key == wanted {
            return Some(unescape(&String::from_utf8_lossy(&rest[..end])));
        }
        tag = &rest[end + 1..];
    }
}

/// Replaces the five entities of XML and character references. Leaves unknown entities unchanged.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        plain.push_str(&rest[..start]);
        rest = &rest[start..];
        let known = rest.find(';').and_then(|end| Some((character(&rest[1..end])?, end)));
        match known {
            Some((character, end)) => {
                plain.push(character);
                rest = &rest[end + 1..];
            }
            None => {
                plain.push('&');
                rest = &rest[1..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

fn character(entity: &str) -> Option<char> {
    match entity {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = entity.strip_prefix('#')?;
            let code = match number.strip_prefix('x') {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_in_order_with_entities_replaced_and_backslashes_kept() {
        let xml = br#"<?xml version="1.0"?>
            <labels xmlns="http://mulan.sourceforge.net/labels"><!-- <label name="no"/> -->
            <label name="a &amp; b"><label name='c&#x64;>'/></label><label id="1" name="m\'usica &x;"></label>
            </labels>"#;
        assert_eq!(label_names(xml).unwrap(), ["a & b", "cd>", r"m\'usica &x;"]);
    }

    #[test]
    fn other_files_are_refused() {
        for bad in
            ["", "<html></html>", "<labels></labels>", "<labels><label/></labels>", "<labels><label name=\"a"]
        {
            assert!(label_names(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
