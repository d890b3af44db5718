//! The training rows that a model needs to score others, in its directory.

use std::path::Path;

use anyhow::{Result, ensure};

use super::ModelSize;
use crate::data::artifact::{ArtifactCheck, open_csr, write_csr};
use crate::data::csr::Csr;

const FEATURES: &str = "features.csr";
const LABELS: &str = "labels.csr";

/// Writes the features and labels of training rows into the directory of a model.
pub fn write(directory: &Path, features: &Csr, labels: &Csr) -> Result<()> {
    write_csr(&directory.join(FEATURES), features)?;
    write_csr(&directory.join(LABELS), labels)?;
    Ok(())
}

/// Opens the features and labels of training rows, which must have the size of their model.
pub fn open(directory: &Path, size: ModelSize) -> Result<(Csr, Csr)> {
    let features = open_csr(&directory.join(FEATURES), ArtifactCheck::Deep)?;
    let labels = open_csr(&directory.join(LABELS), ArtifactCheck::Deep)?;
    size.check(directory, features.cols, labels.cols)?;
    ensure!(
        features.rows() == labels.rows(),
        "{}: the model has a different number of rows of features and of labels",
        directory.display()
    );
    Ok((features, labels))
}
