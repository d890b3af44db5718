//! Seeded random numbers that are the same on every machine and for every number of threads.
//!
//! The distributions are hand-written on top of `rand_chacha`, because those of `rand` may change their values between
//! versions, and splits and generated data must not.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of random numbers. Streams with different purposes, seeds or numbers are independent, so that an additional
/// draw in one place does not change the draws in another.
pub struct Random(ChaCha8Rng);

/// A family of streams with the same purpose and seed. With one stream per row, a row does not depend on the thread that
/// makes it or on other rows.
#[derive(Clone)]
pub struct Streams([u8; 32]);

impl Streams {
    /// Creates the streams of a purpose and a seed.
    pub fn new(purpose: &str, seed: u64) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("pipe ml::data random stream 1");
        hasher.update(&seed.to_le_bytes());
        hasher.update(purpose.as_bytes());
        Self(*hasher.finalize().as_bytes())
    }

    /// Returns the stream with a number, at its start.
    pub fn get(&self, number: u64) -> Random {
        let mut rng = ChaCha8Rng::from_seed(self.0);
        rng.set_stream(number);
        Random(rng)
    }
}

impl Random {
    /// Creates the stream with number 0.
    pub fn new(purpose: &str, seed: u64) -> Self {
        Streams::new(purpose, seed).get(0)
    }

    /// Draws 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Draws uniformly from `0..bound`, without bias (Lemire 2019).
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = bound as u64;
        assert!(bound > 0, "cannot draw from an empty range");
        loop {
            let wide = u128::from(self.bits()) * u128::from(bound);
            if wide as u64 >= bound.wrapping_neg() % bound {
                return (wide >> 64) as usize;
            }
        }
    }

    /// Draws uniformly from `[0, 1)`, in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Draws from the standard normal distribution (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Shuffles the items (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// Returns the numbers `0..count` in random order.
    pub fn permutation(&mut self, count: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count as u32).collect();
        self.shuffle(&mut order);
        order
    }

    /// Draws the fold of each row. The sizes of the folds differ by at most one.
    pub fn folds(&mut self, rows: usize, folds: usize) -> Vec<usize> {
        let mut fold_of = vec![0; rows];
        for (at, row) in self.permutation(rows).into_iter().enumerate() {
            fold_of[row as usize] = at % folds;
        }
        fold_of
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_in_purpose_seed_and_number_only() {
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

    /// Splits and generated data are cached and published, so the numbers must never change.
    #[test]
    fn the_numbers_never_change() {
        let mut random = Random::new("pinned", 1);
        assert_eq!(random.permutation(8), [7, 1, 3, 5, 4, 6, 2, 0]);
    }
}
