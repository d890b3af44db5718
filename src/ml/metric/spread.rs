//! Variation over seeds. It tells how much training scatters, not how well the test rows stand for
//! others: that is the bootstrap's question, and the two are never added up.

use serde::{Deserialize, Serialize};

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
    /// `None` for no values.
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
