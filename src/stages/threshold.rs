//! `threshold`: chooses the cuts that turn a model's scores into decisions, from scores of training rows that were made
//! without those rows' labels.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fuse::check_same_origin;
use pipe_core::issue::Issue;
use pipe_core::kind::{InputDecl, OutputDecl, Program};
use pipe_core::reference::StageRef;
use pipe_core::slot::{Out, Slot};
use pipe_core::stage::{RunStage, StageKind};
use pipe_core::work::Work;
use pipe_ml::composite::{Composite, copy_tree};
use pipe_ml::data::csr::Csr;
use pipe_ml::data::split_data::SplitData;
use pipe_ml::data::stats::column_counts;
use pipe_ml::fusion::Fusion;
use pipe_ml::score::ScoreScale;
use pipe_ml::score::table::ScoreTable;
use pipe_ml::threshold::cuts::{Cuts, Decision};
use pipe_ml::threshold::rule::{Objective, Rule, Scale};
use pipe_ml::threshold::scores::Scores;

/// The parameters of `threshold`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    pub data: StageRef,
    /// A `fit` or `fuse` stage on the same data.
    pub model: StageRef,
    /// The rule that sets the cuts. The default is `soft` with a prior of 50 for `macro` and for objectives of each label,
    /// and `global` for the others.
    pub rule: Option<Rule>,
    #[serde(default)]
    pub objective: Objective,
    /// A label is never predicted if its cut would give it to more than this share of the training rows, and to more than ten
    /// times as many rows as have it; and no label is predicted if all weights of the fusion are negative. There is no such
    /// limit by default, and then this is not part of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_share: Option<f64>,
}

impl Threshold {
    /// The data set with the rows that the model was fitted on.
    pub const DATA: Slot<SplitData> = Slot::new("data");
    /// The model whose scores are cut.
    pub const MODEL: Slot<Composite> = Slot::new("model");
    /// The scores of the training rows.
    pub const SCORES: Slot<ScoreTable> = Slot::new("scores").written_in("model");
    /// The model with its cuts.
    pub const CUT_MODEL: Out<Composite> = Out::new("model", "model");
    /// The cuts alone.
    pub const CUTS: Out<Cuts> = Out::new("cuts", "cuts.json");

    /// Returns the rule: the stated one, or the default of the objective.
    pub fn rule(&self) -> Rule {
        self.rule.clone().unwrap_or_else(|| default_rule(self.objective))
    }
}

/// Returns the rule that is fitted for an objective if none is stated.
pub(crate) fn default_rule(objective: Objective) -> Rule {
    match objective {
        Objective::Macro | Objective::Precision(_) | Objective::Recall(_) | Objective::Cost(_) => {
            Rule::Soft { prior: 50.0, scale: Scale::Logit }
        }
        Objective::Micro
        | Objective::Samples
        | Objective::OverallPrecision(_)
        | Objective::OverallRecall(_) => Rule::Global {},
    }
}

/// Returns what is wrong with a `largest_share`.
pub(crate) fn share_issue(largest_share: Option<f64>) -> Option<Issue> {
    let is_wrong = largest_share.is_some_and(|share| !(share > 0.0 && share <= 1.0));
    is_wrong.then(|| Issue::new("largest_share", "must be above 0 and at most 1"))
}

/// Drops cuts that would give a label to more than a share of the training rows although few rows have it, and all cuts if the scores say nothing
/// about the labels.
pub(crate) fn limit_shares(
    cuts: &mut Cuts,
    largest_share: f64,
    model: &Composite,
    scores: &dyn Scores,
    labels: &Csr,
    work: &mut Work,
) -> Result<()> {
    let counts = column_counts(labels, 0..labels.rows() as u32);
    let dropped = cuts.drop_useless(scores, &counts, largest_share)?;
    if model.fusion.as_ref().is_some_and(Fusion::is_uninformed) {
        cuts.drop_all();
        let warning = "no label is ever predicted, because the scores of the training rows say nothing about their labels \
                       (the weights of the fusion are negative or negligible): there are too few rows for each label";
        work.warn(warning.to_owned());
    } else if dropped > 0 {
        work.warn(format!(
            "{dropped} of {} labels are never predicted, because their cuts would give them to most rows although few rows \
             have them (`largest_share`)",
            labels.cols
        ));
    }
    Ok(())
}

/// Writes a model that has got its cuts, with the files of the model at `from`.
pub(crate) fn save_cut_model(model: &Composite, from: &Path, output: &Path) -> Result<()> {
    copy_tree(from, output)?;
    // The copy of `model.json` may be read-only, so it is replaced.
    std::fs::remove_file(output.join("model.json")).context("the old model.json cannot be replaced")?;
    Ok(model.save(output)?)
}

impl StageKind for Threshold {
    const NAME: &'static str = "threshold";
    const VERSION: u32 = 1;
    const SUMMARY: &'static str = "Chooses the cuts that turn a model's scores into decisions";
    const PROGRAM: Program = Program::Pipe;

    /// In version 2, a fusion whose positive weights are negligible says nothing about the labels.
    fn version(&self) -> u32 {
        if self.largest_share.is_some() { 2 } else { Self::VERSION }
    }

    fn inputs(&self) -> Vec<InputDecl> {
        vec![Self::DATA.one(&self.data), Self::MODEL.one(&self.model), Self::SCORES.one(&self.model)]
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![Self::CUT_MODEL.decl(), Self::CUTS.decl()]
    }

    fn issues(&self) -> Vec<Issue> {
        let rule = self.rule.iter().flat_map(Rule::issues).map(|issue| issue.within("rule"));
        let objective = self.objective.issues().into_iter().map(|issue| issue.within("objective"));
        let mut issues: Vec<Issue> = rule.chain(objective).collect();
        if !self.rule().supports(self.objective) {
            let others = Rule::kinds_for(self.objective).join("`, `");
            let message = format!("it cannot be fitted for {}: use `{others}`", self.objective.words());
            issues.push(Issue::new("rule", message));
        }
        issues.extend(share_issue(self.largest_share));
        issues
    }

    fn metrics(&self) -> Option<Vec<&'static str>> {
        Some(vec!["labels_with_a_cut"])
    }
}

impl RunStage for Threshold {
    type Stage = Self;

    fn run(stage: &Self, work: &mut Work) -> Result<()> {
        let data = work.open(Self::DATA)?;
        let mut model = work.open(Self::MODEL)?;
        let labels = model.fitted_on.labels(&data)?;
        let table = work.open(Self::SCORES)?;
        check_same_origin(&model, &table, &data, &labels)?;
        let rule = stage.rule();
        ensure!(
            !rule.reads_log_odds() || table.card().scale == ScoreScale::LogOdds,
            "this rule needs log-odds, and the scores of `{}` are not log-odds: put a `fuse` stage in between, which also \
             accepts a single model",
            model.parts[0].model.name()
        );
        let scores = table.for_rules()?;
        let mut cuts = rule.fit(&*scores, &labels, stage.objective)?;
        if let Some(share) = stage.largest_share {
            limit_shares(&mut cuts, share, &model, &*scores, &labels, work)?;
        }
        if let Decision::PerLabel { cuts } = cuts.decision() {
            work.metric("labels_with_a_cut", cuts.iter().flatten().count() as f64);
            if let Objective::OverallPrecision(least) = stage.objective
                && cuts.iter().all(Option::is_none)
            {
                work.warn(format!(
                    "no cut reaches a precision of {least} on the training rows, so nothing is ever predicted"
                ));
            }
            if let Objective::Precision(least) = stage.objective {
                let counts = column_counts(&labels, 0..labels.rows() as u32);
                let failing =
                    counts.iter().zip(cuts).filter(|(count, cut)| **count > 0 && cut.is_none()).count();
                if failing > 0 {
                    work.warn(format!(
                        "{failing} of {} labels cannot reach a precision of {least} on the training rows with this rule, so \
                         they are never predicted",
                        labels.cols
                    ));
                }
            }
        }
        work.save(Self::CUTS, &cuts)?;
        model.cuts = Some(cuts);
        save_cut_model(&model, work.input_path(Self::MODEL)?, work.output_path(Self::CUT_MODEL)?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::score_fixture::{ScoreFixture, one};
    use super::super::stage_test::StageTest;
    use super::*;
    use pipe_ml::config::model::ModelConfig;
    use pipe_ml::config::preset::Preset;
    use pipe_ml::data::split_data::PartName;

    fn logits() -> ModelConfig {
        ModelConfig::Mlp { method: Box::new(Preset::Honest.method()) }
    }

    fn scored(model: ModelConfig) -> ScoreFixture {
        let scored = ScoreFixture::new();
        scored.add("m", model, 0.6, None);
        scored
    }

    fn run(scored: &ScoreFixture, rule: serde_json::Value, objective: &str) -> StageTest {
        let body = json!({"data": "d", "model": "m", "rule": rule, "objective": objective});
        StageTest::of::<Threshold>(body, one(scored, &scored.model("m"), &scored.scores("m")))
    }

    #[test]
    fn every_rule_writes_the_cuts_that_it_fits() {
        let scored = scored(logits());
        let data = SplitData::open(&scored.data()).unwrap();
        let labels = data.labels(PartName::Train).unwrap();
        let table = ScoreTable::open(&scored.scores("m")).unwrap();
        for kind in Rule::kinds() {
            for (objective, name) in [(Objective::Macro, "macro"), (Objective::Micro, "micro")] {
                let test = run(&scored, json!({"kind": kind}), name);
                let cuts: Cuts =
                    serde_json::from_slice(&std::fs::read(test.output("cuts")).unwrap()).unwrap();
                let rule: Rule = serde_json::from_value(json!({"kind": kind})).unwrap();
                let expected = rule.fit(&*table.for_rules().unwrap(), &labels, objective).unwrap();
                assert_eq!(cuts, expected, "{kind} {name}");
                let model = Composite::load(&test.output("model")).unwrap();
                assert_eq!(model.cuts, Some(cuts));
                assert!(test.output("model").join("parts/0/weights").is_file());
            }
        }
        assert_eq!(
            Composite::load(&scored.model("m")).unwrap().cuts,
            None,
            "the input model must not change"
        );
    }

    #[test]
    fn a_label_that_most_rows_would_get_and_few_have_is_never_predicted() {
        let scored = scored(logits());
        let fixed = |share: serde_json::Value| {
            let mut body = json!({"data": "d", "model": "m", "rule": {"kind": "fixed", "cut": -1e9}});
            if !share.is_null() {
                body["largest_share"] = share;
            }
            let test =
                StageTest::of::<Threshold>(body, one(&scored, &scored.model("m"), &scored.scores("m")));
            let cuts: Cuts = serde_json::from_slice(&std::fs::read(test.output("cuts")).unwrap()).unwrap();
            let warned = test.warnings().iter().any(|warning| warning.contains("largest_share"));
            ((0..cuts.labels()).map(|label| cuts.cut(label).is_some()).collect::<Vec<_>>(), warned)
        };
        let data = SplitData::open(&scored.data()).unwrap();
        let labels = data.labels(PartName::Train).unwrap();
        let counts = column_counts(&labels, 0..labels.rows() as u32);
        let is_frequent: Vec<bool> = counts.iter().map(|&count| 10 * count >= labels.rows() as u64).collect();
        assert_eq!(fixed(json!(0.5)), (is_frequent.clone(), is_frequent.contains(&false)));
        assert_eq!(fixed(json!(null)), (vec![true; counts.len()], false));
    }

    #[test]
    fn without_a_rule_the_objective_determines_the_rule() {
        let scored = scored(logits());
        let cuts = |test: StageTest| std::fs::read(test.output("cuts")).unwrap();
        let chosen = |objective| cuts(run(&scored, serde_json::Value::Null, objective));
        assert_eq!(chosen("macro"), cuts(run(&scored, json!({"kind": "soft", "prior": 50}), "macro")));
        assert_eq!(chosen("micro"), cuts(run(&scored, json!({"kind": "global"}), "micro")));
        assert_eq!(chosen("samples"), cuts(run(&scored, json!({"kind": "global"}), "samples")));
    }

    #[test]
    fn labels_that_cannot_reach_the_precision_are_never_predicted_and_counted() {
        let scored = ScoreFixture::new();
        scored.add("m", logits(), 0.95, None);
        let run = |rule: &str, least: f64| {
            let body =
                json!({"data": "d", "model": "m", "rule": {"kind": rule}, "objective": {"precision": least}});
            StageTest::of::<Threshold>(body, one(&scored, &scored.model("m"), &scored.scores("m")))
        };
        let test = run("scut", 1.0);
        let cuts: Cuts = serde_json::from_slice(&std::fs::read(test.output("cuts")).unwrap()).unwrap();
        let labels = SplitData::open(&scored.data()).unwrap().labels(PartName::Train).unwrap();
        let counts = column_counts(&labels, 0..labels.rows() as u32);
        let failing =
            (0..labels.cols).filter(|&label| counts[label] > 0 && cuts.cut(label).is_none()).count();
        assert!(failing > 0);
        let expected = format!(
            "{failing} of {} labels cannot reach a precision of 1 on the training rows with this rule, so they are never predicted",
            labels.cols
        );
        assert_eq!(test.warnings(), [expected.as_str()]);
        assert!(run("scut", 0.01).warnings().is_empty());
    }

    #[test]
    fn a_rule_that_needs_log_odds_refuses_responses() {
        let scored = scored(ScoreFixture::ridge());
        let inputs = one(&scored, &scored.model("m"), &scored.scores("m"));
        let error = StageTest::failure::<Threshold>(json!({"data": "d", "model": "m"}), inputs);
        assert!(error.contains("`ridge`") && error.contains("`fuse`"), "{error}");
        run(&scored, json!({"kind": "scut"}), "macro");
    }

    #[test]
    fn a_model_that_was_fitted_on_other_data_is_refused() {
        let scored = scored(logits());
        let path = scored.model("m").join("model.json");
        let card = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, card.replace("\"features\":60", "\"features\":61")).unwrap();
        let inputs = one(&scored, &scored.model("m"), &scored.scores("m"));
        let error = StageTest::failure::<Threshold>(json!({"data": "d", "model": "m"}), inputs);
        assert!(error.contains("61 features") && error.contains("same data"), "{error}");
    }

    #[test]
    fn a_rule_that_cannot_be_used_is_an_issue() {
        let stage: Threshold =
            serde_yaml::from_str("{ data: d, model: m, rule: { kind: soft, prior: -1 } }").unwrap();
        assert_eq!(stage.issues()[0].field, "rule.prior");
        let stage: Threshold =
            serde_yaml::from_str("{ data: d, model: m, rule: { kind: pcut }, objective: samples }").unwrap();
        let issue = &stage.issues()[0];
        assert_eq!(
            (issue.field.as_str(), issue.message.as_str()),
            ("rule", "it cannot be fitted for sample-F1: use `global`, `rcut`, `rtcut`")
        );
    }
}
