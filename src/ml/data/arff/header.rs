//! The header of an ARFF file: everything before `@data`.

use std::collections::HashSet;

use crate::data::error::{DataError, Fault};
use crate::data::lines::TextLines;

/// The relation and its attributes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ArffHeader {
    pub relation: String,
    pub attributes: Vec<ArffAttribute>,
}

/// A declared column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ArffAttribute {
    pub name: String,
    pub kind: AttributeType,
}

/// The declared type of a column.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AttributeType {
    Numeric,
    /// One of a list of names. If every name is a number, the values are these numbers; otherwise they are the positions
    /// in the list.
    Nominal {
        names: Vec<String>,
        numbers: Vec<f32>,
    },
    /// A type that cannot be used as a feature, such as a string or a date.
    Other(String),
}

impl AttributeType {
    /// Returns the nominal values; other types have none.
    pub(super) fn names(&self) -> &[String] {
        match self {
            Self::Nominal { names, .. } => names,
            Self::Numeric | Self::Other(_) => &[],
        }
    }
}

/// Reads up to and including the line `@data`.
pub(super) fn read_header(lines: &mut TextLines) -> Result<ArffHeader, DataError> {
    let mut header = ArffHeader { relation: String::new(), attributes: Vec::new() };
    let mut number = 0;
    let mut names = HashSet::new();
    while let Some(line) = lines.next_line()? {
        let attributes = header.attributes.len();
        let located = |fault: Fault| fault.locate(lines.path(), &line, number);
        if read_line(&line, &mut header).map_err(located)? {
            return Ok(header);
        }
        for attribute in &header.attributes[attributes..] {
            if !names.insert(attribute.name.clone()) {
                let reason =
                    format!("more than one attribute is named `{}`: rename the others", attribute.name);
                return Err(located(Fault::new(0, reason)).into());
            }
        }
        number += 1;
    }
    Err(DataError::file(lines.path(), "there is no line `@data`"))
}

/// Reads one line of the header. Returns whether it was `@data`.
fn read_line(line: &[u8], header: &mut ArffHeader) -> Result<bool, Fault> {
    let line = line.trim_ascii();
    let word_end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (word, rest) = (&line[..word_end], &line[word_end..]);
    match word.to_ascii_lowercase().as_slice() {
        b"" => Ok(false),
        b"@data" => Ok(true),
        b"@relation" => {
            header.relation = name(rest).map(|(name, _)| name).unwrap_or_default();
            Ok(false)
        }
        b"@attribute" => {
            let attribute = attribute(rest).map_err(|reason| Fault::new(word_end + 1, reason))?;
            header.attributes.push(attribute);
            Ok(false)
        }
        [b'%', ..] => Ok(false),
        _ => {
            let word = String::from_utf8_lossy(word).chars().take(40).collect::<String>();
            Err(Fault::new(0, format!("`{word}` is not @relation, @attribute, @data or a comment")))
        }
    }
}

fn attribute(text: &[u8]) -> Result<ArffAttribute, String> {
    let (mut name, mut rest) = name(text)?;
    // `a{0,1}`: no blank between the name and the values.
    if rest.trim_ascii().is_empty()
        && let Some(brace) = name.find('{')
    {
        let start = text.iter().position(|&b| b == b'{').unwrap_or(text.len());
        rest = &text[start..];
        name.truncate(brace);
    }
    let rest = rest.trim_ascii();
    let kind = match rest {
        [b'{', inside @ .., b'}'] => nominal(inside)?,
        [b'{', ..] => return Err(format!("the values of the attribute `{name}` do not end with `}}`")),
        _ => {
            let word = rest.split(u8::is_ascii_whitespace).next().unwrap_or_default();
            match word.to_ascii_lowercase().as_slice() {
                b"numeric" | b"real" | b"integer" => AttributeType::Numeric,
                b"" => return Err(format!("the attribute `{name}` has no type")),
                other => AttributeType::Other(String::from_utf8_lossy(other).into_owned()),
            }
        }
    };
    Ok(ArffAttribute { name, kind })
}

fn nominal(inside: &[u8]) -> Result<AttributeType, String> {
    let mut names = Vec::new();
    for value in ValueList::new(inside) {
        names.push(value.map_err(|_| "the quote of a value is not closed".to_owned())?.1.into_owned());
    }
    let spelled: Option<Vec<f32>> = names.iter().map(|name| spelled_number(name)).collect();
    let numbers = spelled.unwrap_or_else(|| (0..names.len()).map(|place| place as f32).collect());
    Ok(AttributeType::Nominal { names, numbers })
}

/// Returns the number that a nominal value spells.
pub(super) fn spelled_number(value: &str) -> Option<f32> {
    value.parse().ok().filter(|number: &f32| number.is_finite())
}

/// Splits off a name. Without quotes, the name ends at a blank and a backslash is an ordinary character: real files
/// have names such as `TAG_m\'usica`. Inside quotes, a backslash escapes.
fn name(text: &[u8]) -> Result<(String, &[u8]), String> {
    let text = text.trim_ascii_start();
    match text.first() {
        None => Err("a name is missing".into()),
        Some(&quote @ (b'\'' | b'"')) => {
            let (name, end) = quoted(text, quote).ok_or("the quote of a name is not closed")?;
            Ok((name, &text[end..]))
        }
        Some(_) => {
            let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
            Ok((String::from_utf8_lossy(&text[..end]).into_owned(), &text[end..]))
        }
    }
}

/// Returns the content of the quotes at the start of `text`, and the offset behind them.
pub(super) fn quoted(text: &[u8], quote: u8) -> Option<(String, usize)> {
    let mut inside = Vec::new();
    let mut at = 1;
    loop {
        match *text.get(at)? {
            b'\\' => {
                inside.push(match *text.get(at + 1)? {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    other => other,
                });
                at += 2;
            }
            byte if byte == quote => return Some((String::from_utf8_lossy(&inside).into_owned(), at + 1)),
            byte => {
                inside.push(byte);
                at += 1;
            }
        }
    }
}

/// Iterates over values separated by commas, with their offsets. Blanks around values are ignored.
pub(super) struct ValueList<'a> {
    text: &'a [u8],
    at: usize,
    done: bool,
}

impl<'a> ValueList<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, done: text.trim_ascii().is_empty() }
    }

    /// Returns where the next value starts; `None` after the last one.
    pub(super) fn next_start(&self) -> Option<usize> {
        (!self.done).then_some(self.at)
    }
}

impl<'a> Iterator for ValueList<'a> {
    /// The error is the offset of an unclosed quote.
    type Item = Result<(usize, std::borrow::Cow<'a, str>), usize>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let start = self.at + self.text[self.at..].iter().take_while(|b| b.is_ascii_whitespace()).count();
        let rest = &self.text[start..];
        let (value, length) = match rest.first() {
            Some(&quote @ (b'\'' | b'"')) => match quoted(rest, quote) {
                Some((value, end)) => (value.into(), end),
                None => {
                    self.done = true;
                    return Some(Err(start));
                }
            },
            _ => {
                let end = rest.iter().position(|&b| b == b',').unwrap_or(rest.len());
                (String::from_utf8_lossy(rest[..end].trim_ascii_end()), end)
            }
        };
        let comma = rest[length..].iter().position(|&b| b == b',');
        match comma {
            Some(comma) => self.at = start + length + comma + 1,
            None => self.done = true,
        }
        Some(Ok((start, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> ArffAttribute {
        let mut header = ArffHeader { relation: String::new(), attributes: Vec::new() };
        read_line(line.as_bytes(), &mut header).unwrap();
        header.attributes.pop().unwrap()
    }

    #[test]
    fn names_are_read_as_real_files_write_them() {
        for (line, name) in [
            (r"@attribute TAG_m\'usica {0,1}", r"TAG_m\'usica"),
            (r"@ATTRIBUTE 'two \'words\'' numeric", "two 'words'"),
            ("@attribute \"a {b}\" REAL", "a {b}"),
            ("@attribute\tx\tinteger", "x"),
            ("@attribute y{0,1}", "y"),
            ("@attribute 0; {0,1}", "0;"),
        ] {
            assert_eq!(parse(line).name, name);
        }
    }

    #[test]
    fn nominal_values_are_the_numbers_they_spell_or_their_positions() {
        let numbers = |line: &str| match parse(line).kind {
            AttributeType::Nominal { numbers, .. } => numbers,
            other => panic!("{other:?}"),
        };
        assert_eq!(numbers("@attribute a { 0 , 1 }"), [0.0, 1.0]);
        assert_eq!(numbers("@attribute a {-1,2.5}"), [-1.0, 2.5]);
        assert_eq!(numbers("@attribute a {NO,'YES, SIR'}"), [0.0, 1.0]);
    }

    #[test]
    fn a_line_that_is_not_a_declaration_is_refused() {
        let mut header = ArffHeader { relation: String::new(), attributes: Vec::new() };
        for bad in ["@attribute", "@attribute x", "@attribute 'x numeric", "@attribute x {0,1", "hello"] {
            assert!(read_line(bad.as_bytes(), &mut header).is_err(), "{bad}");
        }
    }
}
