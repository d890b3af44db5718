//! Activation and dropout of hidden layers: forward and backward pass.

use tch::Tensor;

use pipe_ml::config::net::Activation;
use pipe_ml::data::random::Streams;

/// The values of a hidden layer that its backward pass needs.
#[derive(Default)]
pub struct HiddenLayer {
    /// The values before the activation.
    pub before: super::buffer::Buffer,
    /// The values after activation and dropout.
    pub after: super::buffer::Buffer,
    /// 0 or 1 / (1 - dropout) per value; empty without dropout.
    mask: Vec<f32>,
}

/// Identifies the random draws of one dropout mask.
#[derive(Clone, Copy)]
pub struct DropoutDraw {
    /// The fraction of values that is dropped.
    pub share: f64,
    pub seed: u64,
    pub step: u64,
    pub layer: usize,
}

impl HiddenLayer {
    /// Changes the number of values.
    pub fn resize(&mut self, len: usize) {
        self.before.resize(len);
        self.after.resize(len);
    }

    /// Computes `after` from `before`. NaN stays NaN, so that a diverged run is noticed.
    pub fn forward(&mut self, activation: Activation, dropout: Option<DropoutDraw>) {
        match activation {
            Activation::Relu => {
                for (out, &x) in self.after.iter_mut().zip(self.before.iter()) {
                    // NaN stays NaN.
                    *out = if x < 0.0 { 0.0 } else { x };
                }
            }
            Activation::Gelu => {
                let len = self.before.len();
                Tensor::from_slice(&self.before).gelu("none").copy_data(&mut self.after, len);
            }
        }
        self.mask.clear();
        if let Some(draw) = dropout {
            self.mask.extend(dropout_mask(draw, self.after.len()));
            for (out, mask) in self.after.iter_mut().zip(&self.mask) {
                *out *= mask;
            }
        }
    }

    /// Replaces the gradient by `after` with the gradient by `before`, in place.
    pub fn backward(&self, activation: Activation, g: &mut [f32]) {
        for (g, mask) in g.iter_mut().zip(&self.mask) {
            *g *= mask;
        }
        match activation {
            Activation::Relu => {
                for (g, &x) in g.iter_mut().zip(self.before.iter()) {
                    *g = if x > 0.0 { *g } else { 0.0 };
                }
            }
            Activation::Gelu => {
                let gradient = Tensor::from_slice(g);
                let len = g.len();
                Tensor::from_slice(&self.before).gelu_backward(&gradient, "none").copy_data(g, len);
            }
        }
    }
}

/// Returns the mask of one layer in one step. It depends on the draw alone, so that both engines drop the same values.
pub fn dropout_mask(draw: DropoutDraw, len: usize) -> impl Iterator<Item = f32> {
    let mut random = Streams::new("dropout", draw.seed).get(draw.step << 8 | draw.layer as u64);
    let kept = (1.0 / (1.0 - draw.share)) as f32;
    (0..len).map(move |_| if random.unit() < draw.share { 0.0 } else { kept })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropout_drops_the_configured_share_and_preserves_the_mean() {
        let draw = DropoutDraw { share: 0.3, seed: 1, step: 5, layer: 0 };
        let mask: Vec<f32> = dropout_mask(draw, 100_000).collect();
        let dropped = mask.iter().filter(|value| **value == 0.0).count();
        assert!((29_000..31_000).contains(&dropped), "{dropped}");
        let mean = mask.iter().sum::<f32>() / 100_000.0;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
        assert_ne!(mask, dropout_mask(DropoutDraw { step: 6, ..draw }, 100_000).collect::<Vec<_>>());
    }

    #[test]
    fn the_backward_pass_is_the_slope_of_the_forward_pass() {
        tch::set_num_threads(1);
        for activation in [Activation::Relu, Activation::Gelu] {
            for x in [-1.5f32, -0.3, 0.4, 2.0] {
                let value = |x: f32| {
                    let mut hidden = HiddenLayer::default();
                    hidden.resize(1);
                    hidden.before[0] = x;
                    hidden.forward(activation, None);
                    let mut g = [1.0];
                    hidden.backward(activation, &mut g);
                    (hidden.after[0], g[0])
                };
                let slope = (value(x + 1e-2).0 - value(x - 1e-2).0) / 2e-2;
                assert!((value(x).1 - slope).abs() < 1e-3, "{activation:?} at {x}");
            }
        }
    }
}
