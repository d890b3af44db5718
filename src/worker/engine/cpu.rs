//! Training and scoring on the CPU, with the fused pass between hand-written layers.

use std::borrow::Cow;

use super::predicted::predicted_signal;
use super::{Batch, Engine, Parts, Scores, State};
use crate::loss::fused::{Pass, stride};
use crate::loss::terms::{LossTerms, LossValue, ThresholdTerms, Thresholds};
use crate::net::input::{BatchInputs, InputGroups};
use crate::net::network::{Gradients, Workspace};
use crate::net::weights::Weights;
use crate::optim::optimiser::Optimiser;
use pipe_ml::config::method::Method;
use pipe_ml::signal::batch::BatchSignals;
use pipe_ml::signal::idf::Idf;
use pipe_ml::signal::sparse_rows::SparseRows;
use pipe_ml::signal::supply::Local;

/// Runs inside whatever pool calls it, which must be one of [`super::pool::pool`]'s.
pub struct CpuEngine {
    method: Method,
    loss: LossTerms<f32>,
    thresholds: ThresholdTerms<f32>,
    state: State,
    optimiser: Optimiser,
    workspace: Workspace,
    gradients: Gradients,
}

impl CpuEngine {
    pub fn new(method: &Method, idf: &Idf, state: State) -> Self {
        Self {
            loss: LossTerms::new(&method.loss, &idf.positive_weights(method.loss.pos_weight)),
            thresholds: ThresholdTerms::new(method.variant, &method.threshold, &idf.values),
            optimiser: Optimiser::new(method.optimiser.clone()),
            workspace: Workspace::default(),
            gradients: Gradients::new(&state.weights),
            method: method.clone(),
            state,
        }
    }

    /// Logits of a batch into the workspace; its signals, made meanwhile where they can be.
    fn forward(&mut self, inputs: &BatchInputs, batch: &Batch, step: Option<u64>) -> BatchSignals {
        let (labels, eps) = (self.state.weights.labels(), self.method.signal.eps);
        let draw = step.map(|step| (self.method.seed, step));
        let signals = |local: &SparseRows| BatchSignals::new(labels, &batch.targets, local, eps);
        let (net, weights, workspace) = (&self.method.net, &self.state.weights, &mut self.workspace);
        let mut forward = || workspace.forward(net, weights, inputs, draw);
        match &batch.local {
            Local::Rows(local) => rayon::join(forward, || signals(local)).1,
            Local::Predicted => {
                forward();
                signals(&self.predicted(inputs.rows()))
            }
        }
    }

    /// The local signal that follows from the logits in the workspace.
    fn predicted(&self, rows: usize) -> SparseRows {
        let (labels, none) = (self.state.weights.labels(), SparseRows::empty(rows));
        let bare = BatchSignals::new(labels, &SparseRows::default(), &none, self.method.signal.eps);
        let mut scores = Scores::default();
        adjusted(&self.pass(&bare, rows), &self.workspace, rows, &mut scores);
        predicted_signal(&scores, &self.method.signal)
    }

    fn pass<'a>(&'a self, signals: &'a BatchSignals, rows: usize) -> Pass<'a, f32> {
        Pass::new(&self.loss, &self.thresholds, parameters(&self.state.weights), signals, rows)
    }
}

fn parameters(weights: &Weights) -> Thresholds<'_, f32> {
    Thresholds { alpha: &weights.alpha, beta: &weights.beta, bias: &weights.bias, lambda: &weights.lambda }
}

fn adjusted(pass: &Pass<f32>, workspace: &Workspace, rows: usize, scores: &mut Scores) {
    scores.rows = rows;
    scores.stride = stride(rows);
    scores.values.resize(workspace.logits().len());
    pass.adjusted(workspace.logits(), &mut scores.values);
}

impl Engine for CpuEngine {
    fn labels(&self) -> usize {
        self.state.weights.labels()
    }

    fn step(&mut self, batch: &Batch, lr: f64, step: u64) -> Result<LossValue, tch::TchError> {
        let inputs = batch.inputs.gathered()?;
        let rows = inputs.rows();
        let (signals, groups) =
            rayon::join(|| self.forward(inputs, batch, Some(step)), || InputGroups::new(inputs));
        let weights = &self.state.weights;
        let pass = Pass::new(&self.loss, &self.thresholds, parameters(weights), &signals, rows);
        let net = &self.method.net;
        let value = self.workspace.backward(net, weights, &groups, rows, &pass, &mut self.gradients);
        drop(pass);
        let learn = self.method.variant.learns();
        self.optimiser.step(lr, &mut self.state, &self.gradients, &groups, learn);
        Ok(value)
    }

    fn scores(&mut self, batch: &Batch, scores: &mut Scores) -> Result<(), tch::TchError> {
        let inputs = batch.inputs.gathered()?;
        let rows = inputs.rows();
        let signals = self.forward(inputs, batch, None);
        adjusted(&self.pass(&signals, rows), &self.workspace, rows, scores);
        Ok(())
    }

    fn parts(&mut self, batch: &Batch, parts: &mut Parts) -> Result<(), tch::TchError> {
        let inputs = batch.inputs.gathered()?;
        let rows = inputs.rows();
        let signals = self.forward(inputs, batch, None);
        parts.resize(self.labels(), rows, stride(rows));
        parts.logits.copy_from_slice(self.workspace.logits());
        let pass = self.pass(&signals, rows);
        pass.parts(self.workspace.logits(), &mut parts.standardised, &mut parts.thresholds);
        Ok(())
    }

    fn state(&self) -> Result<Cow<'_, State>, tch::TchError> {
        Ok(Cow::Borrowed(&self.state))
    }

    fn restore(&mut self, state: State) -> Result<(), tch::TchError> {
        self.state = state;
        Ok(())
    }

    fn into_state(self: Box<Self>) -> Result<State, tch::TchError> {
        Ok(self.state)
    }
}
