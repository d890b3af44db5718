//! The kinds of figures: their names, their file names, and the results that they are drawn from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(description = "")]
pub enum FigureKind {
    /// Figure 1: macro-F1 on the validation rows, epoch by epoch.
    F1OverEpochs,
    /// Figure 2: macro-F1 on the evaluated rows.
    FinalF1,
    /// Figure 3: the learned weights of the two signals, epoch by epoch.
    ThresholdWeights,
    /// How often each label occurs in the training rows.
    LabelFrequency,
    /// Macro-F1 of rare and of frequent labels.
    F1ByFrequency,
    /// What became of predicted probabilities.
    Reliability,
    /// Precision and recall as all thresholds are moved.
    PrecisionRecall,
    /// Where the thresholds of true and of false labels lie.
    Thresholds,
    /// Macro-F1 under both protocols.
    OracleVersusHonest,
}

/// The kind of results that a figure is drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FigureSource {
    History,
    Evaluation,
    Curves,
    Data,
}

impl FigureKind {
    /// All figures. A test checks that none is missing.
    pub const ALL: [Self; 9] = [
        Self::F1OverEpochs,
        Self::FinalF1,
        Self::ThresholdWeights,
        Self::LabelFrequency,
        Self::F1ByFrequency,
        Self::Reliability,
        Self::PrecisionRecall,
        Self::Thresholds,
        Self::OracleVersusHonest,
    ];

    /// Returns the name, the file stem and the source.
    fn description(self) -> (&'static str, &'static str, FigureSource) {
        match self {
            Self::F1OverEpochs => ("f1-over-epochs", "figure1", FigureSource::History),
            Self::FinalF1 => ("final-f1", "figure2", FigureSource::Evaluation),
            Self::ThresholdWeights => ("threshold-weights", "figure3", FigureSource::History),
            Self::LabelFrequency => ("label-frequency", "label-frequency", FigureSource::Data),
            Self::F1ByFrequency => ("f1-by-frequency", "f1-by-frequency", FigureSource::Curves),
            Self::Reliability => ("reliability", "reliability", FigureSource::Curves),
            Self::PrecisionRecall => ("precision-recall", "precision-recall", FigureSource::Curves),
            Self::Thresholds => ("thresholds", "thresholds", FigureSource::Curves),
            Self::OracleVersusHonest => {
                ("oracle-versus-honest", "oracle-versus-honest", FigureSource::Evaluation)
            }
        }
    }

    /// Returns the name that is used in pipelines.
    pub fn name(self) -> &'static str {
        self.description().0
    }

    /// Returns the name of its files without their ending: the figures of the paper have numbers.
    pub fn file_stem(self) -> &'static str {
        self.description().1
    }

    /// Returns the kind of results that the figure is drawn from.
    pub fn source(self) -> FigureSource {
        self.description().2
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_list_of_figures_is_complete() {
        let schema = schemars::schema_for!(FigureKind);
        let variants = schema.as_value()["oneOf"].as_array().unwrap();
        let in_schema: BTreeSet<&str> =
            variants.iter().map(|variant| variant["const"].as_str().unwrap()).collect();
        assert_eq!(FigureKind::ALL.map(FigureKind::name).into_iter().collect::<BTreeSet<_>>(), in_schema);
    }

    #[test]
    fn pipelines_use_the_name_of_a_figure() {
        for kind in FigureKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
