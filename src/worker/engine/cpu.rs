//! Training and scoring on the CPU, with hand-written layers, the fused loss pass and a hand-written optimiser.
//!
//! This engine takes a training step several times faster than PyTorch, compiled or not (docs/speed.md), and it gives the same
//! bits for any number of threads. That is why it exists in addition to [`super::torch`], which is its reference.

use std::borrow::Cow;

use super::predicted_signal::predicted_signal;
use super::{Batch, BatchScores, Engine, EngineState, ScoreParts};
use crate::loss::fused::{LossPass, stride};
use crate::loss::terms::{LossTerms, LossValue, ThresholdParameters, ThresholdTerms};
use crate::net::input::BatchInputs;
use crate::net::network::{BatchLoss, Gradients, Workspace};
use crate::net::weights::Weights;
use crate::optim::optimiser::CpuOptimiser;
use pipe_ml::config::method::Method;
use pipe_ml::signal::batch::BatchSignals;
use pipe_ml::signal::idf::Idf;
use pipe_ml::signal::sparse_rows::SparseRows;
use pipe_ml::signal::supply::{LocalSignalBatch, SignalBatch};

/// The engine of the CPU. It runs in the thread pool of its caller, which must come from [`super::pool::pool`].
pub struct CpuEngine {
    method: Method,
    loss: LossTerms<f32>,
    thresholds: ThresholdTerms<f32>,
    state: EngineState,
    optimiser: CpuOptimiser,
    workspace: Workspace,
    gradients: Gradients,
    loss_sum: LossValue,
}

impl CpuEngine {
    /// Returns an engine that continues from `state`.
    pub fn new(method: &Method, idf: &Idf, state: EngineState) -> Self {
        Self {
            loss: LossTerms::new(&method.loss, &idf.positive_weights(method.loss.pos_weight)),
            thresholds: ThresholdTerms::new(method.variant, &method.threshold, &idf.values),
            optimiser: CpuOptimiser::new(method.optimiser.clone()),
            workspace: Workspace::default(),
            gradients: Gradients::new(&state.weights),
            loss_sum: LossValue::default(),
            method: method.clone(),
            state,
        }
    }

    /// Computes the logits of a batch in the workspace and returns its signals, which are computed at the same time if
    /// they do not depend on the logits.
    fn forward(&mut self, inputs: &BatchInputs, batch: &Batch, step: Option<u64>) -> BatchSignals {
        let (labels, eps) = (self.state.weights.labels(), self.method.signal.eps);
        let dropout = step.map(|step| (self.method.seed, step));
        let signals_with = |local: &SparseRows| {
            BatchSignals::with_signals(labels, &batch.targets, local, &batch.signals, eps)
        };
        let (net, weights, workspace) = (&self.method.net, &self.state.weights, &mut self.workspace);
        let mut forward = || workspace.forward(net, weights, inputs, dropout);
        match &batch.signals.local {
            LocalSignalBatch::Rows(local) => rayon::join(forward, || signals_with(local)).1,
            LocalSignalBatch::Predicted => {
                forward();
                signals_with(&self.predicted_local(inputs.rows(), &batch.signals))
            }
            LocalSignalBatch::Prototypes => {
                forward();
                signals_with(&workspace.prototype_signal(weights, inputs.rows()))
            }
        }
    }

    /// Computes the local signal `predicted` from the logits in the workspace, and from the other signals.
    fn predicted_local(&self, rows: usize, others: &SignalBatch) -> SparseRows {
        let (labels, eps, none) =
            (self.state.weights.labels(), self.method.signal.eps, SparseRows::empty(rows));
        let signals = BatchSignals::with_signals(labels, &SparseRows::default(), &none, others, eps);
        let mut scores = BatchScores::default();
        adjusted_scores(&self.pass(&signals, rows), &self.workspace, rows, &mut scores);
        predicted_signal(&scores, &self.method.signal)
    }

    /// Returns the loss pass over a batch with these signals.
    fn pass<'a>(&'a self, signals: &'a BatchSignals, rows: usize) -> LossPass<'a, f32> {
        LossPass::new(&self.loss, &self.thresholds, parameters(&self.state.weights), signals, rows)
    }
}

/// Returns a view of the parameters of eq. 1.
fn parameters(weights: &Weights) -> ThresholdParameters<'_, f32> {
    ThresholdParameters {
        alpha: &weights.alpha,
        beta: &weights.beta,
        bias: &weights.bias,
        lambda: &weights.lambda,
    }
}

/// Writes the standardised logits less their thresholds into `scores`.
fn adjusted_scores(pass: &LossPass<f32>, workspace: &Workspace, rows: usize, scores: &mut BatchScores) {
    scores.rows = rows;
    scores.stride = stride(rows);
    scores.values.resize(workspace.logits().len());
    pass.adjusted(workspace.logits(), &mut scores.values);
}

impl Engine for CpuEngine {
    fn labels(&self) -> usize {
        self.state.weights.labels()
    }

    fn step(&mut self, batch: &Batch, lr: f64, step: u64) -> Result<(), tch::TchError> {
        let inputs = batch.inputs.gathered()?;
        let rows = inputs.rows();
        let groups = inputs.groups();
        self.optimiser.catch_up(&mut self.state, groups);
        let signals = self.forward(inputs, batch, Some(step));
        let EngineState { weights, moments, steps } = &mut self.state;
        let early = self.optimiser.early_step(lr, *steps, moments.as_deref_mut());
        let batch = BatchLoss { terms: &self.loss, thresholds: &self.thresholds, signals: &signals, rows };
        let net = &self.method.net;
        let loss = self.workspace.backward(net, weights, groups, batch, &mut self.gradients, early);
        self.loss_sum = self.loss_sum.plus(rows as f64, loss);
        let learn = self.method.variant.learns();
        self.optimiser.step(lr, &mut self.state, &self.gradients, groups, learn);
        Ok(())
    }

    fn loss_sum(&self) -> Result<LossValue, tch::TchError> {
        Ok(self.loss_sum)
    }

    fn set_loss_sum(&mut self, sum: LossValue) -> Result<(), tch::TchError> {
        self.loss_sum = sum;
        Ok(())
    }

    fn is_in_host_memory(&self) -> bool {
        true
    }

    fn scores(&mut self, batch: &Batch, scores: &mut BatchScores) -> Result<(), tch::TchError> {
        self.settle();
        let inputs = batch.inputs.gathered()?;
        let rows = inputs.rows();
        let signals = self.forward(inputs, batch, None);
        adjusted_scores(&self.pass(&signals, rows), &self.workspace, rows, scores);
        Ok(())
    }

    fn score_parts(&mut self, batch: &Batch, parts: &mut ScoreParts) -> Result<(), tch::TchError> {
        self.settle();
        let inputs = batch.inputs.gathered()?;
        let rows = inputs.rows();
        let signals = self.forward(inputs, batch, None);
        parts.resize(self.labels(), rows, stride(rows));
        if parts.with_logits {
            parts.logits.copy_from_slice(self.workspace.logits());
        }
        let pass = self.pass(&signals, rows);
        pass.parts(self.workspace.logits(), &mut parts.standardised, &mut parts.thresholds);
        Ok(())
    }

    fn settle(&mut self) {
        self.optimiser.settle(&mut self.state);
    }

    fn state(&self) -> Result<Cow<'_, EngineState>, tch::TchError> {
        if self.optimiser.is_settled() {
            return Ok(Cow::Borrowed(&self.state));
        }
        let mut state = self.state.clone();
        self.optimiser.clone().settle(&mut state);
        Ok(Cow::Owned(state))
    }

    fn restore(&mut self, state: EngineState) -> Result<(), tch::TchError> {
        self.optimiser.restart();
        self.state = state;
        Ok(())
    }

    fn into_state(mut self: Box<Self>) -> Result<EngineState, tch::TchError> {
        self.settle();
        Ok(self.state)
    }
}
