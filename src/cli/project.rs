//! The project that a command works in: its directories, its store, and how a command opens a pipeline.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::args::{ColorChoice, Command, Global, PipelineArgs};
use super::console::Verbosity;
use super::data_files::{self, MissingDataFiles};
use super::exit::Failure;
use super::history;
use super::pipeline_selection::{PipelineSelection, is_file, pipeline_called};
use super::print_status;
use super::project_dir;
use super::variant_files::set_arguments;
use pipe_core::packages::PackageRequest;
use pipe_core::paint::Paint;
use pipe_engine::plan::Plan;
use pipe_engine::runner::packages::find_interpreter;
use pipe_engine::spec::pipeline::{InstanceIndex, Pipeline, UnlocatedFile};
use pipe_engine::spec::{self, Diagnostics, LoadRequest};
use pipe_engine::store::Store;
use pipe_stages::{parts, registry};

/// The directories and output settings of this invocation.
pub(super) struct Project {
    pub cache_dir: PathBuf,
    pub data_dir: PathBuf,
    pub verbosity: Verbosity,
    /// For status on standard error.
    pub paint: Paint,
    /// For results on standard output.
    pub paint_out: Paint,
}

/// The directory of the cache, unless the user names another one.
const CACHE_DIR: &str = "cache";

/// A pipeline that a command has opened, and the store, which may be read-only or not exist yet.
///
/// `F` is as in [`Pipeline`]: [`Opened::find_data`] and [`Opened::fetch_data`] locate the data files, which most commands
/// need.
pub(super) struct Opened<F = PathBuf> {
    pub plan: Plan<F>,
    pub store: Store,
    /// The instances that the command names; `None` means all.
    pub targets: Option<Vec<InstanceIndex>>,
    /// Data files that [`Opened::find_data`] did not find.
    pub missing_data: MissingDataFiles,
}

impl Opened<UnlocatedFile> {
    /// Locates the data files that are there, for commands that download nothing.
    pub(super) fn find_data(self, project: &Project) -> Opened {
        let (plan, missing_data) = data_files::find(self.plan, &project.data_dir);
        Opened { plan, store: self.store, targets: self.targets, missing_data }
    }

    /// Downloads the data files that selected instances need.
    pub(super) fn fetch_data(
        self,
        project: &Project,
        selected: &[bool],
        offline: bool,
    ) -> Result<Opened, Failure> {
        let Self { plan, store, targets, missing_data } = self;
        let plan = data_files::obtain(plan, selected, project, &store, offline)?;
        Ok(Opened { plan, store, targets, missing_data })
    }
}

impl Project {
    /// Changes to the project directory. All paths are relative to it from here on, also those that the user typed.
    pub(super) fn enter(mut global: Global, command: &mut Command) -> Result<Self, Failure> {
        // `pipe init` makes a new project where it is called, and a git merge driver runs where git calls it.
        let makes_a_project = matches!(command, Command::Init(_));
        let mut found = None;
        if let Some(directory) = &global.directory {
            change_directory(directory)?;
        } else if let Ok(start) = std::env::current_dir().and_then(|start| start.canonicalize())
            && !makes_a_project
        {
            let root = project_dir::find(&start, std::env::home_dir().as_deref());
            if root != start {
                see_paths_from(&root, &start, &mut global, command);
                change_directory(&root)?;
                found = Some(root);
            }
        }
        let project = Self {
            cache_dir: directory(global.cache_dir.as_ref(), "PIPE_CACHE", CACHE_DIR),
            data_dir: directory(global.data_dir.as_ref(), "PIPE_DATA_DIR", "data"),
            verbosity: match (global.quiet, global.verbose) {
                (true, _) => Verbosity::Quiet,
                (_, true) => Verbosity::Verbose,
                _ => Verbosity::Normal,
            },
            paint: Paint(uses_color(global.color, &std::io::stderr())),
            paint_out: Paint(uses_color(global.color, &std::io::stdout())),
        };
        if let Some(root) = found {
            project.status(&format!("working in the project {}", root.display()));
        }
        if project.cache_dir != Path::new(CACHE_DIR)
            && command.only_reads_the_cache()
            && !project.store_to_read()?.exists()
        {
            project.warn(&format!(
                "there is no cache in `{}`, so nothing is found there",
                project.cache_dir.display()
            ));
        }
        if let Some(file) = command.default_file() {
            *file = Some(usual_pipeline_file(&project.store_to_read()?)?);
        }
        if let Some((first, pipeline)) = command.pipeline() {
            project.take_settings(first, pipeline)?;
        }
        Ok(project)
    }

    /// Replaces `--run` by what it stands for: the `--set` values of that run and, if no file was typed, its pipeline.
    fn take_settings(&self, first: Option<&PathBuf>, pipeline: &mut PipelineArgs) -> Result<(), Failure> {
        let Some(word) = &pipeline.run else { return Ok(()) };
        let typed = pipeline.named.as_ref().or(first.filter(|word| is_file(word)));
        let past = history::find_of(&self.store_to_read()?, word, typed.map(PathBuf::as_path))?;
        pipeline.set = past.set().to_vec();
        self.status(&match past.set() {
            [] => format!("run {} was without --set", past.record.id),
            set => format!("run {} was with{}", past.record.id, set_arguments(set)),
        });
        if typed.is_none() {
            pipeline.named = past.file().map(Path::to_owned);
        }
        Ok(())
    }

    /// Prints a status line to standard error, unless `--quiet` is given.
    pub(super) fn status(&self, sentence: &str) {
        if self.verbosity != Verbosity::Quiet {
            print_status(sentence);
        }
    }

    /// Prints a warning to standard error.
    pub(super) fn warn(&self, sentence: &str) {
        print_status(&format!("{} {sentence}", self.paint.yellow("warning:")));
    }

    /// Returns true if `--verbose` is given.
    pub(super) fn is_verbose(&self) -> bool {
        self.verbosity == Verbosity::Verbose
    }

    /// Opens the store for writing; creates it if needed.
    pub(super) fn store(&self) -> Result<Store, Failure> {
        Store::open(&self.cache_dir).map_err(Failure::from)
    }

    /// Opens the store for reading, even if it is read-only or does not exist.
    pub(super) fn store_to_read(&self) -> Result<Store, Failure> {
        Store::open_read_only(&self.cache_dir).map_err(Failure::from)
    }

    /// Opens the selected pipeline and the store. Every command that reads a pipeline starts with this.
    ///
    /// The pipeline is loaded before the store is opened for writing, so that a mistake in it creates no files.
    pub(super) fn open(
        &self,
        selection: &PipelineSelection,
        set: &[String],
    ) -> Result<Opened<UnlocatedFile>, Failure> {
        let mut store = None;
        let file = match &selection.file {
            Some(file) => file.clone(),
            None => usual_pipeline_file(store.insert(self.store_to_read()?))
                .map_err(|failure| named_pipeline(selection, |_| true).unwrap_or(failure))?,
        };
        let plan = self.load(&file, set)?;
        let targets = if selection.stages.is_empty() {
            None
        } else {
            let found = select(plan.pipeline(), &selection.stages);
            Some(found.map_err(|failure| {
                // A similar name is more likely that of a stage.
                let is_exact =
                    |file: &PathBuf| file.file_stem().is_some_and(|stem| stem == &*selection.stages[0]);
                let has_hint = failure.text.contains("did you mean");
                named_pipeline(selection, |file| is_exact(file) || !has_hint).unwrap_or(failure)
            })?)
        };
        let store = store.map_or_else(|| self.store_to_read(), Ok)?;
        Ok(Opened { plan, store, targets, missing_data: MissingDataFiles::new() })
    }

    /// Warns about variables of the pipeline that nothing uses: most often, a name is misspelt.
    pub(super) fn warn_of_unused_variables<F>(&self, plan: &Plan<F>) {
        for (name, place) in &plan.pipeline().unused_variables {
            self.warn(&format!("{}: nothing uses the variable `vars.{name}`", place.line()));
        }
    }

    fn load(&self, file: &Path, set: &[String]) -> Result<Plan<UnlocatedFile>, Failure> {
        let overrides = set
            .iter()
            .map(|text| text.parse())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| Failure::bad_input(format!("--set: {error}")))?;
        let environment = |name: &str| std::env::var(name).ok();
        let file = file.to_owned();
        let known = RefCell::new(HashMap::new());
        let find_interpreter = |request: &PackageRequest| {
            let mut known = known.borrow_mut();
            known.entry(request.clone()).or_insert_with(|| find_interpreter(request)).clone()
        };
        let request = LoadRequest {
            file,
            overrides,
            environment: &environment,
            find_interpreter: &find_interpreter,
            parts: parts::PARTS,
        };
        spec::load(&request, registry::kinds()).map_err(|diagnostics| self.rendered(&diagnostics))
    }

    /// Renders diagnostics of a pipeline file for the terminal.
    pub(super) fn rendered(&self, diagnostics: &Diagnostics) -> Failure {
        Failure::in_pipeline(diagnostics, self.paint.0)
    }
}

/// Returns the error for a first word that is no stage but the name of a pipeline.
fn named_pipeline(selection: &PipelineSelection, counts: impl Fn(&PathBuf) -> bool) -> Option<Failure> {
    let word = selection.stages.first().filter(|_| selection.file.is_none())?;
    let file = pipeline_called(word).filter(counts)?;
    Some(Failure::bad_input(format!(
        "there is no stage `{word}`; if you mean the pipeline, name its file: `{}`",
        file.display()
    )))
}

fn change_directory(directory: &Path) -> Result<(), Failure> {
    std::env::set_current_dir(directory)
        .map_err(|error| Failure::bad_input(format!("cannot work in {}: {error}", directory.display())))
}

/// Rewrites the paths that were typed in `start`, so that they mean the same in `root`.
fn see_paths_from(root: &Path, start: &Path, global: &mut Global, command: &mut Command) {
    let directories = global.cache_dir.iter_mut().chain(&mut global.data_dir);
    for path in command.typed_paths().into_iter().chain(directories) {
        *path = project_dir::seen_from(root, start, path);
    }
    for word in command.typed_words() {
        if Path::new(word).exists() {
            *word = project_dir::seen_from(root, start, Path::new(word)).to_string_lossy().into_owned();
        }
    }
}

/// Returns the directory from the command line, or else from the environment, or else the default.
fn directory(named: Option<&PathBuf>, variable: &str, default: &str) -> PathBuf {
    let environment = || std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    named.cloned().or_else(environment).unwrap_or_else(|| PathBuf::from(default))
}

/// Returns the pipeline file to use if none is named: the one that was run last, or else the only one there is.
pub(super) fn usual_pipeline_file(store: &Store) -> Result<PathBuf, Failure> {
    let here = std::env::current_dir().and_then(|here| here.canonicalize())?;
    if let Some(file) = store.last_pipeline_file(&here) {
        return Ok(file.strip_prefix(&here).unwrap_or(&file).to_owned());
    }
    match pipeline_files().as_slice() {
        [only] => Ok(only.clone()),
        _ => Err(Failure::bad_input(
            "which pipeline? Nothing was run here yet; name the file, or let `pipe init` write one to start from",
        )),
    }
}

/// Returns the pipelines in `pipelines/`.
pub(super) fn pipeline_files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("pipelines").into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_some_and(|ext| ext == "yaml" || ext == "yml")).collect()
}

/// Returns the instances that targets on the command line select, in the order of the pipeline.
pub(super) fn select<F>(pipeline: &Pipeline<F>, targets: &[String]) -> Result<Vec<InstanceIndex>, Failure> {
    let mut selected = Vec::new();
    for target in targets {
        let matches =
            spec::select(pipeline, target).map_err(|error| Failure::bad_input(error.to_string()))?;
        selected.extend(matches);
    }
    selected.sort_unstable();
    selected.dedup();
    Ok(selected)
}

fn uses_color(choice: ColorChoice, stream: &impl std::io::IsTerminal) -> bool {
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
