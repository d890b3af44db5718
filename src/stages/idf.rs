//! `idf`: how rare each label is in the training rows, eq. 8.

use anyhow::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::dataset::DATASET;
use pipe_core::issue::Issue;
use pipe_core::kind::{ArtifactType, InputDecl, OutputDecl, Program};
use pipe_core::reference::StageRef;
use pipe_core::stage::{RunStage, StageKind};
use pipe_core::work::Work;
use pipe_ml::data::split_data::{PartName, SplitData};
use pipe_ml::signal::idf::Idf;

/// The artifact: [`Idf`] as JSON.
pub const IDF: ArtifactType = "idf";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IdfStage {
    pub data: StageRef,
    /// Added to each label's count; the paper leaves it open. With 1, a label without training
    /// rows is as rare as one that has a single one would be with 0.
    #[serde(default = "one")]
    pub eps: f64,
}

fn one() -> f64 {
    1.0
}

impl StageKind for IdfStage {
    const NAME: &'static str = "idf";
    const VERSION: u32 = 1;
    const SUMMARY: &'static str = "Counts the labels of the training rows and weighs them by rarity";
    const PROGRAM: Program = Program::Pipe;

    fn inputs(&self) -> Vec<InputDecl> {
        vec![InputDecl::one("data", &self.data, DATASET)]
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![OutputDecl::new("idf", IDF, "idf.json")]
    }

    fn issues(&self) -> Vec<Issue> {
        let fine = self.eps > 0.0 && self.eps.is_finite();
        if fine { Vec::new() } else { vec![Issue::new("eps", "must be above 0")] }
    }
}

impl RunStage for IdfStage {
    fn run(&self, work: &mut Work) -> Result<()> {
        let labels = SplitData::open(&work.input("data")?.path)?.labels(PartName::Train)?;
        let rows: Vec<u32> = (0..labels.rows() as u32).collect();
        let idf = Idf::of_rows(&labels, &rows, self.eps);
        let absent = idf.counts.iter().filter(|count| **count == 0).count();
        work.metric("labels_without_rows", absent as f64);
        std::fs::write(work.output("idf")?, serde_json::to_vec(&idf)?)?;
        Ok(())
    }
}
