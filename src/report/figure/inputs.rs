//! The results that figures are drawn from.

use std::collections::BTreeMap;

use super::kind::FigureKind;
use super::naming::{Naming, RunAxes, SameAxesError};
use super::{
    PlannedFigure, f1_by_frequency, f1_over_epochs, final_f1, label_frequency, oracle_versus_honest,
    precision_recall, reliability, threshold_weights, thresholds,
};
use pipe_ml::history::History;
use pipe_ml::metric::curves::Curves;
use pipe_ml::metric::record::EvaluationRecord;

/// The results of all runs, each with its axes. Kinds of results that no requested figure uses may be empty.
#[derive(Debug, Clone, Default)]
pub struct FigureInputs {
    pub histories: Vec<(RunAxes, History)>,
    pub records: Vec<(RunAxes, EvaluationRecord)>,
    pub curves: Vec<(RunAxes, Curves)>,
    /// The number of training rows of each label.
    pub label_counts: Vec<u64>,
}

impl FigureInputs {
    /// Returns the axes of all runs.
    pub fn runs(&self) -> Vec<&RunAxes> {
        let histories = self.histories.iter().map(|(axes, _)| axes);
        let records = self.records.iter().map(|(axes, _)| axes);
        histories.chain(records).chain(self.curves.iter().map(|(axes, _)| axes)).collect()
    }

    /// Returns one naming for all figures, so that a run looks the same in each of them.
    pub fn naming(&self, mean_over: &str, names: &BTreeMap<String, String>) -> Naming {
        Naming::new(&self.runs(), mean_over, names)
    }

    /// Plans a figure.
    pub fn plan(&self, kind: FigureKind, naming: &Naming) -> Result<PlannedFigure, SameAxesError> {
        match kind {
            FigureKind::F1OverEpochs => f1_over_epochs(naming, &self.histories),
            FigureKind::FinalF1 => final_f1(naming, &self.records),
            FigureKind::ThresholdWeights => threshold_weights(naming, &self.histories),
            FigureKind::LabelFrequency => Ok(label_frequency(&self.label_counts)),
            FigureKind::F1ByFrequency => f1_by_frequency(naming, &self.curves),
            FigureKind::Reliability => reliability(naming, &self.curves),
            FigureKind::PrecisionRecall => precision_recall(naming, &self.curves),
            FigureKind::Thresholds => thresholds(naming, &self.curves),
            FigureKind::OracleVersusHonest => oracle_versus_honest(naming, &self.records),
        }
    }
}
