//! `claim`: checks that one evaluation is better than others. A claim that does not hold fails its stage, as `expect` does.
//!
//! ```yaml
//! recipe_wins:
//!   claim:
//!     better: "recipe_eval[*]"
//!     than: ["static_eval[*]", "linear_eval[*]"]
//!     on: macro_f1
//!     mean_over: seed
//!     significant: true
//! ```

use anyhow::{Context, Result, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::one_or_many::OneOrMany;
use pipe_core::issue::Issue;
use pipe_core::job::Axes;
use pipe_core::kind::{AxisUse, AxisUses, InputDecl, OutputDecl, Program, Requirement};
use pipe_core::reference::StageRef;
use pipe_core::slot::{Out, Slot};
use pipe_core::stage::{RunStage, StageKind};
use pipe_core::work::Work;
use pipe_ml::metric::bootstrap::Bootstrap;
use pipe_ml::metric::decisions::Decisions;
use pipe_ml::metric::record::EvaluationRecord;
use pipe_ml::metric::registry::{Direction, Metric};
use pipe_report::claim::{ClaimRequest, ClaimSide, ClaimVerdict, check};

/// The parameters of `claim`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The `evaluate` stage that is claimed to be better.
    pub better: OneOrMany<StageRef>,
    /// The `evaluate` stages that it is better than, each of them.
    pub than: OneOrMany<StageRef>,
    /// The metric.
    pub on: Metric,
    /// Axes whose values are averaged over, such as `seed`.
    #[serde(default)]
    pub mean_over: OneOrMany<String>,
    /// Whether every difference has to be significant, by a paired bootstrap over the evaluated rows, corrected for the number
    /// of comparisons.
    #[serde(default)]
    pub significant: bool,
    /// How the rows are resampled.
    #[serde(default)]
    pub bootstrap: Bootstrap,
}

impl Claim {
    /// The evaluations that are claimed to be better.
    pub const BETTER: Slot<EvaluationRecord> = Slot::new("better");
    /// Their decisions.
    pub const BETTER_DECISIONS: Slot<Decisions> = Slot::new("better_decisions").written_in("better");
    /// The evaluations of the others.
    pub const THAN: Slot<EvaluationRecord> = Slot::new("than");
    /// Their decisions.
    pub const THAN_DECISIONS: Slot<Decisions> = Slot::new("than_decisions").written_in("than");
    /// The verdict with all comparisons.
    pub const VERDICT: Out<ClaimVerdict> = Out::new("verdict", "claim.json");
    /// The metric that says whether the claim holds: 1 or 0.
    const HOLDS: &'static str = "holds";
}

impl StageKind for Claim {
    const NAME: &'static str = "claim";
    const VERSION: u32 = 2;
    const SUMMARY: &'static str =
        "Checks that one evaluation is better than others, if asked for significantly";
    const PROGRAM: Program = Program::Pipe;
    const REQUIREMENT: Option<Requirement> = Some(Requirement {
        metric: Self::HOLDS,
        otherwise: "the claim does not hold; `pipe logs` of the stage says why",
    });

    fn inputs(&self) -> Vec<InputDecl> {
        vec![
            Self::BETTER.all(&self.better.0),
            Self::BETTER_DECISIONS.all(&self.better.0),
            Self::THAN.all(&self.than.0),
            Self::THAN_DECISIONS.all(&self.than.0),
        ]
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![Self::VERDICT.decl()]
    }

    fn issues(&self) -> Vec<Issue> {
        let mut issues: Vec<Issue> =
            self.bootstrap.issues().into_iter().map(|issue| issue.within("bootstrap")).collect();
        for (field, stages) in [("better", &self.better), ("than", &self.than)] {
            if stages.0.is_empty() {
                issues.push(Issue::new(field, "name at least one `evaluate` stage"));
            }
        }
        if self.on.direction() == Direction::Neither {
            issues.push(Issue::new("on", format!("no value of `{}` is better than another", self.on)));
        }
        issues
    }

    fn axes(&self) -> AxisUses {
        let averaged = self.mean_over.0.iter();
        let uses =
            averaged.map(|axis| AxisUse { field: "mean_over", axis: axis.clone(), ..AxisUse::default() });
        let slots = [Self::BETTER, Self::THAN].map(|slot| slot.name().to_owned()).to_vec();
        AxisUses { slots, uses: uses.collect(), ..AxisUses::default() }
    }

    fn metrics(&self) -> Option<Vec<&'static str>> {
        Some(vec![Self::HOLDS])
    }
}

impl RunStage for Claim {
    type Stage = Self;

    fn run(stage: &Self, work: &mut Work) -> Result<()> {
        let better = stage.sides(work, Self::BETTER, Self::BETTER_DECISIONS, "`better`")?;
        let [better] = better.as_slice() else {
            let names: Vec<&str> = better.iter().map(|side| side.name.as_str()).collect();
            anyhow::bail!(
                "`better` has {} results: {}; name one of them, or average over an axis with `mean_over`",
                names.len(),
                names.join(", ")
            );
        };
        let others = stage.sides(work, Self::THAN, Self::THAN_DECISIONS, "`than`")?;
        let request =
            ClaimRequest { metric: stage.on, significant: stage.significant, bootstrap: stage.bootstrap };
        let verdict = check(&request, better, &others)?;
        if !verdict.passed {
            work.warn(verdict.sentence.clone());
        }
        work.metric(Self::HOLDS, if verdict.passed { 1.0 } else { 0.0 });
        work.save(Self::VERDICT, &verdict)
    }
}

impl Claim {
    /// Reads the evaluations of a slot, and groups those that are averaged.
    fn sides(
        &self,
        work: &Work,
        records: Slot<EvaluationRecord>,
        decisions: Slot<Decisions>,
        without_axes: &str,
    ) -> Result<Vec<ClaimSide>> {
        let decisions = work.inputs(&decisions);
        let mut sides: Vec<(Axes, ClaimSide)> = Vec::new();
        for (axes, record) in work.open_all(records)? {
            let kept = axes.iter().filter(|(axis, _)| !self.mean_over.0.contains(axis));
            let kept: Axes = kept.cloned().collect();
            let name = name(&kept).unwrap_or_else(|| without_axes.to_owned());
            let value = record.get(self.on).with_context(|| format!("{name} has no `{}`", self.on))?;
            let of_it = decisions.iter().find(|input| input.axes == axes);
            let of_it = of_it.with_context(|| format!("there are no decisions of {name}"))?;
            let outcomes = Decisions::open(&of_it.path)?.outcomes()?;
            let (_, value) = value.reveal();
            ensure!(value.is_finite(), "`{}` of {name} is {value}", self.on);
            match sides.iter_mut().find(|(axes, _)| *axes == kept) {
                Some((_, side)) => {
                    side.values.push(value);
                    side.outcomes.push(outcomes);
                }
                None => {
                    sides.push((kept, ClaimSide { name, values: vec![value], outcomes: vec![outcomes] }));
                }
            }
        }
        Ok(sides.into_iter().map(|(_, side)| side).collect())
    }
}

/// Returns the name of a side. Only its axes are used: they are part of the key, and the names of stages are not.
fn name(axes: &Axes) -> Option<String> {
    // A number says nothing without its axis.
    let part = |(axis, value): &(String, String)| match value.parse::<f64>() {
        Ok(_) => format!("{axis}={value}"),
        Err(_) => value.clone(),
    };
    let parts: Vec<String> = axes.iter().map(part).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(yaml: &str) -> Vec<String> {
        let claim: Claim = serde_yaml::from_str(yaml).unwrap();
        claim.issues().into_iter().map(|issue| format!("{}: {}", issue.field, issue.message)).collect()
    }

    #[test]
    fn a_claim_that_says_nothing_is_an_issue() {
        assert_eq!(check("{ better: a, than: [b, c], on: macro_f1 }"), [""; 0]);
        assert_eq!(
            check("{ better: a, than: [], on: macro_f1 }"),
            ["than: name at least one `evaluate` stage"]
        );
        let neither = Metric::ALL.iter().find(|metric| metric.direction() == Direction::Neither);
        if let Some(metric) = neither {
            assert!(
                check(&format!("{{ better: a, than: b, on: {metric} }}"))[0].starts_with("on: no value of")
            );
        }
    }
}
