//! A model made of parts: fitted models, how their scores become one, and where it is cut. A directory that
//! needs nothing beside itself.
//!
//! ```text
//! model.json            a [`Composite`]
//! label_names.jsonl     where the data has names
//! parts/0/...           the first part, as its kind writes it
//! ```
//!
//! `fit` makes one with a single part, `fuse` joins several, `threshold` adds cuts.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::config::model::ModelConfig;
use super::data::artifact::dataset::{read_names, write_json, write_names};
use super::data::error::DataError;
use super::fusion::Fusion;
use super::score::Scale;
use super::threshold::cuts::Cuts;
use pipe_core::digest::Digest;

/// Changes whenever an older program could not read, or would misread, a model.
const FORMAT: u32 = 1;
const CARD: &str = "model.json";
const NAMES: &str = "label_names.jsonl";

/// Tells these directories from those of `train`, which have no kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Composite,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Composite {
    format: u32,
    kind: Kind,
    /// The same as in the scores that were made with the model.
    pub mark: String,
    pub features: usize,
    pub labels: usize,
    pub parts: Vec<Part>,
    /// `None`: there is one part, and its scores are the model's.
    pub fusion: Option<Fusion>,
    pub cuts: Option<Cuts>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Below the model's directory.
    pub directory: String,
    pub model: ModelConfig,
    /// As in the table of the training rows' scores: labels kept per row, and what the others count.
    pub keep: Option<usize>,
    pub rest: f32,
}

#[derive(Deserialize)]
struct Head {
    kind: Option<String>,
    format: u32,
}

impl Composite {
    pub fn new(mark: String, features: usize, labels: usize, parts: Vec<Part>) -> Self {
        Self {
            format: FORMAT,
            kind: Kind::Composite,
            mark,
            features,
            labels,
            parts,
            fusion: None,
            cuts: None,
        }
    }

    /// Whether a model directory holds one of these.
    pub fn is_at(directory: &Path) -> Result<bool, DataError> {
        Ok(head(&directory.join(CARD))?.1.kind.as_deref() == Some("composite"))
    }

    pub fn load(directory: &Path) -> Result<Self, DataError> {
        let path = directory.join(CARD);
        let (text, head) = head(&path)?;
        let bad = |reason: String| DataError::artifact(&path, reason);
        if head.kind.as_deref() != Some("composite") {
            return Err(bad(
                "it is a model of the stage `train`, which leaves no scores of training rows: use \
                            `fit` with `model: { kind: mlp }`"
                    .to_owned(),
            ));
        }
        if head.format != FORMAT {
            return Err(bad(format!("it has format {}, this program reads {FORMAT}", head.format)));
        }
        let model: Self = serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
        match model.fault() {
            Some(fault) => Err(bad(fault.to_owned())),
            None => Ok(model),
        }
    }

    fn fault(&self) -> Option<&'static str> {
        let safe = |part: &Part| part.directory.split('/').all(|name| !matches!(name, "" | "." | ".."));
        let fusion_fits =
            |fusion: &Fusion| fusion.terms.len() == self.parts.len() && fusion.labels() == self.labels;
        if self.parts.is_empty() || !self.parts.iter().all(safe) {
            return Some("it names no parts, or parts outside of its directory");
        }
        if !self.fusion.as_ref().map_or(self.parts.len() == 1, fusion_fits) {
            return Some("its fusion does not fit its parts");
        }
        let cuts_fit = self.cuts.as_ref().is_none_or(|cuts| cuts.labels() == self.labels);
        (!cuts_fit).then_some("its cuts are not of its labels")
    }

    /// Writes the card, after all else.
    pub fn save(&self, directory: &Path) -> Result<(), DataError> {
        write_json(&directory.join(CARD), self)
    }

    /// What the model's scores are.
    pub fn scale(&self) -> Scale {
        match (&self.fusion, self.parts.first()) {
            (None, Some(part)) => part.model.scale(),
            _ => Scale::LogOdds,
        }
    }

    /// Where the part of a number is.
    pub fn part_directory(number: usize) -> String {
        format!("parts/{number}")
    }

    pub fn label_names(&self, directory: &Path) -> Result<Option<Vec<String>>, DataError> {
        read_names(&directory.join(NAMES), self.labels)
    }
}

/// Keeps the labels' names beside a model.
pub fn save_label_names(directory: &Path, names: Option<&[String]>) -> Result<(), DataError> {
    write_names(&directory.join(NAMES), names)
}

/// A short text that is the same for the same settings and the same content.
pub fn mark(settings: &impl Serialize) -> String {
    Digest::of(serde_json::to_string(settings).unwrap_or_default().as_bytes()).to_string()
}

fn head(path: &Path) -> Result<(Vec<u8>, Head), DataError> {
    let text = fs::read(path).map_err(DataError::io("read", path))?;
    let head = serde_json::from_slice(&text)
        .map_err(|error| DataError::artifact(path, format!("no model: {error}")))?;
    Ok((text, head))
}

/// Brings one part of a model into another model's directory.
pub fn take_part(from: &Path, part: &Part, to: &Path, number: usize) -> Result<Part, DataError> {
    let directory = Composite::part_directory(number);
    link_tree(&from.join(&part.directory), &to.join(&directory))?;
    Ok(Part { directory, ..part.clone() })
}

/// Links every file below a directory, or copies it where the file system has no links. Both names then have
/// the same content for good: artifacts are never changed in place.
pub fn link_tree(from: &Path, to: &Path) -> Result<(), DataError> {
    fs::create_dir_all(to).map_err(DataError::io("create", to))?;
    let entries = fs::read_dir(from).map_err(DataError::io("read", from))?;
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(DataError::io("read", from))?.path());
    }
    for path in paths {
        let Some(name) = path.file_name() else { continue };
        let target = to.join(name);
        if path.is_dir() {
            link_tree(&path, &target)?;
            continue;
        }
        // The store keeps its files behind symbolic links in places: the file itself is what is wanted.
        let file = fs::canonicalize(&path).map_err(DataError::io("find", &path))?;
        if fs::hard_link(&file, &target).is_err() {
            fs::copy(&file, &target).map_err(DataError::io("copy", &path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part() -> Part {
        let model = ModelConfig::Ridge { ridge: 1.0, constant: 0.3 };
        Part { directory: Composite::part_directory(0), model, keep: None, rest: 0.0 }
    }

    fn saved(model: &Composite) -> tempfile::TempDir {
        let temp = tempfile::tempdir().unwrap();
        model.save(temp.path()).unwrap();
        temp
    }

    #[test]
    fn a_card_comes_back_as_it_was() {
        let model = Composite::new(mark(&"x"), 4, 3, vec![part()]);
        let temp = saved(&model);
        assert_eq!(Composite::load(temp.path()).unwrap(), model);
        assert!(Composite::is_at(temp.path()).unwrap());
    }

    #[test]
    fn what_does_not_fit_has_its_sentence() {
        let complaint = |change: &dyn Fn(&mut Composite)| {
            let mut model = Composite::new(String::new(), 4, 3, vec![part()]);
            change(&mut model);
            Composite::load(saved(&model).path()).unwrap_err().to_string()
        };
        assert!(complaint(&|model| model.parts.clear()).contains("no parts"));
        assert!(complaint(&|model| model.parts[0].directory = "../x".into()).contains("outside"));
        assert!(complaint(&|model| model.parts.push(part())).contains("fusion"));
        assert!(complaint(&|model| model.format = 9).contains("format 9"));
    }

    #[test]
    fn a_model_of_train_is_told_apart() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join(CARD), r#"{"format": 1, "features": 3}"#).unwrap();
        assert!(!Composite::is_at(temp.path()).unwrap());
        assert!(Composite::load(temp.path()).unwrap_err().to_string().contains("`fit`"));
    }

    #[test]
    fn trees_are_linked_with_all_below_them() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(from.path().join("a/b")).unwrap();
        fs::write(from.path().join("a/b/c"), "x").unwrap();
        link_tree(from.path(), &to.path().join("new")).unwrap();
        assert_eq!(fs::read(to.path().join("new/a/b/c")).unwrap(), b"x");
    }
}
