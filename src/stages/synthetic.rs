//! `synthetic`: generates a data set with the shape of a real one.

use anyhow::Result;

use super::dataset::{DATASET, DATASET_METRICS, announce, on_threads};
use pipe_core::artifact::PlainFile;
use pipe_core::issue::Issue;
use pipe_core::kind::{InputDecl, OutputDecl, Program};
use pipe_core::slot::Slot;
use pipe_core::stage::{RunStage, StageKind};
use pipe_core::work::Work;
use pipe_ml::data::synthetic::frequency::FrequencyCurve;
use pipe_ml::data::synthetic::{Synthetic, generate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The parameters of `synthetic`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SyntheticStage(Synthetic);

impl SyntheticStage {
    /// A file with the number of rows of each label.
    pub const COUNTS: Slot<PlainFile> = Slot::new("counts");
}

impl StageKind for SyntheticStage {
    const NAME: &'static str = "synthetic";
    const VERSION: u32 = 2;
    const SUMMARY: &'static str = "Generates a data set with a long tail of labels";
    const PROGRAM: Program = Program::Pipe;

    fn inputs(&self) -> Vec<InputDecl> {
        self.0.counts.iter().map(|path| Self::COUNTS.file(&path.0)).collect()
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![DATASET.decl()]
    }

    fn issues(&self) -> Vec<Issue> {
        self.0.issues()
    }

    fn metrics(&self) -> Option<Vec<&'static str>> {
        Some(DATASET_METRICS.to_vec())
    }
}

impl RunStage for SyntheticStage {
    type Stage = Self;

    fn run(stage: &Self, work: &mut Work) -> Result<()> {
        let curve = match stage.0.counts {
            Some(_) => FrequencyCurve::read(work.input_path(Self::COUNTS)?)?,
            None => stage.0.curve(),
        };
        let output = work.output_path(DATASET)?.to_owned();
        let (progress, reported) = std::sync::mpsc::channel();
        let data = std::thread::scope(|scope| {
            let threads = work.job().threads;
            let generated = scope.spawn(move || {
                on_threads(threads, || {
                    generate(&stage.0, &curve, &output, |done, total| {
                        let _ = progress.send((done, total));
                    })
                })
            });
            for (done, total) in reported {
                work.progress(done, Some(total), "rows", "generating");
            }
            generated.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })??;
        announce(work, &data)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::stage_test::StageTest;
    use super::*;
    use pipe_ml::data::split_data::PartName;
    use pipe_ml::data::stats::column_counts;

    #[test]
    fn label_counts_may_come_from_a_file() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("counts.csv");
        std::fs::write(&file, "1,300\n2,150\n3,90\n4,60\n").unwrap();
        let body = json!({
            "rows": 1000, "test_rows": 100, "features": 400, "labels": 4, "labels_per_row": 0.6,
            "features_per_row": 10, "counts": "counts.csv",
        });
        let test = StageTest::of::<SyntheticStage>(body, [("counts", file)]);
        let labels = test.dataset().labels(PartName::Train).unwrap();
        let mut counts = column_counts(&labels, 0..1000);
        counts.sort_unstable();
        let wanted = [60, 90, 150, 300];
        assert!(counts.iter().zip(wanted).all(|(count, wanted)| count.abs_diff(wanted) <= 3), "{counts:?}");
        assert_eq!(test.metric("train_rows"), Some(1000.0));
        assert!(test.progress() > 0);
    }

    #[test]
    fn the_quickstart_pipeline_generates_a_long_tail_of_labels() {
        let text = include_str!("../../pipelines/quickstart.yaml");
        let pipeline: serde_json::Value = serde_yaml::from_str(text).unwrap();
        let body = pipeline["stages"]["data"]["synthetic"].clone();
        let test = StageTest::of::<SyntheticStage>(body, [] as [(&str, std::path::PathBuf); 0]);
        let data = test.dataset();
        assert_eq!(PartName::ALL.map(|part| data.rows(part)), [3600, 400, 1000]);
        assert!(test.metric("labels_under_10").unwrap() > 0.2);
    }

    #[test]
    fn issues_name_their_field() {
        let stage: SyntheticStage =
            serde_yaml::from_str("{difficulty: 2, validation: {fraction: 1}}").unwrap();
        let fields: Vec<String> = stage.issues().into_iter().map(|issue| issue.field).collect();
        assert_eq!(fields, ["difficulty", "validation.fraction"]);
    }
}
