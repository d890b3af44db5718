//! `threshold`: where a model's scores are cut, fitted on scores of training rows that have not seen those rows'
//! labels.

use anyhow::{Context, Result, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::dataset::DATASET;
use super::fit::SCORES;
use super::fuse::check;
use super::train::MODEL;
use pipe_core::issue::Issue;
use pipe_core::kind::{ArtifactType, InputDecl, OutputDecl, Program};
use pipe_core::reference::StageRef;
use pipe_core::stage::{RunStage, StageKind};
use pipe_core::work::Work;
use pipe_ml::composite::{Composite, link_tree};
use pipe_ml::data::split_data::{PartName, SplitData};
use pipe_ml::score::Scale as ScoreScale;
use pipe_ml::score::table::ScoreTable;
use pipe_ml::threshold::cuts::Decision;
use pipe_ml::threshold::rule::{Objective, Rule, Scale};

/// The artifact: [`pipe_ml::threshold::cuts::Cuts`] as JSON.
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
    /// The rule with which the objective goes unless one is stated.
    pub fn rule(&self) -> Rule {
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
        vec![
            InputDecl::one("data", &self.data, DATASET),
            InputDecl::one("model", &self.model, MODEL),
            InputDecl::one("scores", &self.model, SCORES).written_in("model"),
        ]
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![OutputDecl::new("model", MODEL, "model"), OutputDecl::new("cuts", CUTS, "cuts.json")]
    }

    fn issues(&self) -> Vec<Issue> {
        self.rule.iter().flat_map(Rule::issues).map(|issue| issue.within("rule")).collect()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::scored::{Scored, one};
    use super::super::trial::Trial;
    use super::*;
    use pipe_ml::config::model::ModelConfig;
    use pipe_ml::config::preset::Preset;
    use pipe_ml::threshold::cuts::Cuts;

    fn logits() -> ModelConfig {
        ModelConfig::Mlp { method: Box::new(Preset::Honest.method()) }
    }

    fn scored(model: ModelConfig) -> Scored {
        let scored = Scored::new();
        scored.add("m", model, 0.6, None);
        scored
    }

    fn run(scored: &Scored, rule: serde_json::Value, objective: &str) -> Trial {
        let body = json!({"data": "d", "model": "m", "rule": rule, "objective": objective});
        Trial::of::<Threshold>(body, one(scored, &scored.model("m"), &scored.scores("m")))
    }

    #[test]
    fn every_rule_leaves_the_cuts_that_it_fits() {
        let scored = scored(logits());
        let data = SplitData::open(&scored.data()).unwrap();
        let labels = data.labels(PartName::Train).unwrap();
        let table = ScoreTable::open(&scored.scores("m")).unwrap();
        for kind in Rule::kinds() {
            for (objective, name) in [(Objective::Macro, "macro"), (Objective::Micro, "micro")] {
                let trial = run(&scored, json!({"kind": kind}), name);
                let cuts: Cuts =
                    serde_json::from_slice(&std::fs::read(trial.output("cuts")).unwrap()).unwrap();
                let rule: Rule = serde_json::from_value(json!({"kind": kind})).unwrap();
                let expected = rule.fit(&*table.for_rules().unwrap(), &labels, objective).unwrap();
                assert_eq!(cuts, expected, "{kind} {name}");
                let model = Composite::load(&trial.output("model")).unwrap();
                assert_eq!(model.cuts, Some(cuts));
                assert!(trial.output("model").join("parts/0/weights").is_file());
            }
        }
        assert_eq!(Composite::load(&scored.model("m")).unwrap().cuts, None, "the input is as it was");
    }

    #[test]
    fn without_a_rule_the_objective_chooses() {
        let scored = scored(logits());
        let cuts = |trial: Trial| std::fs::read(trial.output("cuts")).unwrap();
        let chosen = |objective| cuts(run(&scored, serde_json::Value::Null, objective));
        assert_eq!(chosen("macro"), cuts(run(&scored, json!({"kind": "soft", "prior": 50}), "macro")));
        assert_eq!(chosen("micro"), cuts(run(&scored, json!({"kind": "global"}), "micro")));
    }

    #[test]
    fn responses_have_to_be_fused_before_a_rule_may_take_them_for_log_odds() {
        let scored = scored(Scored::ridge());
        let inputs = one(&scored, &scored.model("m"), &scored.scores("m"));
        let error = Trial::failure::<Threshold>(json!({"data": "d", "model": "m"}), inputs);
        assert!(error.contains("`ridge`") && error.contains("`fuse`"), "{error}");
        run(&scored, json!({"kind": "scut"}), "macro");
    }

    #[test]
    fn a_model_of_other_data_is_refused() {
        let scored = scored(logits());
        let path = scored.model("m").join("model.json");
        let card = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, card.replace("\"features\":60", "\"features\":61")).unwrap();
        let inputs = one(&scored, &scored.model("m"), &scored.scores("m"));
        let error = Trial::failure::<Threshold>(json!({"data": "d", "model": "m"}), inputs);
        assert!(error.contains("61 features") && error.contains("same data"), "{error}");
    }

    #[test]
    fn a_rule_that_cannot_be_used_is_an_issue() {
        let stage: Threshold =
            serde_yaml::from_str("{ data: d, model: m, rule: { kind: soft, prior: -1 } }").unwrap();
        assert_eq!(stage.issues()[0].field, "rule.prior");
    }
}
