//! All learnable parameters of a model, by name. Gradients and moments have the same form.

use super::buffer::Buffer;
use pipe_ml::config::method::Method;
use pipe_ml::config::number_or_word::{BiasInit, Init};
use pipe_ml::data::random::Streams;

/// A layer with dense inputs: `outputs` x `inputs` weights, row-major.
#[derive(Clone)]
pub struct DenseLayer {
    pub outputs: usize,
    pub inputs: usize,
    pub weight: Buffer,
    pub bias: Buffer,
}

/// The mean of the initial log-odds of labels at prototypes: most labels are rare.
const RARE: f64 = -4.0;

/// All learnable parameters of a model: the network, the prototypes, and alpha, beta, bias and lambda of eq. 1.
#[derive(Clone)]
pub struct Weights {
    pub inputs: usize,
    /// The number of outputs of the input layer: the first hidden layer, or the labels of a linear model.
    pub width: usize,
    /// The input layer, one row of `width` weights for each input.
    pub table: Buffer,
    pub input_bias: Buffer,
    pub layers: Vec<DenseLayer>,
    /// The prototypes of the local signal, as rows of the width of the last hidden layer; empty if there are none.
    pub centres: Buffer,
    /// The log-odds of each label at each prototype, one row per label.
    pub shares: Buffer,
    pub alpha: Buffer,
    pub beta: Buffer,
    /// The bias of the thresholds.
    pub bias: Buffer,
    /// One value, or one per label.
    pub lambda: Buffer,
}

impl Weights {
    /// Returns parameters that are all zero. `widths` lists the width of each layer from the inputs to the labels.
    pub fn zeros(widths: &[usize], lambdas: usize, prototypes: usize) -> Self {
        let (labels, last_hidden) = (widths[widths.len() - 1], widths[widths.len() - 2]);
        let layer = |pair: &[usize]| DenseLayer {
            outputs: pair[1],
            inputs: pair[0],
            weight: Buffer::zeros(pair[0] * pair[1]),
            bias: Buffer::zeros(pair[1]),
        };
        Self {
            inputs: widths[0],
            width: widths[1],
            table: Buffer::zeros(widths[0] * widths[1]),
            input_bias: Buffer::zeros(widths[1]),
            layers: widths[1..].windows(2).map(layer).collect(),
            centres: Buffer::zeros(prototypes * last_hidden),
            shares: Buffer::zeros(prototypes * labels),
            alpha: Buffer::zeros(labels),
            beta: Buffer::zeros(labels),
            bias: Buffer::zeros(labels),
            lambda: Buffer::zeros(lambdas),
        }
    }

    /// Draws the initial parameters. Weights and biases are uniform within 1 / sqrt(inputs), as in PyTorch's `Linear`.
    /// Each part draws from its own random stream, so that variants of a method start with the same weights.
    pub fn initial(method: &Method, features: usize, labels: usize) -> Self {
        let widths = method.net.widths(features, labels);
        let config = &method.threshold;
        let mut weights = Self::zeros(&widths, config.lambdas(labels), method.prototypes());
        let draw_uniform = |buffer: &mut Buffer, inputs: usize, part: u64| {
            let bound = 1.0 / (inputs.max(1) as f64).sqrt();
            let mut random = Streams::new("weights", method.seed).get(part);
            for value in buffer.iter_mut() {
                *value = ((2.0 * random.unit() - 1.0) * bound) as f32;
            }
        };
        draw_uniform(&mut weights.table, widths[0], 0);
        draw_uniform(&mut weights.input_bias, widths[0], 1);
        for (number, layer) in weights.layers.iter_mut().enumerate() {
            let part = 2 + 2 * number as u64;
            draw_uniform(&mut layer.weight, layer.inputs, part);
            draw_uniform(&mut layer.bias, layer.inputs, part + 1);
        }
        if let BiasInit::Constant(value) = method.net.output_bias {
            weights.output_bias_mut().fill(value as f32);
        }
        let random = |part: u64| Streams::new("prototypes", method.seed).get(part);
        let bound = 1.0 / (weights.last_hidden().max(1) as f64).sqrt();
        let mut draws = random(0);
        for value in weights.centres.iter_mut() {
            *value = ((2.0 * draws.unit() - 1.0) * bound) as f32;
        }
        let mut draws = random(1);
        for value in weights.shares.iter_mut() {
            *value = (RARE + draws.normal()) as f32;
        }
        let initialise = |buffer: &mut Buffer, init: Init, part: u64| match init {
            Init::Constant(value) => buffer.fill(value as f32),
            Init::Normal => {
                let mut random = Streams::new("thresholds", method.seed).get(part);
                for value in buffer.iter_mut() {
                    *value = random.normal() as f32;
                }
            }
        };
        initialise(&mut weights.alpha, config.alpha_init, 0);
        initialise(&mut weights.beta, config.beta_init, 1);
        initialise(&mut weights.bias, config.bias_init, 2);
        let lambda = config.lambda_init;
        let raw = if config.lambda_sigmoid { (lambda / (1.0 - lambda)).ln() } else { lambda };
        weights.lambda.fill(raw as f32);
        weights
    }

    /// Returns the width of each layer, from the inputs to the labels.
    pub fn widths(&self) -> Vec<usize> {
        let mut widths = vec![self.inputs, self.width];
        widths.extend(self.layers.iter().map(|layer| layer.outputs));
        widths
    }

    /// Returns the number of labels.
    pub fn labels(&self) -> usize {
        self.alpha.len()
    }

    /// Returns the width of the last hidden layer, or the number of inputs without one.
    pub fn last_hidden(&self) -> usize {
        self.layers.last().map_or(self.inputs, |layer| layer.inputs)
    }

    /// Returns the number of prototypes.
    pub fn prototypes(&self) -> usize {
        self.shares.len() / self.labels().max(1)
    }

    /// Returns parameters of the same shape that are all zero, without the table of the input layer if `inputs` is zero.
    pub fn zeros_like(&self, inputs: usize) -> Self {
        let mut widths = self.widths();
        widths[0] = inputs;
        Self::zeros(&widths, self.lambda.len(), self.prototypes())
    }

    /// Returns the bias of the output layer.
    pub fn output_bias_mut(&mut self) -> &mut Buffer {
        self.layers.last_mut().map_or(&mut self.input_bias, |layer| &mut layer.bias)
    }

    /// Returns name, shape and values of every parameter, starting with the table of the input layer. The names are
    /// those in saved models.
    pub fn named(&self) -> Vec<(String, Vec<usize>, &Buffer)> {
        let mut all = vec![
            ("input.weight".to_owned(), vec![self.inputs, self.width], &self.table),
            ("input.bias".to_owned(), vec![self.width], &self.input_bias),
        ];
        for (number, layer) in self.layers.iter().enumerate() {
            let shape = vec![layer.outputs, layer.inputs];
            all.push((format!("layers.{number}.weight"), shape, &layer.weight));
            all.push((format!("layers.{number}.bias"), vec![layer.outputs], &layer.bias));
        }
        if !self.shares.is_empty() {
            let prototypes = self.prototypes();
            let shape = vec![prototypes, self.last_hidden()];
            all.push(("prototypes.centres".to_owned(), shape, &self.centres));
            all.push(("prototypes.shares".to_owned(), vec![self.labels(), prototypes], &self.shares));
        }
        for (name, buffer) in [
            ("threshold.alpha", &self.alpha),
            ("threshold.beta", &self.beta),
            ("threshold.bias", &self.bias),
            ("threshold.lambda", &self.lambda),
        ] {
            all.push((name.to_owned(), vec![buffer.len()], buffer));
        }
        all
    }

    /// Returns the buffers of [`Self::named`], in the same order.
    pub fn buffers_mut(&mut self) -> Vec<&mut Buffer> {
        let mut all = vec![&mut self.table, &mut self.input_bias];
        for layer in &mut self.layers {
            all.extend([&mut layer.weight, &mut layer.bias]);
        }
        if !self.shares.is_empty() {
            all.extend([&mut self.centres, &mut self.shares]);
        }
        all.extend([&mut self.alpha, &mut self.beta, &mut self.bias, &mut self.lambda]);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_ml::config::preset::Preset;
    use pipe_ml::config::signal::LocalSignal;
    use pipe_ml::config::threshold::Variant;

    #[test]
    fn the_number_of_parameters_agrees_with_the_configuration() {
        let mut learned = Preset::Honest.method();
        learned.signal.train = LocalSignal::Prototypes;
        learned.signal.prototypes = 5;
        for method in [Preset::Paper.method(), Preset::Honest.method(), learned] {
            let count: usize = Weights::initial(&method, 300, 20).named().iter().map(|p| p.2.len()).sum();
            assert_eq!(count, method.parameters(300, 20));
        }
    }

    #[test]
    fn variants_of_a_method_start_with_the_same_weights_and_seeds_do_not() {
        let paper = Preset::Paper.method();
        let start = |method: &Method| Weights::initial(method, 50, 7).table.to_vec();
        let fixed = Method { variant: Variant::Static, ..paper.clone() };
        assert_eq!(start(&paper), start(&fixed));
        assert_ne!(start(&paper), start(&Method { seed: 1, ..paper.clone() }));
    }

    #[test]
    fn a_lambda_behind_a_sigmoid_starts_at_its_configured_value() {
        let mut method = Preset::Honest.method();
        method.threshold.lambda_init = 0.2;
        let raw = Weights::initial(&method, 5, 3).lambda[0];
        assert!((1.0 / (1.0 + (-raw).exp()) - 0.2).abs() < 1e-6);
    }
}
