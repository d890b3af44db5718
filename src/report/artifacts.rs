//! Everything of this crate that flows between stages, on one page: the artifact types and their file formats.

use std::path::Path;

use pipe_core::artifact::{Artifact, ArtifactType, JsonArtifact, PlainFile, Result, SaveArtifact, read_json};

use crate::claim::ClaimVerdict;
use crate::table::Table;

/// A table for a paper, as JSON that ends with a line break, so that `b3sum` gives [`Table::digest`].
impl Artifact for Table {
    const TYPE: ArtifactType = "table";

    fn open(path: &Path) -> Result<Self> {
        read_json(path)
    }
}

impl SaveArtifact for Table {
    fn save(&self, path: &Path) -> Result<()> {
        PlainFile::from(self.json()).save(path)
    }
}

/// The answer to a claim.
impl JsonArtifact for ClaimVerdict {
    const ARTIFACT: ArtifactType = "claim";
}

/// An SVG image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Svg(pub PlainFile);

impl Artifact for Svg {
    const TYPE: ArtifactType = "svg";

    fn open(path: &Path) -> Result<Self> {
        PlainFile::open(path).map(Self)
    }
}

impl SaveArtifact for Svg {
    fn save(&self, path: &Path) -> Result<()> {
        self.0.save(path)
    }
}

/// A PDF file of one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pdf(pub PlainFile);

impl Artifact for Pdf {
    const TYPE: ArtifactType = "pdf";

    fn open(path: &Path) -> Result<Self> {
        PlainFile::open(path).map(Self)
    }
}

impl SaveArtifact for Pdf {
    fn save(&self, path: &Path) -> Result<()> {
        self.0.save(path)
    }
}

/// An HTML file that needs no other file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HtmlPage(pub PlainFile);

impl Artifact for HtmlPage {
    const TYPE: ArtifactType = "page";

    fn open(path: &Path) -> Result<Self> {
        PlainFile::open(path).map(Self)
    }
}

impl SaveArtifact for HtmlPage {
    fn save(&self, path: &Path) -> Result<()> {
        self.0.save(path)
    }
}
