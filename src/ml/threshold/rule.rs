//! [`Rule`]: the rules as a pipeline names them, and how each is fitted.

use pipe_core::issue::Issue;
use pipe_core::suggest::in_brackets;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use serde_untagged::UntaggedEnumVisitor;

use super::cuts::Cuts;
use super::error::ThresholdError;
use super::sample::Sample;
use super::scores::{Scores, map_labels};
use super::sweep::BestCut;
use super::{global, micro_macro, online, per_label, plug_in, proportion, rank, rank_in_score};
use crate::data::csr::Csr;

/// What a rule achieves on the fitting rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// The highest mean of the F1 of all labels: every label counts the same.
    #[default]
    Macro,
    /// The highest F1 of all decisions pooled: every decision counts the same.
    Micro,
    /// The highest mean of the F1 of all rows: every row counts the same.
    Samples,
    /// For each label the highest recall with at least this precision. A label that cannot reach it is never predicted.
    Precision(f64),
    /// For each label the highest precision with at least this recall. A label that cannot reach it gets its highest recall.
    Recall(f64),
    /// The highest recall of all decisions pooled with at least this precision.
    OverallPrecision(f64),
    /// The highest precision of all decisions pooled with at least this recall.
    OverallRecall(f64),
    /// The lowest cost of all mistakes.
    Cost(Costs),
}

/// The costs of the two kinds of mistakes. Only their ratio matters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// The cost of a label that is predicted and not true.
    pub false_positive: f64,
    /// The cost of a label that is true and not predicted.
    pub false_negative: f64,
}

/// The objectives that have a value, as users write them: `{ precision: 0.9 }`.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum OperatingPoint {
    Precision(f64),
    Recall(f64),
    OverallPrecision(f64),
    OverallRecall(f64),
    Cost(Costs),
}

impl<'de> Deserialize<'de> for Objective {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UntaggedEnumVisitor::new()
            .expecting("`macro`, `micro`, `samples`, or an operating point such as `{ precision: 0.9 }`")
            .string(|word| match word {
                "macro" => Ok(Self::Macro),
                "micro" => Ok(Self::Micro),
                "samples" => Ok(Self::Samples),
                other => {
                    let expected = "one of `macro`, `micro`, `samples`, or an operating point such as `{ precision: 0.9 }`";
                    let meant = in_brackets(other, ["macro", "micro", "samples"]);
                    Err(Error::custom(format!("there is no objective `{other}`{meant}; it is {expected}")))
                }
            })
            .map(|fields| {
                Ok(match fields.deserialize::<OperatingPoint>()? {
                    OperatingPoint::Precision(least) => Self::Precision(least),
                    OperatingPoint::Recall(least) => Self::Recall(least),
                    OperatingPoint::OverallPrecision(least) => Self::OverallPrecision(least),
                    OperatingPoint::OverallRecall(least) => Self::OverallRecall(least),
                    OperatingPoint::Cost(costs) => Self::Cost(costs),
                })
            })
            .deserialize(deserializer)
    }
}

impl Objective {
    /// Returns the fields whose values cannot be used.
    pub fn issues(&self) -> Vec<Issue> {
        let (field, value) = match *self {
            Self::Macro | Self::Micro | Self::Samples => return Vec::new(),
            Self::Cost(costs) => {
                let costs =
                    [("false_positive", costs.false_positive), ("false_negative", costs.false_negative)];
                let unusable = costs.into_iter().filter(|(_, cost)| !(*cost > 0.0 && cost.is_finite()));
                return unusable
                    .map(|(field, _)| Issue::new(format!("cost.{field}"), "must be above 0"))
                    .collect();
            }
            Self::Precision(value) => ("precision", value),
            Self::Recall(value) => ("recall", value),
            Self::OverallPrecision(value) => ("overall_precision", value),
            Self::OverallRecall(value) => ("overall_recall", value),
        };
        if value > 0.0 && value <= 1.0 {
            return Vec::new();
        }
        vec![Issue::new(field, "must be above 0 and at most 1")]
    }

    /// Returns the objective as a phrase that follows "for".
    pub fn words(&self) -> String {
        match self {
            Self::Macro => "macro-F1".to_owned(),
            Self::Micro => "micro-F1".to_owned(),
            Self::Samples => "sample-F1".to_owned(),
            Self::Precision(value) => format!("a precision of at least {value} for each label"),
            Self::Recall(value) => format!("a recall of at least {value} for each label"),
            Self::OverallPrecision(value) => format!("a precision of at least {value} of all decisions"),
            Self::OverallRecall(value) => format!("a recall of at least {value} of all decisions"),
            Self::Cost(Costs { false_positive, false_negative }) => {
                format!(
                    "costs of {false_positive} for a false positive and {false_negative} for a false negative"
                )
            }
        }
    }
}

/// What the scores mean, for rules that need probabilities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Log-odds: the sigmoid of a score is a probability.
    #[default]
    Logit,
    Probability,
}

/// What happens with a label whose fitted cut is not reliable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PoorLabel {
    /// It is never predicted (SCutFBR.0).
    Never,
    /// It is predicted for scores above the highest one of the fitting rows (SCutFBR.1).
    #[default]
    AboveHighest,
}

/// How scores become decisions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    /// One given cut for all labels.
    Fixed {
        /// The cut.
        #[serde(default)]
        cut: f32,
    },
    /// One fitted cut for all labels.
    Global {},
    /// One cut per label, each fitted on its own (SCut).
    Scut {},
    /// SCut, except for labels whose F1 on the fitting rows is below `fbr`; `poor` decides about these.
    ScutFbr {
        /// The F1 below which `poor` decides.
        #[serde(default = "default_fbr")]
        fbr: f64,
        #[serde(default)]
        poor: PoorLabel,
    },
    /// SCut with soft targets, which mix the true label of a row with its predicted probability. The rarer the label,
    /// the more the probability counts.
    Soft {
        /// The number of positives at which true label and probability count the same. 0 gives SCut.
        #[serde(default = "default_prior")]
        prior: f64,
        #[serde(default)]
        scale: Scale,
    },
    /// SCut shrunk towards the global cut. The rarer the label, the closer its cut is to the global one.
    Shrunk {
        /// The number of positives at which a label gets the mean of both cuts.
        #[serde(default = "default_kappa")]
        kappa: f64,
    },
    /// The `k` labels with the highest scores in each row.
    Rcut {
        /// The number of labels per row; fitted if not given.
        k: Option<usize>,
        /// The largest number of labels per row that is tried.
        #[serde(default = "default_max_k")]
        max_k: usize,
    },
    /// For each label the rows with the highest scores, in proportion to its frequency in training. All evaluated rows
    /// are decided together.
    Pcut {
        /// How many times as often as in training each label is predicted; fitted if not given.
        factor: Option<f64>,
    },
    /// The labels with the highest scores in each row, the last of them only if its score is above a cut.
    Rtcut {
        /// The largest number of labels per row that is tried.
        #[serde(default = "default_max_k")]
        max_k: usize,
    },
    /// One cut per label, fitted one label after the other, the most frequent one first: the cut with the highest sum of
    /// the F1 of the label, divided by the number of labels so far, and the pooled F1 of the labels so far. This is the rule
    /// of LibMultiLabel (Lin et al. 2023). It has its own objective, so that of the stage does not matter.
    MicroMacro {},
    /// Two cuts per label and a rank: a label is predicted above the higher cut, and between its two cuts if it is among the
    /// best labels of the row (after Lee et al. 2002).
    Rinscut {
        /// The largest rank that is tried.
        #[serde(default = "default_max_k")]
        max_k: usize,
    },
    /// Labels whose probability is above half of the highest F1 that can be expected.
    PlugIn {
        #[serde(default)]
        scale: Scale,
    },
    /// Online F-measure optimisation: the cut tau = a / b is updated row by row (Busa-Fekete et al. 2015).
    Online {
        /// How often all rows are passed over.
        #[serde(default = "default_epochs")]
        epochs: u32,
        /// The initial value of `a`.
        #[serde(default = "default_a")]
        a: f64,
        /// The initial value of `b`.
        #[serde(default = "default_b")]
        b: f64,
        #[serde(default)]
        scale: Scale,
    },
}

fn default_fbr() -> f64 {
    0.1
}

fn default_prior() -> f64 {
    50.0
}

fn default_kappa() -> f64 {
    50.0
}

fn default_max_k() -> usize {
    20
}

fn default_epochs() -> u32 {
    1
}

fn default_a() -> f64 {
    1.0
}

fn default_b() -> f64 {
    2.0
}

impl Rule {
    /// Returns the fields whose values cannot be used.
    pub fn issues(&self) -> Vec<Issue> {
        let mut issues = Vec::new();
        let mut must = |holds: bool, field: &str, what: &str| {
            if !holds {
                issues.push(Issue::new(field, format!("must be {what}")));
            }
        };
        let not_negative = |value: f64| value.is_finite() && value >= 0.0;
        match *self {
            Self::Fixed { cut } => must(cut.is_finite(), "cut", "a finite number"),
            Self::ScutFbr { fbr, .. } => must((0.0..=1.0).contains(&fbr), "fbr", "an F1, from 0 to 1"),
            Self::Soft { prior, .. } => {
                must(not_negative(prior), "prior", "a number of positives, 0 or more");
            }
            Self::Shrunk { kappa } => must(not_negative(kappa), "kappa", "a number of positives, 0 or more"),
            Self::Rcut { k, max_k } => {
                must(k != Some(0), "k", "at least 1");
                must(max_k > 0, "max_k", "at least 1");
            }
            Self::Rtcut { max_k } | Self::Rinscut { max_k } => must(max_k > 0, "max_k", "at least 1"),
            Self::Pcut { factor } => must(factor.is_none_or(not_negative), "factor", "0 or more"),
            Self::Online { epochs, a, b, .. } => {
                must(epochs > 0, "epochs", "at least 1");
                must(not_negative(a), "a", "0 or more");
                must(b.is_finite() && b > 0.0 && a <= b, "b", "above 0 and at least as large as a");
            }
            Self::Global {} | Self::Scut {} | Self::MicroMacro {} | Self::PlugIn { .. } => {}
        }
        issues
    }

    /// Returns whether the rule can be fitted for an objective.
    pub fn supports(&self, objective: Objective) -> bool {
        use Objective::{Cost, Macro, Micro, OverallPrecision, OverallRecall, Precision, Recall, Samples};
        match self {
            Self::Global {} => {
                matches!(
                    objective,
                    Macro | Micro | Samples | OverallPrecision(_) | OverallRecall(_) | Cost(_)
                )
            }
            Self::Scut {} | Self::Soft { .. } => {
                matches!(objective, Macro | Micro | Precision(_) | Recall(_) | Cost(_))
            }
            Self::Rcut { .. } | Self::Rtcut { .. } => matches!(objective, Macro | Micro | Samples),
            Self::Fixed { .. }
            | Self::ScutFbr { .. }
            | Self::Shrunk { .. }
            | Self::Pcut { .. }
            | Self::MicroMacro {}
            | Self::Rinscut { .. }
            | Self::PlugIn { .. }
            | Self::Online { .. } => matches!(objective, Macro | Micro),
        }
    }

    /// Returns whether the rule interprets the scores as log-odds.
    pub fn reads_log_odds(&self) -> bool {
        match self {
            Self::Soft { scale, .. } | Self::PlugIn { scale } | Self::Online { scale, .. } => {
                *scale == Scale::Logit
            }
            Self::Fixed { .. }
            | Self::Global {}
            | Self::Scut {}
            | Self::ScutFbr { .. }
            | Self::Shrunk { .. }
            | Self::Rcut { .. }
            | Self::Pcut { .. }
            | Self::MicroMacro {}
            | Self::Rinscut { .. }
            | Self::Rtcut { .. } => false,
        }
    }

    /// Returns the `kind` of every rule, as a pipeline names it. The list comes from the schema, so it is
    /// always complete.
    pub fn kinds() -> Vec<String> {
        let schema = schemars::schema_for!(Rule);
        let variants = schema.get("oneOf").and_then(|variants| variants.as_array()).into_iter().flatten();
        variants
            .filter_map(|variant| variant.pointer("/properties/kind/const")?.as_str())
            .map(str::to_owned)
            .collect()
    }

    /// Returns the kinds that can be fitted for an objective.
    pub fn kinds_for(objective: Objective) -> Vec<String> {
        let with_defaults = |kind: &String| serde_json::from_value::<Self>(json!({ "kind": kind })).ok();
        let supports = |kind: &String| with_defaults(kind).is_some_and(|rule| rule.supports(objective));
        Self::kinds().into_iter().filter(supports).collect()
    }

    /// Fits the rule on the labels of training rows and on scores that were made without these labels.
    pub fn fit(
        &self,
        scores: &dyn Scores,
        labels: &Csr,
        objective: Objective,
    ) -> Result<Cuts, ThresholdError> {
        if !self.supports(objective) {
            return Err(ThresholdError::Objective);
        }
        let sample = Sample::new(scores, labels)?;
        let same_for_seen_labels = |cut: Option<f32>| {
            Cuts::per_label((0..labels.cols).map(|label| cut.filter(|_| sample.is_seen(label))).collect())
        };
        let one_per_label = |best_cuts: Vec<Option<BestCut>>| {
            Cuts::per_label(best_cuts.into_iter().map(|best| best.and_then(|best| best.cut)).collect())
        };
        Ok(match *self {
            Self::Fixed { cut } => same_for_seen_labels(Some(cut)),
            Self::Global {} => same_for_seen_labels(global::fit(&sample, objective)?),
            Self::Scut {} => one_per_label(per_label::scut(&sample, objective)?),
            Self::ScutFbr { fbr, poor } => {
                Cuts::per_label(per_label::scut_fbr(&sample, objective, fbr, poor)?)
            }
            Self::Soft { prior, scale } => one_per_label(per_label::soft(&sample, objective, prior, scale)?),
            Self::Shrunk { kappa } => Cuts::per_label(per_label::shrunk(&sample, objective, kappa)?),
            Self::Rcut { k: Some(k), .. } => Cuts::ranks(labels.cols, k, None, sample.unseen()),
            Self::Rcut { k: None, max_k } => rank::rcut(&sample, objective, max_k)?,
            Self::Rtcut { max_k } => rank::rtcut(&sample, objective, max_k)?,
            Self::Pcut { factor } => proportion::fit(&sample, objective, factor)?,
            Self::MicroMacro {} => Cuts::per_label(micro_macro::fit(&sample)?),
            Self::Rinscut { max_k } => rank_in_score::fit(&sample, objective, max_k)?,
            Self::PlugIn { scale } => Cuts::per_label(plug_in::fit(&sample, objective, scale)?),
            Self::Online { epochs, a, b, scale } => {
                let start = online::OnlineF1 { a, b };
                Cuts::per_label(online::fit(&sample, objective, start, epochs, scale)?)
            }
        })
    }
}

impl Scale {
    /// Returns the probability of a score that passed [`Scale::check`]; 0 for minus infinity.
    pub fn probability(self, score: f32) -> f64 {
        match self {
            Self::Logit => 1.0 / (1.0 + (-f64::from(score)).exp()),
            Self::Probability => f64::from(score).max(0.0),
        }
    }

    /// Returns the score of a probability, to be used as a cut; `None` if no score is above it.
    pub fn score_of(self, probability: f64) -> Option<f32> {
        let score = match self {
            Self::Logit => (probability / (1.0 - probability)).ln() as f32,
            Self::Probability => probability as f32,
        };
        (probability < 1.0).then(|| score.max(f32::MIN))
    }

    /// Checks that all scores are on this scale.
    pub fn check(self, scores: &dyn Scores) -> Result<(), ThresholdError> {
        if self == Self::Logit {
            return Ok(());
        }
        let is_probability = |score: &f32| (0.0..=1.0).contains(score) || *score == f32::NEG_INFINITY;
        let misfits =
            map_labels(scores, |_, column| column.iter().copied().find(|score| !is_probability(score)))?;
        match misfits.iter().enumerate().find_map(|(label, misfit)| misfit.map(|value| (label, value))) {
            Some((label, value)) => Err(ThresholdError::NotAProbability { label, value }),
            None => Ok(()),
        }
    }
}
