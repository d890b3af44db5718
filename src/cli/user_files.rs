//! Checks that the user's files are there before anything runs.

use std::path::Path;

use super::exit::Failure;
use super::project::Project;
use pipe_engine::plan::Plan;
use pipe_engine::spec::pipeline::{Placement, UserFileReference};
use pipe_engine::spec::{Diagnostic, Diagnostics};

/// Fails if a file that a selected instance reads does not exist. A file that the pipeline itself places may come later.
pub(super) fn require<F>(project: &Project, plan: &Plan<F>, selected: &[bool]) -> Result<(), Failure> {
    let pipeline = plan.pipeline();
    let mut missing = Vec::new();
    for file in &pipeline.user_files {
        let is_read = file.readers.iter().any(|reader| selected[reader.0]);
        let is_placed = pipeline.placements.iter().any(|placement| overlap(&file.path, placement));
        if is_read && !is_placed && !file.path.exists() {
            missing.push(missing_file(file));
        }
    }
    match Diagnostics::new(missing) {
        Some(diagnostics) => Err(project.rendered(&diagnostics)),
        None => Ok(()),
    }
}

fn overlap(path: &Path, placement: &Placement) -> bool {
    let path = path.strip_prefix("./").unwrap_or(path);
    path.starts_with(&placement.path) || placement.path.starts_with(path)
}

fn missing_file(file: &UserFileReference) -> Diagnostic {
    let directories = file.path.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty());
    let because = match directories.filter(|path| !path.exists()).last() {
        Some(directory) => format!(": the directory `{}` is missing", directory.display()),
        None => String::new(),
    };
    let hint = "paths are relative to the project directory: the current one, or the one that -C names";
    file.location.diagnostic(format!("there is no `{}`{because}", file.path.display()), hint)
}
