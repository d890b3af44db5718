//! Checks that the user's files are there before anything runs.

use std::collections::{BTreeSet, HashMap};
use std::fs::FileType;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::exit::Failure;
use super::project::Project;
use pipe_core::suggest;
use pipe_engine::plan::Plan;
use pipe_engine::spec::pipeline::{Pipeline, UserFileReference};
use pipe_engine::spec::{Diagnostic, Diagnostics};

/// Fails if a file that a selected instance reads does not exist. A file that the pipeline itself places may come later.
pub(super) fn require<F>(project: &Project, plan: &Plan<F>, selected: &[bool]) -> Result<(), Failure> {
    let pipeline = plan.pipeline();
    let placed: BTreeSet<&Path> =
        pipeline.placements.iter().map(|placement| placement.path.as_path()).collect();
    // Many stages may read the same file.
    let mut types: HashMap<&Path, Option<FileType>> = HashMap::new();
    let mut missing = Vec::new();
    for file in &pipeline.user_files {
        if !file.readers.iter().any(|reader| selected[reader.0]) {
            continue;
        }
        let file_type = *types.entry(&file.path).or_insert_with(|| type_of(&file.path));
        if file_type.is_none() && !is_placed(&file.path, &placed) {
            missing.push(missing_file(file, pipeline));
        } else if file_type.is_some_and(|file_type| file_type.is_fifo()) {
            let problem = format!("`{}` is a pipe, which can be read only once", file.path.display());
            missing.push(file.location.diagnostic(problem, "write its content to a file".to_owned()));
        }
    }
    match Diagnostics::new(missing) {
        Some(diagnostics) => Err(project.rendered(&diagnostics)),
        None => Ok(()),
    }
}

/// Returns whether a path is a pipe, whose content is gone once it was read.
pub(super) fn is_pipe(path: &Path) -> bool {
    type_of(path).is_some_and(|file_type| file_type.is_fifo())
}

/// Returns the type of the file that a path leads to; `None` if there is none.
fn type_of(path: &Path) -> Option<FileType> {
    path.metadata().ok().map(|metadata| metadata.file_type())
}

/// Returns whether a placement is the path, above it, or below it. Paths are ordered by component, so what is below a path
/// follows it.
fn is_placed(path: &Path, placed: &BTreeSet<&Path>) -> bool {
    let path = path.strip_prefix("./").unwrap_or(path);
    let is_below = placed.range(path..).next().is_some_and(|placement| placement.starts_with(path));
    is_below || path.ancestors().any(|above| placed.contains(above))
}

fn missing_file<F>(file: &UserFileReference, pipeline: &Pipeline<F>) -> Diagnostic {
    let directories = file.path.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty());
    let because = match directories.filter(|path| !path.exists()).last() {
        Some(directory) => format!(": the directory `{}` is missing", directory.display()),
        None => String::new(),
    };
    let reference = file.path.to_str().unwrap_or_default();
    let hint = match suggest::similar_file(&file.path, &[], &[]) {
        _ if is_output(reference, pipeline) => {
            format!("did you mean the output of a stage? Then write `{{ stage: {reference} }}`")
        }
        Some(similar) => format!("did you mean `{}`?", similar.display()),
        None => "paths are relative to the project directory: the current one, or the one that -C names"
            .to_owned(),
    };
    file.location.diagnostic(format!("there is no `{}`{because}", file.path.display()), hint)
}

/// Returns whether a word is a stage of the pipeline or one of its outputs: `embed`, `embed.labels`.
fn is_output<F>(word: &str, pipeline: &Pipeline<F>) -> bool {
    let (stage, output) = word.split_once('.').map_or((word, None), |(stage, output)| (stage, Some(output)));
    pipeline.instances.iter().filter(|instance| instance.id.stage == stage).any(|instance| {
        output.is_none_or(|output| instance.outputs.iter().any(|declared| declared.name == output))
    })
}
