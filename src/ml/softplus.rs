//! The function [`softplus`]. The cross-entropy of an entry with logit a is softplus(a) if its label is
//! false, and softplus(-a) if it is true.

/// Computes ln(1 + e^a) without overflow.
#[inline]
pub fn softplus(a: f64) -> f64 {
    a.max(0.0) + (-a.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softplus_neither_overflows_nor_underflows() {
        assert_eq!(softplus(0.0), 2f64.ln());
        assert_eq!((softplus(1e6), softplus(-1e6)), (1e6, 0.0));
        assert!((softplus(-0.5) - 0.474_077).abs() < 1e-6 && softplus(-40.0) > 0.0);
    }
}
