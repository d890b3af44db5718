//! [`Decisions`], the artifact `decisions`: predicted and true labels of every row, from which tables resample rows.
//!
//! ```text
//! decisions.json     the protocol
//! truth.csr          the true labels of each evaluated row
//! predicted.csr      the predicted labels of each evaluated row
//! ```

use std::path::{Path, PathBuf};

use super::marked::{Marked, Protocol};
use super::outcomes::Outcomes;
use crate::data::artifact::dataset::write_json;
use crate::data::artifact::{ArtifactCheck, CsrWriter, open_csr, write_csr};
use crate::data::csr::Csr;
use crate::data::error::DataError;

const INFO: &str = "decisions.json";
const TRUTH: &str = "truth.csr";
const PREDICTED: &str = "predicted.csr";

/// The content of `decisions.json`.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct DecisionsInfo {
    protocol: Protocol,
}

/// Predicted and true labels of every evaluated row.
pub struct Decisions {
    pub protocol: Protocol,
    pub truth: Csr,
    pub predicted: Csr,
}

/// Writes decisions row by row, so that they need not fit in memory.
pub struct DecisionsWriter {
    directory: PathBuf,
    truth: CsrWriter,
    predicted: CsrWriter,
}

impl DecisionsWriter {
    /// Creates the files in a directory.
    pub fn create(directory: &Path) -> Result<Self, DataError> {
        std::fs::create_dir_all(directory).map_err(DataError::io("create", directory))?;
        let writer = |name: &str| CsrWriter::create(&directory.join(name), false);
        Ok(Self { directory: directory.to_owned(), truth: writer(TRUTH)?, predicted: writer(PREDICTED)? })
    }

    /// Adds one row. Both lists are ascending.
    pub fn push(&mut self, truth: &[u32], predicted: &[u32]) -> Result<(), DataError> {
        self.truth.push(truth, &[])?;
        self.predicted.push(predicted, &[])
    }

    /// Completes the files and opens them.
    pub fn finish(self, protocol: Protocol, labels: usize) -> Result<Decisions, DataError> {
        self.truth.close(labels)?;
        self.predicted.close(labels)?;
        write_json(&self.directory.join(INFO), &DecisionsInfo { protocol })?;
        Decisions::open(&self.directory)
    }
}

impl Decisions {
    /// Writes decisions that are in memory.
    pub fn write(
        directory: &Path,
        protocol: Protocol,
        truth: &Csr,
        predicted: &Csr,
    ) -> Result<(), DataError> {
        std::fs::create_dir_all(directory).map_err(DataError::io("create", directory))?;
        write_csr(&directory.join(TRUTH), truth)?;
        write_csr(&directory.join(PREDICTED), predicted)?;
        write_json(&directory.join(INFO), &DecisionsInfo { protocol })
    }

    /// Opens stored decisions.
    pub fn open(directory: &Path) -> Result<Self, DataError> {
        let path = directory.join(INFO);
        let text = std::fs::read(&path).map_err(DataError::io("read", &path))?;
        let info: DecisionsInfo =
            serde_json::from_slice(&text).map_err(|error| DataError::artifact(&path, error.to_string()))?;
        let open = |name: &str| open_csr(&directory.join(name), ArtifactCheck::Header);
        Ok(Self { protocol: info.protocol, truth: open(TRUTH)?, predicted: open(PREDICTED)? })
    }

    /// Returns the outcomes of the decisions, for [`super::bootstrap::Bootstrap`].
    pub fn outcomes(&self) -> Result<Marked<Outcomes>, super::counts::ShapeMismatch> {
        Ok(Marked::new(self.protocol, Outcomes::new(&self.truth, &self.predicted)?))
    }
}
