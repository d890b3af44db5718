//! YAML scalars by the core schema of YAML 1.2, and their canonical text.

use std::borrow::Cow;

use serde_json::Value;

/// A YAML value that is neither a list nor a map.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// A whole number that is too large for [`Scalar::Int`].
    Unsigned(u64),
    /// Always finite.
    Float(f64),
    Text(String),
}

/// Why a plain scalar that looks like a number is not accepted as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadNumber {
    #[error("this whole number does not fit into 64 bits")]
    TooLong,
    #[error("a number must be finite")]
    NotFinite,
}

impl Scalar {
    /// Reads a plain (unquoted) scalar.
    pub fn plain(text: &str) -> Result<Self, BadNumber> {
        if is_word(text) {
            return Ok(Self::Text(text.to_owned()));
        }
        match text {
            "" | "~" | "null" | "Null" | "NULL" => return Ok(Self::Null),
            "true" | "True" | "TRUE" => return Ok(Self::Bool(true)),
            "false" | "False" | "FALSE" => return Ok(Self::Bool(false)),
            ".nan" | ".NaN" | ".NAN" => return Err(BadNumber::NotFinite),
            _ => {}
        }
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
            return Err(BadNumber::NotFinite);
        }
        let based = [("0x", 16), ("0o", 8)].into_iter().find_map(|(prefix, base)| {
            let digits = text.strip_prefix(prefix)?;
            (!digits.is_empty() && digits.chars().all(|c| c.is_digit(base))).then_some((digits, base))
        });
        if let Some((digits, base)) = based {
            return u64::from_str_radix(digits, base).map(Self::from).map_err(|_| BadNumber::TooLong);
        }
        if !unsigned.is_empty() && unsigned.bytes().all(|b| b.is_ascii_digit()) {
            if let Ok(number) = text.parse::<i64>() {
                return Ok(Self::Int(number));
            }
            return text.parse::<u64>().map(Self::from).map_err(|_| BadNumber::TooLong);
        }
        if is_float(unsigned) {
            let number: f64 = text.parse().map_err(|_| BadNumber::NotFinite)?;
            // Adding zero turns -0 into 0.
            return if number.is_finite() {
                Ok(Self::Float(number + 0.0))
            } else {
                Err(BadNumber::NotFinite)
            };
        }
        Ok(Self::Text(text.to_owned()))
    }

    /// Returns true for whole and floating-point numbers.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::Unsigned(_) | Self::Float(_))
    }

    /// Returns the one text of the scalar, however it was written: `1e-4` and `0.0001` are both `0.0001`, `1.0`
    /// is `1`. `None` for null.
    pub fn canonical_text(&self) -> Option<String> {
        match self {
            Self::Null => None,
            Self::Bool(value) => Some(value.to_string()),
            Self::Int(number) => Some(number.to_string()),
            Self::Unsigned(number) => Some(number.to_string()),
            Self::Float(number) => Some(float_text(*number)),
            Self::Text(text) => Some(text.clone()),
        }
    }
}

/// Returns true if the first character already shows that a plain scalar is text.
fn is_word(text: &str) -> bool {
    text.bytes().next().is_some_and(|b| {
        !matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'~' | b'n' | b'N' | b't' | b'T' | b'f' | b'F')
    })
}

/// Returns true for `[0-9]+(\.[0-9]*)?` or `\.[0-9]+`, followed by an optional exponent.
fn is_float(unsigned: &str) -> bool {
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    (!whole.is_empty() || !fraction.is_empty()) && digits(whole) && digits(fraction) && exponent_fits
}

impl From<u64> for Scalar {
    fn from(number: u64) -> Self {
        i64::try_from(number).map_or(Self::Unsigned(number), Self::Int)
    }
}

impl From<&Scalar> for Value {
    fn from(scalar: &Scalar) -> Self {
        match scalar {
            Scalar::Null => Value::Null,
            Scalar::Bool(value) => Value::Bool(*value),
            Scalar::Int(number) => Value::Number((*number).into()),
            Scalar::Unsigned(number) => Value::Number((*number).into()),
            Scalar::Float(number) => Value::from(*number),
            Scalar::Text(text) => Value::String(text.clone()),
        }
    }
}

/// Returns [`Scalar::canonical_text`] of a JSON value. `None` for null, lists and maps.
pub fn canonical_text(value: &Value) -> Option<String> {
    match value {
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(whole), _, _) => Some(whole.to_string()),
            (_, Some(whole), _) => Some(whole.to_string()),
            (_, _, Some(number)) => Some(float_text(number)),
            _ => None,
        },
        Value::String(text) => Some(text.clone()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns the canonical text of a number: `1e-4` and `0.0001` are both `0.0001`, and `1.0` is `1`.
pub fn float_text(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 || (1e-5..1e15).contains(&size) { format!("{number}") } else { format!("{number:e}") }
}

/// Returns the canonical text of a plain (unquoted) scalar.
pub fn canonical_plain(text: &str) -> Cow<'_, str> {
    if is_word(text) {
        return Cow::Borrowed(text);
    }
    let canonical = Scalar::plain(text).ok().and_then(|scalar| scalar.canonical_text());
    canonical.map_or(Cow::Borrowed(text), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_follow_the_core_schema() {
        let cases = [
            ("", Scalar::Null),
            ("~", Scalar::Null),
            ("True", Scalar::Bool(true)),
            ("yes", Scalar::Text("yes".into())),
            ("12", Scalar::Int(12)),
            ("-012", Scalar::Int(-12)),
            ("0x1F", Scalar::Int(31)),
            ("0o17", Scalar::Int(15)),
            ("18446744073709551615", Scalar::Unsigned(u64::MAX)),
            ("1e-4", Scalar::Float(1e-4)),
            (".5", Scalar::Float(0.5)),
            ("5.", Scalar::Float(5.0)),
            ("-0.0", Scalar::Float(0.0)),
            ("1_000", Scalar::Text("1_000".into())),
            ("1.2.3", Scalar::Text("1.2.3".into())),
            (".", Scalar::Text(".".into())),
            ("e5", Scalar::Text("e5".into())),
            ("nothing", Scalar::Text("nothing".into())),
        ];
        for (text, expected) in cases {
            assert_eq!(Scalar::plain(text), Ok(expected), "{text}");
        }
        assert_eq!(Scalar::plain("1e999"), Err(BadNumber::NotFinite));
        assert_eq!(Scalar::plain("-.inf"), Err(BadNumber::NotFinite));
        assert_eq!(Scalar::plain("99999999999999999999"), Err(BadNumber::TooLong));
    }

    #[test]
    fn equal_numbers_have_the_same_canonical_text() {
        for (text, canonical) in [
            ("1e-4", "0.0001"),
            ("0.00010", "0.0001"),
            ("1.0", "1"),
            ("0x10", "16"),
            ("1e-9", "1e-9"),
            ("0.1e21", "1e20"),
            ("True", "true"),
            ("null", "null"),
            ("a b", "a b"),
        ] {
            assert_eq!(canonical_plain(text), canonical);
        }
    }
}
