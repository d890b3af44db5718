//! The names that users choose for pipelines, stages, axes and variables.

/// Returns true for `[A-Za-z_][A-Za-z0-9_-]*`.
pub fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_') && bytes.all(is_name_byte)
}

/// Returns true for names by [`is_name`] that may also have single dots between their parts.
pub fn is_dotted_name(text: &str) -> bool {
    is_name(text.split('.').next().unwrap_or_default())
        && text.split('.').all(|part| !part.is_empty() && part.bytes().all(is_name_byte))
}

/// Returns true for a byte that may follow the first one of a name.
pub fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'-'
}

/// The hint that goes with a rejected name.
pub const NAME_RULE: &str =
    "a name starts with a letter or `_` and continues with letters, digits, `_` and `-`";
