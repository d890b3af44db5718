//! A model made by `train` as a [`System`]: a network, and thresholds by eq. 1.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};
use pipe_ml::config::loss::LossConfig;
use pipe_ml::config::signal::LocalSignal;
use pipe_ml::config::threshold::{GlobalSignal, Squash, Variant};
use pipe_ml::data::dataset_part::DatasetPart;
use pipe_ml::data::examples::{Examples, Unlabelled};
use pipe_ml::explanation::{Explanation, ExplanationTerm, LabelExplanation, share};
use pipe_ml::metric::block::{DecisionBlock, Thresholds};
use pipe_ml::metric::marked::Protocol;
use pipe_ml::signal::source::{SignalSource, TrainingRows};
use pipe_ml::signal::sparse_rows::SparseRows;
use pipe_ml::signal::supply::{LocalSignalBatch, LocalSupply, SignalBatch};
use pipe_ml::softplus::softplus;
use pipe_ml::system::explained_labels::labels_to_explain;
use pipe_ml::system::{BlockSink, ExplainRequest, LossFunction, Losses, ModelOrigin, System, SystemSettings};
use rayon::prelude::*;

use crate::engine::predicted_signal::predicted_signal;
use crate::engine::{Batch, BatchFeatures, BatchScores, ScoreParts};
use crate::loss::real::Real;
use crate::loss::terms::STATIC_THRESHOLD;
use crate::model::Model;
use crate::model::predict::{PredictError, Predictor};
use crate::net::input::BatchInputs;

/// How many rows and labels are transposed together from label-major to row-major order: one cache line of values.
const TRANSPOSED: usize = 16;

/// A trained model that is ready to predict.
pub(super) struct TrainedSystem {
    predictor: Predictor,
    /// The local signal; `None` if the variant does not use one.
    signal: LocalSignal,
    /// `None` if the signal needs training rows and these are not given.
    source: Option<Arc<SignalSource<'static>>>,
    positive_weights: Vec<f64>,
    parts: ScoreParts,
    /// The decisions about the last batch. Their memory is used again for the next one.
    decided: DecisionBlock,
}

impl TrainedSystem {
    /// Opens a model made by `train`.
    pub(super) fn open(directory: &Path, settings: SystemSettings) -> Result<Self> {
        let model = Model::load(directory)?;
        let own = model.method.local_in_prediction();
        let signal = settings.signal.filter(|_| model.method.variant.uses_local()).unwrap_or(own);
        let positive_weights = model.idf.positive_weights(model.method.loss.pos_weight);
        ensure!(
            signal == own || !model.method.needs_its_local_signal(),
            "the thresholds of this model were learned for its own local signal, which `signal` cannot replace: leave it out"
        );
        ensure!(
            signal == own || signal != LocalSignal::Prototypes,
            "this model has no prototypes: choose another `signal`, or train it with `signal: {{ train: prototypes, \
             predict: prototypes }}`"
        );
        let predictor = Predictor::new(model, settings.device, settings.threads)?;
        let needed = settings.train.filter(|_| predictor.method.needs_training_rows(signal));
        let rows = |part: DatasetPart| {
            predictor.check(part.examples().unlabelled())?;
            Ok::<_, PredictError>(TrainingRows {
                features: Cow::Owned(part.features),
                labels: Cow::Owned(part.labels),
                rows: Cow::Owned(part.rows),
            })
        };
        let train = needed.map(rows).transpose()?;
        let (pool, method) = (&predictor.pool, &predictor.method);
        let source = pool.install(|| SignalSource::new(method, signal, train));
        Ok(Self {
            predictor,
            signal,
            source: source.map(Arc::new),
            positive_weights,
            parts: ScoreParts::default(),
            decided: DecisionBlock::default(),
        })
    }

    /// Computes the signals of rows whose labels are not known.
    fn signals(&self, rows: Unlabelled) -> Result<SignalBatch, PredictError> {
        let source = self.source.as_deref().ok_or(PredictError::NeedsTrainingRows)?;
        let supply = self.predictor.supply(source, &self.predictor.idf, rows)?;
        let all: Vec<u32> = (0..rows.rows.len() as u32).collect();
        let labels = self.predictor.labels();
        let compute = || supply.of(&all, &SparseRows::default(), labels);
        Ok(self.predictor.pool.install(compute))
    }

    /// Returns a batch of rows whose labels are not known.
    fn batch(&self, rows: Unlabelled) -> Result<Batch, PredictError> {
        let inputs = BatchInputs::new(&self.predictor.map, rows.features, rows.rows);
        let inputs = BatchFeatures::Gathered(inputs);
        Ok(Batch { inputs, targets: SparseRows::default(), signals: self.signals(rows)? })
    }

    /// Runs the engine on a batch and returns its decisions.
    fn block(&mut self, first: usize, batch: &Batch) -> Result<&DecisionBlock> {
        let (engine, parts, decided) = (&mut self.predictor.engine, &mut self.parts, &mut self.decided);
        self.predictor.pool.install(|| {
            engine.score_parts(batch, parts)?;
            decided.first = first;
            decide_batch(engine.labels(), parts, decided);
            Ok(&*decided)
        })
    }
}

impl System for TrainedSystem {
    fn features(&self) -> usize {
        self.predictor.map.features()
    }

    fn labels(&self) -> usize {
        self.predictor.labels()
    }

    fn decide(&mut self, rows: Unlabelled, take: BlockSink) -> Result<()> {
        self.predictor.check(rows)?;
        let size = self.predictor.method.batch;
        for (number, chunk) in rows.rows.chunks(size).enumerate() {
            let some = Unlabelled { features: rows.features, rows: chunk };
            let batch = self.batch(some)?;
            take(self.block(number * size, &batch)?)?;
        }
        Ok(())
    }

    /// Computes eqs. 4-6 over the true labels of each batch, and the global signal of the released code if the
    /// model has it. A local signal that cannot be replaced stays.
    fn decide_by_oracle(&mut self, rows: Examples, take: BlockSink) -> Result<()> {
        self.predictor.check(rows.unlabelled())?;
        let method = &self.predictor.method;
        let size = method.batch;
        let (source, idf) = (self.source.clone(), Arc::clone(&self.predictor.idf));
        let full_density = self.predictor.full_density;
        let mut supply = match &source {
            Some(source) => source.supply(method, &idf, full_density, rows.unlabelled()),
            None => LocalSupply::None.into(),
        };
        if !method.needs_its_local_signal() {
            supply.local = if method.variant.uses_local() {
                LocalSupply::BatchLabels(method.signal.clone())
            } else {
                LocalSupply::None
            };
        }
        for (number, chunk) in rows.rows.chunks(size).enumerate() {
            let first = number * size;
            let positions: Vec<u32> = (first as u32..(first + chunk.len()) as u32).collect();
            let batch = Batch::labelled(&self.predictor.map, &supply, rows, &positions);
            take(self.block(first, &batch)?)?;
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

    fn explain(&mut self, rows: Unlabelled, request: &ExplainRequest) -> Result<Explanation> {
        self.predictor.check(rows)?;
        // The whole batch in which the row would be decided, because the signal `predicted` depends on it.
        let size = self.predictor.method.batch;
        let first = request.row / size * size;
        let chunk = &rows.rows[first..rows.rows.len().min(first + size)];
        let row = request.row - first;
        let some = Unlabelled { features: rows.features, rows: chunk };
        let mut batch = self.batch(some)?;
        if let LocalSignalBatch::Predicted = batch.signals.local {
            let mut scores = BatchScores::default();
            batch.signals.local = LocalSignalBatch::Rows(SparseRows::empty(chunk.len()));
            self.predictor.engine.scores(&batch, &mut scores)?;
            batch.signals.local =
                LocalSignalBatch::Rows(predicted_signal(&scores, &self.predictor.method.signal));
        }
        self.parts.with_logits = true;
        let block = self.block(first, &batch)?.clone();
        let count = self.predictor.method.signal.neighbours;
        let near = match self.source.as_deref().and_then(SignalSource::neighbours) {
            Some((index, _)) => index.nearest(rows.features, chunk[row] as usize, count),
            None => Vec::new(),
        };
        let labels = match request.label {
            Some(label) => vec![label],
            None => labels_to_explain(&block.ranking(row), &block.predicted[row]),
        };
        let explained: Result<Vec<_>> = labels
            .into_iter()
            .map(|label| self.explained_label(&block, row, label, &batch.signals, &near))
            .collect();
        Ok(Explanation {
            row: request.row,
            protocol: Protocol::Honest,
            model: model_words(self.predictor.method.variant).to_owned(),
            signal: signal_words(self.signal).to_owned(),
            labels: explained?,
            notes: Vec::new(),
        })
    }

    fn origin(&self) -> ModelOrigin {
        let method = &self.predictor.method;
        ModelOrigin {
            thresholds_read_labels: method.predicts_from_true_labels(),
            epoch_by_validation: method.stopping.restore_best || method.stopping.patience.value().is_some(),
        }
    }
}

/// Describes the model for an explanation.
fn model_words(variant: Variant) -> &'static str {
    match variant {
        Variant::Adaptive => "a network, thresholds by eq. 1 (adaptive)",
        Variant::KnnOnly => "a network, thresholds by eq. 1 with the local signal only (knn-only)",
        Variant::IdfOnly => "a network, thresholds by eq. 1 with the global signal only (idf-only)",
        Variant::Static => "a network, the same threshold everywhere (static)",
    }
}

/// Describes the local signal for an explanation.
fn signal_words(signal: LocalSignal) -> &'static str {
    match signal {
        LocalSignal::BatchLabels => "true labels of the batch",
        LocalSignal::TrainNeighbours => "labels of the nearest training rows",
        LocalSignal::Prototypes => "learned shares of the labels at prototypes",
        LocalSignal::Predicted => "the model's own probabilities for the rows of the batch",
        LocalSignal::None => "none",
    }
}

impl TrainedSystem {
    /// Explains eq. 1 for one entry, term by term.
    fn explained_label(
        &self,
        block: &DecisionBlock,
        row: usize,
        label: u32,
        signals: &SignalBatch,
        near: &[(u32, f32)],
    ) -> Result<LabelExplanation> {
        let (method, at) = (&self.predictor.method, label as usize);
        let state = self.predictor.engine.state()?;
        let weights = &state.weights;
        let raw = f64::from(weights.lambda[if weights.lambda.len() == 1 { 0 } else { at }]);
        let lambda = if method.threshold.lambda_sigmoid { raw.sigmoid() } else { raw };
        let lambda = signals.density.get(row).map_or(lambda, |density| 1.0 - (1.0 - lambda) * density);
        let value = |rows: &SparseRows| {
            rows.row(row).iter().find(|entry| entry.0 == label).map_or(0.0, |entry| entry.1)
        };
        let (alpha, beta) = (f64::from(weights.alpha[at]), f64::from(weights.beta[at]));
        let threshold = block.row_thresholds(row).map(|cuts| f64::from(cuts[at]));
        let mut terms = Vec::new();
        if !method.variant.learns() {
            terms.push(ExplanationTerm::new("static", &[], STATIC_THRESHOLD));
        } else {
            if method.variant.uses_global() {
                let (name, signal) = match method.threshold.global {
                    GlobalSignal::Idf => ("IDF", self.predictor.idf.values[at]),
                    GlobalSignal::Salience => ("salience * IDF", value(&signals.salience)),
                    GlobalSignal::OwnLabels => ("own labels, unknown", 0.0),
                };
                let inputs = [("lambda", lambda), ("alpha", alpha), (name, signal)];
                terms.push(ExplanationTerm::new("lambda * alpha * global", &inputs, lambda * alpha * signal));
            }
            if method.variant.uses_local() {
                let factor = (1.0 - lambda) * beta;
                let knn = match &signals.local {
                    LocalSignalBatch::Rows(local) => value(local),
                    // The engine computes this signal and does not return it: it is what the other terms leave.
                    _ if factor != 0.0 => {
                        let others: f64 = terms.iter().map(|term: &ExplanationTerm| term.value).sum();
                        (threshold.unwrap_or_default() - others - f64::from(weights.bias[at])) / factor
                    }
                    _ => 0.0,
                };
                let inputs = [("lambda", lambda), ("beta", beta), ("KNN", knn)];
                let term = ExplanationTerm::new("(1 - lambda) * beta * local", &inputs, factor * knn);
                let evidence =
                    self.source.as_deref().and_then(SignalSource::neighbours).map(|(_, labels)| {
                        share::evidence("KNN", near, method.signal.weighting, labels, label, |row| row)
                    });
                terms.push(ExplanationTerm { evidence, ..term });
            }
            terms.push(ExplanationTerm::new("bias", &[], weights.bias[at].into()));
            if method.threshold.squash == Squash::Sigmoid {
                let inside: f64 = terms.iter().map(|term| term.value).sum();
                let inputs = [("sum of the above", inside)];
                terms.push(ExplanationTerm::new(
                    "sigmoid(sum) in place of the sum",
                    &inputs,
                    inside.sigmoid() - inside,
                ));
            }
        }
        let logit = f64::from(self.parts.logits[at * self.parts.stride + row]);
        let score = f64::from(block.row_scores(row)[at]);
        let mut score_terms = vec![ExplanationTerm::new("logit", &[], logit)];
        if method.loss.standardise {
            let inputs = [("standardised", score)];
            score_terms.push(ExplanationTerm::new(
                "standardised over the labels of the row",
                &inputs,
                score - logit,
            ));
        }
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

/// Converts the engine's label-major result into a block. The scores are the standardised logits (eq. 2), and a
/// label is predicted if its score is above its threshold.
fn decide_batch(labels: usize, parts: &ScoreParts, block: &mut DecisionBlock) {
    (block.rows, block.labels) = (parts.rows, labels);
    if !matches!(block.thresholds, Thresholds::PerEntry(_)) {
        block.thresholds = Thresholds::PerEntry(Vec::new());
    }
    let DecisionBlock {
        scores, probabilities, predicted, thresholds: Thresholds::PerEntry(thresholds), ..
    } = block
    else {
        return;
    };
    for table in [&mut *scores, &mut *thresholds, &mut *probabilities] {
        table.resize(parts.rows * labels, 0.0);
    }
    predicted.resize(parts.rows, Vec::new());
    let size = TRANSPOSED * labels.max(1);
    let tables = scores.par_chunks_mut(size).zip(thresholds.par_chunks_mut(size));
    let decided = probabilities.par_chunks_mut(size).zip(predicted.par_chunks_mut(TRANSPOSED));
    tables.zip(decided).enumerate().for_each(
        |(group, ((scores, thresholds), (probabilities, predicted)))| {
            let first = group * TRANSPOSED;
            transpose(&parts.standardised[first..], parts.stride, labels, scores);
            transpose(&parts.thresholds[first..], parts.stride, labels, thresholds);
            for (probability, (score, threshold)) in
                probabilities.iter_mut().zip(scores.iter().zip(&*thresholds))
            {
                *probability = 1.0 / (1.0 + (threshold - score).exp());
            }
            for (row, predicted) in predicted.iter_mut().enumerate() {
                let span = row * labels..(row + 1) * labels;
                let above = (0..).zip(scores[span.clone()].iter().zip(&thresholds[span]));
                predicted.clear();
                predicted.extend(above.filter(|(_, (score, cut))| score > cut).map(|(label, _)| label));
            }
        },
    );
}

/// Writes up to [`TRANSPOSED`] rows, row-major, from values that are label-major.
fn transpose(values: &[f32], stride: usize, labels: usize, into: &mut [f32]) {
    let rows = into.len() / labels;
    for first in (0..labels).step_by(TRANSPOSED) {
        let chosen = first..labels.min(first + TRANSPOSED);
        let mut tile = [[0.0; TRANSPOSED]; TRANSPOSED];
        for (of_label, label) in tile.iter_mut().zip(chosen.clone()) {
            // Values behind the rows are read and not used: a copy of known length is faster.
            match values[label * stride..].first_chunk() {
                Some(all) => *of_label = *all,
                None => of_label[..rows].copy_from_slice(&values[label * stride..][..rows]),
            }
        }
        let by_row: [[f32; TRANSPOSED]; TRANSPOSED] =
            std::array::from_fn(|row| std::array::from_fn(|label| tile[label][row]));
        for (of_row, into) in by_row.iter().zip(into.chunks_exact_mut(labels)) {
            match into[first..].first_chunk_mut() {
                Some(all) => *all = *of_row,
                None => into[chosen.clone()].copy_from_slice(&of_row[..chosen.len()]),
            }
        }
    }
}

/// Returns the cross-entropy without weights, summed over the entries, and the loss of eqs. 3 and 7, reduced as in
/// training.
fn losses(
    block: &DecisionBlock,
    truth: &[&[u32]],
    config: &LossConfig,
    positive_weights: &[f64],
) -> (f64, f64) {
    let row_losses = |row: usize| {
        let Some(thresholds) = block.row_thresholds(row) else { return [0.0; 3] };
        let scores = block.row_scores(row);
        let margin = |label: usize| f64::from(scores[label]) - f64::from(thresholds[label]);
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
    let rows: Vec<[f64; 3]> = (0..block.rows).into_par_iter().map(row_losses).collect();
    let sum = |at: usize| rows.iter().map(|row| row[at]).sum::<f64>();
    let factor = config.reduction.factor(block.rows, block.labels);
    (sum(0), factor * (sum(1) + config.margin_weight * sum(2)))
}
