//! `pipe model export`: a copy of a model that needs neither the project nor the data set that it was trained on.
//!
//! ```text
//! model.json, parts/...     the model, as its stage wrote it
//! data/...                  the description of its data set, without rows
//! README.md                 the model card
//! predict.py                a reader in Python, if the model has no network
//! stages.json               what the stages of the model say about it
//! B3SUMS                    the digests of all files
//! ```

use std::path::Path;

use super::args::ModelCommand;
use super::exit::{Failure, Outcome};
use super::model_card::model_card;
use super::predict::{ModelPlace, StageFacts};
use super::print_text;
use super::project::Project;
use super::survey::Survey;
use pipe_engine::store::TemporaryDirectory;
use pipe_ml::composite::copy_tree;
use pipe_ml::data::text_units::word_characters;
use pipe_ml::data::training_rows::copy_training_rows;
use pipe_ml::data::transform::copy_description;
use pipe_ml::system::needs_libtorch;

/// The directory of the description of the data set.
pub(super) const DATA: &str = "data";
const STAGES: &str = "stages.json";
const CARD: &str = "README.md";
const READER: &str = "predict.py";
/// The characters of words, for [`READER`].
const LETTERS: &str = "letters.json";

/// Runs `pipe model export`.
pub(super) fn model(project: &Project, ModelCommand::Export(args): &ModelCommand) -> Outcome {
    let to = &args.to;
    if to.symlink_metadata().is_ok() {
        let message = format!("{} exists; remove it, or choose another directory", to.display());
        return Err(Failure::bad_input(message));
    }
    let scratch = TemporaryDirectory::new()?;
    let survey = Survey::of(project, args.pipeline.named.as_ref(), &args.pipeline, &[])?;
    let (index, place) = ModelPlace::of_stage(&survey, &args.model, None, &scratch)?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let cannot_write = |error| Failure::bad_input(format!("cannot write {}: {error}", to.display()));
    std::fs::create_dir_all(parent).map_err(cannot_write)?;
    // Written beside the target and renamed, so that the target is complete or not there.
    let beside = TemporaryDirectory::new_in(parent).map_err(cannot_write)?;
    let unfinished = beside.join("model");
    copy_tree(&place.model, &unfinished).map_err(anyhow::Error::from)?;
    copy_description(&place.data, &unfinished.join(DATA)).map_err(anyhow::Error::from)?;
    if args.training_texts && !copy_training_rows(&place.data, &unfinished.join(DATA))? {
        return Err(Failure::bad_input(
            "--training-texts: the data set keeps no texts of its training rows; set `keep: { texts: true }` in its stage \
             `vectorise` and run the pipeline again",
        ));
    }
    let text = serde_json::to_vec_pretty(&place.stages).map_err(anyhow::Error::from)?;
    std::fs::write(unfinished.join(STAGES), text)?;
    if !needs_libtorch(&place.model)? {
        std::fs::write(unfinished.join(READER), include_str!("predict.py"))?;
        let letters = serde_json::to_vec(&word_characters()).map_err(anyhow::Error::from)?;
        std::fs::write(unfinished.join(DATA).join(LETTERS), letters)?;
    }
    std::fs::write(unfinished.join(CARD), model_card(&survey, index, &place, &scratch)?)?;
    project.store_to_read()?.write_checksums(&unfinished)?;
    std::fs::rename(&unfinished, to).map_err(cannot_write)?;
    print_text(&format!("{}\n", to.display()))
}

/// Reads `stages.json` of an exported model. A directory without it is not an exported model, and says nothing about its stages.
pub(super) fn stage_facts(directory: &Path) -> Result<StageFacts, Failure> {
    let path = directory.join(STAGES);
    let text = match std::fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(StageFacts::default()),
        other => other?,
    };
    serde_json::from_slice(&text).map_err(|error| Failure::bad_input(format!("{}: {error}", path.display())))
}
