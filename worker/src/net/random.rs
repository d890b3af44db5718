//! Random numbers that depend on a seed, a purpose and a number, and on nothing else: not on how
//! many were drawn for something else, nor on threads. So a resumed run needs no saved state.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

pub struct Random(ChaCha8Rng);

impl Random {
    pub fn new(seed: u64, purpose: &str, number: u64) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes());
        hasher.update(&number.to_le_bytes());
        hasher.update(purpose.as_bytes());
        Self(ChaCha8Rng::from_seed(*hasher.finalize().as_bytes()))
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * 2f64.powi(-53)
    }

    /// Uniform in [0, 1), half the bits.
    pub fn unit_f32(&mut self) -> f32 {
        (self.0.next_u32() >> 8) as f32 * 2f32.powi(-24)
    }

    /// Uniform in 0..bound, without bias.
    pub fn below(&mut self, bound: u64) -> u64 {
        let usable = u64::MAX - u64::MAX % bound;
        loop {
            let draw = self.0.next_u64();
            if draw < usable {
                return draw % bound;
            }
        }
    }

    /// From the standard normal distribution, after Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_purpose_and_number_give_the_same_draws() {
        let draws = |seed, purpose, number| {
            let mut random = Random::new(seed, purpose, number);
            [random.unit(), random.normal()]
        };
        assert_eq!(draws(1, "order", 2), draws(1, "order", 2));
        for other in [draws(2, "order", 2), draws(1, "dropout", 2), draws(1, "order", 3)] {
            assert_ne!(draws(1, "order", 2), other);
        }
    }

    #[test]
    fn a_shuffle_keeps_every_item_and_moves_them() {
        let mut items: Vec<u32> = (0..1000).collect();
        Random::new(0, "order", 0).shuffle(&mut items);
        assert!(items.iter().enumerate().filter(|(i, item)| *i == **item as usize).count() < 10);
        items.sort_unstable();
        assert_eq!(items, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn normal_draws_have_mean_0_and_variance_1() {
        let mut random = Random::new(3, "thresholds", 0);
        let draws: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        let mean = draws.iter().sum::<f64>() / 20_000.0;
        let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }
}
