//! Everything of this crate that flows between stages, on one page: the artifact types and their file formats.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use pipe_core::artifact::{
    Artifact, ArtifactType, JsonArtifact, JsonLayout, Result, SaveArtifact, TIMINGS, read_json_lines,
    write_json_lines,
};

use crate::composite::Composite;
use crate::data::split_data::SplitData;
use crate::explanation::Explanation;
use crate::fusion::Fusion;
use crate::history::History;
use crate::metric::audit::Audit;
use crate::metric::curves::Curves;
use crate::metric::decisions::Decisions;
use crate::metric::label::LabelRecord;
use crate::metric::record::EvaluationRecord;
use crate::score::table::ScoreTable;
use crate::signal::idf::Idf;
use crate::threshold::cuts::Cuts;

/// A directory that [`crate::data::prepare::prepare`] writes.
impl Artifact for SplitData {
    const TYPE: ArtifactType = "dataset";

    fn open(path: &Path) -> Result<Self> {
        Ok(Self::open(path)?)
    }
}

impl JsonArtifact for Idf {
    const ARTIFACT: ArtifactType = "idf";
    const LAYOUT: JsonLayout = JsonLayout::Compact;
}

/// The directory of a model of any kind: `model.json` and the files that it describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelDirectory(pub PathBuf);

impl Artifact for ModelDirectory {
    const TYPE: ArtifactType = "model";

    fn open(path: &Path) -> Result<Self> {
        Ok(Self(path.to_owned()))
    }
}

/// A model of the stages `fit`, `fuse` and `threshold`. A model of `train` is refused.
impl Artifact for Composite {
    const TYPE: ArtifactType = ModelDirectory::TYPE;

    fn open(path: &Path) -> Result<Self> {
        Ok(Self::load(path)?)
    }
}

/// A directory that [`crate::score::table::ScoreWriter`] writes.
impl Artifact for ScoreTable {
    const TYPE: ArtifactType = "scores";

    fn open(path: &Path) -> Result<Self> {
        Ok(Self::open(path)?)
    }
}

impl JsonArtifact for Fusion {
    const ARTIFACT: ArtifactType = "fusion";
}

impl JsonArtifact for Cuts {
    const ARTIFACT: ArtifactType = "cuts";
}

impl JsonArtifact for History {
    const ARTIFACT: ArtifactType = "history";
}

/// The seconds that each epoch of a training took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EpochSeconds(pub Vec<f64>);

impl JsonArtifact for EpochSeconds {
    const ARTIFACT: ArtifactType = TIMINGS;
}

/// The result of an evaluation.
impl JsonArtifact for EvaluationRecord {
    const ARTIFACT: ArtifactType = "evaluation";
}

impl JsonArtifact for Curves {
    const ARTIFACT: ArtifactType = "curves";
}

/// The counts and metrics of every label in an evaluation.
#[derive(Debug, Clone)]
pub struct LabelRecords(pub Vec<LabelRecord>);

impl Artifact for LabelRecords {
    const TYPE: ArtifactType = "labels";

    fn open(path: &Path) -> Result<Self> {
        read_json_lines(path).map(Self)
    }
}

impl SaveArtifact for LabelRecords {
    fn save(&self, path: &Path) -> Result<()> {
        write_json_lines(path, &self.0)
    }
}

/// A directory that [`crate::metric::decisions::DecisionsWriter`] writes.
impl Artifact for Decisions {
    const TYPE: ArtifactType = "decisions";

    fn open(path: &Path) -> Result<Self> {
        Ok(Self::open(path)?)
    }
}

impl JsonArtifact for Audit {
    const ARTIFACT: ArtifactType = "audit";
}

/// The answer to `pipe explain`. No stage writes it.
impl JsonArtifact for Explanation {
    const ARTIFACT: ArtifactType = "explanation";
}
