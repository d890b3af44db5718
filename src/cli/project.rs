//! Where this invocation works: the project directory, its store, and the pipeline that is meant.

use std::path::{Path, PathBuf};

use super::args::{ColorChoice, Global};
use super::console::Verbosity;
use super::exit::{Exit, Failure};
use pipe_core::paint::Paint;
use pipe_engine::spec::pipeline::{InstanceIndex, Pipeline};
use pipe_engine::spec::{self, Diagnostics, Request};
use pipe_engine::store::{Store, StoreError};
use pipe_stages::registry;

pub(super) struct Project {
    pub cache_dir: PathBuf,
    pub data_dir: PathBuf,
    pub verbosity: Verbosity,
    /// For status on standard error.
    pub paint: Paint,
    /// For results on standard output.
    pub paint_out: Paint,
}

impl Project {
    /// Enters the project directory: every path from here on is relative to it.
    pub(super) fn enter(global: &Global) -> Result<Self, Failure> {
        if let Some(directory) = &global.directory {
            std::env::set_current_dir(directory).map_err(|error| {
                Failure::bad_input(format!("cannot work in {}: {error}", directory.display()))
            })?;
        }
        Ok(Self {
            cache_dir: place(global.cache_dir.as_ref(), "PIPE_CACHE", "cache"),
            data_dir: place(global.data_dir.as_ref(), "PIPE_DATA_DIR", "data"),
            verbosity: match (global.quiet, global.verbose) {
                (true, _) => Verbosity::Quiet,
                (_, true) => Verbosity::Verbose,
                _ => Verbosity::Normal,
            },
            paint: Paint(colored(global.color, &std::io::stderr())),
            paint_out: Paint(colored(global.color, &std::io::stdout())),
        })
    }

    /// Status: a line on standard error, unless the user wants quiet.
    pub(super) fn status(&self, sentence: &str) {
        if self.verbosity != Verbosity::Quiet {
            eprintln!("{sentence}");
        }
    }

    pub(super) fn is_verbose(&self) -> bool {
        self.verbosity == Verbosity::Verbose
    }

    pub(super) fn store(&self) -> Result<Store, Failure> {
        Store::open(&self.cache_dir).map_err(Failure::from)
    }

    /// For commands that only look: works on a store that cannot be written, or does not exist.
    pub(super) fn store_to_read(&self) -> Result<Store, Failure> {
        Store::open_read_only(&self.cache_dir).map_err(Failure::from)
    }

    pub(super) fn load(&self, file: &Path, set: &[String]) -> Result<Pipeline, Failure> {
        let overrides = set
            .iter()
            .map(|text| text.parse())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| Failure::bad_input(format!("--set: {error}")))?;
        let environment = |name: &str| std::env::var(name).ok();
        let request = Request { file: file.to_owned(), overrides, environment: &environment };
        spec::load(&request, registry::kinds()).map_err(|problems| self.rendered(&problems))
    }

    /// The file that was named, else the one that was run last, else the only one there is.
    pub(super) fn pipeline_file(&self, named: Option<&PathBuf>, store: &Store) -> Result<PathBuf, Failure> {
        if let Some(file) = named {
            return Ok(file.clone());
        }
        if let Some(file) = store.last_pipeline_file() {
            let here = std::env::current_dir().and_then(|here| here.canonicalize()).ok();
            let inside = here.and_then(|here| Some(file.strip_prefix(here).ok()?.to_owned()));
            return Ok(inside.unwrap_or(file));
        }
        let found: Vec<PathBuf> = std::fs::read_dir("pipelines")
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|ext| ext == "yaml" || ext == "yml"))
            .collect();
        match found.as_slice() {
            [only] => Ok(only.clone()),
            _ => Err(Failure::bad_input(
                "which pipeline? Nothing was run here yet; name the file, or let `pipe init` write one to start from",
            )),
        }
    }

    pub(super) fn rendered(&self, problems: &Diagnostics) -> Failure {
        Failure::in_pipeline(problems, self.paint.0)
    }
}

/// What the command line says, else the environment, else the usual place.
fn place(named: Option<&PathBuf>, variable: &str, usual: &str) -> PathBuf {
    let environment = || std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    named.cloned().or_else(environment).unwrap_or_else(|| PathBuf::from(usual))
}

/// The instances that a word on the command line means.
pub(super) fn select(pipeline: &Pipeline, words: &[String]) -> Result<Vec<InstanceIndex>, Failure> {
    let mut selected = Vec::new();
    for word in words {
        let matches = spec::select(pipeline, word).map_err(|error| Failure::bad_input(error.to_string()))?;
        selected.extend(matches);
    }
    selected.sort_unstable();
    selected.dedup();
    Ok(selected)
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let exit = match error {
            StoreError::Damaged { .. } => Exit::CacheDamage,
            _ => Exit::BadInput,
        };
        Self::new(exit, error.to_string())
    }
}

fn colored(choice: ColorChoice, stream: &impl std::io::IsTerminal) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
            stream.is_terminal() && !forbidden && !dumb
        }
    }
}
