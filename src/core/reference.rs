//! References between stages as a user writes them: `data`, `eval[*]`,
//! `train[variant=adaptive].model`, `train[adaptive,seed=1]`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::name::is_name;
use crate::scalar::canonical_plain;

/// A reference to a stage that has been parsed but not yet resolved against a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageRef {
    text: String,
    stage: String,
    selector: Selector,
    output: Option<String>,
}

/// The instances that a reference selects, as written in its brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// Every instance: no brackets, or `[*]`.
    All,
    Terms(Vec<SelectorTerm>),
}

/// One condition in the brackets of a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectorTerm {
    /// The axis; `None` for any axis that has the value.
    pub axis: Option<String>,
    /// The value, in canonical form.
    pub value: String,
}

/// The error for a text that is not a reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a reference: {reason}")]
pub struct BadReference {
    text: String,
    reason: String,
}

impl StageRef {
    /// Returns the reference as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the name of the stage.
    pub fn stage(&self) -> &str {
        &self.stage
    }

    /// Returns which instances of the stage are meant.
    pub fn selector(&self) -> &Selector {
        &self.selector
    }

    /// Returns the name of the output, if the reference names one.
    pub fn output(&self) -> Option<&str> {
        self.output.as_deref()
    }
}

impl FromStr for StageRef {
    type Err = BadReference;

    fn from_str(text: &str) -> Result<Self, BadReference> {
        let bad = |reason: String| BadReference { text: text.to_owned(), reason };
        let end = text.find(['[', '.']).unwrap_or(text.len());
        let (stage, mut rest) = text.split_at(end);
        if !is_name(stage) {
            return Err(bad(if stage.is_empty() {
                "it must start with the name of a stage".to_owned()
            } else {
                format!("`{stage}` cannot be the name of a stage")
            }));
        }
        let mut selector = Selector::All;
        if let Some(inside) = rest.strip_prefix('[') {
            (selector, rest) = read_selector(inside).map_err(bad)?;
        }
        let output = match rest.strip_prefix('.') {
            Some("") => return Err(bad("the name of an output is missing after the `.`".to_owned())),
            Some(output) => Some(output.to_owned()),
            None if rest.is_empty() => None,
            None => return Err(bad(format!("unexpected `{rest}`; only `.output` may follow the brackets"))),
        };
        Ok(Self { text: text.to_owned(), stage: stage.to_owned(), selector, output })
    }
}

/// Parses up to and including the closing bracket, and returns the rest of the text.
fn read_selector(inside: &str) -> Result<(Selector, &str), String> {
    const UNCLOSED: &str = "a closing `]` is missing";
    if let Some(rest) = inside.trim_start().strip_prefix('*') {
        let rest = rest.trim_start();
        return match rest.strip_prefix(']') {
            Some(rest) => Ok((Selector::All, rest)),
            None if rest.is_empty() => Err(UNCLOSED.to_owned()),
            None => {
                Err("`*` stands alone in its brackets; leave out the axes that may have any value".to_owned())
            }
        };
    }
    let mut terms: Vec<SelectorTerm> = Vec::new();
    let mut rest = inside;
    loop {
        let (word, quoted, after) = read_word(rest)?;
        let (term, after) = match after.strip_prefix('=') {
            Some(after) if !quoted => {
                let (value, quoted, after) = read_word(after)?;
                if terms.iter().any(|term| term.axis.as_deref() == Some(&word)) {
                    return Err(format!("the axis `{word}` is given twice"));
                }
                (SelectorTerm { axis: Some(word), value: canonical(value, quoted)? }, after)
            }
            _ => (SelectorTerm { axis: None, value: canonical(word, quoted)? }, after),
        };
        terms.push(term);
        match after.chars().next() {
            Some(',') => rest = &after[1..],
            Some(']') => return Ok((Selector::Terms(terms), &after[1..])),
            Some(other) => return Err(format!("unexpected `{other}` in the brackets; quote such values")),
            None => return Err(UNCLOSED.to_owned()),
        }
    }
}

fn canonical(value: String, quoted: bool) -> Result<String, String> {
    match (quoted, value.as_str()) {
        (true, _) => Ok(value),
        (false, "") => Err("a value is missing in the brackets".to_owned()),
        (false, "*") => Err("an axis that may have any value is left out of the brackets".to_owned()),
        (false, plain) => Ok(canonical_plain(plain).into_owned()),
    }
}

/// Parses a bare or quoted word. Returns it, whether it was quoted, and the rest of the text.
fn read_word(text: &str) -> Result<(String, bool, &str), String> {
    let text = text.trim_start();
    let Some(inside) = text.strip_prefix('"') else {
        let end = text.find(is_special).unwrap_or(text.len());
        return Ok((text[..end].trim_end().to_owned(), false, &text[end..]));
    };
    let mut word = String::new();
    let mut characters = inside.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((word, true, inside[at + 1..].trim_start())),
            '\\' => match characters.next() {
                Some((_, 'n')) => word.push('\n'),
                Some((_, 'r')) => word.push('\r'),
                Some((_, 't')) => word.push('\t'),
                Some((_, other)) => word.push(other),
                None => break,
            },
            other => word.push(other),
        }
    }
    Err("a closing quote is missing".to_owned())
}

fn is_special(c: char) -> bool {
    matches!(c, ',' | '[' | ']' | '=' | '"')
}

/// Returns the value of an axis as it is written in brackets: quoted if it would otherwise be parsed as another value.
pub fn selector_value(value: &str) -> Cow<'_, str> {
    let plain = !value.is_empty()
        && !value.starts_with('*')
        && value.trim() == value
        && !value.contains(|c: char| is_special(c) || c == '\\' || c.is_control())
        && canonical_plain(value) == value;
    if plain {
        return Cow::Borrowed(value);
    }
    let mut quoted = String::from("\"");
    for character in value.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    Cow::Owned(quoted)
}

impl fmt::Display for StageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Serialises as null, because the names of stages must not be part of a key. The content of the referenced artifact is
/// part of it, as an input.
impl Serialize for StageRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for StageRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for StageRef {
    fn schema_name() -> Cow<'static, str> {
        "StageRef".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A reference to another stage: `stage`, `stage[*]`, `stage[axis=value]`, each with an optional `.output`.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(axis: Option<&str>, value: &str) -> SelectorTerm {
        SelectorTerm { axis: axis.map(str::to_owned), value: value.to_owned() }
    }

    #[test]
    fn every_form_of_a_reference_is_parsed() {
        let all: StageRef = "eval[*]".parse().unwrap();
        assert_eq!((all.stage(), all.selector(), all.output()), ("eval", &Selector::All, None));
        let output: StageRef = "my-load.data.csv".parse().unwrap();
        assert_eq!((output.stage(), output.output()), ("my-load", Some("data.csv")));
        let full: StageRef = "train[ adaptive , lr = 1e-4, note=\"a, b\" ].model".parse().unwrap();
        let terms = vec![term(None, "adaptive"), term(Some("lr"), "0.0001"), term(Some("note"), "a, b")];
        assert_eq!((full.selector(), full.output()), (&Selector::Terms(terms), Some("model")));
    }

    #[test]
    fn a_quoted_value_is_not_changed_to_its_canonical_form() {
        let reference: StageRef = r#"train["1e-4"]"#.parse().unwrap();
        assert_eq!(reference.selector(), &Selector::Terms(vec![term(None, "1e-4")]));
    }

    #[test]
    fn the_error_says_what_is_wrong_with_a_reference() {
        for (text, reason) in [
            ("", "it must start with the name of a stage"),
            ("a b", "`a b` cannot be the name of a stage"),
            ("train[", "a value is missing in the brackets"),
            ("train[]", "a value is missing in the brackets"),
            ("train[a", "a closing `]` is missing"),
            ("train[*", "a closing `]` is missing"),
            ("train[*,a]", "`*` stands alone in its brackets; leave out the axes that may have any value"),
            ("train[a=*]", "an axis that may have any value is left out of the brackets"),
            ("train[a=1,a=2]", "the axis `a` is given twice"),
            ("train[a]b", "unexpected `b`; only `.output` may follow the brackets"),
            ("train.", "the name of an output is missing after the `.`"),
            ("train[\"a]", "a closing quote is missing"),
            ("train[a[b]]", "unexpected `[` in the brackets; quote such values"),
        ] {
            let error = text.parse::<StageRef>().unwrap_err();
            assert_eq!(error.to_string(), format!("`{text}` is not a reference: {reason}"));
        }
    }

    #[test]
    fn a_reference_serialises_as_null() {
        let reference: StageRef = "train".parse().unwrap();
        assert_eq!(serde_json::to_value(&reference).unwrap(), serde_json::Value::Null);
    }
}
