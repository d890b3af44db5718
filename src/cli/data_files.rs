//! Locates the files of registered data sets for a plan, and downloads those that are missing.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};

use super::exit::Failure;
use super::project::Project;
use pipe_core::digest::BlobId;
use pipe_engine::plan::Plan;
use pipe_engine::spec::pipeline::UnlocatedFile;
use pipe_engine::store::Store;
use pipe_ml::data::fetch::DownloadProgress;
use pipe_ml::data::locate::Locator;
use pipe_ml::data::registry;

/// The data files that are not in the data directory, by the path where each is expected.
pub(super) type MissingDataFiles = BTreeMap<PathBuf, MissingDataFile>;

/// A data file that is not in the data directory.
pub(super) struct MissingDataFile {
    /// Says that it is missing and what to do.
    pub sentence: String,
    /// Its content, if the registry knows the digest.
    pub registered: Option<BlobId>,
}

/// Locates data files without downloading any. For a missing one, returns the path where it is expected.
pub(super) fn find(plan: Plan<UnlocatedFile>, data_dir: &Path) -> (Plan, MissingDataFiles) {
    let locator = Locator::new(data_dir, true);
    let mut missing = MissingDataFiles::new();
    let located = plan.locate_files(|_, file| -> Result<PathBuf, Infallible> {
        Ok(match file {
            UnlocatedFile::User(path) => path,
            UnlocatedFile::DataSet { dataset, file } => match locator.find(&dataset, &file) {
                Ok(Some(path)) => path,
                Ok(None) | Err(_) => {
                    let path = expected_path(data_dir, &dataset, &file);
                    let sentence = format!(
                        "`{file}` of the data set `{dataset}` is not here yet; `pipe run` fetches it"
                    );
                    let registered = registered_content(&dataset, &file);
                    missing.insert(path.clone(), MissingDataFile { sentence, registered });
                    path
                }
            },
        })
    });
    match located {
        Ok(plan) => (plan, missing),
        Err(never) => match never {},
    }
}

/// Locates data files and downloads those that selected instances need. Checks each of them against the registry's
/// digest, or the one recorded on first use. The digest comes from the store, which reads an unchanged file only once.
pub(super) fn obtain(
    plan: Plan<UnlocatedFile>,
    selected: &[bool],
    project: &Project,
    store: &Store,
    offline: bool,
) -> Result<Plan, Failure> {
    let locator = Locator::new(&project.data_dir, offline);
    plan.locate_files(|reader, file| match file {
        UnlocatedFile::User(path) => Ok(path),
        UnlocatedFile::DataSet { dataset, file } if !selected[reader.0] => {
            Ok(expected_path(&project.data_dir, &dataset, &file))
        }
        UnlocatedFile::DataSet { dataset, file } => {
            let path = fetch(&locator, &dataset, &file)?;
            let content = store.digest_user_file(&path)?;
            match locator.check(&dataset, &path, content.blob, content.bytes) {
                Ok(warning) => {
                    if let Some(text) = warning {
                        project.warn(&text);
                    }
                    Ok(path)
                }
                Err(error) => {
                    let aside = locator.set_aside(&dataset, &file, &path);
                    let aside = aside.ok_or_else(|| Failure::bad_input(error.to_string()))?;
                    let (from, to) = (path.display(), aside.display());
                    project.warn(&format!("{from} is damaged; it was moved to {to} and is downloaded again"));
                    fetch(&locator, &dataset, &file)
                }
            }
        }
    })
}

fn registered_content(dataset: &str, file: &str) -> Option<BlobId> {
    registry::find(dataset).ok()?.file_named(file)?.blake3.as_deref()?.parse().ok()
}

fn expected_path(data_dir: &Path, dataset: &str, file: &str) -> PathBuf {
    data_dir.join(dataset).join(file)
}

/// Finds one file, or downloads it and shows a progress bar.
pub(super) fn fetch(locator: &Locator, dataset: &str, file: &str) -> Result<PathBuf, Failure> {
    let mut bar: Option<ProgressBar> = None;
    let path = locator.obtain(dataset, file, &mut |DownloadProgress { done, total }| {
        let bar = bar.get_or_insert_with(|| download_bar(file));
        total.map_or_else(|| bar.unset_length(), |total| bar.set_length(total));
        bar.set_position(done);
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    path.map_err(|error| Failure::bad_input(error.to_string()))
}

/// Creates a bar on standard error; indicatif draws nothing where that is not a terminal.
fn download_bar(file: &str) -> ProgressBar {
    let template = "{prefix}  {bar:30} {bytes}/{total_bytes} {bytes_per_sec}, {eta} left";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::no_length().with_style(style).with_prefix(format!("fetching {file}"))
}
