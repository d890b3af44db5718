//! Formats numbers for pages.

/// Formats a value: whole numbers without decimals, others with four significant decimals or an exponent.
pub fn decimal(value: f64) -> String {
    let magnitude = value.abs();
    if !value.is_finite() {
        value.to_string()
    } else if value == value.trunc() && magnitude < 1e15 {
        format!("{value:.0}")
    } else if (1e-3..1e6).contains(&magnitude) {
        format!("{value:.4}")
    } else {
        format!("{value:.3e}")
    }
}

/// Formats a difference with its sign.
pub fn signed(change: f64) -> String {
    if change > 0.0 { format!("+{}", decimal(change)) } else { decimal(change) }
}

/// Formats a count with narrow no-break spaces between thousands: `1 186 239`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 * 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_keep_their_magnitude() {
        let texts = [0.0, 3.0, 0.412_345, 1.5e-5, 2.5e7, f64::NAN].map(decimal);
        assert_eq!(texts, ["0", "3", "0.4123", "1.500e-5", "25000000", "NaN"]);
        assert_eq!([7, 1000, 1_186_239].map(grouped), ["7", "1\u{202f}000", "1\u{202f}186\u{202f}239"]);
    }
}
