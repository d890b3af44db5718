//! Opens models of any kind as a [`System`]. To add a kind of model that needs libtorch, add a file to this folder and
//! an arm to [`open`].

#[cfg(test)]
mod composite_tests;
mod trained;

use std::path::Path;

use anyhow::{Context, Result, bail};
use pipe_ml::system::{System, SystemSettings, open_composite};
use serde::Deserialize;

use crate::fit;

/// The field of `model.json` that says which kind of model it is.
#[derive(Deserialize)]
struct ModelKindField {
    /// Absent if the model was made by `train`.
    kind: Option<String>,
}

/// Opens a model of any kind.
pub fn open(directory: &Path, settings: SystemSettings) -> Result<Box<dyn System>> {
    let path = directory.join("model.json");
    let text = std::fs::read(&path).with_context(|| format!("{}: there is no model here", path.display()))?;
    let model: ModelKindField = serde_json::from_slice(&text).with_context(|| path.display().to_string())?;
    match model.kind.as_deref() {
        None => Ok(Box::new(trained::TrainedSystem::open(directory, settings)?)),
        Some("composite") => {
            let (device, threads) = (settings.device, settings.threads);
            open_composite(directory, settings, &|model, directory, size| {
                fit::load(model, directory, size, device, threads)
            })
        }
        Some(kind) => {
            bail!("{}: this version of `pipe-worker` cannot open a model of kind `{kind}`", path.display())
        }
    }
}

#[cfg(test)]
mod tests;
