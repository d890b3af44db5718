//! Evaluates predictions that another program wrote.

use anyhow::{Context, Result};

use super::evaluate::{Evaluate, conclude};
use pipe_core::work::{Stopped, Work};
use pipe_ml::data::csr::Csr;
use pipe_ml::data::split_data::{PartName, SplitData};
use pipe_ml::data::stats::column_counts;
use pipe_ml::metric::block::DecisionBlock;
use pipe_ml::metric::decisions::DecisionsWriter;
use pipe_ml::metric::evaluation::TrainingCounts;
use pipe_ml::metric::measure::Measure;
use pipe_ml::predictions::{ExpectedPredictions, PredictionSummary};
use pipe_ml::system::BlockSink;

/// Evaluates the predictions of a stage.
pub(crate) fn run(stage: &Evaluate, work: &mut Work) -> Result<()> {
    let data = work.open(Evaluate::DATA)?;
    let path = work.input_path(Evaluate::PREDICTIONS)?.to_owned();
    let truth: Csr = data.labels(stage.part.name())?;
    let train: Csr = data.labels(PartName::Train)?;
    let positives = column_counts(&train, 0..train.rows() as u32);
    let training = TrainingCounts {
        rows: train.rows(),
        positives: positives.into_iter().map(|count| count as u32).collect(),
        propensity: stage.propensity,
    };
    let expected = expected(&data, &truth, stage.threshold)?;
    let threads = rayon::ThreadPoolBuilder::new().num_threads(work.job().threads.max(1)).build()?;
    let mut measure = threads.install(|| Measure::new(truth.cols, Some(training)));
    let mut writer = DecisionsWriter::create(work.output_path(Evaluate::DECISIONS)?)?;
    let reading = work.job().threads;
    let mut take = |block: &DecisionBlock| {
        let truth: Vec<&[u32]> = (0..block.rows).map(|row| truth.row(block.first + row)).collect();
        threads.install(|| measure.add(block, &truth))?;
        for (truth, predicted) in truth.iter().zip(&block.predicted) {
            writer.push(truth, predicted)?;
        }
        if work.should_stop() { Err(anyhow::Error::from(Stopped)) } else { Ok(()) }
    };
    let read = |take: BlockSink| expected.read(&path, reading, take);
    let summary =
        stage.decide(&truth, &threads, read, &mut take).context("the predictions cannot be evaluated")?;
    warn_of_absent_rows(work, &expected, summary);
    let protocol = stage.marked_protocol();
    let decisions = writer.finish(protocol, truth.cols)?;
    conclude(work, stage, &measure.finish(protocol), &decisions, &threads)
}

/// Returns the rows and labels that predictions must be about.
pub(crate) fn expected(data: &SplitData, truth: &Csr, threshold: Option<f64>) -> Result<ExpectedPredictions> {
    Ok(ExpectedPredictions {
        rows: truth.rows(),
        labels: truth.cols,
        label_names: data.label_names()?,
        threshold: threshold.map(|threshold| threshold as f32),
    })
}

/// Warns of rows that a list of decisions does not mention.
pub(crate) fn warn_of_absent_rows(
    work: &mut Work,
    expected: &ExpectedPredictions,
    summary: PredictionSummary,
) {
    if summary.absent_rows > 0 {
        work.warn(format!(
            "{} of {} rows do not occur in the predictions: no label is predicted for them",
            summary.absent_rows, expected.rows
        ));
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::super::load::Load;
    use super::super::stage_test::StageTest;
    use super::*;
    use pipe_core::artifact::Artifact as _;
    use pipe_core::issue::Issue;
    use pipe_core::kind::Kind;
    use pipe_core::stage::{KindOf, RunStage};
    use pipe_ml::artifacts::LabelRecords;
    use pipe_ml::metric::curves::Curves;
    use pipe_ml::metric::decisions::Decisions;
    use pipe_ml::metric::marked::Protocol;
    use pipe_ml::metric::record::EvaluationRecord;
    use pipe_ml::metric::registry::Metric;

    /// [`StageTest`] runs a stage by the type of its parameters.
    impl RunStage for Evaluate {
        type Stage = Self;

        fn run(stage: &Self, work: &mut Work) -> Result<()> {
            run(stage, work)
        }
    }

    /// Four training rows and four test rows with the labels 0, 1 and 2.
    fn dataset() -> StageTest {
        let temp = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = temp.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let train = file("train", "0 0:1\n1 1:1\n2 2:1\n0,1 0:1 1:1\n");
        let test = file("test", "0 0:1\n0,1 1:2\n2 2:3\n 3:1\n");
        StageTest::of::<Load>(
            json!({"files": {"train": "a", "test": "b"}}),
            [("train", train), ("test", test)],
        )
    }

    fn inputs(data: &StageTest, predictions: &str) -> [(&'static str, PathBuf); 2] {
        let path = data.output("predictions");
        std::fs::write(&path, predictions).unwrap();
        [("data", data.output("dataset")), ("predictions", path)]
    }

    fn evaluated(body: serde_json::Value, predictions: &str) -> StageTest {
        StageTest::of::<Evaluate>(body, inputs(&dataset(), predictions))
    }

    fn body() -> serde_json::Value {
        json!({"data": "d", "predictions": "p", "bootstrap": {"replicates": 20}})
    }

    #[test]
    fn decisions_have_the_outputs_of_a_model_without_what_needs_scores() {
        let stage = evaluated(body(), "row,label\n0,0\n1,0\n2,1\n");
        let record = EvaluationRecord::open(&stage.output("evaluation")).unwrap();
        let value = |metric| record.get(metric).and_then(pipe_ml::metric::marked::Marked::honest);
        // 2 true positives, 1 false positive, 2 false negatives.
        assert_eq!(value(Metric::MicroF1), Some(4.0 / 7.0));
        assert_eq!(value(Metric::MacroF1), Some(1.0 / 3.0));
        assert_eq!((value(Metric::PAt1), value(Metric::Ece)), (None, None));
        assert!(record.interval(Metric::MacroF1).is_some());
        let LabelRecords(labels) = LabelRecords::open(&stage.output("labels")).unwrap();
        assert_eq!((labels[0].training_positives, labels[0].threshold), (Some(2), None));
        let decisions = Decisions::open(&stage.output("decisions")).unwrap();
        assert_eq!((decisions.predicted.row(2), decisions.truth.row(2)), (&[1][..], &[2][..]));
        let curves = Curves::open(&stage.output("curves")).unwrap();
        assert!(curves.tradeoff.is_empty() && !curves.by_frequency.is_empty());
        assert_eq!(stage.metric("micro_f1"), Some(4.0 / 7.0));
        let warning = "1 of 4 rows do not occur in the predictions: no label is predicted for them";
        assert_eq!(stage.warnings(), [warning]);
    }

    #[test]
    fn scores_have_every_metric_that_a_model_with_cuts_has() {
        let scores = "row,label,score\n0,0,0.9\n1,0,0.4\n1,1,0.6\n2,0,0.7\n3,1,0.2\n";
        let stage = evaluated(body(), scores);
        let record = EvaluationRecord::open(&stage.output("evaluation")).unwrap();
        let value = |metric| record.get(metric).and_then(pipe_ml::metric::marked::Marked::honest);
        assert_eq!(
            value(Metric::PAt1),
            Some(0.5),
            "rows 0 and 1 are right, row 2 is wrong, and row 3 has no label"
        );
        // Labels without a score are not ranked: label 2 of row 2 would be among the best three.
        assert_eq!(value(Metric::PAt3), Some(3.0 / 3.0 / 4.0));
        assert!(value(Metric::Brier).is_some() && value(Metric::PspAt1).is_some());
        let LabelRecords(labels) = LabelRecords::open(&stage.output("labels")).unwrap();
        assert_eq!(labels[0].threshold, Some(0.5));
        assert!(!Curves::open(&stage.output("curves")).unwrap().tradeoff.is_empty());
        assert_eq!(stage.warnings(), [""; 0]);
    }

    #[test]
    fn predictions_are_marked_with_the_protocol_that_the_user_declares() {
        let mut body = body();
        body["protocol"] = json!("oracle");
        let stage = evaluated(body, "row,label\n0,0\n1,0\n2,1\n3,1\n");
        let record = EvaluationRecord::open(&stage.output("evaluation")).unwrap();
        assert_eq!(record.get(Metric::MacroF1).unwrap().honest(), None);
    }

    #[test]
    fn a_ceiling_has_the_best_cuts_and_the_mark_of_an_oracle_everywhere() {
        let scores = "row,label,score\n0,0,0.9\n1,0,0.5\n1,1,0.6\n2,0,0.25\n2,1,0.7\n3,1,0.2\n";
        let (own, mut ceiling) = (evaluated(body(), scores), body());
        ceiling["ceiling"] = json!("macro");
        let stage = evaluated(ceiling.clone(), scores);
        let record = |stage: &StageTest| EvaluationRecord::open(&stage.output("evaluation")).unwrap();
        let own_f1 = record(&own).get(Metric::MacroF1).unwrap().honest().unwrap();
        let macro_f1 = record(&stage).get(Metric::MacroF1).unwrap();
        assert_eq!(macro_f1.honest(), None, "it must not look like an honest result");
        // Label 0 is separated by a cut between 0.25 and 0.5, label 1 needs two predictions for its row, label 2 has no score.
        assert_eq!(macro_f1.reveal(), (Protocol::Oracle, (1.0 + 2.0 / 3.0) / 3.0));
        assert!(own_f1 < macro_f1.reveal().1);
        assert_eq!(Decisions::open(&stage.output("decisions")).unwrap().protocol, Protocol::Oracle);
        assert_eq!(Curves::open(&stage.output("curves")).unwrap().protocol, Protocol::Oracle);
        let marks = [own.protocol("macro_f1"), stage.protocol("macro_f1")];
        assert_eq!(marks, [Some(Protocol::Honest), Some(Protocol::Oracle)]);
        let LabelRecords(labels) = LabelRecords::open(&stage.output("labels")).unwrap();
        assert_eq!((labels[0].threshold, labels[2].threshold), (Some(0.375), None));
        let error = StageTest::failure::<Evaluate>(ceiling, inputs(&dataset(), "row,label\n0,0\n"));
        assert!(error.contains("predictions without scores have no ceiling"), "{error}");
    }

    #[test]
    fn labels_without_names_are_those_of_the_file() {
        let temp = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = temp.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let files = [("train", file("a", "1 1:1\n3 2:1\n")), ("test", file("b", "1 1:1\n3 2:2\n"))];
        let data = StageTest::of::<Load>(json!({"files": {"train": "a", "test": "b"}}), files);
        let stage = StageTest::of::<Evaluate>(body(), inputs(&data, "row,label\n0,1\n1,3\n"));
        assert_eq!(stage.metric("micro_f1"), Some(1.0), "the numbers are not taken for indices");
        let error = StageTest::failure::<Evaluate>(body(), inputs(&data, "row,label\n0,0\n"));
        assert!(error.contains("no label is called `0`"), "{error}");
    }

    #[test]
    fn predictions_about_other_rows_are_refused() {
        let error = StageTest::failure::<Evaluate>(body(), inputs(&dataset(), "row,label\n4,0\n"));
        assert!(error.starts_with("the predictions cannot be evaluated: "), "{error}");
        assert!(error.contains("line 2: there is no row 4: the evaluated part has 4 rows"), "{error}");
    }

    #[test]
    fn a_model_or_predictions_are_given_and_only_a_model_needs_the_worker() {
        let check =
            |yaml: &str| KindOf::<Evaluate>::new().check(&serde_yaml::from_str(yaml).unwrap()).unwrap();
        let fields = |yaml: &str| -> Vec<String> {
            check(yaml).issues.into_iter().map(|issue: Issue| issue.field).collect()
        };
        assert_eq!(fields("{ data: d, model: m }"), [""; 0]);
        assert_eq!(fields("{ data: d, predictions: p.csv, threshold: 0 }"), [""; 0]);
        assert_eq!(fields("{ data: d, predictions: { file: p.csv } }"), [""; 0]);
        assert_eq!(fields("{ data: d }"), [""]);
        assert_eq!(fields("{ data: d, model: m, predictions: p }"), [""]);
        assert_eq!(fields("{ data: d, model: m, threshold: 0.5 }"), ["threshold"]);
        assert_eq!(fields("{ data: d, predictions: p, signal: none, device: cpu }"), ["signal", "device"]);
        let params = |yaml: &str| check(yaml).params.to_string();
        assert!(
            !params("{ data: d, model: m }").contains("predictions"),
            "the keys of models must not change"
        );
        assert!(
            !params("{ data: d, model: m }").contains("ceiling"),
            "keys of earlier versions have no ceiling"
        );
        assert_eq!(params("{ data: d, predictions: p }"), params("{ data: x, predictions: { file: q } }"));
    }
}
