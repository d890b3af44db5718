//! `evaluate`: measures a model's decisions on rows that it was not trained on, or the decisions that another program
//! wrote about these rows. These are its parameters; [`crate::judge`] runs it.

use anyhow::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file_source::StageOrFile;
use pipe_core::artifact::PlainFile;
use pipe_core::issue::Issue;
use pipe_core::kind::{InputDecl, OutputDecl, Program};
use pipe_core::reference::StageRef;
use pipe_core::slot::{Out, Slot};
use pipe_core::stage::StageKind;
use pipe_core::work::Work;
use pipe_ml::artifacts::{LabelRecords, ModelDirectory};
use pipe_ml::config::device::Device;
use pipe_ml::config::signal::LocalSignal;
use pipe_ml::data::csr::Csr;
use pipe_ml::data::split_data::{PartName, SplitData};
use pipe_ml::metric::bootstrap::Bootstrap;
use pipe_ml::metric::curves::Curves;
use pipe_ml::metric::decisions::Decisions;
use pipe_ml::metric::marked::Protocol;
use pipe_ml::metric::measure::Measurements;
use pipe_ml::metric::propensity::Propensity;
use pipe_ml::metric::record::{EvaluationRecord, Intervals};
use pipe_ml::metric::registry::Metric;
use pipe_ml::system::BlockSink;
use pipe_ml::threshold::ceiling::{Ceiling, CeilingScores};

/// The parameters of `evaluate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evaluate {
    pub data: StageRef,
    /// The model that is evaluated.
    pub model: Option<StageRef>,
    /// In place of a model: decisions or scores that any program wrote about the rows. An output of a stage, or
    /// `{ file: PATH }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predictions: Option<StageOrFile>,
    /// What a score of `predictions` must exceed for its label to be predicted. Without it, scores must be probabilities,
    /// which are cut at 0.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    #[serde(default)]
    pub protocol: Protocol,
    /// In place of the decisions of the model: those of the best possible cuts on its scores, one per label, for this
    /// metric. The labels of the evaluated rows choose the cuts, so the results are marked as those of the oracle protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Ceiling>,
    /// The part of the data set that is evaluated.
    #[serde(default)]
    pub part: EvaluatedPart,
    /// The local signal that a trained model uses here; the default is the model's own choice. Under the oracle
    /// protocol only `batch-labels` is possible.
    pub signal: Option<LocalSignal>,
    #[serde(default)]
    pub bootstrap: Bootstrap,
    #[serde(default)]
    pub propensity: Propensity,
    #[serde(default)]
    pub device: Device,
}

/// The part of the data set whose rows are evaluated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EvaluatedPart {
    #[default]
    Test,
    Validation,
}

impl Evaluate {
    /// The data set of the evaluated rows.
    pub const DATA: Slot<SplitData> = Slot::new("data");
    /// The model that is evaluated.
    pub const MODEL: Slot<ModelDirectory> = Slot::new("model");
    /// The predictions that are evaluated in place of a model.
    pub const PREDICTIONS: Slot<PlainFile> = Slot::new("predictions");
    /// The metrics, with their intervals.
    pub const EVALUATION: Out<EvaluationRecord> = Out::new("evaluation", "evaluation.json");
    /// The counts and metrics of every label.
    pub const LABELS: Out<LabelRecords> = Out::new("labels", "labels.jsonl");
    /// The decisions, with the truth.
    pub const DECISIONS: Out<Decisions> = Out::new("decisions", "decisions");
    /// The data of the figures.
    pub const CURVES: Out<Curves> = Out::new("curves", "curves.json");

    /// Returns the protocol of the results. A ceiling is an oracle: its cuts are chosen by the labels of the evaluated rows.
    pub(crate) fn marked_protocol(&self) -> Protocol {
        if self.ceiling.is_some() { Protocol::Oracle } else { self.protocol }
    }

    /// Passes the decisions of `decide` to `take`, or, if the stage asks for a ceiling, those of the best possible cuts.
    pub(crate) fn decide<T>(
        &self,
        truth: &Csr,
        threads: &rayon::ThreadPool,
        decide: impl FnOnce(BlockSink) -> Result<T>,
        take: BlockSink,
    ) -> Result<T> {
        let Some(ceiling) = self.ceiling else { return decide(take) };
        let mut scores = CeilingScores::create(truth.cols)?;
        let decided = decide(&mut |block| scores.add(block))?;
        scores.decide(ceiling, truth, threads, take)?;
        Ok(decided)
    }
}

impl StageKind for Evaluate {
    const NAME: &'static str = "evaluate";
    const VERSION: u32 = 2;
    const SUMMARY: &'static str =
        "Measures a model's or another program's decisions on rows that it has not seen";
    const PROGRAM: Program = Program::Either;

    /// In version 3, whole numbers in npz files of predictions are names of labels if any name is a whole number.
    fn version(&self) -> u32 {
        if self.predictions.is_some() { 3 } else { Self::VERSION }
    }

    fn inputs(&self) -> Vec<InputDecl> {
        let model = self.model.as_ref().map(|model| Self::MODEL.one(model));
        let predictions = self.predictions.as_ref().map(|source| Self::PREDICTIONS.from(source.declare()));
        [Some(Self::DATA.one(&self.data)), model, predictions].into_iter().flatten().collect()
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![Self::EVALUATION.decl(), Self::LABELS.decl(), Self::DECISIONS.decl(), Self::CURVES.decl()]
    }

    fn issues(&self) -> Vec<Issue> {
        let bootstrap = self.bootstrap.issues().into_iter().map(|issue| issue.within("bootstrap"));
        let mut issues: Vec<Issue> = bootstrap.chain(signal_issue(self.protocol, self.signal)).collect();
        let only_for_models =
            [("signal", self.signal.is_some()), ("device", self.device != Device::default())];
        let judged = JudgedFields {
            model: self.model.is_some(),
            predictions: self.predictions.is_some(),
            threshold: self.threshold,
            only_for_models: &only_for_models,
        };
        issues.extend(judged.issues());
        issues
    }

    fn metrics(&self) -> Option<Vec<&'static str>> {
        Some(Metric::ANNOUNCED.map(Metric::name).to_vec())
    }
}

/// The fields of `evaluate` and `audit` that name a model, or the predictions of another program in its place.
pub(super) struct JudgedFields<'a> {
    pub(super) model: bool,
    pub(super) predictions: bool,
    pub(super) threshold: Option<f64>,
    /// The fields that have no meaning for predictions, each with whether it is given.
    pub(super) only_for_models: &'a [(&'static str, bool)],
}

impl JudgedFields<'_> {
    /// Returns the issues of fields that do not belong together.
    pub(super) fn issues(&self) -> Vec<Issue> {
        match (self.model, self.predictions) {
            (true, false) => {
                let message = "only `predictions` are cut at a `threshold`; a model has cuts of its own";
                self.threshold.map(|_| Issue::new("threshold", message)).into_iter().collect()
            }
            (false, true) => {
                let given = self.only_for_models.iter().filter(|(_, is_given)| *is_given);
                let only_model =
                    given.map(|(field, _)| Issue::new(*field, "only a model needs it: leave it out"));
                let is_infinite = self.threshold.is_some_and(|threshold| !(threshold as f32).is_finite());
                let infinite =
                    is_infinite.then(|| Issue::new("threshold", "must be a finite number of 32 bits"));
                only_model.chain(infinite).collect()
            }
            _ => vec![Issue::new("", "give exactly one of `model` and `predictions`")],
        }
    }
}

impl EvaluatedPart {
    /// Returns the part of the data set.
    pub fn name(self) -> PartName {
        match self {
            Self::Test => PartName::Test,
            Self::Validation => PartName::Validation,
        }
    }
}

/// The largest number of entries that is resampled. They are held in memory, 4 bytes each.
const RESAMPLED: usize = 1 << 28;

/// Reports the main metrics, each with its protocol, computes the confidence intervals, and writes every output except the
/// decisions, which exist already.
pub fn conclude(
    work: &mut Work,
    stage: &Evaluate,
    measured: &Measurements,
    decisions: &Decisions,
    threads: &rayon::ThreadPool,
) -> Result<()> {
    let evaluation = measured.evaluation();
    for metric in Metric::ANNOUNCED {
        if let Some(marked) = evaluation.get(metric) {
            work.marked_metric(metric.name(), marked.reveal());
        }
    }
    let entries = decisions.truth.entries() + decisions.predicted.entries();
    let intervals = if entries > RESAMPLED {
        work.warn(format!("{entries} true and predicted entries are too many to resample: no intervals"));
        None
    } else {
        let (_, outcomes) = decisions.outcomes()?.reveal();
        let values = threads.install(|| stage.bootstrap.intervals(&outcomes))?;
        Some(Intervals { bootstrap: stage.bootstrap, values })
    };
    let record = EvaluationRecord { part: stage.part.name(), evaluation, intervals };
    work.save(Evaluate::EVALUATION, &record)?;
    work.save(Evaluate::LABELS, &LabelRecords(measured.label_records()))?;
    work.save(Evaluate::CURVES, &measured.curves())
}

/// Returns the issue of a local signal under a protocol. `batch-labels` is allowed under the oracle protocol,
/// which uses it anyway, so that one matrix can contain both protocols.
pub(super) fn signal_issue(protocol: Protocol, signal: Option<LocalSignal>) -> Option<Issue> {
    let message = match (protocol, signal?) {
        (Protocol::Oracle, LocalSignal::BatchLabels) => return None,
        (Protocol::Oracle, _) => {
            "the local signal of the oracle protocol is the true labels: leave `signal` out"
        }
        (Protocol::Honest, LocalSignal::BatchLabels) => {
            "`batch-labels` are the true labels of the evaluated rows: only the oracle protocol reads them"
        }
        (Protocol::Honest, _) => return None,
    };
    Some(Issue::new("signal", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_oracle_protocol_may_read_the_labels_of_the_batch() {
        let is_allowed = |protocol, signal| signal_issue(protocol, signal).is_none();
        assert!(
            is_allowed(Protocol::Oracle, None)
                && is_allowed(Protocol::Oracle, Some(LocalSignal::BatchLabels))
        );
        assert!(is_allowed(Protocol::Honest, None) && is_allowed(Protocol::Honest, Some(LocalSignal::None)));
        assert!(!is_allowed(Protocol::Oracle, Some(LocalSignal::None)));
        assert!(!is_allowed(Protocol::Honest, Some(LocalSignal::BatchLabels)));
    }
}
