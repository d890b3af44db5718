//! Draws from a discrete distribution in constant time (Walker's alias method, in the version of Vose).

use super::super::random::Random;

/// A discrete distribution.
pub(super) struct AliasTable {
    /// The probability of keeping each slot instead of taking its alias.
    keep: Vec<f64>,
    alias: Vec<u32>,
}

impl AliasTable {
    /// Creates a distribution with probabilities proportional to `weights`, of which at least one must be positive.
    pub(super) fn new(weights: &[f64]) -> Self {
        let scale = weights.len() as f64 / weights.iter().sum::<f64>();
        let mut keep: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
        let mut alias: Vec<u32> = (0..weights.len() as u32).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..weights.len() as u32).partition(|&slot| keep[slot as usize] < 1.0);
        while let (Some(&under), Some(&over)) = (small.last(), large.last()) {
            small.pop();
            alias[under as usize] = over;
            keep[over as usize] -= 1.0 - keep[under as usize];
            if keep[over as usize] < 1.0 {
                large.pop();
                small.push(over);
            }
        }
        // The remaining slots differ from 1 only by rounding errors.
        for slot in small.into_iter().chain(large) {
            keep[slot as usize] = 1.0;
        }
        Self { keep, alias }
    }

    /// Draws an index of the weights.
    pub(super) fn draw(&self, random: &mut Random) -> usize {
        let slot = random.below(self.keep.len());
        if random.unit() < self.keep[slot] { slot } else { self.alias[slot] as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_proportional_to_the_weights() {
        let weights = [5.0, 0.0, 1.0, 2.0, 2.0];
        let alias = AliasTable::new(&weights);
        let mut random = Random::new("test", 0);
        let mut seen = [0u32; 5];
        for _ in 0..100_000 {
            seen[alias.draw(&mut random)] += 1;
        }
        for (count, weight) in seen.iter().zip(weights) {
            assert!((f64::from(*count) - weight * 10_000.0).abs() < 600.0, "{seen:?}");
        }
    }
}
