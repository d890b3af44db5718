//! AdamW as PyTorch computes it: decoupled weight decay, then the moments, then the step.

use pipe_ml::config::optimiser::OptimiserConfig;
use pipe_ml::multiversion;

/// The constants of one step of AdamW.
#[derive(Debug, Clone, Copy)]
pub struct AdamwStep {
    decay: f32,
    beta1: f32,
    beta2: f32,
    /// lr / (1 - beta1^t).
    rate: f32,
    /// 1 / sqrt(1 - beta2^t).
    correction: f32,
    eps: f32,
    /// The factor on every gradient that clips it.
    scale: f32,
}

impl AdamwStep {
    /// Computes the constants. `step` counts from 1.
    pub fn new(config: &OptimiserConfig, lr: f64, step: u64, scale: f64) -> Self {
        let t = step as i32;
        Self {
            decay: (1.0 - lr * config.weight_decay) as f32,
            beta1: config.beta1 as f32,
            beta2: config.beta2 as f32,
            rate: (lr / (1.0 - config.beta1.powi(t))) as f32,
            correction: (1.0 / (1.0 - config.beta2.powi(t)).sqrt()) as f32,
            eps: config.eps as f32,
            scale: scale as f32,
        }
    }

    /// Returns lr / (1 - beta1^t).
    pub fn rate(&self) -> f32 {
        self.rate
    }
}

multiversion! {
    /// Updates parameters and their two moments.
    pub fn adamw(step: AdamwStep, parameters: &mut [f32], gradient: &[f32], first: &mut [f32], second: &mut [f32]) {
        let (new1, new2) = (1.0 - step.beta1, 1.0 - step.beta2);
        for (((p, &g), m), v) in parameters.iter_mut().zip(gradient).zip(first).zip(second) {
            let g = g * step.scale;
            *m = new1.mul_add(g - *m, *m);
            *v = step.beta2.mul_add(*v, new2 * (g * g));
            let change = step.rate * *m / v.sqrt().mul_add(step.correction, step.eps);
            *p = p.mul_add(step.decay, -change);
        }
    }
}

multiversion! {
    /// Takes several steps with a gradient of zero, all of them with a few parameters before the next parameters are read.
    /// `largest_rate` is the largest rate of these steps.
    pub fn idle_steps(
        steps: &[AdamwStep], largest_rate: f32, parameters: &mut [f32], first: &mut [f32], second: &mut [f32],
    ) {
        const AT_ONCE: usize = 32;
        let steps = IdleSteps { steps, largest_rate };
        let (p, p_rest) = parameters.as_chunks_mut::<AT_ONCE>();
        let (m, m_rest) = first.as_chunks_mut::<AT_ONCE>();
        let (v, v_rest) = second.as_chunks_mut::<AT_ONCE>();
        for ((p, m), v) in p.iter_mut().zip(m).zip(v) {
            steps.take(p, m, v);
        }
        for ((p, m), v) in p_rest.iter_mut().zip(m_rest).zip(v_rest) {
            steps.take(std::array::from_mut(p), std::array::from_mut(m), std::array::from_mut(v));
        }
    }
}

/// Steps with a gradient of zero.
struct IdleSteps<'a> {
    steps: &'a [AdamwStep],
    largest_rate: f32,
}

impl IdleSteps<'_> {
    /// Takes the steps.
    #[inline(always)]
    fn take<const N: usize>(&self, p: &mut [f32; N], m: &mut [f32; N], v: &mut [f32; N]) {
        /// After so many steps, the first moments may have come to rest.
        const BETWEEN_LOOKS: usize = 32;
        let (mut parameters, mut first, mut second) = (*p, *m, *v);
        let mut left = self.steps;
        while !left.is_empty() && !self.are_decay_alone(&first, &second) {
            let (next, later) = left.split_at(left.len().min(BETWEEN_LOOKS));
            for step in next {
                for at in 0..N {
                    first[at] *= step.beta1;
                    second[at] *= step.beta2;
                    let change = step.rate * first[at] / second[at].sqrt().mul_add(step.correction, step.eps);
                    parameters[at] = parameters[at].mul_add(step.decay, -change);
                }
            }
            left = later;
        }
        for step in left {
            for at in 0..N {
                second[at] *= step.beta2;
                // The change is a zero with the sign of the first moment.
                parameters[at] = parameters[at].mul_add(step.decay, 0f32.copysign(-first[at]));
            }
        }
        (*p, *m, *v) = (parameters, first, second);
    }

    /// Returns whether no step would change the first moments, or the parameters other than by weight decay: the first moments
    /// are zero because the input has not occurred yet, or have become so small that rounding keeps them as they are.
    #[inline(always)]
    fn are_decay_alone<const N: usize>(&self, first: &[f32; N], second: &[f32; N]) -> bool {
        let Some(step) = self.steps.first() else { return true };
        let mut alone = step.eps > 0.0;
        for at in 0..N {
            alone &= first[at] * step.beta1 == first[at]
                && self.largest_rate * first[at] == 0.0
                && second[at] >= 0.0;
        }
        alone
    }
}

multiversion! {
    /// Takes a step of plain gradient descent with decoupled weight decay.
    pub fn descend(decay: f32, rate: f32, parameters: &mut [f32], gradient: &[f32]) {
        for (p, &g) in parameters.iter_mut().zip(gradient) {
            *p = p.mul_add(decay, -(rate * g));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_ml::config::preset::Preset;

    /// Takes one step with a gradient of zero.
    fn idle_step(step: AdamwStep, p: &mut f32, m: &mut f32, v: &mut f32) {
        *m *= step.beta1;
        *v *= step.beta2;
        *p = p.mul_add(step.decay, -(step.rate * *m / v.sqrt().mul_add(step.correction, step.eps)));
    }

    #[test]
    fn idle_steps_of_moments_at_rest_have_the_bits_of_all_operations() {
        let config = OptimiserConfig { weight_decay: 0.1, ..Preset::Paper.method().optimiser };
        let steps: Vec<_> =
            (1..=2000).map(|t| AdamwStep::new(&config, 0.01 / (1.0 + 1e-3 * t as f64), t, 1.0)).collect();
        let largest_rate = steps.iter().map(AdamwStep::rate).fold(0.0, f32::max);
        let moments = [0.0, -0.0, 1e-3, -0.7, 1e-42, -3e-45, 1e-38];
        let parameters = [0.5f32, -0.1, 0.0, -0.0, 1e-44];
        let mut all: Vec<(f32, f32, f32)> = Vec::new();
        for p in parameters {
            all.extend(moments.iter().map(|&m| (p, m, m * m)));
            all.extend(moments.iter().map(|&m| (p, m, 1e-4)));
        }
        for start in all {
            let (mut p, mut m, mut v) = ([start.0; 33], [start.1; 33], [start.2; 33]);
            idle_steps(&steps, largest_rate, &mut p, &mut m, &mut v);
            let (mut one, mut first, mut second) = start;
            for &step in &steps {
                idle_step(step, &mut one, &mut first, &mut second);
            }
            let expected = [one, first, second].map(f32::to_bits);
            for at in 0..33 {
                assert_eq!([p[at], m[at], v[at]].map(f32::to_bits), expected, "{start:?} at {at}");
            }
        }
    }
}
