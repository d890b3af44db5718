//! Formats numbers for tables.

/// Formats a value with a fixed number of decimals, rounded to nearest from the exact value. Zero has no sign.
pub fn fixed(value: f64, digits: u8) -> String {
    let text = format!("{value:.*}", usize::from(digits));
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|b| b == b'0' || b == b'.') => rest.to_owned(),
        _ => text,
    }
}

/// Formats a difference, with its sign.
pub fn signed(value: f64, digits: u8) -> String {
    let text = fixed(value, digits);
    let zero = text.bytes().all(|b| b == b'0' || b == b'.');
    if text.starts_with('-') || zero || !value.is_finite() { text } else { format!("+{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_has_no_sign_and_a_difference_has_one() {
        assert_eq!(fixed(-0.00004, 3), "0.000");
        assert_eq!(fixed(-0.5, 1), "-0.5");
        assert_eq!(signed(0.21, 2), "+0.21");
        assert_eq!(signed(-0.21, 2), "-0.21");
        assert_eq!(signed(1e-9, 2), "0.00");
    }
}
