//! Training and scoring by libtorch expressions and autograd, on any device.
//!
//! This engine runs on CUDA, and it is the reference for the CPU engine, which is faster on the CPU. The features of
//! the training rows are kept on the device if they fit. Then only row numbers and labels go to the device for a
//! batch, and nothing comes back until the trainer asks for the sum of the losses. See [`super::transfer`].

use std::borrow::Cow;

use tch::{Device, Kind, TchError, Tensor};

use super::device_rows::DeviceRows;
use super::feature_bags::FeatureBags;
use super::transfer::{Reads, upload};
use super::{Batch, BatchFeatures, BatchScores, Engine, EngineState, ScoreParts};
use crate::loss::fused::stride;
use crate::loss::reference::{self, SignalTensors, ThresholdTensors};
use crate::loss::terms::LossValue;
use crate::net::activation::{DropoutDraw, dropout_mask};
use crate::net::buffer::Buffer;
use crate::net::features::FeatureMap;
use crate::net::weights::Weights;
use pipe_ml::config::device::Precision;
use pipe_ml::config::method::Method;
use pipe_ml::config::net::Activation;
use pipe_ml::config::optimiser::OptimiserKind;
use pipe_ml::data::csr::Csr;
use pipe_ml::signal::idf::Idf;
use pipe_ml::signal::sparse_rows::SparseRows;
use pipe_ml::signal::supply::LocalSignalBatch;

/// The number of threshold parameters, which are the last ones of [`Weights::named`].
const THRESHOLDS: usize = 4;
/// The mode of `embedding_bag` that sums.
const SUM: i64 = 0;

/// The engine that computes with libtorch.
pub struct TorchEngine {
    method: Method,
    device: Device,
    kind: Kind,
    widths: Vec<usize>,
    /// The parameters, in the order of [`Weights::named`].
    parameters: Vec<Tensor>,
    /// First and second moments of each parameter; `None` for SGD.
    moments: Option<Vec<(Tensor, Tensor)>>,
    steps: u64,
    idf: Tensor,
    positive_weights: Tensor,
    held: Option<DeviceRows>,
    /// The sums of cross-entropy, margin loss and total loss.
    loss_sum: Tensor,
    reads: Reads,
}

impl TorchEngine {
    /// Returns an engine that continues from `state` on a device.
    pub fn new(method: &Method, idf: &Idf, state: EngineState, device: Device) -> Result<Self, TchError> {
        Self::of_kind(method, idf, state, device, Kind::Float)
    }

    /// Returns an engine that computes in numbers of `kind`. Tests use f64.
    pub(crate) fn of_kind(
        method: &Method,
        idf: &Idf,
        state: EngineState,
        device: Device,
        kind: Kind,
    ) -> Result<Self, TchError> {
        let mut engine = Self {
            method: method.clone(),
            device,
            kind,
            widths: state.weights.widths(),
            parameters: Vec::new(),
            moments: None,
            steps: 0,
            idf: upload(&idf.values, kind, device)?,
            positive_weights: upload(&idf.positive_weights(method.loss.pos_weight), kind, device)?,
            held: None,
            loss_sum: upload(&[0.0; 3], Kind::Double, device)?,
            reads: Reads::default(),
        };
        engine.restore(state)?;
        Ok(engine)
    }

    /// Returns how often the host has read results of the device.
    #[cfg(test)]
    pub(crate) fn host_reads(&self) -> u64 {
        self.reads.count()
    }

    /// Copies parameters to the device.
    fn tensors_of(&self, weights: &Weights) -> Result<Vec<Tensor>, TchError> {
        let to_tensor = |(_, shape, values): (String, Vec<usize>, &Buffer)| {
            let shape: Vec<i64> = shape.into_iter().map(|side| side as i64).collect();
            upload(values, self.kind, self.device)?.f_reshape(shape)
        };
        weights.named().into_iter().map(to_tensor).collect()
    }

    /// Copies parameters from the device.
    fn download<'a>(&self, tensors: impl Iterator<Item = &'a Tensor>) -> Result<Weights, TchError> {
        let lambdas = self.parameters[self.parameters.len() - 1].numel();
        let mut weights = Weights::zeros(&self.widths, lambdas, self.method.prototypes());
        for (buffer, tensor) in weights.buffers_mut().into_iter().zip(tensors) {
            self.reads.read(tensor, buffer)?;
        }
        Ok(weights)
    }

    /// Returns the parameters of eq. 1.
    fn thresholds(&self) -> ThresholdTensors {
        let at = |number: usize| self.parameters[self.parameters.len() - THRESHOLDS + number].shallow_clone();
        ThresholdTensors { alpha: at(0), beta: at(1), bias: at(2), lambda: at(3) }
    }

    /// Returns the features of a batch on the device.
    fn bags(&self, batch: &Batch) -> Result<FeatureBags, TchError> {
        match (&batch.inputs, &self.held) {
            (BatchFeatures::Held(rows), Some(held)) => held.gather(rows),
            (BatchFeatures::Held(_), None) => {
                Err(TchError::Torch("the training rows are not on the device".into()))
            }
            (BatchFeatures::Gathered(inputs), _) => FeatureBags::upload(inputs, self.kind, self.device),
        }
    }

    /// Returns a sparse matrix as a dense tensor of `count` rows; missing rows are zero.
    fn dense(&self, rows: &SparseRows, count: usize) -> Result<Tensor, TchError> {
        let labels = self.labels();
        let flat = rows.iter().enumerate().flat_map(|(row, entries)| {
            entries.iter().map(move |&(label, _)| (row * labels) as i64 + i64::from(label))
        });
        let positions = upload(&flat.collect::<Vec<_>>(), Kind::Int64, self.device)?;
        let values: Vec<f64> = rows.iter().flatten().map(|entry| entry.1).collect();
        let values = upload(&values, self.kind, self.device)?;
        let mut dense = Tensor::f_zeros([(count * labels) as i64], (self.kind, self.device))?;
        let _ = dense.f_index_put_(&[Some(positions)], &values, false)?;
        dense.f_reshape([count as i64, labels as i64])
    }

    /// Computes x · weight' + bias in the precision of the method.
    fn product(&self, x: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor, TchError> {
        match self.method.precision {
            Precision::Bf16 => {
                let weight = weight.f_to_kind(Kind::BFloat16)?.f_tr()?;
                x.f_to_kind(Kind::BFloat16)?.f_matmul(&weight)?.f_to_kind(self.kind)?.f_add(bias)
            }
            Precision::F32 | Precision::Tf32 => bias.f_addmm(x, &weight.f_tr()?),
        }
    }

    /// Returns the sums of the table rows of each batch row. The result is a leaf of the autograd graph;
    /// [`Self::table_gradient`] takes its gradient on to the table.
    fn bag_sums(&self, bags: &FeatureBags) -> Result<Tensor, TchError> {
        let _guard = tch::no_grad_guard();
        let (table, values) = (&self.parameters[0], Some(&bags.values));
        let found =
            Tensor::f_embedding_bag(table, &bags.inputs, &bags.starts, false, SUM, false, values, false)?;
        Ok(found.0)
    }

    /// Returns the outputs of the last hidden layer and the logits, rows x labels.
    fn logits(&self, sums: &Tensor, rows: usize, step: Option<u64>) -> Result<(Tensor, Tensor), TchError> {
        let mut x = sums.f_add(&self.parameters[1])?;
        let mut hidden = x.shallow_clone();
        for (layer, &width) in self.method.net.hidden.iter().enumerate() {
            x = match self.method.net.activation {
                Activation::Relu => x.f_relu()?,
                Activation::Gelu => x.f_gelu("none")?,
            };
            if let (Some(step), true) = (step, self.method.net.dropout > 0.0) {
                let (share, seed) = (self.method.net.dropout, self.method.seed);
                let stride = stride(rows);
                let draw = DropoutDraw { share, seed, step, layer };
                let mask: Vec<f32> = dropout_mask(draw, width * stride).collect();
                let mask = upload(&mask, self.kind, self.device)?.f_reshape([width as i64, stride as i64])?;
                x = x.f_mul(&mask.f_narrow(1, 0, rows as i64)?.f_tr()?)?;
            }
            let (weight, bias) = (&self.parameters[2 + 2 * layer], &self.parameters[3 + 2 * layer]);
            hidden = x;
            x = self.product(&hidden, weight, bias)?;
        }
        Ok((hidden, x))
    }

    /// Returns the local signal of the prototypes.
    fn prototype_signal(&self, hidden: &Tensor) -> Result<Tensor, TchError> {
        let at = |number: usize| &self.parameters[self.parameters.len() - THRESHOLDS - number];
        let (centres, shares) = (at(2), at(1));
        let assignment = hidden.f_matmul(&centres.f_tr()?)?.f_softmax(1, self.kind)?;
        assignment.f_matmul(&shares.f_sigmoid()?.f_tr()?)
    }

    /// Returns the standardised logits (eq. 2) and the thresholds (eq. 1).
    fn thresholded(
        &self,
        batch: &Batch,
        (hidden, z): (&Tensor, &Tensor),
        y: &Tensor,
    ) -> Result<(Tensor, Tensor), TchError> {
        let config = &self.method.signal;
        let hat = reference::standardised(z, &self.method.loss)?;
        let mut signals = SignalTensors {
            idf: self.idf.shallow_clone(),
            own: Some(reference::own_label_share(y, config.eps)?),
            salience: None,
            local: None,
            density: None,
        };
        let given = &batch.signals;
        if !given.salience.is_empty() {
            signals.salience = Some(self.dense(&given.salience, batch.inputs.rows())?);
        }
        if !given.density.is_empty() {
            signals.density = Some(upload(&given.density, self.kind, self.device)?.f_unsqueeze(1)?);
        }
        let thresholds_with = |signals: &SignalTensors| {
            reference::thresholds(self.method.variant, &self.method.threshold, &self.thresholds(), signals)
        };
        signals.local = match &given.local {
            LocalSignalBatch::Rows(rows) => Some(self.dense(rows, batch.inputs.rows())?),
            LocalSignalBatch::Prototypes => Some(self.prototype_signal(hidden)?),
            LocalSignalBatch::Predicted => {
                let _guard = tch::no_grad_guard();
                let own = signals.own.replace(y.f_zeros_like()?);
                let likely = hat.f_sub(&thresholds_with(&signals)?)?.f_sigmoid()?;
                signals.own = own;
                let count = config.predicted_labels.min(self.labels()) as i64;
                let (top, labels) = likely.f_topk(count, 1, true, false)?;
                let kept = likely.f_zeros_like()?.f_scatter(1, &labels, &top)?;
                Some(reference::propagate(&kept, config.leave_self_out, config.eps)?)
            }
        };
        let theta = thresholds_with(&signals)?;
        Ok((hat, theta))
    }

    /// Returns logits, standardised logits and thresholds of a batch that is only scored.
    fn predicted_parts(&self, batch: &Batch) -> Result<(Tensor, Tensor, Tensor), TchError> {
        let rows = batch.inputs.rows();
        let bags = self.bags(batch)?;
        let y = self.dense(&batch.targets, rows)?;
        let (hidden, z) = self.logits(&self.bag_sums(&bags)?, rows, None)?;
        let (hat, theta) = self.thresholded(batch, (&hidden, &z), &y)?;
        Ok((z, hat, theta))
    }

    /// Returns the gradient by the table rows that occur, in the order of [`FeatureBags::distinct`]; it is zero for
    /// repeated ones.
    fn table_gradient(&self, bags: &FeatureBags, sums: &Tensor) -> Result<Tensor, TchError> {
        let by_entry = sums.f_grad()?.f_index_select(0, &bags.rows)?.f_mul(&bags.values.f_unsqueeze(1)?)?;
        let size = [bags.distinct.size1()?, self.widths[1] as i64];
        let mut gradient = Tensor::f_zeros(size, (self.kind, self.device))?;
        let _ = gradient.f_index_add_(0, &bags.positions, &by_entry)?;
        Ok(gradient)
    }

    /// Clips the gradients and updates all parameters that learn.
    fn optimise(&mut self, lr: f64, bags: &FeatureBags, table: Tensor) -> Result<(), TchError> {
        self.steps += 1;
        let learning = self.parameters.len() - if self.method.variant.learns() { 0 } else { THRESHOLDS };
        let mut gradients = vec![table];
        for parameter in &self.parameters[1..learning] {
            let gradient = parameter.f_grad()?;
            gradients.push(if gradient.defined() { gradient } else { parameter.f_zeros_like()? });
        }
        if let Some(limit) = self.method.optimiser.clip.value() {
            let mut total = Tensor::f_zeros([1], (self.kind, self.device))?;
            for gradient in &gradients {
                total = total.f_add(&gradient.f_square()?.f_sum(self.kind)?)?;
            }
            let scale = (total.f_sqrt()? + 1e-6).f_reciprocal()?.f_mul_scalar(limit)?.f_clamp_max(1.0)?;
            for gradient in &mut gradients {
                *gradient = gradient.f_mul(&scale)?;
            }
        }
        let lazy = self.method.optimiser.kind == OptimiserKind::LazyAdamw;
        for (number, gradient) in gradients.into_iter().enumerate() {
            match (number, lazy) {
                (0, true) => self.update_rows(lr, bags, &gradient)?,
                (0, false) => {
                    let mut whole = self.parameters[0].f_zeros_like()?;
                    let _ =
                        whole.f_index_copy_(0, &bags.distinct, &gradient.f_index_select(0, &bags.first)?)?;
                    self.update(0, lr, &whole)?;
                }
                _ => self.update(number, lr, &gradient)?,
            }
        }
        Ok(())
    }

    /// Updates one parameter.
    fn update(&mut self, number: usize, lr: f64, gradient: &Tensor) -> Result<(), TchError> {
        let moments = self.moments.as_mut().map(|moments| &mut moments[number]);
        let config = &self.method.optimiser;
        descend(config, lr, self.steps, &mut self.parameters[number], gradient, moments)
    }

    /// Updates only the table rows that occur.
    fn update_rows(&mut self, lr: f64, bags: &FeatureBags, gradient: &Tensor) -> Result<(), TchError> {
        let Some(moments) = &mut self.moments else { return Ok(()) };
        let (table, (first, second)) = (&mut self.parameters[0], &mut moments[0]);
        let mut rows = table.f_index_select(0, &bags.distinct)?;
        let mut both = (first.f_index_select(0, &bags.distinct)?, second.f_index_select(0, &bags.distinct)?);
        let config = &self.method.optimiser;
        // A repeated row gets the same gradient, so that it does not matter which of its copies is written last.
        let gradient = gradient.f_index_select(0, &bags.first)?;
        descend(config, lr, self.steps, &mut rows, &gradient, Some(&mut both))?;
        for (whole, part) in [(table, rows), (first, both.0), (second, both.1)] {
            let _ = whole.f_index_copy_(0, &bags.distinct, &part)?;
        }
        Ok(())
    }
}

/// Takes a step of AdamW as PyTorch computes it, or of plain gradient descent if there are no moments.
fn descend(
    config: &pipe_ml::config::optimiser::OptimiserConfig,
    lr: f64,
    step: u64,
    parameters: &mut Tensor,
    gradient: &Tensor,
    moments: Option<&mut (Tensor, Tensor)>,
) -> Result<(), TchError> {
    let _ = parameters.f_mul_scalar_(1.0 - lr * config.weight_decay)?;
    let change = match moments {
        None => gradient.f_mul_scalar(lr)?,
        Some((first, second)) => {
            let _ = first.f_lerp_(gradient, 1.0 - config.beta1)?;
            let squares = gradient.f_square()?.f_mul_scalar(1.0 - config.beta2)?;
            let _ = second.f_mul_scalar_(config.beta2)?.f_add_(&squares)?;
            let correction = (1.0 - config.beta2.powi(step as i32)).sqrt();
            let denominator = second.f_sqrt()?.f_div_scalar(correction)? + config.eps;
            first.f_div(&denominator)?.f_mul_scalar(lr / (1.0 - config.beta1.powi(step as i32)))?
        }
    };
    let _ = parameters.f_sub_(&change)?;
    Ok(())
}

impl Engine for TorchEngine {
    fn labels(&self) -> usize {
        self.widths[self.widths.len() - 1]
    }

    /// Returns `false` if the rows do not fit on the device; then each batch is copied there.
    fn hold(&mut self, map: &FeatureMap, features: &Csr) -> bool {
        self.held = DeviceRows::new(map, features, self.kind, self.device).ok();
        self.held.is_some()
    }

    fn step(&mut self, batch: &Batch, lr: f64, step: u64) -> Result<(), TchError> {
        for parameter in &mut self.parameters[1..] {
            *parameter = parameter.f_detach()?.f_set_requires_grad(true)?;
        }
        let rows = batch.inputs.rows();
        let bags = self.bags(batch)?;
        let y = self.dense(&batch.targets, rows)?;
        let sums = self.bag_sums(&bags)?.f_set_requires_grad(true)?;
        let (hidden, z) = self.logits(&sums, rows, Some(step))?;
        let (hat, theta) = self.thresholded(batch, (&hidden, &z), &y)?;
        let loss = reference::loss(&hat, &theta, &y, &self.positive_weights, &self.method.loss)?;
        loss.total.f_backward()?;
        let _guard = tch::no_grad_guard();
        let table = self.table_gradient(&bags, &sums)?;
        self.optimise(lr, &bags, table)?;
        let losses = Tensor::f_stack(&[loss.bce, loss.margin, loss.total], 0)?.f_to_kind(Kind::Double)?;
        let _ = self.loss_sum.f_add_(&losses.f_mul_scalar(rows as f64)?)?;
        Ok(())
    }

    fn loss_sum(&self) -> Result<LossValue, TchError> {
        let mut sums = [0f64; 3];
        self.reads.read(&self.loss_sum, &mut sums)?;
        let [bce, margin, total] = sums;
        Ok(LossValue { bce, margin, total })
    }

    fn set_loss_sum(&mut self, sum: LossValue) -> Result<(), TchError> {
        self.loss_sum = upload(&[sum.bce, sum.margin, sum.total], Kind::Double, self.device)?;
        Ok(())
    }

    fn is_in_host_memory(&self) -> bool {
        false
    }

    fn scores(&mut self, batch: &Batch, scores: &mut BatchScores) -> Result<(), TchError> {
        let _guard = tch::no_grad_guard();
        let rows = batch.inputs.rows();
        let (_, hat, theta) = self.predicted_parts(batch)?;
        scores.rows = rows;
        scores.stride = rows;
        scores.values.resize(rows * self.labels());
        self.reads.read(&hat.f_sub(&theta)?.f_tr()?, &mut scores.values)
    }

    fn score_parts(&mut self, batch: &Batch, parts: &mut ScoreParts) -> Result<(), TchError> {
        let _guard = tch::no_grad_guard();
        let (rows, labels) = (batch.inputs.rows(), self.labels());
        let (z, hat, theta) = self.predicted_parts(batch)?;
        let theta = theta.f_expand([rows as i64, labels as i64], false)?;
        parts.resize(labels, rows, rows);
        let ScoreParts { logits, standardised, thresholds, .. } = parts;
        let pairs = [(z, logits), (hat, standardised), (theta, thresholds)];
        for (tensor, buffer) in pairs.into_iter().filter(|pair| !pair.1.is_empty()) {
            self.reads.read(&tensor.f_tr()?, buffer)?;
        }
        Ok(())
    }

    fn state(&self) -> Result<Cow<'_, EngineState>, TchError> {
        let moments = match &self.moments {
            None => None,
            Some(moments) => {
                let first = self.download(moments.iter().map(|pair| &pair.0))?;
                let second = self.download(moments.iter().map(|pair| &pair.1))?;
                Some(Box::new((first, second)))
            }
        };
        let weights = self.download(self.parameters.iter())?;
        Ok(Cow::Owned(EngineState { weights, moments, steps: self.steps }))
    }

    fn restore(&mut self, state: EngineState) -> Result<(), TchError> {
        self.parameters = self.tensors_of(&state.weights)?;
        self.moments = match &state.moments {
            None => None,
            Some(moments) => {
                let (first, second) = (self.tensors_of(&moments.0)?, self.tensors_of(&moments.1)?);
                Some(first.into_iter().zip(second).collect())
            }
        };
        self.steps = state.steps;
        Ok(())
    }

    fn into_state(self: Box<Self>) -> Result<EngineState, TchError> {
        Ok(self.state()?.into_owned())
    }
}
