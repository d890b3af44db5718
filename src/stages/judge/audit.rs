//! Runs the stage `audit`: repeats an evaluation with changed labels and features.

use std::marker::PhantomData;
use std::path::Path;

use anyhow::{Result, bail};
use pipe_core::stage::RunStage;
use pipe_core::work::{Stopped, Work};
use pipe_ml::data::artifact::CsrWriter;
use pipe_ml::data::csr::Csr;
use pipe_ml::data::dataset_part::DatasetPart;
use pipe_ml::data::duplicates::{Duplicates, LabelledRows};
use pipe_ml::data::examples::Examples;
use pipe_ml::data::random::Random;
use pipe_ml::data::split_data::PartName;
use pipe_ml::data::stats::column_counts;
use pipe_ml::metric::audit::{
    Audit, AuditChange, AuditObservations, AuditTrial, AuditValues, Coverage, EpochSelection,
    FindingSeverity, LossFloor, LossSums,
};
use pipe_ml::metric::block::DecisionBlock;
use pipe_ml::metric::counts::Counts;
use pipe_ml::metric::label::Tally;
use pipe_ml::metric::marked::Protocol;

use super::OpenSystem;
use super::audit_predictions;
use super::judged_model::{JudgedModel, decide};
use crate::audit::{AuditStage, Require};

/// Runs the stage `audit` with the models that `O` opens.
pub(super) struct RunAudit<O>(PhantomData<O>);

impl<O: OpenSystem> RunStage for RunAudit<O> {
    type Stage = AuditStage;

    fn run(stage: &AuditStage, work: &mut Work) -> Result<()> {
        if stage.predictions.is_some() {
            return audit_predictions::run(stage, work);
        }
        let inputs = (AuditStage::DATA, AuditStage::MODEL);
        let mut judged = JudgedModel::open::<O>(work, inputs, stage.part, stage.device, stage.signal)?;
        let scratch = work.job().scratch.join("decisions.csr");
        let mut auditor = Auditor { work, judged: &mut judged, protocol: stage.protocol };
        let (as_is, loss, decisions) = auditor.as_is(&scratch)?;
        let trials = [AuditChange::LabelsPermuted, AuditChange::LabelsBlanked, AuditChange::FeaturesBlanked];
        let trials = trials
            .into_iter()
            .map(|change| auditor.trial(change, stage.seed, &decisions))
            .collect::<Result<_>>()?;

        let train = DatasetPart::open(&judged.data, PartName::Train)?;
        let (_, positives) = judged.training_positives()?;
        let audit = AuditObservations {
            protocol: stage.protocol,
            part: judged.part,
            rows: judged.evaluated.rows.len() as u64,
            as_is,
            trials,
            duplicates: Some(Duplicates::between(rows(&train), rows(&judged.evaluated))),
            coverage: Coverage::of(&positives, label_counts(&judged.evaluated).into_iter()),
            loss,
            selection: selection(work, &judged)?,
            predictions: None,
        }
        .judge();
        announce(work, &audit);
        if stage.require == Require::Pass && audit.passed == Some(false) {
            let leaks = audit.findings.iter().filter(|finding| finding.weight == FindingSeverity::Leak);
            let leaks: Vec<_> = leaks.map(|finding| finding.text.as_str()).collect();
            bail!("the audit failed, and `require: pass` is set: {}", leaks.join("; "));
        }
        save(work, &audit)
    }
}

/// Writes the outputs.
pub(super) fn save(work: &mut Work, audit: &Audit) -> Result<()> {
    work.save(AuditStage::AUDIT, audit)?;
    work.save(AuditStage::TEXT, &audit.page().into())
}

struct Auditor<'a, 'b> {
    work: &'a mut Work<'b>,
    judged: &'a mut JudgedModel,
    protocol: Protocol,
}

impl Auditor<'_, '_> {
    /// Makes the decisions that an evaluation makes, and maps them from a file.
    fn as_is(&mut self, path: &Path) -> Result<(AuditValues, Option<LossFloor>, Csr)> {
        let JudgedModel { evaluated, system, .. } = &mut *self.judged;
        let mut counts = Counts::new(evaluated.labels.cols);
        let mut loss = LossSums::default();
        let mut writer = CsrWriter::create(path, false)?;
        decide(&mut **system, self.protocol, evaluated.examples(), &mut |block| {
            let truth: Vec<&[u32]> =
                (0..block.rows).map(|row| evaluated.labels.row(block.first + row)).collect();
            for (truth, predicted) in truth.iter().zip(&block.predicted) {
                counts.add(truth, predicted);
                writer.push(predicted, &[])?;
            }
            loss.add(block, &truth);
            pause(self.work)
        })?;
        Ok((figures(&counts), loss.floor(), writer.finish(evaluated.labels.cols)?))
    }

    fn trial(&mut self, change: AuditChange, seed: u64, as_is: &Csr) -> Result<AuditTrial> {
        let JudgedModel { evaluated, system, .. } = &mut *self.judged;
        self.work.info(format!("the same rows with {}", words(change)));
        let labels = match change {
            AuditChange::LabelsPermuted => permuted(&evaluated.labels, seed),
            AuditChange::LabelsBlanked => blank(&evaluated.labels),
            AuditChange::FeaturesBlanked => evaluated.labels.clone(),
        };
        let features = match change {
            AuditChange::FeaturesBlanked => blank(&evaluated.features),
            _ => evaluated.features.clone(),
        };
        let changed = Examples { features: &features, labels: &labels, rows: &evaluated.rows };
        let mut counts = Counts::new(labels.cols);
        let mut of_given = Counts::new(labels.cols);
        let (mut changed_decisions, mut changed_rows) = (0, 0);
        let mut take = |block: &DecisionBlock| {
            for (row, predicted) in block.predicted.iter().enumerate() {
                let row = block.first + row;
                counts.add(evaluated.labels.row(row), predicted);
                of_given.add(labels.row(row), predicted);
                let differing = differing(as_is.row(row), predicted);
                changed_decisions += differing;
                changed_rows += u64::from(differing > 0);
            }
            pause(self.work)
        };
        decide(&mut **system, self.protocol, changed, &mut take)?;
        let given = (change == AuditChange::LabelsPermuted).then(|| Tally::over(of_given.iter()).macro_f1());
        let figures = figures(&counts);
        Ok(AuditTrial { change, changed_decisions, changed_rows, figures, macro_f1_of_given: given })
    }
}

fn words(change: AuditChange) -> &'static str {
    match change {
        AuditChange::LabelsPermuted => "each other's labels",
        AuditChange::LabelsBlanked => "no labels",
        AuditChange::FeaturesBlanked => "no features",
    }
}

pub(super) fn pause(work: &Work) -> Result<()> {
    if work.should_stop() { Err(Stopped.into()) } else { Ok(()) }
}

pub(super) fn figures(counts: &Counts) -> AuditValues {
    let tally = Tally::over(counts.iter());
    let predicted = counts.iter().map(|count| u64::from(count.predicted)).sum();
    AuditValues { macro_f1: tally.macro_f1(), micro_f1: tally.micro_f1(), predicted }
}

/// Returns how many labels are in only one of two ascending lists.
fn differing(a: &[u32], b: &[u32]) -> u64 {
    let shared = a.iter().filter(|label| b.binary_search(label).is_ok()).count();
    (a.len() + b.len() - 2 * shared) as u64
}

fn permuted(labels: &Csr, seed: u64) -> Csr {
    let order = Random::new("audit", seed).permutation(labels.rows());
    let rows: Vec<&[u32]> = order.iter().map(|&row| labels.row(row as usize)).collect();
    Csr::from_rows(labels.cols, &rows)
}

fn blank(matrix: &Csr) -> Csr {
    let indptr = vec![0u64; matrix.rows() + 1];
    Csr { cols: matrix.cols, indptr: indptr.into(), indices: vec![].into(), values: vec![].into() }
}

pub(super) fn rows(part: &DatasetPart) -> LabelledRows<'_> {
    LabelledRows { features: &part.features, labels: &part.labels, rows: &part.rows }
}

/// Returns how many rows have each label.
pub(super) fn label_counts(part: &DatasetPart) -> Vec<u32> {
    let counts = column_counts(&part.labels, part.rows.iter().copied());
    counts.into_iter().map(|count| count as u32).collect()
}

/// Returns how the epoch was chosen, according to the training history. Only a model whose epoch was chosen by validation
/// needs one.
fn selection(work: &Work, judged: &JudgedModel) -> Result<EpochSelection> {
    if !judged.system.origin().epoch_by_validation {
        return Ok(EpochSelection { known: true, ..EpochSelection::default() });
    }
    let Some(history) = work.open_optional(AuditStage::HISTORY)? else {
        return Ok(EpochSelection::default());
    };
    let by_validation = history.epochs.iter().any(|epoch| epoch.validation.is_some());
    let validation = (by_validation && judged.part == PartName::Test)
        .then(|| DatasetPart::open(&judged.data, PartName::Validation))
        .transpose()?;
    let shared = validation.map(|part| Duplicates::between(rows(&part), rows(&judged.evaluated)).in_train);
    Ok(EpochSelection {
        known: true,
        by_validation,
        by_oracle: by_validation && history.oracle,
        on_evaluated_rows: by_validation && judged.part == PartName::Validation,
        evaluated_in_validation: shared,
    })
}

pub(super) fn announce(work: &mut Work, audit: &Audit) {
    if let Some(passed) = audit.passed {
        work.metric("passed", f64::from(u8::from(passed)));
    }
    work.marked_metric("macro_f1", (audit.protocol, audit.as_is.macro_f1));
    for trial in &audit.trials {
        let what = match trial.change {
            AuditChange::LabelsPermuted => "labels_permuted",
            AuditChange::LabelsBlanked => "labels_blanked",
            AuditChange::FeaturesBlanked => "features_blanked",
        };
        work.marked_metric(&format!("macro_f1_{what}"), (audit.protocol, trial.figures.macro_f1));
        work.metric(&format!("changed_by_{what}"), trial.changed_decisions as f64);
    }
    for finding in &audit.findings {
        match finding.weight {
            FindingSeverity::Leak => work.warn(finding.text.clone()),
            FindingSeverity::NotChecked => work.info(format!("not checked: {}", finding.text)),
            FindingSeverity::Caution | FindingSeverity::Note => work.info(finding.text.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_decisions_are_counted_both_ways() {
        assert_eq!(differing(&[1, 3, 5], &[1, 3, 5]), 0);
        assert_eq!(differing(&[1, 3], &[3, 7, 9]), 3);
        assert_eq!(differing(&[], &[2]), 1);
    }

    #[test]
    fn permuting_keeps_the_rows_and_blanking_keeps_the_shape() {
        let labels = Csr::from_rows(9, &[vec![1, 2], vec![], vec![8], vec![0], vec![4, 5]]);
        let permuted = permuted(&labels, 1);
        let sorted = |matrix: &Csr| {
            let mut rows: Vec<_> = (0..matrix.rows()).map(|row| matrix.row(row).to_vec()).collect();
            rows.sort();
            rows
        };
        assert_ne!(permuted, labels);
        assert_eq!(sorted(&permuted), sorted(&labels));
        assert_eq!((blank(&labels).rows(), blank(&labels).cols, blank(&labels).entries()), (5, 9, 0));
    }
}
