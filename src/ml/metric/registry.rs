//! The registry of metrics: name, direction and definition of each, in one table, and the lists of metrics to
//! show first.
//!
//! To add a metric, add a row to the table and compute it in the accumulator that has its inputs:
//! [`super::label::Tally`], [`super::ranking::Ranking`], [`super::calibration::Calibration`],
//! [`super::frequency::LabelFrequencies`] or [`super::evaluation::Evaluator::finish`]. A test fails if a
//! registered metric is not computed.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use pipe_core::kind::Vocabulary;
use pipe_core::suggest;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The direction in which a metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    Higher,
    Lower,
    /// The metric describes predictions; neither direction is better.
    Neither,
}

/// One row of the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Description {
    pub name: &'static str,
    pub direction: Direction,
    pub definition: &'static str,
}

/// Defines [`Metric`] from the table below, so that no list of metrics is kept by hand.
macro_rules! metrics {
    ($($variant:ident $name:literal $direction:ident $definition:literal;)*) => {
        /// A registered metric. The order is the order of the registry.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Metric { $($variant,)* }

        impl Metric {
            /// All metrics, in the order in which they are shown.
            pub const ALL: &'static [Metric] = &[$(Metric::$variant,)*];

            /// Returns the row of the registry.
            pub fn describe(self) -> Description {
                match self {
                    $(Metric::$variant => Description {
                        name: $name,
                        direction: Direction::$direction,
                        definition: $definition,
                    },)*
                }
            }
        }
    };
}

metrics! {
    MacroF1 "macro_f1" Higher
        "mean over all labels of 2TP / (2TP + FP + FN); a label neither true nor predicted counts 0";
    MacroF1Present "macro_f1_present" Higher
        "mean F1 over the labels that are true in at least one row";
    MacroF1PresentOrPredicted "macro_f1_present_or_predicted" Higher
        "mean F1 over the labels that are true or predicted in at least one row";
    MacroF1AbsentAsOne "macro_f1_absent_as_one" Higher
        "mean F1 over all labels; a label neither true nor predicted counts 1 (scikit-learn's zero_division=1)";
    MacroPrecision "macro_precision" Higher
        "mean over all labels of TP / (TP + FP); a label never predicted counts 0";
    MacroRecall "macro_recall" Higher
        "mean over all labels of TP / (TP + FN); a label never true counts 0";
    MicroF1 "micro_f1" Higher "2TP / (2TP + FP + FN) with the counts summed over all labels";
    MicroPrecision "micro_precision" Higher "TP / (TP + FP) with the counts summed over all labels";
    MicroRecall "micro_recall" Higher "TP / (TP + FN) with the counts summed over all labels";
    SampleF1 "sample_f1" Higher
        "mean over rows of 2TP / (2TP + FP + FN); a row without true and predicted labels counts 0";
    MacroF1Head "macro_f1_head" Higher
        "mean F1 over the head labels that are true in at least one row; head: the most frequent labels, which together hold the first half of all training positives";
    MacroF1Torso "macro_f1_torso" Higher
        "mean F1 over the torso labels that are true in at least one row; torso: the labels after the head, up to 90 % of all training positives";
    MacroF1Tail "macro_f1_tail" Higher
        "mean F1 over the tail labels that are true in at least one row; tail: the rare labels that hold the last 10 % of all training positives";
    MacroF1Under5 "macro_f1_under_5" Higher
        "mean F1 over the labels with 1 to 4 training positives that are true in at least one row";
    MacroF1Under10 "macro_f1_under_10" Higher
        "mean F1 over the labels with 1 to 9 training positives that are true in at least one row";
    MacroF1Under100 "macro_f1_under_100" Higher
        "mean F1 over the labels with 1 to 99 training positives that are true in at least one row";
    ReleasedMacroF1 "released_macro_f1" Higher
        "as the paper's released code computes it: mean over all labels of 2PR / (P + R + 1e-8), P = TP / (TP + FP + 1e-8), R = TP / (TP + FN + 1e-8)";
    ReleasedMacroPrecision "released_macro_precision" Higher
        "as the paper's released code computes it: mean over all labels of TP / (TP + FP + 1e-8)";
    ReleasedMacroRecall "released_macro_recall" Higher
        "as the paper's released code computes it: mean over all labels of TP / (TP + FN + 1e-8)";
    PositiveRatio "positive_ratio" Neither "predicted entries / (rows x labels)";
    TruePositiveRatio "true_positive_ratio" Neither
        "true entries / (rows x labels): what positive_ratio would be if every prediction were right";
    LabelCoverage "label_coverage" Higher "share of the labels that are predicted in at least one row";
    HammingLoss "hamming_loss" Lower "(FP + FN) / (rows x labels)";
    SubsetAccuracy "subset_accuracy" Higher "share of the rows whose predicted labels are exactly the true ones";
    Bce "bce" Lower
        "binary cross-entropy per element, mean over rows x labels; without margin term and positive weights";
    TrainingLoss "training_loss" Lower "the loss that training minimises, with its margin term and weights";
    Brier "brier" Lower "mean over rows x labels of (probability - truth)^2";
    Ece "ece" Lower
        "expected calibration error: over 15 bins of probability of equal width, the mean of |sum of probabilities - number of true entries| / (rows x labels), summed over the bins";
    PAt1 "p_at_1" Higher "true labels among the first 1 by score, / 1, mean over all rows; a row without true labels counts 0";
    PAt3 "p_at_3" Higher "true labels among the first 3 by score, / 3, mean over all rows; a row without true labels counts 0";
    PAt5 "p_at_5" Higher "true labels among the first 5 by score, / 5, mean over all rows; a row without true labels counts 0";
    NdcgAt1 "ndcg_at_1" Higher
        "sum over the true labels among the first 1 of 1/log2(rank + 1), / the largest possible sum, mean over all rows; a row without true labels counts 0";
    NdcgAt3 "ndcg_at_3" Higher
        "sum over the true labels among the first 3 of 1/log2(rank + 1), / the largest possible sum, mean over all rows; a row without true labels counts 0";
    NdcgAt5 "ndcg_at_5" Higher
        "sum over the true labels among the first 5 of 1/log2(rank + 1), / the largest possible sum, mean over all rows; a row without true labels counts 0";
    PAt1Nonempty "p_at_1_nonempty" Higher "p_at_1 over the rows that have true labels";
    PAt3Nonempty "p_at_3_nonempty" Higher "p_at_3 over the rows that have true labels";
    PAt5Nonempty "p_at_5_nonempty" Higher "p_at_5 over the rows that have true labels";
    NdcgAt1Nonempty "ndcg_at_1_nonempty" Higher "ndcg_at_1 over the rows that have true labels";
    NdcgAt3Nonempty "ndcg_at_3_nonempty" Higher "ndcg_at_3 over the rows that have true labels";
    NdcgAt5Nonempty "ndcg_at_5_nonempty" Higher "ndcg_at_5 over the rows that have true labels";
    PspAt1 "psp_at_1" Higher
        "propensity-scored p_at_1: true labels among the first 1 weigh 1/propensity (Jain et al. 2016, A = 0.55 and B = 1.5 unless set, training counts), summed over rows, / the largest possible sum";
    PspAt3 "psp_at_3" Higher
        "propensity-scored p_at_3: true labels among the first 3 weigh 1/propensity (Jain et al. 2016, A = 0.55 and B = 1.5 unless set, training counts), summed over rows, / the largest possible sum";
    PspAt5 "psp_at_5" Higher
        "propensity-scored p_at_5: true labels among the first 5 weigh 1/propensity (Jain et al. 2016, A = 0.55 and B = 1.5 unless set, training counts), summed over rows, / the largest possible sum";
    PsndcgAt1 "psndcg_at_1" Higher
        "propensity-scored ndcg_at_1: the gain of a true label is divided by its propensity; summed over rows, / the largest possible sum";
    PsndcgAt3 "psndcg_at_3" Higher
        "propensity-scored ndcg_at_3: the gain of a true label is divided by its propensity; summed over rows, / the largest possible sum";
    PsndcgAt5 "psndcg_at_5" Higher
        "propensity-scored ndcg_at_5: the gain of a true label is divided by its propensity; summed over rows, / the largest possible sum";
}

/// Returns all rows of the registry, as `pipe metrics` prints them.
pub fn descriptions() -> impl Iterator<Item = Description> {
    Metric::ALL.iter().map(|metric| metric.describe())
}

impl Metric {
    /// The metrics that a report shows first.
    pub const HEADLINE: [Metric; 12] = [
        Metric::MacroF1,
        Metric::MacroF1Present,
        Metric::MacroF1Head,
        Metric::MacroF1Tail,
        Metric::MicroF1,
        Metric::SampleF1,
        Metric::PAt1,
        Metric::PAt5,
        Metric::PspAt5,
        Metric::Bce,
        Metric::Ece,
        Metric::PositiveRatio,
    ];

    /// The metrics that an evaluation announces to the runner, which keeps them in the manifest. All metrics are in the
    /// artifact `evaluation`.
    pub const ANNOUNCED: [Metric; 10] = [
        Metric::MacroF1,
        Metric::MacroF1Present,
        Metric::MicroF1,
        Metric::PositiveRatio,
        Metric::Bce,
        Metric::TrainingLoss,
        Metric::Ece,
        Metric::PAt1,
        Metric::PAt5,
        Metric::PspAt5,
    ];

    /// Returns the names of all metrics.
    pub fn vocabulary() -> Vocabulary {
        Vocabulary::of_metrics(Self::ALL.iter().map(|metric| metric.name()))
    }

    /// Returns the name in pipelines, artifacts and tables: `macro_f1`.
    pub fn name(self) -> &'static str {
        self.describe().name
    }

    /// Returns the direction in which the metric improves.
    pub fn direction(self) -> Direction {
        self.describe().direction
    }

    /// Returns the name in print: `Macro F1` for `macro_f1`, `P@5 nonempty` for `p_at_5_nonempty`, `BCE` for `bce`.
    pub fn title(self) -> String {
        let mut title = String::new();
        let mut needs_space = false;
        for word in self.name().split('_') {
            let printed = match word {
                "at" => "@".to_owned(),
                "f1" => "F1".to_owned(),
                "bce" | "ece" | "p" | "psp" => word.to_uppercase(),
                "ndcg" => "nDCG".to_owned(),
                "psndcg" => "PSnDCG".to_owned(),
                _ if title.is_empty() => word[..1].to_uppercase() + &word[1..],
                _ => word.to_owned(),
            };
            let is_at = printed == "@";
            if needs_space && !is_at {
                title.push(' ');
            }
            needs_space = !is_at;
            title.push_str(&printed);
        }
        title
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error for a name that is not in the registry.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("there is no metric `{name}`{}; `pipe metrics` lists them", suggest::in_brackets(.name, Metric::vocabulary().words))]
pub struct UnknownMetric {
    pub name: String,
}

impl FromStr for Metric {
    type Err = UnknownMetric;

    fn from_str(name: &str) -> Result<Self, UnknownMetric> {
        let found = Metric::ALL.iter().find(|metric| metric.name() == name);
        found.copied().ok_or_else(|| UnknownMetric { name: name.to_owned() })
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Metric {
    fn schema_name() -> Cow<'static, str> {
        "Metric".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> = descriptions().map(|description| description.name).collect();
        json_schema!({ "type": "string", "enum": names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_found_by_its_name() {
        for &metric in Metric::ALL {
            assert_eq!(metric.name().parse(), Ok(metric));
            assert!(!metric.describe().definition.is_empty());
        }
    }

    #[test]
    fn titles_are_what_papers_call_the_metrics_and_all_differ() {
        let titles =
            ["macro_f1", "bce", "p_at_5_nonempty", "psndcg_at_1", "macro_f1_under_10", "hamming_loss"]
                .map(|name| name.parse::<Metric>().unwrap().title());
        assert_eq!(
            titles,
            ["Macro F1", "BCE", "P@5 nonempty", "PSnDCG@1", "Macro F1 under 10", "Hamming loss"]
        );
        let mut all: Vec<_> = Metric::ALL.iter().map(|metric| metric.title()).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), Metric::ALL.len());
    }

    #[test]
    fn a_misspelt_name_gets_a_suggestion() {
        let error = "macro_fi".parse::<Metric>().unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no metric `macro_fi` (did you mean `macro_f1`?); `pipe metrics` lists them"
        );
        assert!(!"quality".parse::<Metric>().unwrap_err().to_string().contains("mean"));
    }
}
