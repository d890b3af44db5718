//! `select`: compares models and rules by cross-validation on training rows, and gives the best one its cuts.

use anyhow::{Context, Result, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fuse::check_same_origin;
use super::threshold::{default_rule, limit_shares, save_cut_model, share_issue};
use pipe_core::artifact::{ArtifactType, JsonArtifact};
use pipe_core::issue::Issue;
use pipe_core::job::Axes;
use pipe_core::kind::{InputDecl, OutputDecl, Program};
use pipe_core::reference::StageRef;
use pipe_core::slot::{Out, Slot};
use pipe_core::stage::{RunStage, StageKind};
use pipe_core::work::{Stopped, Work};
use pipe_ml::composite::Composite;
use pipe_ml::data::csr::Csr;
use pipe_ml::data::split_data::SplitData;
use pipe_ml::explanation::cut::CutRule;
use pipe_ml::metric::counts::Counts;
use pipe_ml::metric::label::Tally;
use pipe_ml::score::ScoreScale;
use pipe_ml::score::table::ScoreTable;
use pipe_ml::threshold::cross_validation::{decide_out_of_fold, draw_folds};
use pipe_ml::threshold::cuts::Cuts;
use pipe_ml::threshold::rule::{Objective, Rule};

/// The parameters of `select`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Select {
    pub data: StageRef,
    /// `fit` or `fuse` stages on the same data. Each of their instances is tried with each rule.
    pub models: Vec<StageRef>,
    /// The rules to try. The default is the rule that `threshold` would use for the objective.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// What the best trial has the highest value of: `macro`, `micro` or `samples`.
    #[serde(default)]
    pub objective: Objective,
    /// The number of folds of the training rows.
    #[serde(default = "default_folds")]
    pub folds: usize,
    /// The seed of the folds.
    #[serde(default)]
    pub seed: u64,
    /// As in `threshold`: a label is never predicted if its cut would give it to more than this share of the training rows although few rows have
    /// it. The cuts of the best trial are limited; the trials are compared without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_share: Option<f64>,
}

fn default_folds() -> usize {
    5
}

/// The trials of a selection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The metric that the trials are compared by.
    pub metric: String,
    pub folds: usize,
    /// The index of the best trial.
    pub chosen: usize,
    pub trials: Vec<Trial>,
}

/// A model with a rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// The axes that distinguish the model from the others.
    pub model: Axes,
    pub rule: Rule,
    /// The metric of decisions about training rows, by cuts that were fitted without the fold of the row.
    pub value: f64,
}

impl Choice {
    /// Returns the best trial.
    pub fn best(&self) -> Option<&Trial> {
        self.trials.get(self.chosen)
    }
}

impl JsonArtifact for Choice {
    const ARTIFACT: ArtifactType = "choice";
}

impl Select {
    /// The data set with the rows that the models were fitted on.
    pub const DATA: Slot<SplitData> = Slot::new("data");
    /// The models to choose from.
    pub const MODELS: Slot<Composite> = Slot::new("models");
    /// The scores of the training rows, in the order of the models.
    pub const MODEL_SCORES: Slot<ScoreTable> = Slot::new("scores").written_in("models");
    /// The best model with its cuts.
    pub const MODEL: Out<Composite> = Out::new("model", "model");
    /// Its cuts alone.
    pub const CUTS: Out<Cuts> = Out::new("cuts", "cuts.json");
    /// All trials, and which one was chosen.
    pub const CHOICE: Out<Choice> = Out::new("choice", "choice.json");

    fn rules(&self) -> Vec<Rule> {
        if self.rules.is_empty() { vec![default_rule(self.objective)] } else { self.rules.clone() }
    }
}

/// Returns the metric of an objective, or `None` if trials cannot be compared by it.
fn metric(objective: Objective) -> Option<&'static str> {
    match objective {
        Objective::Macro => Some("macro_f1"),
        Objective::Micro => Some("micro_f1"),
        Objective::Samples => Some("sample_f1"),
        _ => None,
    }
}

/// Returns the value of the metric of an objective.
fn value(objective: Objective, truth: &Csr, predicted: &Csr) -> Result<f64> {
    let counts = Counts::of(truth, predicted)?;
    let tally = Tally::over(counts.iter());
    Ok(match objective {
        Objective::Micro => tally.micro_f1(),
        Objective::Samples => counts.sample_f1(),
        _ => tally.macro_f1(),
    })
}

impl StageKind for Select {
    const NAME: &'static str = "select";
    const VERSION: u32 = 1;
    const SUMMARY: &'static str = "Chooses a model and a rule by cross-validation on training rows";
    const PROGRAM: Program = Program::Pipe;

    fn inputs(&self) -> Vec<InputDecl> {
        vec![
            Self::DATA.one(&self.data),
            Self::MODELS.many(&self.models),
            Self::MODEL_SCORES.many(&self.models),
        ]
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![Self::MODEL.decl(), Self::CUTS.decl(), Self::CHOICE.decl()]
    }

    fn issues(&self) -> Vec<Issue> {
        let mut issues = Vec::new();
        for (number, rule) in self.rules.iter().enumerate() {
            let field = format!("rules.{number}");
            issues.extend(rule.issues().into_iter().map(|issue| issue.within(&field)));
            if !rule.supports(self.objective) {
                let message = format!("it cannot be fitted for {}", self.objective.words());
                issues.push(Issue::new(field, message));
            }
        }
        if metric(self.objective).is_none() {
            issues.push(Issue::new("objective", "trials are compared by `macro`, `micro` or `samples`"));
        }
        if self.folds < 2 {
            issues.push(Issue::new("folds", "at least 2 folds are needed"));
        }
        issues.extend(share_issue(self.largest_share));
        issues
    }

    fn metrics(&self) -> Option<Vec<&'static str>> {
        Some(vec!["trials", "cross_validated_*"])
    }
}

impl RunStage for Select {
    type Stage = Self;

    fn run(stage: &Self, work: &mut Work) -> Result<()> {
        let data = work.open(Self::DATA)?;
        let (models, tables) = (work.open_all(Self::MODELS)?, work.open_all(Self::MODEL_SCORES)?);
        ensure!(
            !models.is_empty() && models.len() == tables.len(),
            "there are {} models and {} tables of scores: every model needs its own",
            models.len(),
            tables.len()
        );
        let (rules, metric) =
            (stage.rules(), metric(stage.objective).context("this objective has no metric")?);
        let total = (models.len() * rules.len()) as u64;
        let mut trials: Vec<Trial> = Vec::new();
        for ((axes, card), (_, table)) in models.iter().zip(&tables) {
            let labels = card.fitted_on.labels(&data)?;
            check_same_origin(card, table, &data, &labels)?;
            ensure!(
                card.cuts.is_none(),
                "one of the models has cuts already: give the stage before `threshold`"
            );
            ensure!(
                stage.folds <= labels.rows(),
                "{} training rows cannot be divided into {} folds",
                labels.rows(),
                stage.folds
            );
            let scores = table.for_rules()?;
            let folds = draw_folds(labels.rows(), stage.folds, stage.seed);
            for rule in &rules {
                ensure!(
                    !rule.reads_log_odds() || table.card().scale == ScoreScale::LogOdds,
                    "{} needs log-odds, and the scores of `{}` are not log-odds: put a `fuse` stage in between, which \
                     also accepts a single model",
                    words(rule, stage.objective),
                    card.parts[0].model.name()
                );
                if work.should_stop() {
                    return Err(Stopped.into());
                }
                let predicted = decide_out_of_fold(rule, stage.objective, &*scores, &labels, &folds)?;
                let value = value(stage.objective, &labels, &predicted)?;
                trials.push(Trial { model: axes.clone(), rule: rule.clone(), value });
                work.progress(trials.len() as u64, Some(total), "trials", format!("{metric} {value:.4}"));
            }
        }
        let mut chosen = 0;
        for (number, trial) in trials.iter().enumerate() {
            if trial.value > trials[chosen].value {
                chosen = number;
            }
        }
        let (best, of) = (&trials[chosen], chosen / rules.len());
        let name = match best.model.as_slice() {
            [] => format!("model {}", of + 1),
            axes => axes.iter().map(|(axis, value)| format!("{axis}={value}")).collect::<Vec<_>>().join(", "),
        };
        work.fact(
            "chosen",
            format!(
                "{name}, {}: {metric} {:.4}, the best of {} trials on training rows",
                words(&best.rule, stage.objective),
                best.value,
                trials.len()
            ),
        );
        work.metric("trials", trials.len() as f64);
        work.metric(&format!("cross_validated_{metric}"), best.value);

        let (mut model, table) = (models[of].1.clone(), &tables[of].1);
        let labels = model.fitted_on.labels(&data)?;
        let scores = table.for_rules()?;
        let mut cuts = best.rule.fit(&*scores, &labels, stage.objective)?;
        if let Some(share) = stage.largest_share {
            limit_shares(&mut cuts, share, &model, &*scores, &labels, work)?;
        }
        work.save(Self::CUTS, &cuts)?;
        model.cuts = Some(cuts);
        let from = work.inputs(&Self::MODELS)[of].path.clone();
        save_cut_model(&model, &from, work.output_path(Self::MODEL)?)?;
        let choice = Choice { metric: metric.to_owned(), folds: stage.folds, chosen, trials };
        work.save(Self::CHOICE, &choice)
    }
}

fn words(rule: &Rule, objective: Objective) -> String {
    CutRule { rule: rule.clone(), objective }.words()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::super::score_fixture::{ScoreFixture, one};
    use super::super::stage_test::StageTest;
    use super::super::threshold::Threshold;
    use super::*;
    use pipe_core::artifact::Artifact as _;
    use pipe_ml::config::model::ModelConfig;
    use pipe_ml::config::preset::Preset;
    use pipe_ml::data::split_data::PartName;

    fn scored() -> ScoreFixture {
        let logits = || ModelConfig::Mlp { method: Box::new(Preset::Honest.method()) };
        let scored = ScoreFixture::new();
        scored.add("bad", logits(), 0.9, None);
        scored.add("good", logits(), 0.5, None);
        scored.add("sparse", logits(), 0.8, Some(4));
        scored
    }

    fn inputs(scored: &ScoreFixture, models: &[&str]) -> Vec<(&'static str, PathBuf)> {
        let models =
            models.iter().flat_map(|name| [("models", scored.model(name)), ("scores", scored.scores(name))]);
        std::iter::once(("data", scored.data())).chain(models).collect()
    }

    fn body(rules: serde_json::Value) -> serde_json::Value {
        json!({"data": "d", "models": ["m"], "rules": rules, "objective": "macro"})
    }

    #[test]
    fn the_best_model_gets_the_cuts_of_the_best_rule() {
        let scored = scored();
        let rules = json!([{"kind": "global"}, {"kind": "soft"}, {"kind": "fixed", "cut": 100.0}]);
        let stage = StageTest::of::<Select>(body(rules), inputs(&scored, &["bad", "good", "sparse"]));
        let choice = Choice::open(&stage.output("choice")).unwrap();
        assert_eq!((choice.trials.len(), choice.metric.as_str()), (9, "macro_f1"));
        assert!((3..5).contains(&choice.chosen), "a trial of the good model: {choice:?}");
        let best = &choice.trials[choice.chosen];
        assert!(choice.trials.iter().all(|trial| trial.value <= best.value));
        assert_eq!(choice.trials[5].value, 0.0, "nothing is above 100");
        assert_eq!(stage.metric("cross_validated_macro_f1"), Some(best.value));

        let same = json!({"data": "d", "model": "m", "rule": best.rule, "objective": "macro"});
        let threshold =
            StageTest::of::<Threshold>(same, one(&scored, &scored.model("good"), &scored.scores("good")));
        let model = |stage: &StageTest| Composite::load(&stage.output("model")).unwrap();
        assert_eq!(model(&stage), model(&threshold), "the cuts are fitted on all training rows");
        assert!(stage.output("model").join("parts/0/weights").is_file());
    }

    #[test]
    fn a_trial_is_judged_on_rows_that_its_cuts_were_not_fitted_on() {
        let scored = scored();
        let choice = |folds: usize| {
            let mut body = body(json!([{"kind": "scut"}]));
            body["folds"] = json!(folds);
            let stage = StageTest::of::<Select>(body, inputs(&scored, &["bad"]));
            Choice::open(&stage.output("choice")).unwrap().trials[0].value
        };
        let labels = SplitData::open(&scored.data()).unwrap().labels(PartName::Train).unwrap();
        let table = ScoreTable::open(&scored.scores("bad")).unwrap();
        let scores = table.for_rules().unwrap();
        let cuts = Rule::Scut {}.fit(&*scores, &labels, Objective::Macro).unwrap();
        let own_rows = value(Objective::Macro, &labels, &cuts.predict(&*scores).unwrap()).unwrap();
        assert!(choice(5) < own_rows, "{} {own_rows}", choice(5));
        assert_ne!(choice(5), choice(2));
    }

    #[test]
    fn the_cuts_of_the_best_trial_are_limited_as_by_threshold() {
        let scored = scored();
        let mut body = body(json!([{"kind": "fixed", "cut": -1e9}]));
        body["largest_share"] = json!(0.5);
        let stage = StageTest::of::<Select>(body, inputs(&scored, &["good"]));
        let same =
            json!({"data": "d", "model": "m", "rule": {"kind": "fixed", "cut": -1e9}, "largest_share": 0.5});
        let threshold =
            StageTest::of::<Threshold>(same, one(&scored, &scored.model("good"), &scored.scores("good")));
        let cuts = |stage: &StageTest| Composite::load(&stage.output("model")).unwrap().cuts.unwrap();
        assert_eq!(cuts(&stage), cuts(&threshold));
        assert!((0..cuts(&stage).labels()).any(|label| cuts(&stage).cut(label).is_none()));
        assert_eq!(stage.warnings(), threshold.warnings());
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let issues = |body: serde_json::Value| -> Vec<String> {
            let stage: Select = serde_json::from_value(body).unwrap();
            stage.issues().into_iter().map(|issue| issue.field).collect()
        };
        let mut precision = body(json!([]));
        precision["objective"] = json!({"precision": 0.9});
        precision["folds"] = json!(1);
        assert_eq!(issues(precision), ["objective", "folds"]);
        let mut samples = body(json!([{"kind": "global"}, {"kind": "scut"}]));
        samples["objective"] = json!("samples");
        assert_eq!(issues(samples), ["rules.1"]);
        let scored = ScoreFixture::new();
        scored.add("ridge", ScoreFixture::ridge(), 0.5, None);
        let error = StageTest::failure::<Select>(body(json!([])), inputs(&scored, &["ridge"]));
        assert!(error.contains("put a `fuse` stage in between"), "{error}");
    }
}
