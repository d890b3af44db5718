//! A model that `train` made: a network, and thresholds by eq. 1.

use std::path::Path;

use anyhow::Result;
use pipe_ml::config::loss::LossConfig;
use pipe_ml::config::signal::LocalSignal;
use pipe_ml::config::threshold::{GlobalSignal, Squash, Variant};
use pipe_ml::data::csr::Csr;
use pipe_ml::data::examples::{Examples, Unlabelled};
use pipe_ml::explanation::{Explanation, LabelExplanation, Term, share};
use pipe_ml::metric::marked::Protocol;
use pipe_ml::signal::idf::Idf;
use pipe_ml::signal::neighbours::NeighbourIndex;
use pipe_ml::signal::sparse_rows::SparseRows;
use pipe_ml::signal::supply::{Local, LocalSupply};
use pipe_ml::softplus::softplus;
use rayon::prelude::*;

use super::telling::most_telling;
use super::{Asked, Block, LossFunction, Losses, Origin, Settings, System, Take, Thresholds};
use crate::engine::predicted::predicted_signal;
use crate::engine::{Batch, Inputs, Parts, Scores};
use crate::loss::real::Real;
use crate::loss::terms::STATIC_THRESHOLD;
use crate::model::Model;
use crate::model::predict::{PredictError, Predictor};
use crate::net::input::BatchInputs;

/// Rows that are turned from label-major to row-major together: what a cache line holds.
const TURNED: usize = 16;

pub struct Trained {
    predictor: Predictor,
    /// None where the variant has no use for it.
    signal: LocalSignal,
    neighbours: Option<(NeighbourIndex<'static>, Csr)>,
    positive_weights: Vec<f64>,
    idf: Idf,
    parts: Parts,
}

impl Trained {
    pub fn open(directory: &Path, settings: Settings) -> Result<Self> {
        let model = Model::load(directory)?;
        let own = model.method.local_in_prediction();
        let signal = settings.signal.filter(|_| model.method.variant.uses_local()).unwrap_or(own);
        let positive_weights = model.idf.positive_weights(model.method.loss.pos_weight);
        let idf = model.idf.clone();
        let predictor = Predictor::new(model, settings.device, settings.threads)?;
        let needed = settings.train.filter(|_| signal == LocalSignal::TrainNeighbours);
        let index = |part: crate::part::Part| {
            predictor.check(part.examples().unlabelled())?;
            Ok::<_, PredictError>((NeighbourIndex::owning(part.features, part.rows), part.labels))
        };
        let neighbours = needed.map(index).transpose()?;
        Ok(Self { predictor, signal, neighbours, positive_weights, idf, parts: Parts::default() })
    }

    /// The local signal of rows whose labels are not known.
    fn local(&self, rows: Unlabelled) -> Result<Local, PredictError> {
        let config = &self.predictor.method.signal;
        match (self.signal, &self.neighbours) {
            (LocalSignal::BatchLabels, _) => Err(PredictError::NeedsLabels),
            (LocalSignal::TrainNeighbours, None) => Err(PredictError::NeedsTrainingRows),
            (LocalSignal::TrainNeighbours, Some((index, labels))) => {
                let search = || index.of(rows.features, rows.rows, config.neighbours, config.weighting);
                let found = self.predictor.pool.install(search);
                Ok(Local::Rows(found.signal(0..rows.rows.len(), labels)))
            }
            (LocalSignal::Predicted, _) => Ok(Local::Predicted),
            (LocalSignal::None, _) => Ok(Local::Rows(SparseRows::empty(rows.rows.len()))),
        }
    }

    fn block(&mut self, first: usize, batch: &Batch) -> Result<Block> {
        let (engine, parts) = (&mut self.predictor.engine, &mut self.parts);
        self.predictor.pool.install(|| {
            engine.parts(batch, parts)?;
            Ok(turned(first, engine.labels(), parts))
        })
    }
}

impl System for Trained {
    fn features(&self) -> usize {
        self.predictor.map.features()
    }

    fn labels(&self) -> usize {
        self.predictor.labels()
    }

    fn decide(&mut self, rows: Unlabelled, take: Take) -> Result<()> {
        self.predictor.check(rows)?;
        let size = self.predictor.method.batch;
        for (number, chunk) in rows.rows.chunks(size).enumerate() {
            let some = Unlabelled { features: rows.features, rows: chunk };
            let local = self.local(some)?;
            let inputs = Inputs::Gathered(BatchInputs::new(&self.predictor.map, rows.features, chunk));
            let block =
                self.block(number * size, &Batch { inputs, targets: SparseRows::default(), local })?;
            take(&block)?;
        }
        Ok(())
    }

    /// Eqs. 4-6 over the true labels of each batch, and the released code's global signal where the model
    /// has it.
    fn decide_by_oracle(&mut self, rows: Examples, take: Take) -> Result<()> {
        self.predictor.check(rows.unlabelled())?;
        let method = &self.predictor.method;
        let size = method.batch;
        let supply = match method.variant.uses_local() {
            true => LocalSupply::BatchLabels(method.signal.clone()),
            false => LocalSupply::None,
        };
        for (number, chunk) in rows.rows.chunks(size).enumerate() {
            let first = number * size;
            let positions: Vec<u32> = (first as u32..(first + chunk.len()) as u32).collect();
            let batch = Batch::labelled(&self.predictor.map, &supply, rows, &positions);
            let block = self.block(first, &batch)?;
            take(&block)?;
        }
        Ok(())
    }

    fn losses(&self) -> LossFunction {
        let (config, weights) = (self.predictor.method.loss.clone(), self.positive_weights.clone());
        Box::new(move |block, truth| {
            let (bce, training) = losses(block, truth, &config, &weights);
            Losses { bce: Some(bce), training: Some(training) }
        })
    }

    fn explain(&mut self, rows: Unlabelled, asked: &Asked) -> Result<Explanation> {
        self.predictor.check(rows)?;
        // The batch that the row would be decided in: the signal `predicted` depends on it.
        let size = self.predictor.method.batch;
        let first = asked.row / size * size;
        let chunk = &rows.rows[first..rows.rows.len().min(first + size)];
        let row = asked.row - first;
        let some = Unlabelled { features: rows.features, rows: chunk };
        let local = self.local(some)?;
        let inputs = Inputs::Gathered(BatchInputs::new(&self.predictor.map, rows.features, chunk));
        let mut batch = Batch { inputs, targets: SparseRows::default(), local };
        if let Local::Predicted = batch.local {
            let mut scores = Scores::default();
            batch.local = Local::Rows(SparseRows::empty(chunk.len()));
            self.predictor.engine.scores(&batch, &mut scores)?;
            batch.local = Local::Rows(predicted_signal(&scores, &self.predictor.method.signal));
        }
        let block = self.block(first, &batch)?;
        let Local::Rows(local) = &batch.local else { unreachable!("made above") };
        let count = self.predictor.method.signal.neighbours;
        let near = match &self.neighbours {
            Some((index, _)) => index.nearest(rows.features, chunk[row] as usize, count),
            None => Vec::new(),
        };
        let labels = match asked.label {
            Some(label) => vec![label],
            None => most_telling(&block.ranking(row), &block.predicted[row]),
        };
        let explained: Result<Vec<_>> =
            labels.into_iter().map(|label| self.label(&block, row, label, local, &near)).collect();
        Ok(Explanation {
            row: asked.row,
            protocol: Protocol::Honest,
            model: model_words(self.predictor.method.variant).to_owned(),
            signal: words(self.signal).to_owned(),
            labels: explained?,
        })
    }

    fn origin(&self) -> Origin {
        let method = &self.predictor.method;
        Origin {
            thresholds_read_labels: method.predicts_from_true_labels(),
            epoch_by_validation: method.stopping.restore_best || method.stopping.patience.value().is_some(),
        }
    }
}

fn model_words(variant: Variant) -> &'static str {
    match variant {
        Variant::Adaptive => "a network, thresholds by eq. 1 (adaptive)",
        Variant::KnnOnly => "a network, thresholds by eq. 1 with the local signal only (knn-only)",
        Variant::IdfOnly => "a network, thresholds by eq. 1 with the global signal only (idf-only)",
        Variant::Static => "a network, the same threshold everywhere (static)",
    }
}

fn words(signal: LocalSignal) -> &'static str {
    match signal {
        LocalSignal::BatchLabels => "true labels of the batch",
        LocalSignal::TrainNeighbours => "labels of the nearest training rows",
        LocalSignal::Predicted => "the model's own probabilities for the rows of the batch",
        LocalSignal::None => "none",
    }
}

impl Trained {
    /// Eq. 1 for one entry, term by term.
    fn label(
        &self,
        block: &Block,
        row: usize,
        label: u32,
        local: &SparseRows,
        near: &[(u32, f32)],
    ) -> Result<LabelExplanation> {
        let (method, at) = (&self.predictor.method, label as usize);
        let state = self.predictor.engine.state()?;
        let weights = &state.weights;
        let raw = f64::from(weights.lambda[if weights.lambda.len() == 1 { 0 } else { at }]);
        let lambda = if method.threshold.lambda_sigmoid { raw.sigmoid() } else { raw };
        let (alpha, beta) = (f64::from(weights.alpha[at]), f64::from(weights.beta[at]));
        let knn = local.row(row).iter().find(|entry| entry.0 == label).map_or(0.0, |entry| entry.1);
        let mut terms = Vec::new();
        if !method.variant.learns() {
            terms.push(Term::new("static", &[], STATIC_THRESHOLD));
        } else {
            if method.variant.uses_global() {
                let (name, signal) = match method.threshold.global {
                    GlobalSignal::Idf => ("IDF", self.idf.values[at]),
                    GlobalSignal::OwnLabels => ("own labels, unknown", 0.0),
                };
                let inputs = [("lambda", lambda), ("alpha", alpha), (name, signal)];
                terms.push(Term::new("lambda * alpha * global", &inputs, lambda * alpha * signal));
            }
            if method.variant.uses_local() {
                let inputs = [("lambda", lambda), ("beta", beta), ("KNN", knn)];
                let term = Term::new("(1 - lambda) * beta * local", &inputs, (1.0 - lambda) * beta * knn);
                let evidence = self
                    .neighbours
                    .as_ref()
                    .map(|(_, labels)| share::evidence("KNN", near, method.signal.weighting, labels, label));
                terms.push(Term { evidence, ..term });
            }
            terms.push(Term::new("bias", &[], weights.bias[at].into()));
            if method.threshold.squash == Squash::Sigmoid {
                let inside: f64 = terms.iter().map(|term| term.value).sum();
                let inputs = [("sum of the above", inside)];
                terms.push(Term::new("sigmoid(sum) in place of the sum", &inputs, inside.sigmoid() - inside));
            }
        }
        let logit = f64::from(self.parts.logits[at * self.parts.stride + row]);
        let score = f64::from(block.row_scores(row)[at]);
        let mut score_terms = vec![Term::new("logit", &[], logit)];
        if method.loss.standardise {
            let inputs = [("standardised", score)];
            score_terms.push(Term::new("standardised over the labels of the row", &inputs, score - logit));
        }
        let threshold = block.row_thresholds(row).map(|cuts| f64::from(cuts[at]));
        Ok(LabelExplanation {
            label,
            name: None,
            score_terms,
            score,
            threshold_terms: terms,
            threshold,
            margin: threshold.map(|threshold| score - threshold),
            probability: block.row_probabilities(row).get(at).map(|&p| p.into()),
            predicted: block.predicted[row].binary_search(&label).is_ok(),
            paper_form: None,
            notes: Vec::new(),
        })
    }
}

/// The engine's batch as a block: the standardised logits are the scores, and above its threshold a
/// label is predicted.
fn turned(first: usize, labels: usize, parts: &Parts) -> Block {
    let rows = parts.rows;
    let turn = |values: &[f32]| {
        let mut turned = vec![0.0; rows * labels];
        turned.par_chunks_mut(TURNED * labels.max(1)).enumerate().for_each(|(group, into)| {
            let count = into.len() / labels;
            for label in 0..labels {
                let run = &values[label * parts.stride + group * TURNED..][..count];
                run.iter().enumerate().for_each(|(row, &value)| into[row * labels + label] = value);
            }
        });
        turned
    };
    let (scores, thresholds) = (turn(&parts.standardised), turn(&parts.thresholds));
    let margins = scores.par_iter().zip(&thresholds);
    let probability = |(score, threshold): (&f32, &f32)| 1.0 / (1.0 + (threshold - score).exp());
    let probabilities = margins.map(probability).collect();
    let row = |row: usize| {
        let span = row * labels..(row + 1) * labels;
        let above = scores[span.clone()].iter().zip(&thresholds[span]).enumerate();
        above.filter(|(_, (score, cut))| score > cut).map(|(label, _)| label as u32).collect()
    };
    let predicted = (0..rows).into_par_iter().map(row).collect();
    let thresholds = Thresholds::PerEntry(thresholds);
    Block { first, rows, labels, scores, probabilities, predicted, thresholds }
}

/// The cross-entropy summed over entries, bare; and eqs. 3 and 7 reduced as in training.
fn losses(block: &Block, truth: &[&[u32]], config: &LossConfig, positive_weights: &[f64]) -> (f64, f64) {
    let row = |row: usize| {
        let Some(thresholds) = block.row_thresholds(row) else { return [0.0; 3] };
        let margin = |label: usize| f64::from(block.row_scores(row)[label]) - f64::from(thresholds[label]);
        let hinge = |signed: f64| (signed + config.margin).max(0.0);
        let (mut bce, mut hinges) = (0.0, 0.0);
        for label in 0..block.labels {
            let a = margin(label);
            bce += softplus(a);
            hinges += hinge(a);
        }
        let mut weighted = bce;
        for &label in truth[row] {
            let (a, weight) = (margin(label as usize), positive_weights[label as usize]);
            bce -= a;
            weighted += weight * softplus(-a) - softplus(a);
            hinges += hinge(-a) - hinge(a);
        }
        [bce, weighted, hinges]
    };
    let rows: Vec<[f64; 3]> = (0..block.rows).into_par_iter().map(row).collect();
    let sum = |at: usize| rows.iter().map(|row| row[at]).sum::<f64>();
    let factor = config.reduction.factor(block.rows, block.labels);
    (sum(0), factor * (sum(1) + config.margin_weight * sum(2)))
}
