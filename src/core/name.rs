//! The names that users choose for pipelines, stages, axes and variables.

/// Returns whether a text is a name: `[A-Za-z_][A-Za-z0-9_-]*`.
pub fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_') && bytes.all(is_name_byte)
}

/// Returns whether a text is a name that may also contain single dots, as in `data.csv`.
pub fn is_dotted_name(text: &str) -> bool {
    is_name(text.split('.').next().unwrap_or_default())
        && text.split('.').all(|part| !part.is_empty() && part.bytes().all(is_name_byte))
}

/// Returns whether a name may contain a byte after its first one.
pub fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'-'
}

/// The rule for names, as an error message states it.
pub const NAME_RULE: &str =
    "a name starts with a letter or `_` and continues with letters, digits, `_` and `-`";
