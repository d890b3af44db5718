//! Parses decimal numbers from bytes, eight digits at a time, with exactly the results of `str::parse`.
//!
//! Hand-written for speed: on a 300 MB LIBSVM file, `make bench-data` measured 441 MB per CPU second, against 18 for
//! scikit-learn.

/// Returns the value and the number of the digits at the start of eight bytes.
#[inline(always)]
pub(crate) fn digits8(text: [u8; 8]) -> (u64, usize) {
    // Digits become 0..=9. Adding 0x76 sets the high bit of every larger byte. A carry affects only bytes after the first
    // one that is not a digit.
    let word = u64::from_le_bytes(text) ^ 0x3030_3030_3030_3030;
    let others = (word.wrapping_add(0x7676_7676_7676_7676) | word) & 0x8080_8080_8080_8080;
    let count = others.trailing_zeros() as usize / 8;
    if count == 0 {
        return (0, 0);
    }
    let word = word << (64 - 8 * count);
    let pairs = word.wrapping_mul(10).wrapping_add(word >> 8);
    let low = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let high = (pairs >> 16 & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    (low.wrapping_add(high) >> 32, count)
}

/// Returns eight bytes from `at`, filled with zeros after the end of the text.
#[inline(always)]
fn eight(text: &[u8], at: usize) -> [u8; 8] {
    match text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        Some(bytes) => *bytes,
        None => near_the_end(text, at),
    }
}

#[cold]
fn near_the_end(text: &[u8], at: usize) -> [u8; 8] {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(text.iter().skip(at)) {
        *to = *from;
    }
    bytes
}

/// Parses a run of digits. Returns its value, or `None` if it exceeds u32, and the offset behind it. Without digits, the
/// offset is `at`.
#[inline(always)]
pub(crate) fn integer(text: &[u8], at: usize) -> (Option<u32>, usize) {
    let (value, count) = digits8(eight(text, at));
    if count < 8 { (Some(value as u32), at + count) } else { long_integer(text, at) }
}

#[cold]
fn long_integer(text: &[u8], start: usize) -> (Option<u32>, usize) {
    let digits = text[start..].iter().take_while(|b| b.is_ascii_digit()).count();
    let value = text[start..start + digits]
        .iter()
        .try_fold(0_u32, |value, &digit| value.checked_mul(10)?.checked_add(u32::from(digit - b'0')));
    (value, start + digits)
}

/// Why a token is not a finite number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberFault {
    /// It is not a number or it is empty.
    Syntax,
    /// It is `nan`, `inf` or a number beyond the range of f32.
    NotFinite,
}

/// Parses the number at `at`. Returns the nearest f32 and the offset of the first byte for which `end_of_token` is true.
#[inline(always)]
pub(crate) fn float(
    text: &[u8],
    at: usize,
    end_of_token: impl Fn(u8) -> bool + Copy,
) -> Result<(f32, usize), NumberFault> {
    match simple_float(text, at) {
        Some((value, end)) if end_of_token(text.get(end).copied().unwrap_or(b'\n')) => Ok((value, end)),
        _ => any_float(text, at, end_of_token),
    }
}

/// Parses numbers such as `-12.345` with at most 15 decimals, for which f64 arithmetic is exact; `None` for others.
#[inline(always)]
fn simple_float(text: &[u8], start: usize) -> Option<(f32, usize)> {
    const TENS: [f64; 16] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    const TENS_OF_INTEGERS: [u64; 16] = {
        let mut tens = [1; 16];
        let mut i = 1;
        while i < 16 {
            tens[i] = tens[i - 1] * 10;
            i += 1;
        }
        tens
    };
    let negative = text.get(start) == Some(&b'-');
    let mut at = start + usize::from(negative);
    // Nearly all values look like `0.31`. A well-predicted branch is cheaper than waiting for the number of digits.
    let (mut mantissa, whole) = match text.get(at..at + 2) {
        Some(&[digit @ b'0'..=b'9', b'.']) => (u64::from(digit - b'0'), 1),
        _ => digits8(eight(text, at)),
    };
    at += whole;
    if whole == 0 || whole == 8 {
        return None;
    }
    let mut places = 0;
    if text.get(at) == Some(&b'.') {
        let (fraction, count) = digits8(eight(text, at + 1));
        mantissa = mantissa * TENS_OF_INTEGERS[count] + fraction;
        places = count;
        if count == 8 {
            let (fraction, count) = digits8(eight(text, at + 9));
            if count == 8 {
                return None;
            }
            mantissa = mantissa.checked_mul(TENS_OF_INTEGERS[count])?.checked_add(fraction)?;
            places += count;
        }
        at += 1 + places;
    }
    if mantissa >> 53 != 0 {
        return None;
    }
    // Both numbers are exact in f64, so the quotient is the nearest f64. Rounding it to f32 is correct unless it is exactly
    // halfway between two f32, where the first rounding may have decided. A subnormal f32 has fewer bits, so the test for
    // halfway would examine the wrong ones.
    let value = mantissa as f64 / TENS[places];
    let halfway = value.to_bits() & 0x1fff_ffff == 0x1000_0000;
    if halfway || (value < f64::from(f32::MIN_POSITIVE) && mantissa != 0) {
        return None;
    }
    let value = value as f32;
    Some((if negative { -value } else { value }, at))
}

#[cold]
fn any_float(text: &[u8], at: usize, end_of_token: impl Fn(u8) -> bool) -> Result<(f32, usize), NumberFault> {
    let token = text.get(at..).unwrap_or_default();
    let length = token.iter().position(|&b| end_of_token(b)).unwrap_or(token.len());
    let token = std::str::from_utf8(&token[..length]).map_err(|_| NumberFault::Syntax)?;
    match token.parse::<f32>() {
        Ok(value) if value.is_finite() => Ok((value, at + length)),
        Ok(_) => Err(NumberFault::NotFinite),
        Err(_) => Err(NumberFault::Syntax),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn space(byte: u8) -> bool {
        byte == b' ' || byte == b'\n'
    }

    #[test]
    fn up_to_eight_digits_are_parsed_before_any_byte() {
        assert_eq!(digits8(*b"12345678"), (12_345_678, 8));
        assert_eq!(digits8(*b"0042:1 x"), (42, 4));
        assert_eq!(digits8(*b":1234567"), (0, 0));
        assert_eq!(digits8([b'7', 0xff, b'1', b'2', 0xfe, 0, 0, 0x80]), (7, 1));
        assert_eq!(digits8(*b"9/9:9;99"), (9, 1));
    }

    #[test]
    fn integers_up_to_the_limit_are_parsed_and_larger_ones_detected() {
        assert_eq!(integer(b"4294967295:", 0), (Some(u32::MAX), 10));
        assert_eq!(integer(b"4294967296:", 0), (None, 10));
        assert_eq!(integer(b"00000000012", 0), (Some(12), 11));
        assert_eq!(integer(b"x7", 1), (Some(7), 2));
        assert_eq!(integer(b"7", 9), (Some(0), 9));
    }

    #[test]
    fn tokens_that_are_not_finite_numbers_are_refused() {
        for (text, why) in [
            ("", NumberFault::Syntax),
            ("1.2.3", NumberFault::Syntax),
            ("0x1", NumberFault::Syntax),
            ("--1", NumberFault::Syntax),
            ("1e", NumberFault::Syntax),
            ("nan", NumberFault::NotFinite),
            ("-inf", NumberFault::NotFinite),
            ("1e39", NumberFault::NotFinite),
        ] {
            assert_eq!(float(text.as_bytes(), 0, space), Err(why), "{text}");
        }
    }

    fn assert_like_standard_library(text: &str) {
        let padded = format!("{text} 1");
        let expected: f32 = text.parse().unwrap();
        let (value, end) = float(padded.as_bytes(), 0, space).unwrap();
        assert_eq!((value.to_bits(), end), (expected.to_bits(), text.len()), "{text}");
    }

    #[test]
    fn hard_cases_of_rounding_agree_with_the_standard_library() {
        for text in [
            "0",
            "-0",
            "1",
            "0.1",
            "16777217",
            "16777219.0",
            "0.000000000000001",
            "1.",
            ".5",
            "+2.5",
            "1e-45",
            "3.4028235e38",
            "0.0000001175494",
            "8388608.5",
            "8388609.5",
            "1.00000017881393421514957253748434595763683319091796875",
            "1.000000178813934",
            "9007199254740993",
            "9007199.254740993",
            "0.123456789012345",
            "0.1234567890123456",
        ] {
            assert_like_standard_library(text);
        }
    }

    proptest! {
        #[test]
        fn any_decimal_is_parsed_exactly(whole in 0_u64..1_000_000_000, fraction in "[0-9]{0,17}", sign in "-?") {
            assert_like_standard_library(&format!("{sign}{whole}.{fraction}"));
        }

        #[test]
        fn any_f32_is_parsed_back_from_its_text(bits: u32) {
            let value = f32::from_bits(bits);
            prop_assume!(value.is_finite());
            assert_like_standard_library(&format!("{value}"));
            assert_like_standard_library(&format!("{value:e}"));
        }

        #[test]
        fn numbers_halfway_between_two_f32_are_rounded_like_the_standard_library(bits in 0x3f00_0000_u32..0x4600_0000) {
            let value = (f64::from(f32::from_bits(bits)) + f64::from(f32::from_bits(bits + 1))) / 2.0;
            assert_like_standard_library(&format!("{value:.14}"));
            assert_like_standard_library(&format!("{value}"));
        }
    }
}
