//! Confidence intervals of a mean over seeds, by Student's t distribution.

use pipe_ml::metric::spread::SeedSpread;

/// Returns the 95 % confidence interval of the mean; `None` for a single value.
pub fn confidence_interval(spread: &SeedSpread) -> Option<(f64, f64)> {
    let runs = f64::from(spread.seeds);
    let half = quantile(spread.seeds.saturating_sub(1)) * spread.standard_deviation? / runs.sqrt();
    Some((spread.mean - half, spread.mean + half))
}

/// Returns the 97.5 % quantile of Student's t distribution. Small degrees of freedom are tabulated; for larger ones the
/// expansion of Cornish and Fisher is exact to four decimals.
fn quantile(degrees: u32) -> f64 {
    const TABLE: [f64; 10] =
        [12.706_2, 4.302_65, 3.182_45, 2.776_45, 2.570_58, 2.446_91, 2.364_62, 2.306_00, 2.262_16, 2.228_14];
    match degrees {
        0 => f64::NAN,
        1..=10 => TABLE[degrees as usize - 1],
        _ => {
            let (z, n) = (1.959_963_985_f64, f64::from(degrees));
            let first = (z.powi(3) + z) / 4.0;
            let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
            let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
            z + first / n + second / n.powi(2) + third / n.powi(3)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_printed_tables() {
        let quantiles = [1, 4, 10, 11, 30, 1000].map(|degrees| (quantile(degrees) * 1000.0).round() / 1000.0);
        assert_eq!(quantiles, [12.706, 2.776, 2.228, 2.201, 2.042, 1.962]);
    }

    #[test]
    fn one_seed_has_no_interval() {
        assert_eq!(confidence_interval(&SeedSpread::over(&[1.0]).unwrap()), None);
        let (low, high) = confidence_interval(&SeedSpread::over(&[1.0, 2.0, 3.0]).unwrap()).unwrap();
        assert!((low - (2.0 - 2.4841)).abs() < 1e-3 && (high - 4.4841).abs() < 1e-3, "{low} {high}");
    }
}
