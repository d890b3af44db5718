//! The files of a data set directory: one place for what the data set and the split data set have in common.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{ArtifactCheck, open_csr, open_dense};
use crate::data::csr::Features;
use crate::data::error::DataError;

/// Version, sizes and origin. Written last, so that a directory without it is incomplete.
pub(crate) const META: &str = "meta.json";
/// Sparse features.
pub(crate) const SPARSE_FEATURES: &str = "features.csr";
/// Dense features.
pub(crate) const DENSE_FEATURES: &str = "features.dense";
/// Labels as a matrix of ones.
pub(crate) const LABELS: &str = "labels.csr";
/// One JSON string per label.
pub(crate) const LABEL_NAMES: &str = "label_names.jsonl";
/// One JSON string per feature.
pub(crate) const FEATURE_NAMES: &str = "feature_names.jsonl";
/// The nominal values of attributes, in order: see [`crate::data::attributes`].
pub(crate) const NOMINAL_VALUES: &str = "nominal_values.json";

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// Reads `meta.json`, which must have the given version.
pub(crate) fn read_meta<T: DeserializeOwned>(directory: &Path, version: u32) -> Result<T, DataError> {
    let path = directory.join(META);
    let text = fs::read(&path).map_err(DataError::io("read", &path))?;
    let invalid = |error: serde_json::Error| DataError::artifact(&path, error.to_string());
    let found = serde_json::from_slice::<Versioned>(&text).map_err(invalid)?.version;
    if found != version {
        let reason = format!("it has version {found}, but this program reads version {version}");
        return Err(DataError::artifact(&path, reason));
    }
    serde_json::from_slice(&text).map_err(invalid)
}

/// Opens the feature matrix of a directory.
pub(crate) fn open_features(
    directory: &Path,
    dense: bool,
    check: ArtifactCheck,
) -> Result<Features, DataError> {
    if dense {
        open_dense(&directory.join(DENSE_FEATURES), check).map(Features::Dense)
    } else {
        open_csr(&directory.join(SPARSE_FEATURES), check).map(Features::Sparse)
    }
}
