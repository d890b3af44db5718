//! Puts the paths of registered data sets' files into a pipeline, fetching those that are missing.

use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};

use super::exit::Failure;
use super::project::Project;
use pipe_engine::plan::Plan;
use pipe_engine::spec::pipeline::{Pipeline, Source};
use pipe_engine::store::Store;
use pipe_ml::data::fetch::Progress;
use pipe_ml::data::locate::Locator;

/// For commands that only look: what is not here stays without a path, and the survey says so.
pub(super) fn find(pipeline: &mut Pipeline, data_dir: &Path) {
    let locator = Locator::new(data_dir, true);
    for source in sources(pipeline) {
        if let Source::DataFile { dataset, file } = source
            && let Ok(Some(path)) = locator.find(dataset, file)
        {
            *source = Source::Path(path);
        }
    }
}

/// For a run: every file of a stage that takes part is there afterwards, and is the one that the registry or the first use
/// knows. The digest comes from the store, which reads an unchanged file only once.
pub(super) fn obtain(
    plan: &mut Plan,
    selected: &[bool],
    project: &Project,
    store: &Store,
    offline: bool,
) -> Result<(), Failure> {
    let locator = Locator::new(&project.data_dir, offline);
    plan.locate_data(selected, |dataset, file| {
        let path = fetch(&locator, dataset, file)?;
        let content = store.digest_source(&path)?;
        let checked = locator.check(dataset, &path, content.blob, content.bytes);
        checked.map_err(|error| Failure::bad_input(error.to_string()))?;
        Ok(path)
    })
}

/// Finds one file, or downloads it under a bar.
pub(super) fn fetch(locator: &Locator, dataset: &str, file: &str) -> Result<std::path::PathBuf, Failure> {
    let mut bar: Option<ProgressBar> = None;
    let path = locator.obtain(dataset, file, &mut |Progress { done, total }| {
        let bar = bar.get_or_insert_with(|| download_bar(file));
        total.map_or_else(|| bar.unset_length(), |total| bar.set_length(total));
        bar.set_position(done);
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    path.map_err(|error| Failure::bad_input(error.to_string()))
}

/// On standard error; indicatif draws nothing where that is not a terminal.
fn download_bar(file: &str) -> ProgressBar {
    let template = "{prefix}  {bar:30} {bytes}/{total_bytes} {bytes_per_sec}, {eta} left";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::no_length().with_style(style).with_prefix(format!("fetching {file}"))
}

fn sources(pipeline: &mut Pipeline) -> impl Iterator<Item = &mut Source> {
    let inputs = pipeline.instances.iter_mut().flat_map(|instance| &mut instance.inputs);
    inputs.flat_map(|input| &mut input.sources)
}
