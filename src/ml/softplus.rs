//! The cross-entropy of one entry: softplus(a) where its label is false, softplus(-a) where it is true.

/// ln(1 + e^a), without overflow.
pub fn softplus(a: f64) -> f64 {
    a.max(0.0) + (-a.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_neither_overflows_nor_vanishes() {
        assert_eq!(softplus(0.0), 2f64.ln());
        assert_eq!((softplus(1e6), softplus(-1e6)), (1e6, 0.0));
        assert!((softplus(-0.5) - 0.474_077).abs() < 1e-6 && softplus(-40.0) > 0.0);
    }
}
