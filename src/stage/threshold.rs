//! `threshold`: where a model's scores are cut, fitted on scores of training rows that have not seen those rows'
//! labels.

use anyhow::{Context, Result, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::dataset::{DATASET, complaint};
use super::fit::SCORES;
use super::fuse::check;
use super::kind::{RunStage, StageKind};
use super::train::MODEL;
use super::work::Work;
use crate::ml::composite::{Composite, link_tree};
use crate::ml::data::split_data::{PartName, SplitData};
use crate::ml::score::Scale as ScoreScale;
use crate::ml::score::table::ScoreTable;
use crate::ml::threshold::cuts::Decision;
use crate::ml::threshold::rule::{Objective, Rule, Scale};
use crate::spec::kind::{ArtifactType, Complaint, InputDecl, OutputDecl, Program, SourceDecl};
use crate::spec::reference::StageRef;

/// The artifact: [`crate::ml::threshold::cuts::Cuts`] as JSON.
pub const CUTS: ArtifactType = "cuts";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    pub data: StageRef,
    /// A stage of the kind `fit` or `fuse`, on the same data.
    pub model: StageRef,
    /// Soft cuts with a prior of 50 for the macro objective, one global cut for the micro objective, unless stated.
    pub rule: Option<Rule>,
    #[serde(default)]
    pub objective: Objective,
}

impl Threshold {
    fn rule(&self) -> Rule {
        self.rule.clone().unwrap_or(match self.objective {
            Objective::Macro => Rule::Soft { prior: 50.0, scale: Scale::Logit },
            Objective::Micro => Rule::Global {},
        })
    }
}

impl StageKind for Threshold {
    const NAME: &'static str = "threshold";
    const VERSION: u32 = 1;
    const SUMMARY: &'static str = "Chooses the cuts that turn a model's scores into decisions";
    const PROGRAM: Program = Program::Pipe;

    fn inputs(&self) -> Vec<InputDecl> {
        let one = |slot: &str, from: &StageRef, accepts| InputDecl {
            slot: slot.to_owned(),
            source: SourceDecl::One(from.clone()),
            accepts,
        };
        vec![
            one("data", &self.data, DATASET),
            one("model", &self.model, MODEL),
            one("scores", &self.model, SCORES),
        ]
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        let output = |name: &str, artifact, file_name: &str| OutputDecl {
            name: name.to_owned(),
            artifact,
            file_name: file_name.to_owned(),
        };
        vec![output("model", MODEL, "model"), output("cuts", CUTS, "cuts.json")]
    }

    fn complaints(&self) -> Vec<Complaint> {
        let problems = self.rule.iter().flat_map(Rule::problems);
        problems.map(|(field, message)| complaint(&format!("rule.{field}"), message)).collect()
    }
}

impl RunStage for Threshold {
    fn run(&self, work: &mut Work) -> Result<()> {
        let data = SplitData::open(&work.input("data")?.path)?;
        let labels = data.labels(PartName::Train)?;
        let from = work.input("model")?.path.clone();
        let mut model = Composite::load(&from)?;
        let table = ScoreTable::open(&work.input("scores")?.path)?;
        check(&model, &table, &data, &labels)?;
        let rule = self.rule();
        ensure!(
            !rule.reads_log_odds() || table.card().scale == ScoreScale::LogOdds,
            "this rule needs log-odds, and the scores of `{}` are none: put a `fuse` stage between, which also takes one \
             model alone",
            model.parts[0].model.name()
        );
        let cuts = rule.fit(&*table.for_rules()?, &labels, self.objective)?;
        if let Decision::PerLabel { cuts } = cuts.decision() {
            work.metric("labels_with_a_cut", cuts.iter().flatten().count() as f64);
        }
        let path = work.output("cuts")?;
        std::fs::write(path, serde_json::to_vec_pretty(&cuts)?).context("the cuts cannot be written")?;
        model.cuts = Some(cuts);
        let output = work.output("model")?;
        link_tree(&from, output)?;
        // The card is a new file under the old name, never a change of the linked one.
        std::fs::remove_file(output.join("model.json")).context("the old model.json cannot be replaced")?;
        model.save(output)?;
        Ok(())
    }
}
