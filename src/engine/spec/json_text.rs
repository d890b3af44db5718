//! JSON values that are kept as text.

use serde_json::Value;

/// A JSON value as text. A pipeline may have many thousand instances with two such values each, and a tree of maps takes ten times
/// as much memory as its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonText(Box<str>);

impl JsonText {
    /// Returns the value.
    pub fn value(&self) -> Value {
        // The text was made from a value, so it can be read.
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl From<Value> for JsonText {
    fn from(value: Value) -> Self {
        // Faster than `Display`, and it cannot fail for a value.
        Self(serde_json::to_string(&value).unwrap_or_default().into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_survives_its_text() {
        let value = json!({ "a": [1, 1.0, 1e-300, 0.1, null, true], "b": { "c\n\"": "ä\u{7f}" }, "d": {}, "e": u64::MAX });
        assert_eq!(JsonText::from(value.clone()).value(), value);
    }
}
