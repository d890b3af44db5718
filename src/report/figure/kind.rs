//! Which figures there are, what each of them is made of, and what its files are called.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
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

/// What a figure is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    History,
    Evaluation,
    Curves,
    Data,
}

impl FigureKind {
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

    pub fn name(self) -> &'static str {
        match self {
            Self::F1OverEpochs => "f1-over-epochs",
            Self::FinalF1 => "final-f1",
            Self::ThresholdWeights => "threshold-weights",
            Self::LabelFrequency => "label-frequency",
            Self::F1ByFrequency => "f1-by-frequency",
            Self::Reliability => "reliability",
            Self::PrecisionRecall => "precision-recall",
            Self::Thresholds => "thresholds",
            Self::OracleVersusHonest => "oracle-versus-honest",
        }
    }

    /// What its files are called, without their ending: the paper's figures have numbers.
    pub fn file_stem(self) -> &'static str {
        match self {
            Self::F1OverEpochs => "figure1",
            Self::FinalF1 => "figure2",
            Self::ThresholdWeights => "figure3",
            other => other.name(),
        }
    }

    pub fn source(self) -> Source {
        match self {
            Self::F1OverEpochs | Self::ThresholdWeights => Source::History,
            Self::FinalF1 | Self::OracleVersusHonest => Source::Evaluation,
            Self::LabelFrequency => Source::Data,
            Self::F1ByFrequency | Self::Reliability | Self::PrecisionRecall | Self::Thresholds => {
                Source::Curves
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_written_as_it_is_called() {
        for kind in FigureKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
