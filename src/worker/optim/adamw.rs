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
    /// Takes several steps with a gradient of zero. A few parameters take all of them before the next ones are read.
    pub fn idle_steps(steps: &[AdamwStep], parameters: &mut [f32], first: &mut [f32], second: &mut [f32]) {
        const AT_ONCE: usize = 32;
        let (p, p_rest) = parameters.as_chunks_mut::<AT_ONCE>();
        let (m, m_rest) = first.as_chunks_mut::<AT_ONCE>();
        let (v, v_rest) = second.as_chunks_mut::<AT_ONCE>();
        for ((p, m), v) in p.iter_mut().zip(m).zip(v) {
            idle_steps_of(steps, p, m, v);
        }
        for ((p, m), v) in p_rest.iter_mut().zip(m_rest).zip(v_rest) {
            idle_steps_of(steps, std::array::from_mut(p), std::array::from_mut(m), std::array::from_mut(v));
        }
    }
}

/// Takes several steps with a gradient of zero.
#[inline(always)]
fn idle_steps_of<const N: usize>(steps: &[AdamwStep], p: &mut [f32; N], m: &mut [f32; N], v: &mut [f32; N]) {
    let (mut parameters, mut first, mut second) = (*p, *m, *v);
    for step in steps {
        for at in 0..N {
            first[at] *= step.beta1;
            second[at] *= step.beta2;
            let change = step.rate * first[at] / second[at].sqrt().mul_add(step.correction, step.eps);
            parameters[at] = parameters[at].mul_add(step.decay, -change);
        }
    }
    (*p, *m, *v) = (parameters, first, second);
}

multiversion! {
    /// Takes a step of plain gradient descent with decoupled weight decay.
    pub fn descend(decay: f32, rate: f32, parameters: &mut [f32], gradient: &[f32]) {
        for (p, &g) in parameters.iter_mut().zip(gradient) {
            *p = p.mul_add(decay, -(rate * g));
        }
    }
}
