//! Shell completion that knows the pipelines, stages and metrics of a project, and the man pages.
//!
//! The script that `pipe completions` prints calls `pipe` with [`VARIABLE`] set whenever the user asks for a completion.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::{CompleteEnv, Shells};

use super::exit::{Failure, Outcome};
use super::project::usual_pipeline_file;
use super::{help, print_text, project_dir};
use pipe_engine::spec::{self, LoadRequest};
use pipe_engine::store::Store;
use pipe_ml::metric::registry::Metric;
use pipe_stages::{parts, registry};

/// The environment variable that asks for completions, and names the shell.
const VARIABLE: &str = "PIPE_COMPLETE";

/// Answers a request for completions and ends the process, if there is one.
pub(super) fn answer_request() {
    CompleteEnv::with_factory(|| with_values(help::command())).var(VARIABLE).complete();
}

/// Prints the completion script of a shell.
pub(super) fn script(shell: Shell) -> Outcome {
    let shells = Shells::builtins();
    let Some(completer) = shells.completer(&shell.to_string()) else {
        return Err(Failure::bad_input(format!("there is no completion for {shell}")));
    };
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "pipe", "pipe", "pipe", &mut script)?;
    print_text(&String::from_utf8_lossy(&script))
}

/// Writes the man pages into a directory.
pub(super) fn man(directory: &Path) -> Outcome {
    let written = std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(help::plain_command(), directory));
    written
        .map_err(|error| Failure::bad_input(format!("cannot write to {}: {error}", directory.display())))?;
    print_text(&format!("{}\n", directory.join("pipe.1").display()))
}

/// Adds the values of a project to the arguments that take them.
fn with_values(command: Command) -> Command {
    let is_stage =
        |id: &str| matches!(id, "stage" | "targets" | "what" | "until" | "force" | "with" | "stages");
    let takes_stages =
        command.get_arguments().any(|arg| is_stage(arg.get_id().as_str()) && arg.is_positional());
    let lists_metrics = command.get_name() == "metrics";
    let add = |arg: Arg| match arg.get_id().to_string().as_str() {
        "file" if takes_stages => arg.add(ArgValueCompleter::new(files_and_stages)),
        "file" | "named" => arg.add(ArgValueCompleter::new(pipelines)),
        "model" => arg.add(ArgValueCompleter::new(directories_and_stages)),
        "metric" => arg.add(ArgValueCompleter::new(metrics)),
        "name" if lists_metrics => arg.add(ArgValueCompleter::new(metrics)),
        id if is_stage(id) => arg.add(ArgValueCompleter::new(stages)),
        _ => arg,
    };
    command.mut_args(add).mut_subcommands(with_values)
}

fn metrics(current: &OsStr) -> Vec<CompletionCandidate> {
    starting_with(current, Metric::ALL.iter().map(|metric| metric.name().to_owned()))
}

fn pipelines(current: &OsStr) -> Vec<CompletionCandidate> {
    let is_pipeline =
        |path: &Path| path.is_dir() || path.extension().is_some_and(|ext| ext == "yaml" || ext == "yml");
    PathCompleter::any().filter(is_pipeline).complete(current)
}

fn files_and_stages(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut found = pipelines(current);
    found.extend(stages(current));
    found
}

fn directories_and_stages(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut found = PathCompleter::dir().complete(current);
    found.extend(stages(current));
    found
}

/// Returns the stages of the pipeline on the command line, or else of the usual one; after a `[`, their instances.
fn stages(current: &OsStr) -> Vec<CompletionCandidate> {
    let environment = |name: &str| std::env::var(name).ok();
    let Some(file) = typed_pipeline().or_else(usual_pipeline) else { return Vec::new() };
    let request = LoadRequest {
        file,
        overrides: Vec::new(),
        environment: &environment,
        // The names of stages do not depend on interpreters.
        find_interpreter: &|_| Ok(None),
        parts: parts::PARTS,
    };
    let Ok(plan) = spec::load(&request, registry::kinds()) else { return Vec::new() };
    let instances = plan.pipeline().instances.iter();
    if current.to_string_lossy().contains('[') {
        return starting_with(current, instances.map(|instance| instance.id.to_string()));
    }
    let mut names: Vec<String> = instances.map(|instance| instance.id.stage.clone()).collect();
    names.dedup();
    starting_with(current, names)
}

fn typed_pipeline() -> Option<PathBuf> {
    let words = std::env::args_os().skip(1).map(PathBuf::from);
    let is_pipeline = |path: &PathBuf| path.extension().is_some_and(|ext| ext == "yaml" || ext == "yml");
    words.filter(is_pipeline).find(|path| path.is_file())
}

/// Returns the pipeline that a command without a file means. Changes to the project directory.
fn usual_pipeline() -> Option<PathBuf> {
    let start = std::env::current_dir().and_then(|start| start.canonicalize()).ok()?;
    std::env::set_current_dir(project_dir::find(&start, std::env::home_dir().as_deref())).ok()?;
    let cache = std::env::var_os("PIPE_CACHE").filter(|cache| !cache.is_empty());
    let store = Store::open_read_only(Path::new(&cache.unwrap_or_else(|| "cache".into()))).ok()?;
    usual_pipeline_file(&store).ok()
}

fn starting_with(current: &OsStr, values: impl IntoIterator<Item = String>) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let matching = values.into_iter().filter(|value| value.starts_with(&*current));
    matching.map(CompletionCandidate::new).collect()
}
