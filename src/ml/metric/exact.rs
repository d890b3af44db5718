//! [`ExactSum`]: a sum of fractions that does not depend on the order of its terms.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

/// A sum kept as a whole number of units of 2^-52, so that batches and threads can add their terms in any
/// order and give the same bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExactSum(i128);

const UNIT: f64 = (1u64 << 52) as f64;
/// Terms below this bound fit into 64 bits, which are converted several times faster than 128.
const SMALL: f64 = 1024.0;

impl ExactSum {
    /// The sum of no terms.
    pub const ZERO: Self = Self(0);

    /// Returns a term below [`SMALL`] as a number of units. Sums of a few such numbers fit into 64 bits, and are added several
    /// times faster than those of 128 bits.
    pub(super) fn units(term: f64) -> i64 {
        (term * UNIT) as i64
    }

    /// Returns the same as [`ExactSum::units`] for a term from 0 to 1. The compiler vectorises it on more processors.
    #[inline(always)]
    pub(super) fn units_up_to_one(term: f64) -> i64 {
        const MANTISSA: u64 = (1 << 52) - 1;
        let bits = term.to_bits();
        // The term is the mantissa, with its leading one, times 2^(exponent - 1075); a unit is 2^-52.
        let below_one = 1023u64.wrapping_sub(bits >> 52).min(63);
        (((bits & MANTISSA) | (MANTISSA + 1)) >> below_one) as i64
    }

    /// Adds a sum of [`ExactSum::units`].
    pub(super) fn add_units(&mut self, units: i64) {
        *self += Self(i128::from(units));
    }

    /// Adds a number of [`ExactSum::units`] several times.
    pub(super) fn add_units_times(&mut self, units: i64, times: u64) {
        *self += Self(i128::from(units).saturating_mul(i128::from(times)));
    }

    /// Returns the sum.
    pub fn value(self) -> f64 {
        self.0 as f64 / UNIT
    }
}

impl From<f64> for ExactSum {
    fn from(term: f64) -> Self {
        Self(if term.abs() < SMALL { i128::from(Self::units(term)) } else { (term * UNIT) as i128 })
    }
}

impl AddAssign<f64> for ExactSum {
    fn add_assign(&mut self, term: f64) {
        *self += Self::from(term);
    }
}

impl Add for ExactSum {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for ExactSum {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl AddAssign for ExactSum {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum<f64> for ExactSum {
    fn sum<I: Iterator<Item = f64>>(terms: I) -> Self {
        let mut sum = Self::default();
        for term in terms {
            sum += term;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_conversions_of_terms_up_to_one_agree() {
        let mut terms = vec![0.0, 1.0, f64::MIN_POSITIVE, 5e-324, f64::from(f32::MIN_POSITIVE)];
        for exponent in 0..1080 {
            let term = 2f64.powi(-exponent);
            terms.extend([term, term.next_down(), term * 0.7, f64::from((term * 0.3) as f32)]);
        }
        for term in terms {
            assert_eq!(ExactSum::units_up_to_one(term), ExactSum::units(term), "{term}");
        }
    }

    #[test]
    fn the_order_of_the_terms_does_not_matter() {
        let terms: Vec<f64> = (1..1000).map(|i| 1.0 / f64::from(i)).collect();
        let forward: ExactSum = terms.iter().copied().sum();
        let backward: ExactSum = terms.iter().rev().copied().sum();
        assert_eq!(forward, backward);
        assert_ne!(
            terms.iter().sum::<f64>(),
            terms.iter().rev().sum::<f64>(),
            "the order matters for floats"
        );
        assert!((forward.value() - terms.iter().sum::<f64>()).abs() < 1e-12);
    }
}
