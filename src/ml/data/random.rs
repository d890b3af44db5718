//! Seeded random numbers that are the same on every machine and for every number of threads.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// One stream of random numbers. Streams of another purpose, seed or number are independent of
/// it, so that adding a draw in one place never changes what another place draws.
pub struct Random(ChaCha8Rng);

/// Many streams that share a purpose and a seed: one per row, so that a row does not depend on
/// which thread makes it, or after which other row.
#[derive(Clone)]
pub struct Streams([u8; 32]);

impl Streams {
    pub fn new(purpose: &str, seed: u64) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("pipe ml::data random stream 1");
        hasher.update(&seed.to_le_bytes());
        hasher.update(purpose.as_bytes());
        Self(*hasher.finalize().as_bytes())
    }

    pub fn get(&self, number: u64) -> Random {
        let mut rng = ChaCha8Rng::from_seed(self.0);
        rng.set_stream(number);
        Random(rng)
    }
}

impl Random {
    pub fn new(purpose: &str, seed: u64) -> Self {
        Streams::new(purpose, seed).get(0)
    }

    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform over `0..bound`. Without bias: a draw from the uneven rest is drawn again (Lemire 2019).
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = bound as u64;
        assert!(bound > 0, "nothing can be drawn from an empty range");
        loop {
            let wide = u128::from(self.bits()) * u128::from(bound);
            if wide as u64 >= bound.wrapping_neg() % bound {
                return (wide >> 64) as usize;
            }
        }
    }

    /// Uniform over `[0, 1)`, in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// From the standard normal distribution, after Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// The numbers `0..count` in random order.
    pub fn permutation(&mut self, count: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count as u32).collect();
        self.shuffle(&mut order);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_agree_and_any_difference_tells() {
        let first = |mut random: Random| random.bits();
        let base = first(Streams::new("holdout", 7).get(3));
        assert_eq!(base, first(Streams::new("holdout", 7).get(3)));
        assert_ne!(base, first(Streams::new("folds", 7).get(3)));
        assert_ne!(base, first(Streams::new("holdout", 8).get(3)));
        assert_ne!(base, first(Streams::new("holdout", 7).get(4)));
    }

    #[test]
    fn draws_below_a_bound_are_uniform() {
        let mut random = Random::new("test", 0);
        let mut seen = [0u32; 6];
        for _ in 0..60_000 {
            seen[random.below(6)] += 1;
        }
        assert!(seen.iter().all(|&count| (9_600..10_400).contains(&count)), "{seen:?}");
    }

    #[test]
    fn normal_draws_have_mean_0_and_variance_1() {
        let mut random = Random::new("test", 3);
        let draws: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        let mean = draws.iter().sum::<f64>() / 20_000.0;
        let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }

    /// Splits and generated data are cached and published: the numbers may never change silently.
    #[test]
    fn the_numbers_are_pinned() {
        let mut random = Random::new("pinned", 1);
        assert_eq!(random.permutation(8), [7, 1, 3, 5, 4, 6, 2, 0]);
    }
}
