//! [`SeedSpread`]: the variation of a metric over seeds.
//!
//! It measures the randomness of training. How well the test rows represent other rows is measured by the
//! bootstrap; the two are never combined.

use serde::{Deserialize, Serialize};

/// Mean and variation of a value over seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeedSpread {
    pub seeds: u32,
    pub mean: f64,
    /// Standard deviation with the divisor n - 1; absent for one seed.
    pub standard_deviation: Option<f64>,
    pub min: f64,
    pub max: f64,
}

impl SeedSpread {
    /// Summarises one value per seed; `None` for no values.
    pub fn over(values: &[f64]) -> Option<Self> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self {
            seeds: values.len() as u32,
            mean,
            standard_deviation: (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()),
            min: values.iter().copied().reduce(f64::min)?,
            max: values.iter().copied().reduce(f64::max)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_has_no_deviation_and_none_has_no_mean() {
        let spread = SeedSpread::over(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((spread.mean, spread.standard_deviation), (2.0, Some(1.0)));
        assert_eq!(SeedSpread::over(&[1.0]).unwrap().standard_deviation, None);
        assert_eq!(SeedSpread::over(&[]), None);
    }
}
