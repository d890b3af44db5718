//! `idf`: counts how rare each label is in the training rows, eq. 8.

use anyhow::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pipe_core::issue::Issue;
use pipe_core::kind::{InputDecl, OutputDecl, Program};
use pipe_core::reference::StageRef;
use pipe_core::slot::{Out, Slot};
use pipe_core::stage::{RunStage, StageKind};
use pipe_core::work::Work;
use pipe_ml::data::split_data::{PartName, SplitData};
use pipe_ml::signal::idf::Idf;

/// The parameters of `idf`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IdfStage {
    pub data: StageRef,
    /// The number that is added to the count of each label; the paper does not give it. With 1, a label without
    /// training rows is as rare as a label with one training row would be with 0.
    #[serde(default = "one")]
    pub eps: f64,
}

fn one() -> f64 {
    1.0
}

impl IdfStage {
    /// The data set whose training rows are counted.
    pub const DATA: Slot<SplitData> = Slot::new("data");
    /// The counts, and the weight of each label.
    pub const IDF: Out<Idf> = Out::new("idf", "idf.json");
}

impl StageKind for IdfStage {
    const NAME: &'static str = "idf";
    const VERSION: u32 = 1;
    const SUMMARY: &'static str = "Counts the labels of the training rows and weighs them by rarity";
    const PROGRAM: Program = Program::Pipe;

    fn inputs(&self) -> Vec<InputDecl> {
        vec![Self::DATA.one(&self.data)]
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![Self::IDF.decl()]
    }

    fn issues(&self) -> Vec<Issue> {
        let fine = self.eps > 0.0 && self.eps.is_finite();
        if fine { Vec::new() } else { vec![Issue::new("eps", "must be above 0")] }
    }

    fn metrics(&self) -> Option<Vec<&'static str>> {
        Some(vec!["labels_without_rows"])
    }
}

impl RunStage for IdfStage {
    type Stage = Self;

    fn run(stage: &Self, work: &mut Work) -> Result<()> {
        let labels = work.open(Self::DATA)?.labels(PartName::Train)?;
        let rows: Vec<u32> = (0..labels.rows() as u32).collect();
        let idf = Idf::of_rows(&labels, &rows, stage.eps);
        let absent = idf.counts.iter().filter(|count| **count == 0).count();
        work.metric("labels_without_rows", absent as f64);
        work.save(Self::IDF, &idf)
    }
}
