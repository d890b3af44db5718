//! Audits predictions that another program wrote, as far as that is possible without the model.

use anyhow::{Context, Result};
use pipe_core::work::Work;
use pipe_ml::data::artifact::CsrWriter;
use pipe_ml::data::dataset_part::DatasetPart;
use pipe_ml::data::duplicates::Duplicates;
use pipe_ml::data::split_data::PartName;
use pipe_ml::metric::audit::{AuditObservations, Coverage, EpochSelection, PredictionChecks};
use pipe_ml::metric::counts::Counts;

use super::audit::{announce, figures, label_counts, pause, rows, save};
use crate::audit::AuditStage;
use crate::evaluate_predictions::{expected, warn_of_absent_rows};

/// Audits the predictions of a stage or file.
pub(super) fn run(stage: &AuditStage, work: &mut Work) -> Result<()> {
    let data = work.open(AuditStage::DATA)?;
    let path = work.input_path(AuditStage::PREDICTIONS)?.to_owned();
    let train = DatasetPart::open(&data, PartName::Train)?;
    let evaluated = DatasetPart::open(&data, stage.part.name())?;
    let truth = &evaluated.labels;
    let mut counts = Counts::new(truth.cols);
    let mut writer = CsrWriter::create(&work.job().scratch.join("decisions.csr"), false)?;
    let expected = expected(&data, truth, stage.threshold)?;
    let read = expected.read(&path, work.job().threads, |block| {
        for (row, predicted) in block.predicted.iter().enumerate() {
            counts.add(truth.row(block.first + row), predicted);
            writer.push(predicted, &[])?;
        }
        pause(work)
    });
    let summary = read.context("the predictions cannot be audited")?;
    warn_of_absent_rows(work, &expected, summary);
    let decisions = writer.finish(truth.cols)?;

    let in_train = label_counts(&train);
    let unlearnt = || counts.iter().zip(&in_train).filter(|(_, in_train)| **in_train == 0);
    let twins = rows(&evaluated).twins();
    let is_unlike = |&&(row, first): &&(usize, usize)| decisions.row(row) != decisions.row(first);
    let audit = AuditObservations {
        protocol: stage.protocol,
        part: stage.part.name(),
        rows: evaluated.rows.len() as u64,
        as_is: figures(&counts),
        trials: Vec::new(),
        duplicates: Some(Duplicates::between(rows(&train), rows(&evaluated))),
        coverage: Coverage::of(&in_train, label_counts(&evaluated).into_iter()),
        loss: None,
        selection: EpochSelection::default(),
        predictions: Some(PredictionChecks {
            predicted_but_unlearnt: unlearnt().map(|(count, _)| u64::from(count.predicted)).sum(),
            right_but_unlearnt: unlearnt().map(|(count, _)| u64::from(count.tp)).sum(),
            rows_with_a_twin: twins.len() as u64,
            decided_unlike_twin: twins.iter().filter(is_unlike).count() as u64,
        }),
    }
    .judge();
    announce(work, &audit);
    save(work, &audit)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;
    use crate::load::Load;
    use crate::stage_test::StageTest;
    use pipe_core::artifact::Artifact as _;
    use pipe_core::kind::Kind;
    use pipe_core::stage::{KindOf, RunStage};
    use pipe_ml::metric::audit::{Audit, FindingSeverity};

    /// [`StageTest`] runs a stage by the type of its parameters.
    impl RunStage for AuditStage {
        type Stage = Self;

        fn run(stage: &Self, work: &mut Work) -> Result<()> {
            run(stage, work)
        }
    }

    /// Test rows 0 and 1 have equal features, row 2 is a training row, and no training row has the label 2.
    fn audited(predictions: &str) -> (Audit, String) {
        let temp = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| -> PathBuf {
            let path = temp.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let train = file("train", "0 0:1\n1 1:1\n0,1 0:1 1:1\n");
        let test = file("test", "0 3:1\n1 3:1\n0 0:1\n2 2:3\n");
        let body = json!({"files": {"train": "a", "test": "b"}});
        let data = StageTest::of::<Load>(body, [("train", train), ("test", test)]);
        let inputs = [("data", data.output("dataset")), ("predictions", file("predictions", predictions))];
        let stage = StageTest::of::<AuditStage>(json!({"data": "d", "predictions": "p"}), inputs);
        assert_eq!((stage.metric("passed"), stage.metric("macro_f1").is_some()), (None, true));
        let page = std::fs::read_to_string(stage.output("text")).unwrap();
        (Audit::open(&stage.output("audit")).unwrap(), page)
    }

    #[test]
    fn predictions_are_audited_as_far_as_that_is_possible_without_a_model() {
        let (audit, page) = audited("row,label\n0,0\n1,0\n2,1\n3,0\n");
        assert_eq!((audit.passed, audit.rows, audit.duplicates.unwrap().in_train), (None, 4, 1));
        assert_eq!(audit.coverage.evaluated_but_unlearnt, 1);
        assert!(page.starts_with("# Audit: not checked for leaks\n"), "{page}");
        let cautions = audit.findings.iter().filter(|finding| finding.weight == FindingSeverity::Caution);
        assert_eq!(cautions.count(), 2, "duplicates and coverage: {page}");
        assert!(
            page.contains("- Not checked: whether decisions depend on the labels of the evaluated rows:"),
            "{page}"
        );
    }

    #[test]
    fn predictions_that_only_the_labels_of_the_evaluated_rows_explain_are_a_caution() {
        let (audit, page) = audited("row,label\n0,0\n1,1\n2,0\n3,2\n");
        assert_eq!(audit.as_is.micro_f1, 1.0);
        assert!(
            page.contains("1 predicted entries have a label that no training row has, and 1 of them"),
            "{page}"
        );
        assert!(
            page.contains("1 of 1 evaluated rows with the features of an earlier one have other"),
            "{page}"
        );
    }

    #[test]
    fn fields_that_need_the_model_are_refused_for_predictions() {
        let check = |yaml: &str| {
            let checked = KindOf::<AuditStage>::new().check(&serde_yaml::from_str(yaml).unwrap()).unwrap();
            let fields: Vec<String> = checked.issues.into_iter().map(|issue| issue.field).collect();
            (fields, checked.params.to_string())
        };
        assert_eq!(check("{ data: d, predictions: { file: p.csv }, threshold: 0 }").0, [""; 0]);
        let all =
            "{ data: d, predictions: p, history: h, signal: none, device: cpu, seed: 1, require: pass }";
        assert_eq!(check(all).0, ["signal", "device", "history", "seed", "require"]);
        assert_eq!(check("{ data: d }").0, [""]);
        let (fields, params) = check("{ data: d, model: m, require: pass }");
        assert_eq!(fields, [""; 0]);
        assert!(
            !params.contains("predictions") && !params.contains("threshold"),
            "the keys of audits of models must not change: {params}"
        );
    }
}
