//! The names in a data set that people read instead of numbers: labels, features and training rows.

use std::path::Path;

use anyhow::Result;
use pipe_ml::data::format::FormatContent;
use pipe_ml::data::split_data::SplitData;
use pipe_ml::data::training_rows::{TrainingRow, read_training_rows};
use pipe_ml::explanation::{CauseSubject, Explanation};
use pipe_ml::label_finder::LabelFinder;

/// The names in a data set, as far as it has them.
pub(super) struct DataNames {
    label_count: usize,
    labels: Option<Vec<String>>,
    features: Option<Vec<String>>,
    training_rows: Option<Vec<TrainingRow>>,
    /// Whether the rows were made of texts, which could be kept.
    of_texts: bool,
}

impl DataNames {
    /// Reads the names of a data set.
    pub(super) fn open(directory: &Path, data: &SplitData) -> Result<Self> {
        Ok(Self {
            label_count: data.meta().labels as usize,
            labels: data.label_names()?,
            features: data.feature_names()?,
            training_rows: read_training_rows(directory, data)?,
            of_texts: data.meta().report.format.content() == FormatContent::Text,
        })
    }

    /// Returns the names of the labels.
    pub(super) fn labels(&self) -> Option<&[String]> {
        self.labels.as_deref()
    }

    /// Returns the number of labels.
    pub(super) fn label_count(&self) -> usize {
        self.label_count
    }

    /// Returns what finds labels by their names or numbers.
    pub(super) fn label_finder(&self) -> LabelFinder<'_> {
        LabelFinder::new(self.labels.as_deref(), self.label_count)
    }

    /// Adds the names to an explanation.
    pub(super) fn add_to(&self, explanation: &mut Explanation) {
        for label in &mut explanation.labels {
            label.name = self.labels.as_ref().map(|names| names[label.label as usize].clone());
        }
        let mut numbered_rows = false;
        for cause in explanation.causes_mut() {
            match &mut cause.what {
                CauseSubject::Feature { feature, name } => {
                    *name = self.features.as_ref().map(|names| names[*feature as usize].clone());
                }
                CauseSubject::TrainingRow { row, id, text } => {
                    match self.training_rows.as_ref().and_then(|rows| rows.get(*row as usize)) {
                        Some(kept) => (*id, *text) = (kept.id.clone(), kept.text.clone()),
                        None => numbered_rows = true,
                    }
                }
                CauseSubject::Label { label, name } => {
                    *name = self.labels.as_ref().map(|names| names[*label as usize].clone());
                }
                CauseSubject::Constant { .. } => {}
            }
        }
        if numbered_rows && self.of_texts {
            let note = if self.training_rows.is_some() {
                "the model was fitted on all rows, but of the validation and test rows no texts were kept: \
                 `keep: { texts: true, part: all }` of the stage `vectorise` keeps them"
            } else {
                "training rows are shown by their numbers, because their texts are not here: `keep: { texts: true }` of \
                 the stage `vectorise` keeps them, and `pipe model export --training-texts` copies them"
            };
            explanation.notes.push(note.to_owned());
        }
    }
}
