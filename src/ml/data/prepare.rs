//! Prepares rows that were read: splits them, takes validation rows from the training rows, filters and weights.
//!
//! Everything is fitted on training rows. Rows are streamed from the input to the output.

use std::path::Path;

use pipe_core::issue::Issue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::artifact::{DataSet, DataSetPart};
use super::csr::{Csr, Features};
use super::duplicates::{Duplicates, LabelledRows};
use super::error::DataError;
use super::filter::{Filter, FilterError, KeptColumns};
use super::split::{Parts, Split, SplitError, Validation};
use super::split_data::{PartName, SplitData, SplitDataDir, SplitDataOrigin};
use super::transform::Transform;
use super::weight::{Weight, WeightChoice};

/// What is done with rows that were read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Preparation {
    pub split: Split,
    pub validation: Option<Validation>,
    pub filter: Filter,
    pub weight: WeightChoice,
}

/// Why rows cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Split(#[from] SplitError),
    #[error(transparent)]
    Filter(#[from] FilterError),
    #[error(
        "the data has no training part: add `split: {{ holdout: 0.2 }}`, or give a file of training rows"
    )]
    NoTrainingRows,
    #[error("`{0}` is for sparse features, but the features are dense")]
    NotForDense(&'static str),
}

impl Preparation {
    /// Returns the fields whose values cannot be used.
    pub fn issues(&self) -> Vec<Issue> {
        let split = self.split.issues().into_iter().map(|issue| issue.within("split"));
        let validation = self.validation.iter().flat_map(Validation::issues);
        let filter = self.filter.issues().into_iter().map(|issue| issue.within("filter"));
        let weight = self.weight.issues().into_iter().map(|issue| issue.within("weight"));
        let validation = validation.map(|issue| issue.within("validation"));
        split.chain(validation).chain(filter).chain(weight).collect()
    }

    /// Describes in words how the parts are chosen. This text is stored in `meta.json`: changing it changes stored bytes.
    fn describe(&self) -> String {
        let Split { first, holdout, folds, fold, stratified, seed, pool } = &self.split;
        let mut words = Vec::new();
        words.extend(first.map(|rows| format!("the first {rows} training rows")));
        let how = if *stratified { "stratified" } else { "at random" };
        words.push(match (holdout, folds) {
            (Some(share), _) => format!("{share} held out {how} (seed {seed})"),
            (None, Some(folds)) => format!("fold {fold} of {folds} {how} (seed {seed})"),
            (None, None) => "test rows as given".to_owned(),
        });
        words.extend(pool.then(|| "training and test files pooled".to_owned()));
        words.extend(self.validation.as_ref().map(|validation| {
            let Validation { fraction, seed, .. } = validation;
            format!("{fraction} of the training rows for validation (seed {seed})")
        }));
        words.join(", ")
    }

    /// Chooses the rows of each part. `given` are the parts of the source.
    pub fn divide(&self, given: &[DataSetPart], labels: &Csr) -> Result<Parts, PrepareError> {
        let rows_of = |name: &str| given.iter().find(|part| part.name == name).map(|part| part.rows.clone());
        let all = || (0..labels.rows() as u32).collect();
        let mut parts = if self.split.is_given() {
            // Without a test part, a model can be fitted on all rows, but not evaluated.
            let (train, test) = match (rows_of("train"), rows_of("test")) {
                (None, Some(_)) => return Err(PrepareError::NoTrainingRows),
                (train, test) => (train.unwrap_or_else(all), test.unwrap_or_default()),
            };
            Parts { test, ..self.split.divide(&train, labels)? }
        } else {
            let rows = rows_of("train").filter(|_| !self.split.pool).unwrap_or_else(all);
            self.split.divide(&rows, labels)?
        };
        if let Some(validation) = &self.validation {
            validation.cut(&mut parts, labels)?;
        }
        Ok(parts)
    }
}

/// Prepares rows that were read and writes the data set to `directory`.
pub fn prepare(
    raw: &DataSet,
    preparation: &Preparation,
    directory: &Path,
) -> Result<SplitData, PrepareError> {
    let parts = preparation.divide(&raw.parts, &raw.labels)?;
    let names = raw.label_names.clone().unwrap_or_else(|| numbers_in_file(raw));
    let all_but_test = parts.all_but_test();
    let labels = preparation.filter.fit_labels(&raw.labels, &names, &all_but_test)?;
    // Labels without names are called by their numbers in the file, unless these are the numbers that they have here.
    let is_named =
        raw.label_names.is_some() || raw.report.label_base.first != 0 || labels.count() < raw.labels.cols;
    let (weight, weight_reason) = preparation.weight.resolve(&raw.features, &parts.train);
    let fitted =
        FittedFeatures::fit(&raw.features, &preparation.filter, weight, &all_but_test, &parts.train)?;
    let mut target = SplitDataDir::create(directory)?;
    for (part, rows) in [
        (PartName::Train, &parts.train),
        (PartName::Validation, &parts.validation),
        (PartName::Test, &parts.test),
    ] {
        if rows.is_empty() {
            continue;
        }
        fitted.write(&target, part, rows)?;
        write_labels(&target, part, rows, &raw.labels, &labels)?;
        target.finish_part(part, rows.len());
    }
    let mut origin = SplitDataOrigin {
        split: preparation.describe(),
        features: fitted.cols(),
        labels: labels.count(),
        dense: matches!(raw.features, Features::Dense(_)),
        features_before: raw.features.cols(),
        labels_before: raw.labels.cols,
        weight,
        weight_reason,
        report: raw.report.clone(),
        duplicates: None,
        label_names: is_named.then(|| labels.select(&names)),
        feature_names: raw.feature_names.as_ref().map(|names| fitted.select(names)),
        nominal_values: raw.nominal_values.clone(),
    };
    if let Features::Sparse(features) = &raw.features {
        let labelled = |rows| LabelledRows { features, labels: &raw.labels, rows };
        origin.duplicates = Some(Duplicates::between(labelled(&parts.train), labelled(&parts.test)));
    }
    fitted.transform.write(directory)?;
    Ok(target.complete(origin)?)
}

/// Returns the numbers by which a file calls its labels.
fn numbers_in_file(raw: &DataSet) -> Vec<String> {
    (u64::from(raw.report.label_base.first)..)
        .take(raw.labels.cols)
        .map(|number| number.to_string())
        .collect()
}

/// Features with what was fitted on the rows outside the test part.
struct FittedFeatures<'a> {
    features: &'a Features,
    transform: Transform,
    /// The features that are kept; `None` for dense features, which are all kept.
    columns: Option<KeptColumns>,
}

impl<'a> FittedFeatures<'a> {
    fn fit(
        features: &'a Features,
        filter: &Filter,
        weight: Weight,
        all_but_test: &[u32],
        train: &[u32],
    ) -> Result<Self, PrepareError> {
        let columns = match features {
            Features::Sparse(matrix) => Some(filter.fit_features(matrix, all_but_test)),
            Features::Dense(_) if filter.max_features.is_some() => {
                return Err(PrepareError::NotForDense("filter.max_features"));
            }
            Features::Dense(_) => None,
        };
        let mut transform = weight.fit(features, train);
        transform.kept = columns.as_ref().and_then(KeptColumns::old_numbers);
        Ok(Self { features, transform, columns })
    }

    fn cols(&self) -> usize {
        self.columns.as_ref().map_or(self.features.cols(), KeptColumns::count)
    }

    fn select(&self, names: &[String]) -> Vec<String> {
        self.columns.as_ref().map_or_else(|| names.to_vec(), |columns| columns.select(names))
    }

    fn write(&self, target: &SplitDataDir, part: PartName, rows: &[u32]) -> Result<(), DataError> {
        let mut values = Vec::new();
        match self.features {
            Features::Sparse(matrix) => {
                let mut writer = target.sparse_features(part, true)?;
                let mut columns = Vec::new();
                for &row in rows {
                    let row = row as usize;
                    columns.clear();
                    values.clear();
                    columns.extend_from_slice(matrix.row(row));
                    values.extend_from_slice(matrix.row_values(row));
                    self.transform.apply(&mut columns, &mut values);
                    writer.push(&columns, &values)?;
                }
                writer.close(self.cols())
            }
            Features::Dense(matrix) => {
                let mut writer = target.dense_features(part, matrix.cols)?;
                for &row in rows {
                    values.clear();
                    values.extend_from_slice(matrix.row(row as usize));
                    self.transform.apply_dense(&mut values);
                    writer.append(&values)?;
                }
                writer.finish().map(drop)
            }
        }
    }
}

fn write_labels(
    target: &SplitDataDir,
    part: PartName,
    rows: &[u32],
    labels: &Csr,
    columns: &KeptColumns,
) -> Result<(), DataError> {
    let mut writer = target.labels(part)?;
    let mut kept = Vec::new();
    for &row in rows {
        kept.clear();
        kept.extend(labels.row(row as usize).iter().filter_map(|&label| columns.new_number(label)));
        writer.push(&kept, &[])?;
    }
    writer.close(columns.count())
}
