//! `pipe torch`: shows which libtorch is used and why that one, and downloads one.

use std::process::{Command, Stdio};

use serde_json::json;

use super::args::{TorchArgs, TorchCommand};
use super::exit::{Exit, Failure, Outcome};
use super::project::Project;
use super::table::Grid;
use super::{print_json, print_text};
use pipe_engine::runner::libtorch::{Candidate, Search, VERSION, fetch_directory};

/// The script that `make libtorch` also uses. It asks pip, which knows the package index of the user and checks the sha256 that
/// the index states.
const SCRIPT: &str = include_str!("../../scripts/libtorch.py");

/// Runs `pipe torch`.
pub(super) fn torch(project: &Project, args: &TorchArgs) -> Outcome {
    match args.command {
        None => show(args.json),
        Some(TorchCommand::Fetch { cuda }) => {
            fetch(project, if cuda { "cuda" } else { "cpu" })?;
            show(args.json)
        }
    }
}

fn show(as_json: bool) -> Outcome {
    let search = Search::of(&std::env::current_exe()?);
    let problem = search.worker.as_ref().err();
    if as_json {
        print_json(&json!({
            "version": VERSION,
            "worker": search.program,
            "candidates": search.candidates,
            "problem": problem,
        }))?;
        return Ok(if problem.is_none() { Exit::Done } else { Exit::BadInput });
    }
    if let Some(problem) = problem {
        return Err(Failure::bad_input(problem));
    }
    if search.candidates.is_empty() {
        return print_text("this `pipe-worker` needs no libtorch\n");
    }
    let mut grid = Grid::new(&["libtorch from", "state", "libraries"]).wrapped(&[0, 1, 2]);
    for Candidate { source, libraries, problem, used } in &search.candidates {
        let state = match problem {
            Some(problem) => problem.as_str(),
            None if *used => "used",
            None => "not needed",
        };
        let libraries = libraries.as_ref().map(|libraries| libraries.display().to_string());
        grid.row([(*source).to_owned(), state.to_owned(), libraries.unwrap_or_default()]);
    }
    print_text(&format!("libtorch {VERSION} is used from the first of these places that has it:\n{grid}"))
}

fn fetch(project: &Project, flavour: &str) -> Result<(), Failure> {
    let into = fetch_directory().ok_or_else(|| {
        Failure::bad_input("there is no home directory to keep libtorch in; set XDG_CACHE_HOME or HOME")
    })?;
    let cannot =
        |error: std::io::Error| Failure::bad_input(format!("cannot write to {}: {error}", into.display()));
    std::fs::create_dir_all(&into).map_err(cannot)?;
    let script = tempfile::Builder::new().suffix(".py").tempfile().map_err(cannot)?;
    std::fs::write(script.path(), SCRIPT).map_err(cannot)?;
    let mut python = Command::new("python3");
    python.arg(script.path()).args(["fetch", flavour, "--libraries-only", "--into"]).arg(&into);
    let status = python.stdin(Stdio::null()).stdout(Stdio::null()).status().map_err(|error| {
        Failure::bad_input(format!(
            "`python3`, which downloads libtorch with pip, cannot be started: {error}"
        ))
    })?;
    if !status.success() {
        return Err(Failure::bad_input("libtorch was not fetched; see above"));
    }
    project.status(&format!("libtorch {VERSION} is in {}", into.join(flavour).display()));
    Ok(())
}
