//! A trained model: the weights, and everything else that prediction needs. It is saved as `model.safetensors` and
//! `model.json` in one directory.

pub mod predict;
pub mod tensors;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tensors::TensorsError;

use crate::net::features::FeatureMap;
use crate::net::weights::Weights;
use pipe_ml::config::method::Method;
use pipe_ml::signal::idf::Idf;

/// The format version. Increase it whenever an older program could not read, or would misread, a model.
const FORMAT: u32 = 1;
const WEIGHTS: &str = "model.safetensors";
const CARD: &str = "model.json";

/// A trained model.
#[derive(Clone)]
pub struct Model {
    pub method: Method,
    pub map: FeatureMap,
    pub idf: Idf,
    /// The density of a neighbourhood that counts as one, if the thresholds fall back where neighbours are far away.
    pub full_density: Option<f64>,
    pub weights: Weights,
}

/// The contents of `model.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelCard {
    format: u32,
    features: usize,
    labels: usize,
    parameters: usize,
    method: Method,
    map: FeatureMap,
    idf: Idf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    full_density: Option<f64>,
}

/// The field of `model.json` that is read first.
#[derive(Deserialize)]
struct ModelCardFormat {
    format: u32,
}

/// The reason why a model cannot be saved or loaded.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{}: {message}", path.display())]
    Card { path: PathBuf, message: String },
    #[error(
        "{} has format {found}, but this version of `pipe-worker` reads format {FORMAT}: train the model again, or use \
         the version that wrote it", path.display()
    )]
    Format { path: PathBuf, found: u32 },
    #[error(transparent)]
    Weights(#[from] TensorsError),
}

impl Model {
    /// Returns the number of features that a row may have.
    pub fn features(&self) -> usize {
        self.map.features()
    }

    /// Returns the number of labels.
    pub fn labels(&self) -> usize {
        self.weights.labels()
    }

    /// Creates a directory and writes the model into it.
    pub fn save(&self, directory: &Path) -> Result<(), ModelError> {
        let card = ModelCard {
            format: FORMAT,
            features: self.features(),
            labels: self.labels(),
            parameters: self.method.parameters(self.features(), self.labels()),
            method: self.method.clone(),
            map: self.map.clone(),
            idf: self.idf.clone(),
            full_density: self.full_density,
        };
        let path = directory.join(CARD);
        let io = |source| ModelError::Io { path: path.clone(), source };
        std::fs::create_dir_all(directory).map_err(io)?;
        tensors::save(&directory.join(WEIGHTS), &[("", &self.weights)])?;
        let text = serde_json::to_vec_pretty(&card)
            .map_err(|error| ModelError::Card { path: path.clone(), message: error.to_string() })?;
        std::fs::write(&path, text).map_err(io)
    }

    /// Reads a model from a directory.
    pub fn load(directory: &Path) -> Result<Self, ModelError> {
        let path = directory.join(CARD);
        let text = std::fs::read(&path).map_err(|source| ModelError::Io { path: path.clone(), source })?;
        let invalid = |message: String| ModelError::Card { path: path.clone(), message };
        let ModelCardFormat { format } = serde_json::from_slice(&text)
            .map_err(|error| invalid(format!("this is not a model: {error}")))?;
        if format != FORMAT {
            return Err(ModelError::Format { path, found: format });
        }
        let card: ModelCard = serde_json::from_slice(&text).map_err(|error| invalid(error.to_string()))?;
        let widths = card.method.net.widths(card.features, card.labels);
        if card.map.features() != card.features || card.map.inputs() != widths[0] {
            return Err(invalid("the feature map does not match the network".into()));
        }
        if card.idf.counts.len() != card.labels || card.idf.values.len() != card.labels {
            return Err(invalid("the IDF does not have one value per label".into()));
        }
        if card.full_density.is_some() != card.method.threshold.fallback {
            return Err(invalid("`full_density` must be there exactly if the thresholds fall back".into()));
        }
        if let Some(issue) = card.method.issues().first() {
            return Err(invalid(format!("its method cannot be used: `{}` {}", issue.field, issue.message)));
        }
        let prototypes = card.method.prototypes();
        if !fits_in(&directory.join(WEIGHTS), &widths, prototypes) {
            return Err(invalid(format!("it announces more weights than {WEIGHTS} contains")));
        }
        let mut weights = Weights::zeros(&widths, card.method.threshold.lambdas(card.labels), prototypes);
        tensors::load(&directory.join(WEIGHTS), &mut [("", &mut weights)])?;
        let ModelCard { method, map, idf, full_density, .. } = card;
        Ok(Self { method, map, idf, full_density, weights })
    }
}

/// Returns whether a file is large enough for the weights of a network with layers of these widths and for its prototypes,
/// so that nothing is allocated for weights that are not there.
fn fits_in(weights: &Path, widths: &[usize], prototypes: usize) -> bool {
    let layer = |pair: &[usize]| pair[0].checked_mul(pair[1]);
    let last = widths[widths.len() - 2].checked_add(widths[widths.len() - 1]);
    let first = last.and_then(|values| values.checked_mul(prototypes));
    let add = |total: usize, pair: &[usize]| total.checked_add(layer(pair)?);
    let total = first.and_then(|first| widths.windows(2).try_fold(first, add));
    let bytes = total.and_then(|total| total.checked_mul(size_of::<f32>()));
    let length = std::fs::metadata(weights).map_or(0, |metadata| metadata.len());
    bytes.is_some_and(|bytes| bytes as u64 <= length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_ml::config::preset::Preset;

    fn model() -> Model {
        let mut method = Preset::Paper.method();
        method.net.hidden = vec![3];
        let idf = Idf::new(100, vec![3, 50, 0, 7], 1e-8);
        let weights = Weights::initial(&method, 6, 4);
        Model { method, map: FeatureMap::All { features: 6 }, idf, full_density: None, weights }
    }

    fn saved() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        model().save(directory.path()).unwrap();
        directory
    }

    #[test]
    fn a_loaded_model_equals_the_saved_one_to_the_bit() {
        let back = Model::load(saved().path()).unwrap();
        let model = model();
        assert_eq!(back.method, model.method);
        assert_eq!(back.idf, model.idf);
        for (ours, theirs) in back.weights.named().iter().zip(model.weights.named()) {
            assert_eq!((&ours.0, &ours.1, &ours.2[..]), (&theirs.0, &theirs.1, &theirs.2[..]));
        }
    }

    #[test]
    fn saving_twice_gives_the_same_bytes() {
        for file in [WEIGHTS, CARD] {
            let read = || std::fs::read(saved().path().join(file)).unwrap();
            assert_eq!(read(), read(), "{file}");
        }
    }

    fn change_card(change: impl FnOnce(&mut serde_json::Value)) -> String {
        let directory = saved();
        let path = directory.path().join(CARD);
        let mut card = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        change(&mut card);
        std::fs::write(&path, card.to_string()).unwrap();
        Model::load(directory.path()).err().unwrap().to_string()
    }

    #[test]
    fn the_error_about_another_format_says_what_to_do() {
        let error = change_card(|card| card["format"] = 99.into());
        assert!(error.contains("format 99") && error.contains("train the model again"), "{error}");
    }

    #[test]
    fn the_error_about_a_wrong_shape_names_the_parameter() {
        let error = change_card(|card| card["method"]["net"]["hidden"] = vec![5].into());
        assert!(error.contains("input.weight") && error.contains("[6, 5]"), "{error}");
    }

    #[test]
    fn sizes_that_the_weights_file_cannot_hold_are_refused_before_anything_is_allocated() {
        for hidden in [vec![1usize << 40], vec![1 << 62, 1 << 62]] {
            let error = change_card(|card| card["method"]["net"]["hidden"] = hidden.into());
            assert!(error.contains("more weights than"), "{error}");
        }
        let error = change_card(|card| card["method"]["batch"] = 0.into());
        assert!(error.contains("`batch`"), "{error}");
    }

    #[test]
    fn a_truncated_weights_file_is_refused() {
        let directory = saved();
        let path = directory.path().join(WEIGHTS);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 10]).unwrap();
        assert!(Model::load(directory.path()).is_err());
    }
}
