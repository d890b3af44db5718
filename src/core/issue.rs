//! [`Issue`], the one type for a field whose value cannot be used.

/// A field that has the right type but a value that cannot be used: which field, why, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// Path of the field, such as `optimiser.lr` or `figures[1]`. Empty for the whole value.
    pub field: String,
    /// What is wrong with the value.
    pub message: String,
    /// What the user could write instead.
    pub hint: Option<String>,
}

impl Issue {
    /// Creates an issue without a hint.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into(), hint: None }
    }

    /// Adds a hint.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Returns the same issue as seen from the value that holds `parent`: `lr` within `optimiser` is `optimiser.lr`.
    pub fn within(mut self, parent: &str) -> Self {
        let dot = if self.field.is_empty() || self.field.starts_with('[') { "" } else { "." };
        self.field.insert_str(0, dot);
        self.field.insert_str(0, parent);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issue_is_nested_under_its_parent_field() {
        let nested = |field: &str| Issue::new(field, "must be above 0").within("rule").field;
        assert_eq!([nested("prior"), nested(""), nested("[1]")], ["rule.prior", "rule", "rule[1]"]);
    }
}
