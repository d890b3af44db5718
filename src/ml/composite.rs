//! [`Composite`]: a model made of fitted parts, the fusion of their scores, and the cuts. It is stored as a
//! self-contained directory.
//!
//! ```text
//! model.json            a [`Composite`]
//! label_names.jsonl     if the labels have names
//! parts/0/...           the first part, in the format of its kind
//! label_ridge/...       if the fusion has one
//! ```
//!
//! The stage `fit` creates a model with one part, `fuse` combines several parts, and `threshold` adds cuts.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::config::model::ModelConfig;
use super::data::artifact::dataset::{read_names, write_json, write_names};
use super::data::dataset_part::FittedRows;
use super::data::error::DataError;
use super::fusion::Fusion;
use super::score::ScoreScale;
use super::threshold::cuts::Cuts;
use pipe_core::digest::Digest;

/// The version of the format. Increase it whenever an older program could not read, or would misread, a model.
const FORMAT: u32 = 1;
const INFO: &str = "model.json";
const NAMES: &str = "label_names.jsonl";
/// The directory of a label ridge, relative to the directory of the model.
pub const LABEL_RIDGE: &str = "label_ridge";

/// Distinguishes these directories from those of `train`, which have no kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ModelDirectoryKind {
    Composite,
}

/// The content of `model.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Composite {
    format: u32,
    kind: ModelDirectoryKind,
    /// Equal to the mark of the scores that the model made.
    pub mark: String,
    pub features: usize,
    pub labels: usize,
    /// The rows that the parts, the fusion and the cuts were fitted on.
    #[serde(default, skip_serializing_if = "FittedRows::is_train")]
    pub fitted_on: FittedRows,
    pub parts: Vec<ModelPart>,
    /// `None` if there is one part, whose scores are those of the model.
    pub fusion: Option<Fusion>,
    /// The fusion of the parts alone, whose probabilities a label ridge reads. The score of the label ridge is the last one of `fusion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_fusion: Option<Fusion>,
    pub cuts: Option<Cuts>,
}

/// A fitted model inside of a [`Composite`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPart {
    /// Relative to the directory of the model.
    pub directory: String,
    pub model: ModelConfig,
    /// Why the sizes of the data led to this model; `None` if the pipeline names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen_because: Option<String>,
    /// The number of labels kept per row in the table of training scores, if not all are.
    pub keep: Option<usize>,
    /// The score of the labels that are not kept.
    pub rest: f32,
}

/// The fields that every `model.json` has.
#[derive(Deserialize)]
struct ModelHeader {
    kind: Option<String>,
    format: u32,
}

impl Composite {
    /// Creates a model without fusion and cuts.
    pub fn new(mark: String, features: usize, labels: usize, parts: Vec<ModelPart>) -> Self {
        Self {
            format: FORMAT,
            kind: ModelDirectoryKind::Composite,
            mark,
            features,
            labels,
            fitted_on: FittedRows::Train,
            parts,
            fusion: None,
            first_fusion: None,
            cuts: None,
        }
    }

    /// Returns whether a model directory contains a composite model.
    pub fn is_at(directory: &Path) -> Result<bool, DataError> {
        Ok(read_header(&directory.join(INFO))?.1.kind.as_deref() == Some("composite"))
    }

    /// Loads and checks a model.
    pub fn load(directory: &Path) -> Result<Self, DataError> {
        let path = directory.join(INFO);
        let (text, header) = read_header(&path)?;
        let bad = |reason: String| DataError::artifact(&path, reason);
        if header.kind.as_deref() != Some("composite") {
            return Err(bad(
                "it is a model of the stage `train`, which makes no scores of training rows: use \
                            `fit` with `model: { kind: mlp }`"
                    .to_owned(),
            ));
        }
        if header.format != FORMAT {
            return Err(bad(format!("it has format {}, this program reads {FORMAT}", header.format)));
        }
        let model: Self = serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
        match model.inconsistency() {
            Some(reason) => Err(bad(reason.to_owned())),
            None => Ok(model),
        }
    }

    /// Returns what is inconsistent in the model, if anything is.
    fn inconsistency(&self) -> Option<&'static str> {
        let is_inside =
            |part: &ModelPart| part.directory.split('/').all(|name| !matches!(name, "" | "." | ".."));
        let fusion_fits = |fusion: &Fusion| {
            fusion.fits(self.parts.len() + usize::from(self.first_fusion.is_some()), self.labels)
        };
        let first_fits =
            |fusion: &Fusion| self.fusion.is_some() && fusion.fits(self.parts.len(), self.labels);
        if self.parts.is_empty() || !self.parts.iter().all(is_inside) {
            return Some("it names no parts, or parts outside of its directory");
        }
        let first_fits = self.first_fusion.as_ref().is_none_or(first_fits);
        if !self.fusion.as_ref().map_or(self.parts.len() == 1, fusion_fits) || !first_fits {
            return Some("its fusion does not fit its parts");
        }
        if self.cuts.as_ref().is_some_and(|cuts| !cuts.fits(self.labels)) {
            return Some("its cuts are for another number of labels");
        }
        let keeps_some = |part: &ModelPart| part.keep.is_none_or(|keep| (1..self.labels).contains(&keep));
        let keeps_fit = self.labels > 0 && self.parts.iter().all(keeps_some);
        (!keeps_fit).then_some("it has no labels, or a part that keeps none or all of them")
    }

    /// Writes `model.json`, which has to be done last.
    pub fn save(&self, directory: &Path) -> Result<(), DataError> {
        write_json(&directory.join(INFO), self)
    }

    /// Returns what the scores of the model mean.
    pub fn scale(&self) -> ScoreScale {
        match (&self.fusion, self.parts.first()) {
            (None, Some(part)) => part.model.scale(),
            _ => ScoreScale::LogOdds,
        }
    }

    /// Returns the directory of a part, relative to the directory of the model.
    pub fn part_directory(number: usize) -> String {
        format!("parts/{number}")
    }

    /// Reads the names of the labels, if they have names.
    pub fn label_names(&self, directory: &Path) -> Result<Option<Vec<String>>, DataError> {
        read_names(&directory.join(NAMES), self.labels)
    }
}

/// Writes the names of the labels into the directory of a model.
pub fn save_label_names(directory: &Path, names: Option<&[String]>) -> Result<(), DataError> {
    write_names(&directory.join(NAMES), names)
}

/// Returns a digest of some settings. Models and scores with equal marks belong together.
pub fn mark(settings: &impl Serialize) -> String {
    Digest::of(serde_json::to_string(settings).unwrap_or_default().as_bytes()).to_string()
}

/// Reads `model.json` and its header.
fn read_header(path: &Path) -> Result<(Vec<u8>, ModelHeader), DataError> {
    let text = fs::read(path).map_err(DataError::io("read", path))?;
    let header = serde_json::from_slice(&text)
        .map_err(|error| DataError::artifact(path, format!("it is not a model: {error}")))?;
    Ok((text, header))
}

/// Copies one part of a model into the directory of another model.
pub fn take_part(from: &Path, part: &ModelPart, to: &Path, number: usize) -> Result<ModelPart, DataError> {
    let directory = Composite::part_directory(number);
    copy_tree(&from.join(&part.directory), &to.join(&directory))?;
    Ok(ModelPart { directory, ..part.clone() })
}

/// Copies every file below a directory. Hard links would save nothing, because the store copies a file that has other
/// names, and they would look like a change of the stored files while the stage ran.
pub fn copy_tree(from: &Path, to: &Path) -> Result<(), DataError> {
    fs::create_dir_all(to).map_err(DataError::io("create", to))?;
    for entry in fs::read_dir(from).map_err(DataError::io("read", from))? {
        let path = entry.map_err(DataError::io("read", from))?.path();
        let Some(name) = path.file_name() else { continue };
        let target = to.join(name);
        if path.is_dir() {
            copy_tree(&path, &target)?;
        } else {
            let write = || io::copy(&mut File::open(&path)?, &mut File::create(&target)?);
            write().map_err(DataError::io("copy", &path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part() -> ModelPart {
        let model = ModelConfig::Ridge { ridge: 1.0, constant: 0.3 };
        let directory = Composite::part_directory(0);
        ModelPart { directory, model, chosen_because: None, keep: None, rest: 0.0 }
    }

    fn saved(model: &Composite) -> tempfile::TempDir {
        let temp = tempfile::tempdir().unwrap();
        model.save(temp.path()).unwrap();
        temp
    }

    #[test]
    fn a_model_is_loaded_as_it_was_saved() {
        let model = Composite::new(mark(&"x"), 4, 3, vec![part()]);
        let temp = saved(&model);
        assert_eq!(Composite::load(temp.path()).unwrap(), model);
        assert!(Composite::is_at(temp.path()).unwrap());
        let text = fs::read_to_string(temp.path().join(INFO)).unwrap();
        assert!(!text.contains("fitted_on") && !text.contains("chosen_because"), "stored bytes: {text}");
    }

    #[test]
    fn an_inconsistent_model_is_an_error_with_a_reason() {
        let error = |change: &dyn Fn(&mut Composite)| {
            let mut model = Composite::new(String::new(), 4, 3, vec![part()]);
            change(&mut model);
            Composite::load(saved(&model).path()).unwrap_err().to_string()
        };
        assert!(error(&|model| model.parts.clear()).contains("no parts"));
        assert!(error(&|model| model.parts[0].directory = "../x".into()).contains("outside"));
        assert!(error(&|model| model.parts.push(part())).contains("fusion"));
        assert!(error(&|model| model.format = 9).contains("format 9"));
        assert!(error(&|model| model.labels = 0).contains("no labels"));
        assert!(error(&|model| model.parts[0].keep = Some(0)).contains("keeps none"));
        let cuts = |text: &str| serde_json::from_str(text).unwrap();
        for text in [
            r#"{"labels": 3, "decision": {"kind": "per_label", "cuts": [0.5]}}"#,
            r#"{"labels": 3, "decision": {"kind": "shares", "shares": []}}"#,
            r#"{"labels": 3, "decision": {"kind": "ranks", "sure": 18446744073709551615, "cut": 1.0, "unseen": []}}"#,
            r#"{"labels": 4, "decision": {"kind": "per_label", "cuts": [0.5, 0.5, 0.5, 0.5]}}"#,
        ] {
            assert!(error(&|model| model.cuts = Some(cuts(text))).contains("its cuts"), "{text}");
        }
    }

    #[test]
    fn a_model_of_train_is_recognised() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join(INFO), r#"{"format": 1, "features": 3}"#).unwrap();
        assert!(!Composite::is_at(temp.path()).unwrap());
        assert!(Composite::load(temp.path()).unwrap_err().to_string().contains("`fit`"));
    }

    #[test]
    fn directories_are_copied_recursively() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(from.path().join("a/b")).unwrap();
        fs::write(from.path().join("a/b/c"), "x").unwrap();
        copy_tree(from.path(), &to.path().join("new")).unwrap();
        assert_eq!(fs::read(to.path().join("new/a/b/c")).unwrap(), b"x");
    }
}
