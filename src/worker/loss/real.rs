//! The number types of the fused pass: f32 for training, f64 for checking it in tests.
//!
//! Exponential and logarithm are written by hand for f32 because the functions of the standard library are calls, which
//! keep the compiler from vectorising a loop.

use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// Arithmetic that, for f32, needs no branches or calls, so that the compiler vectorises loops over it.
pub trait Real:
    Copy
    + Default
    + Debug
    + PartialOrd
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + Sum
    + 'static
{
    const ZERO: Self;
    const ONE: Self;

    /// Rounds an f64.
    fn of(number: f64) -> Self;
    /// Returns the value as f64.
    fn to_f64(self) -> f64;
    /// Returns the absolute value.
    fn abs(self) -> Self;
    /// Returns self · factor + term, rounded once.
    fn times_plus(self, factor: Self, term: Self) -> Self;
    /// Returns e^x for x <= 0.
    fn exp_of_negative(self) -> Self;
    /// Returns ln(1 + t) for t from 0 to 1.
    fn ln_1p_of_unit(self) -> Self;

    /// Returns the larger of the value and zero; NaN stays NaN.
    #[inline(always)]
    fn positive_part(self) -> Self {
        if self < Self::ZERO { Self::ZERO } else { self }
    }

    /// Returns 1 / (1 + e^-x).
    #[inline(always)]
    fn sigmoid(self) -> Self {
        let t = (-self.abs()).exp_of_negative();
        let upper = Self::ONE / (Self::ONE + t);
        if self < Self::ZERO { t * upper } else { upper }
    }
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    fn of(number: f64) -> Self {
        number
    }

    fn to_f64(self) -> f64 {
        self
    }

    fn abs(self) -> Self {
        self.abs()
    }

    fn times_plus(self, factor: Self, term: Self) -> Self {
        self.mul_add(factor, term)
    }

    fn exp_of_negative(self) -> Self {
        self.exp()
    }

    fn ln_1p_of_unit(self) -> Self {
        self.ln_1p()
    }
}

impl Real for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    #[inline(always)]
    fn of(number: f64) -> Self {
        number as f32
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.into()
    }

    #[inline(always)]
    fn abs(self) -> Self {
        self.abs()
    }

    #[inline(always)]
    fn times_plus(self, factor: Self, term: Self) -> Self {
        self.mul_add(factor, term)
    }

    /// Splits x = n ln 2 + r with |r| <= (ln 2)/2, computes e^r by its series, and multiplies by 2^n through the
    /// exponent bits. Below -87 the result stays e^-87, about 1e-38.
    #[inline(always)]
    fn exp_of_negative(self) -> Self {
        /// 1.5 · 2^23. Adding it leaves the nearest integer in the low bits of the mantissa.
        const ROUNDER: f32 = 12_582_912.0;
        const LN_2_HIGH: f32 = 0.693_359_4;
        const LN_2_LOW: f32 = -2.121_944_4e-4;
        let x = if self < -87.0 { -87.0 } else { self };
        let rounded = x.mul_add(std::f32::consts::LOG2_E, ROUNDER);
        let n = rounded - ROUNDER;
        let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, x));
        let power =
            polynomial(r, [1.0, 1.0, 0.5, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0]);
        f32::from_bits(power.to_bits().wrapping_add(rounded.to_bits() << 23))
    }

    /// Computes ln(1 + t) = 2 artanh(s) with s = t / (2 + t) by its series, where s^2 <= 1/9.
    #[inline(always)]
    fn ln_1p_of_unit(self) -> Self {
        let s = self / (2.0 + self);
        let q = s * s;
        let series = polynomial(q, [1.0 / 3.0, 1.0 / 5.0, 1.0 / 7.0, 1.0 / 9.0, 1.0 / 11.0, 1.0 / 13.0]);
        let twice = s + s;
        (twice * q).mul_add(series, twice)
    }
}

/// Evaluates a polynomial by Horner's rule; the constant term is the first coefficient.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut value = coefficients[N - 1];
    for power in (0..N - 1).rev() {
        value = value.mul_add(x, coefficients[power]);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relative(ours: f32, exact: f64) -> f64 {
        (f64::from(ours) - exact).abs() / exact.abs()
    }

    #[test]
    fn the_fast_exponential_is_within_two_units_in_the_last_place() {
        for i in 0..=870_000 {
            let x = -(i as f32) / 10_000.0;
            let error = relative(x.exp_of_negative(), f64::from(x).exp());
            assert!(error < 2.4e-7, "e^{x}: {error}");
        }
    }

    #[test]
    fn far_below_zero_the_exponential_is_practically_zero() {
        for x in [-88.0f32, -1000.0, -1e30, f32::NEG_INFINITY] {
            let power = x.exp_of_negative();
            assert!((0.0..2e-38).contains(&power), "{x}: {power}");
        }
        assert!(f32::NAN.exp_of_negative().is_nan());
    }

    #[test]
    fn the_fast_logarithm_is_precise_for_tiny_arguments_too() {
        for i in 0..=1_000_000u32 {
            let t = i as f32 / 1e6;
            if i > 0 {
                let error = relative(t.ln_1p_of_unit(), f64::from(t).ln_1p());
                assert!(error < 3e-7, "ln(1 + {t}): {error}");
            }
        }
        for t in [1e-12f32, 1e-30, f32::MIN_POSITIVE] {
            assert!(relative(t.ln_1p_of_unit(), f64::from(t).ln_1p()) < 3e-7);
        }
        assert_eq!(0f32.ln_1p_of_unit(), 0.0);
    }

    #[test]
    fn the_sigmoid_is_precise_for_large_arguments_of_both_signs() {
        for x in [-1000f32, -30.0, -1.5, -1e-9, 0.0, 1e-9, 2.0, 30.0, 1000.0] {
            let exact = 1.0 / (1.0 + (-f64::from(x)).exp());
            assert!((f64::from(x.sigmoid()) - exact).abs() <= 2.4e-7 * exact + 1e-37, "{x}");
        }
    }
}
