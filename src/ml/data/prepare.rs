//! Prepares rows that were read: splits them, takes validation rows from the training rows, filters and weights.
//!
//! Everything is fitted on training rows. Rows are streamed from the input to the output.

use std::path::Path;

use pipe_core::issue::Issue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::artifact::{DataSet, DataSetPart};
use super::csr::{Csr, DenseMatrix, Features};
use super::duplicates::{Duplicates, LabelledRows};
use super::error::DataError;
use super::filter::{Filter, FilterError, KeptColumns};
use super::split::{Parts, Split, SplitError, Validation};
use super::split_data::{PartName, SplitData, SplitDataDir, SplitDataOrigin};
use super::transform::Transform;
use super::weight::{FittedWeight, Weight, normalise};

/// What is done with rows that were read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Preparation {
    pub split: Split,
    pub validation: Option<Validation>,
    pub filter: Filter,
    pub weight: Weight,
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
        split.chain(validation.map(|issue| issue.within("validation"))).chain(filter).collect()
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
    let names = raw.label_names.as_deref().unwrap_or_default();
    let all_but_test = parts.all_but_test();
    let labels = preparation.filter.fit_labels(&raw.labels, names, &all_but_test)?;
    let fitted = FittedFeatures::fit(&raw.features, preparation, &all_but_test, &parts.train)?;
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
        weight: preparation.weight,
        report: raw.report.clone(),
        duplicates: None,
        label_names: raw.label_names.as_ref().map(|names| labels.select(names)),
        feature_names: raw.feature_names.as_ref().map(|names| fitted.select(names)),
    };
    if let Features::Sparse(features) = &raw.features {
        let labelled = |rows| LabelledRows { features, labels: &raw.labels, rows };
        origin.duplicates = Some(Duplicates::between(labelled(&parts.train), labelled(&parts.test)));
    }
    fitted.transform().write(directory)?;
    Ok(target.complete(origin)?)
}

/// Features with what was fitted on the rows outside the test part.
enum FittedFeatures<'a> {
    Sparse { matrix: &'a Csr, columns: KeptColumns, weighting: FittedWeight },
    Dense { matrix: &'a DenseMatrix, l2: bool },
}

impl<'a> FittedFeatures<'a> {
    fn fit(
        features: &'a Features,
        preparation: &Preparation,
        all_but_test: &[u32],
        train: &[u32],
    ) -> Result<Self, PrepareError> {
        let Preparation { filter, weight, .. } = preparation;
        match features {
            Features::Sparse(matrix) => Ok(Self::Sparse {
                matrix,
                columns: filter.fit_features(matrix, all_but_test),
                weighting: weight.fit(matrix, train),
            }),
            Features::Dense(_) if weight.tf_idf => Err(PrepareError::NotForDense("weight.tf_idf")),
            Features::Dense(_) if filter.max_features.is_some() => {
                Err(PrepareError::NotForDense("filter.max_features"))
            }
            Features::Dense(matrix) => Ok(Self::Dense { matrix, l2: weight.l2 }),
        }
    }

    fn transform(&self) -> Transform {
        match self {
            Self::Sparse { columns, weighting, .. } => Transform {
                idf: weighting.idf().map(<[f32]>::to_vec),
                kept: columns.old_numbers(),
                l2: weighting.l2(),
            },
            Self::Dense { l2, .. } => Transform { l2: *l2, ..Transform::default() },
        }
    }

    fn cols(&self) -> usize {
        match self {
            Self::Sparse { columns, .. } => columns.count(),
            Self::Dense { matrix, .. } => matrix.cols,
        }
    }

    fn select(&self, names: &[String]) -> Vec<String> {
        match self {
            Self::Sparse { columns, .. } => columns.select(names),
            Self::Dense { .. } => names.to_vec(),
        }
    }

    fn write(&self, target: &SplitDataDir, part: PartName, rows: &[u32]) -> Result<(), DataError> {
        match self {
            Self::Sparse { matrix, columns, weighting } => {
                let mut writer = target.sparse_features(part, true)?;
                let (mut kept, mut values) = (Vec::new(), Vec::new());
                for &row in rows {
                    let row = row as usize;
                    kept.clear();
                    values.clear();
                    kept.extend_from_slice(matrix.row(row));
                    values.extend_from_slice(matrix.row_values(row));
                    values.resize(kept.len(), 1.0);
                    weighting.scale(&kept, &mut values);
                    columns.keep(&mut kept, &mut values);
                    weighting.normalise(&mut values);
                    writer.push(&kept, &values)?;
                }
                writer.close(columns.count())
            }
            Self::Dense { matrix, l2 } => {
                let mut writer = target.dense_features(part, matrix.cols)?;
                let mut values = Vec::new();
                for &row in rows {
                    values.clear();
                    values.extend_from_slice(matrix.row(row as usize));
                    if *l2 {
                        normalise(&mut values);
                    }
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
