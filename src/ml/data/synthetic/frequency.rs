//! Label frequencies: a power law, or a table of counts that is fitted to another size.

use super::super::error::DataError;

/// The estimated label counts of AmazonCat-13K.
const AMAZONCAT: &str = include_str!("amazoncat-13k.csv");

/// The largest share of rows of a label, unless there are too few labels. It is that of the most frequent label of
/// AmazonCat-13K.
const LARGEST_SHARE: f64 = 0.2995;

/// The shape of a label-frequency curve, which is fitted to a number of rows and labels.
#[derive(Debug, Clone, PartialEq)]
pub enum FrequencyCurve {
    /// The count of the label with rank r is proportional to r^-exponent.
    PowerLaw { exponent: f64 },
    /// Counts at some ranks, with straight lines between them on logarithmic axes.
    Knots(Vec<(f64, f64)>),
}

impl FrequencyCurve {
    /// Returns the estimated curve of AmazonCat-13K.
    pub fn amazoncat() -> Self {
        Self::parse(AMAZONCAT)
            .unwrap_or_else(|reason| unreachable!("the table of AmazonCat-13K is invalid: {reason}"))
    }

    /// Parses lines `rank,count`. `#` starts a comment, and a header line is allowed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut knots: Vec<(f64, f64)> = Vec::new();
        let lines = text.lines().zip(1..).map(|(line, number)| (line.trim(), number));
        for (line, number) in lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#')) {
            let pair = line.split_once(',').and_then(|(rank, count)| {
                Some((rank.trim().parse::<u32>().ok()?, count.trim().parse::<u64>().ok()?))
            });
            let Some((rank, count)) = pair else {
                if knots.is_empty() && line.starts_with(|c: char| c.is_ascii_alphabetic()) {
                    continue;
                }
                return Err(format!("line {number}: `{line}` is not `rank,count`, two whole numbers"));
            };
            let last = knots.last().map_or((0.0, f64::INFINITY), |&knot| knot);
            if f64::from(rank) <= last.0 || count == 0 || count as f64 > last.1 {
                return Err(format!(
                    "line {number}: ranks must increase, and counts must not increase and be at least 1"
                ));
            }
            knots.push((f64::from(rank), count as f64));
        }
        if knots.first().is_none_or(|knot| knot.0 != 1.0) {
            return Err("the first rank must be 1".to_owned());
        }
        Ok(Self::Knots(knots))
    }

    /// Reads a file of lines `rank,count`.
    pub fn read(path: &std::path::Path) -> Result<Self, DataError> {
        let text = std::fs::read_to_string(path).map_err(DataError::io("read", path))?;
        Self::parse(&text).map_err(|reason| DataError::file(path, reason))
    }

    /// Returns the counts of `labels` labels in descending order, with a sum of about `rows * labels_per_row`. Every count
    /// is at least 1.
    ///
    /// A power law is multiplied by a factor. A table keeps its quantiles and is raised to a power (count^t), which hardly
    /// changes counts near 1.
    pub fn counts(&self, labels: usize, rows: usize, labels_per_row: f64) -> Vec<u64> {
        let largest = rows as f64 * LARGEST_SHARE.max((1.5 * labels_per_row / labels as f64).min(1.0));
        let shape: Vec<f64> = (0..labels).map(|label| self.log_height(label, labels)).collect();
        let at = |t: f64| -> Vec<f64> {
            let height = |&log: &f64| match self {
                Self::PowerLaw { .. } => (log + t).exp(),
                Self::Knots(_) => (log * t).exp(),
            };
            shape.iter().map(|log| height(log).clamp(1.0, largest.max(1.0))).collect()
        };
        let wanted = rows as f64 * labels_per_row;
        let (mut low, mut high) = match self {
            Self::PowerLaw { .. } => (-60.0, 60.0),
            Self::Knots(_) => (0.0, 60.0),
        };
        for _ in 0..64 {
            let middle = 0.5 * (low + high);
            if at(middle).iter().sum::<f64>() < wanted { low = middle } else { high = middle }
        }
        at(high).into_iter().map(|count| count.round() as u64).collect()
    }

    /// Returns the logarithm of the count of a label before fitting.
    fn log_height(&self, label: usize, labels: usize) -> f64 {
        match self {
            Self::PowerLaw { exponent } => -exponent * ((label + 1) as f64).ln(),
            Self::Knots(knots) => {
                let last = knots[knots.len() - 1];
                let rank = (label as f64 + 0.5) * last.0 / labels as f64 + 0.5;
                let after = knots.partition_point(|knot| knot.0 <= rank);
                let (Some(&from), Some(&to)) = (knots.get(after.wrapping_sub(1)), knots.get(after)) else {
                    return if after == 0 { knots[0].1.ln() } else { last.1.ln() };
                };
                let along = (rank / from.0).ln() / (to.0 / from.0).ln();
                from.1.ln() + along * (to.1 / from.1).ln()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share_under(counts: &[u64], bound: u64) -> f64 {
        counts.iter().filter(|&&count| count < bound).count() as f64 / counts.len() as f64
    }

    #[test]
    fn at_full_size_the_curve_is_that_of_amazoncat() {
        let counts = FrequencyCurve::amazoncat().counts(13_330, 1_186_239, 5.04);
        let total = counts.iter().sum::<u64>() as f64;
        assert!((total / 1_186_239.0 - 5.04).abs() < 0.005, "{total}");
        for (count, published) in counts.iter().zip([355_211, 194_561, 128_026, 120_090, 97_803]) {
            assert!((*count as f64 / f64::from(published) - 1.0).abs() < 0.02, "{count} for {published}");
        }
        for (bound, share) in [(5, 0.15), (10, 0.28), (100, 0.73), (1000, 0.95)] {
            let is = share_under(&counts, bound);
            assert!((is - share).abs() < 0.015, "{is} of the labels under {bound}, not {share}");
        }
        assert!((27..32).contains(&counts[13_330 / 2]), "{}", counts[13_330 / 2]);
    }

    #[test]
    fn a_smaller_data_set_keeps_the_labels_per_row_and_the_tail() {
        let counts = FrequencyCurve::amazoncat().counts(133, 11_862, 5.04);
        let per_row = counts.iter().sum::<u64>() as f64 / 11_862.0;
        assert!((per_row - 5.04).abs() < 0.01, "{per_row}");
        assert!((share_under(&counts, 10) - 0.28).abs() < 0.08, "{}", share_under(&counts, 10));
        assert!(counts.is_sorted_by(|a, b| a >= b));
    }

    #[test]
    fn a_power_law_falls_with_its_exponent() {
        let counts = FrequencyCurve::PowerLaw { exponent: 1.0 }.counts(1000, 100_000, 2.0);
        assert!((counts.iter().sum::<u64>() as f64 / 200_000.0 - 1.0).abs() < 0.01);
        let ratio = counts[9] as f64 / counts[99] as f64;
        assert!((ratio - 10.0).abs() < 0.1, "{ratio}");
    }

    #[test]
    fn an_invalid_table_is_refused_with_its_line() {
        for bad in ["", "2,5", "1,5\n1,4", "1,5\n2,6", "1,0", "1,x", "1,5\nrank,count"] {
            assert!(FrequencyCurve::parse(bad).is_err(), "{bad:?}");
        }
        assert!(FrequencyCurve::parse("1,5\n2,x").unwrap_err().contains("line 2"));
        assert_eq!(
            FrequencyCurve::parse("# x\nrank,count\n1, 5\n\n3,2"),
            Ok(FrequencyCurve::Knots(vec![(1.0, 5.0), (3.0, 2.0)]))
        );
    }
}
