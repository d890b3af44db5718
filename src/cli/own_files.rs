//! Looks for the user's own files before anything runs.

use std::path::Path;

use super::exit::Failure;
use super::project::Project;
use pipe_engine::plan::Plan;
use pipe_engine::spec::pipeline::{OwnFile, Placement};
use pipe_engine::spec::{Diagnostic, Diagnostics};

/// Every file that a stage which takes part reads is here. One that the pipeline itself places may come later.
pub(super) fn require(project: &Project, plan: &Plan, selected: &[bool]) -> Result<(), Failure> {
    let pipeline = plan.pipeline();
    let takes_part = |file: &&OwnFile| file.readers.iter().any(|reader| selected[reader.0]);
    let missing = pipeline.own_files.iter().filter(takes_part).filter(|file| {
        !file.path.exists() && !pipeline.placements.iter().any(|placement| overlap(&file.path, placement))
    });
    match Diagnostics::new(missing.map(problem).collect()) {
        Some(problems) => Err(project.rendered(&problems)),
        None => Ok(()),
    }
}

fn overlap(path: &Path, placement: &Placement) -> bool {
    let path = path.strip_prefix("./").unwrap_or(path);
    path.starts_with(&placement.path) || placement.path.starts_with(path)
}

fn problem(file: &OwnFile) -> Diagnostic {
    let directories = file.path.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty());
    let because = match directories.filter(|path| !path.exists()).last() {
        Some(directory) => format!(": the directory `{}` is missing", directory.display()),
        None => String::new(),
    };
    let hint = "paths are relative to the project directory: the current one, or the one that -C names";
    file.place.problem(format!("there is no `{}`{because}", file.path.display()), hint)
}
