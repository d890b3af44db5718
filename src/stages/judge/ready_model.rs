//! A model that is loaded once and decides about rows in memory.

use std::ops::Range;
use std::path::Path;

use anyhow::Result;
use pipe_ml::config::device::Device;
use pipe_ml::data::attributes::KnownAttributes;
use pipe_ml::data::examples::Unlabelled;
use pipe_ml::data::row_encoder::{EncodedRow, NewRow, RowContent, RowEncoder};
use pipe_ml::data::split_data::SplitData;
use pipe_ml::explanation::Explanation;
use pipe_ml::explanation::cut::CutRule;
use pipe_ml::label_finder::LabelFinder;
use pipe_ml::system::{ExplainRequest, System};

use super::WithoutNetworks;
use super::data_names::DataNames;
use super::judged_model::open_system;
use super::predict::PredictedRow;

/// A model without a network, ready to decide. Its decisions are those of `pipe predict` and `evaluate`, to the bit.
pub struct ReadyModel {
    system: Box<dyn System>,
    encoder: RowEncoder,
    names: DataNames,
    settings: ReadySettings,
}

/// The settings of a model that is loaded once.
#[derive(Debug, Clone, Default)]
pub struct ReadySettings {
    /// How many threads score rows. The decisions do not depend on it.
    pub threads: usize,
    /// The number of the first feature in sparse rows. By default, as in the data set, or 0 if its source has no numbers.
    pub feature_base: Option<u32>,
    /// The rule that fitted the cuts, if it is known.
    pub rule: Option<CutRule>,
}

/// Rows whose labels are asked for.
pub struct RowsToPredict {
    pub rows: Vec<EncodedRow>,
    /// How many of the best labels of each row are listed; the predicted labels if it is not given.
    pub top: Option<usize>,
}

impl ReadyModel {
    /// Opens a model and the description of its data set.
    pub fn open(model: &Path, dataset: &Path, settings: ReadySettings) -> Result<Self> {
        let data = SplitData::open_unverified(dataset)?;
        let encoder = RowEncoder::open(dataset, &data)?;
        let names = DataNames::open(dataset, &data)?;
        let system = open_system::<WithoutNetworks>(model, &data, Device::default(), None, settings.threads)?;
        Ok(Self { system, encoder, names, settings })
    }

    /// Returns the kind of rows that the model was trained on.
    pub fn content(&self) -> RowContent {
        self.encoder.content()
    }

    /// Returns the numbers of the features that a sparse row may have.
    pub fn feature_numbers(&self) -> Range<usize> {
        let first = self.feature_base() as usize;
        first..first + self.encoder.source_features()
    }

    /// Turns a row into the features of the model. The error says what is wrong with the row.
    pub fn encode(&self, row: &NewRow) -> Result<EncodedRow, String> {
        self.encoder.encode(row, self.feature_base())
    }

    fn feature_base(&self) -> u32 {
        self.settings.feature_base.or(self.encoder.first_feature()).unwrap_or(0)
    }

    /// Returns the names of the labels, if they have names.
    pub fn label_names(&self) -> Option<&[String]> {
        self.names.labels()
    }

    /// Returns the number of labels.
    pub fn label_count(&self) -> usize {
        self.names.label_count()
    }

    /// Returns what finds labels by their names or numbers.
    pub fn label_finder(&self) -> LabelFinder<'_> {
        self.names.label_finder()
    }

    /// Returns the attributes that are known by name; `None` if features have numbers only, or are words.
    pub fn attributes(&self) -> Option<&KnownAttributes> {
        self.encoder.attributes()
    }

    /// Returns one JSON object for each row of each request, as `pipe predict` writes them.
    ///
    /// The rows of all requests are scored together, which is faster, unless the decisions would then depend on each other.
    pub fn predict(&mut self, requests: &[RowsToPredict]) -> Result<Vec<Vec<String>>> {
        let at_once = if self.system.decides_together() { 1 } else { requests.len().max(1) };
        let mut answers = Vec::with_capacity(requests.len());
        for requests in requests.chunks(at_once) {
            self.predict_together(requests, &mut answers)?;
        }
        Ok(answers)
    }

    fn predict_together(&mut self, requests: &[RowsToPredict], answers: &mut Vec<Vec<String>>) -> Result<()> {
        let features = self.encoder.matrix(requests.iter().flat_map(|request| &request.rows));
        let rows: Vec<u32> = (0..features.rows() as u32).collect();
        let numbered = |request: &RowsToPredict| {
            let top = request.top;
            (0..request.rows.len()).map(move |number| (number, top))
        };
        let asked: Vec<(usize, Option<usize>)> = requests.iter().flat_map(numbered).collect();
        let names = self.names.labels();
        let mut lines = Vec::with_capacity(rows.len());
        self.system.decide(Unlabelled { features: &features, rows: &rows }, &mut |block| {
            for row in 0..block.rows {
                let (number, top) = asked[block.first + row];
                lines.push(serde_json::to_string(&PredictedRow::new(block, row, number, names, top)?)?);
            }
            Ok(())
        })?;
        let mut lines = lines.into_iter();
        answers.extend(requests.iter().map(|request| lines.by_ref().take(request.rows.len()).collect()));
        Ok(())
    }

    /// Explains the decisions about a row, or about one label of it.
    pub fn explain(&mut self, row: &EncodedRow, label: Option<u32>) -> Result<Explanation> {
        let features = self.encoder.matrix(std::iter::once(row));
        let request = ExplainRequest { row: 0, label, rule: self.settings.rule.clone() };
        let mut explanation =
            self.system.explain(Unlabelled { features: &features, rows: &[0] }, &request)?;
        self.names.add_to(&mut explanation);
        Ok(explanation)
    }
}
