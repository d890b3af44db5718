//! The trait of everything that flows between stages, and the file formats that several artifacts share.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use anyhow::Result;

/// The name of a type of artifact. Where an output meets a slot, their names are compared.
pub type ArtifactType = &'static str;

/// The type of a slot that takes every artifact.
pub const ANY: ArtifactType = "any";
/// The type of a file or directory that has no further meaning to `pipe`; see [`PlainFile`].
pub const FILE: ArtifactType = "file";
/// The type of measurements that a run makes of itself, such as seconds. They differ from run to run, so they are
/// never compared.
pub const TIMINGS: ArtifactType = "timings";

/// Something that one stage writes and another stage reads: a data set, a model, a table.
///
/// Several Rust types may share one [`Artifact::TYPE`]: each is one way to read the same file or directory.
///
/// ```
/// use std::path::Path;
/// use pipe_core::artifact::{Artifact, ArtifactType, Result, SaveArtifact};
///
/// struct WordCount(u64);
///
/// impl Artifact for WordCount {
///     const TYPE: ArtifactType = "word_count";
///
///     fn open(path: &Path) -> Result<Self> {
///         Ok(Self(std::fs::read_to_string(path)?.trim().parse()?))
///     }
/// }
///
/// impl SaveArtifact for WordCount {
///     fn save(&self, path: &Path) -> Result<()> {
///         Ok(std::fs::write(path, self.0.to_string())?)
///     }
/// }
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("count");
/// WordCount(3).save(&path)?;
/// assert_eq!(WordCount::open(&path)?.0, 3);
/// # anyhow::Ok(())
/// ```
pub trait Artifact: Sized {
    /// The type that slots and outputs declare.
    const TYPE: ArtifactType;

    /// Reads the artifact, or maps it into memory.
    fn open(path: &Path) -> Result<Self>;
}

/// An artifact that is written at once. Large artifacts are written row by row instead, by a writer that is given
/// the path of the output; for those, `work.save(...)` does not compile.
pub trait SaveArtifact: Artifact {
    /// Writes the artifact to a path at which there is nothing yet.
    fn save(&self, path: &Path) -> Result<()>;
}

/// An artifact that is one JSON file. Implementing this trait also implements [`Artifact`] and [`SaveArtifact`].
pub trait JsonArtifact: Serialize + DeserializeOwned {
    /// Becomes [`Artifact::TYPE`].
    const ARTIFACT: ArtifactType;
    /// How the JSON is laid out. A change of it changes the bytes of every stored artifact of the type.
    const LAYOUT: JsonLayout = JsonLayout::Pretty;
}

/// The layout of a JSON file. No layout ends the file with a line break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonLayout {
    /// One line.
    Compact,
    /// Indented, one field per line.
    Pretty,
}

impl<T: JsonArtifact> Artifact for T {
    const TYPE: ArtifactType = T::ARTIFACT;

    fn open(path: &Path) -> Result<Self> {
        read_json(path)
    }
}

impl<T: JsonArtifact> SaveArtifact for T {
    fn save(&self, path: &Path) -> Result<()> {
        let bytes = match T::LAYOUT {
            JsonLayout::Compact => serde_json::to_vec(self)?,
            JsonLayout::Pretty => serde_json::to_vec_pretty(self)?,
        };
        write(path, &bytes)
    }
}

/// Reads a value from a JSON file.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    serde_json::from_slice(&read(path)?)
        .with_context(|| format!("{} does not have the expected content", path.display()))
}

/// Reads a file with one JSON value per line. Empty lines are skipped.
pub fn read_json_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let bytes = read(path)?;
    let lines = bytes.split(|byte| *byte == b'\n').zip(1..).filter(|(line, _)| !line.trim_ascii().is_empty());
    let read_line = |(line, number): (&[u8], usize)| {
        serde_json::from_slice(line).with_context(|| {
            format!("line {number} of {} does not have the expected content", path.display())
        })
    };
    lines.map(read_line).collect()
}

/// Writes one JSON value per line.
pub fn write_json_lines<T: Serialize>(path: &Path, values: &[T]) -> Result<()> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut file = BufWriter::new(file);
    for value in values {
        serde_json::to_writer(&mut file, value)?;
        file.write_all(b"\n")?;
    }
    file.flush().with_context(|| format!("cannot write {}", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// A file without further meaning to `pipe`, with its content.
///
/// A stage that reads a large file, or whose slot may hold a directory, takes the path from
/// [`Work::input_path`](crate::work::Work::input_path) and never opens it as a `PlainFile`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainFile(pub Vec<u8>);

impl Artifact for PlainFile {
    const TYPE: ArtifactType = FILE;

    fn open(path: &Path) -> Result<Self> {
        read(path).map(Self)
    }
}

impl SaveArtifact for PlainFile {
    fn save(&self, path: &Path) -> Result<()> {
        write(path, &self.0)
    }
}

impl From<String> for PlainFile {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Point {
        x: f64,
    }

    impl JsonArtifact for Point {
        const ARTIFACT: ArtifactType = "point";
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Numbers(Vec<u8>);

    impl JsonArtifact for Numbers {
        const ARTIFACT: ArtifactType = "numbers";
        const LAYOUT: JsonLayout = JsonLayout::Compact;
    }

    #[test]
    fn json_artifacts_keep_their_layout_and_can_be_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("artifact");
        Point { x: 0.5 }.save(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\n  \"x\": 0.5\n}");
        assert_eq!(Point::open(&path).unwrap(), Point { x: 0.5 });
        Numbers(vec![1, 2]).save(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "[1,2]");
        let error = format!("{:#}", Point::open(&path).unwrap_err());
        assert!(
            error.contains("artifact does not have the expected content: trailing characters"),
            "{error}"
        );
    }

    #[test]
    fn json_lines_name_the_line_that_cannot_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lines");
        write_json_lines(&path, &[1, 2]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n2\n");
        assert_eq!(read_json_lines::<u8>(&path).unwrap(), [1, 2]);
        std::fs::write(&path, "1\n\ntwo\n").unwrap();
        let error = read_json_lines::<u8>(&path).unwrap_err().to_string();
        assert!(error.starts_with("line 3 of "), "{error}");
    }
}
