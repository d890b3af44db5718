//! `pipe get`: copies one output of a stage to a path, or prints it.

use std::path::{Path, PathBuf};

use super::args::GetArgs;
use super::exit::{Exit, Failure, Outcome};
use super::pipeline_selection::PipelineSelection;
use super::print_text;
use super::project::{Project, select};
use super::standard_streams::print_file;
use super::survey::Survey;
use pipe_core::kind::OutputDecl;
use pipe_core::reference::StageRef;
use pipe_core::{quote, suggest};
use pipe_engine::spec::pipeline::InstanceIndex;
use pipe_engine::store::B3SUMS;
use pipe_engine::store::manifest::Stored;

/// Runs `pipe get`.
pub(super) fn get(project: &Project, args: &GetArgs) -> Outcome {
    let asked = PipelineSelection::stage(&args.pipeline, args.file.as_ref(), &args.what)?;
    let survey = Survey::of(project, asked.file.as_ref(), &args.pipeline, &[])?;
    let (index, output) = resolve(&survey, &args.what)?;
    let name = survey.name(index);
    let Some(manifest) = survey.fresh(index) else {
        let (state, reason) = survey.words(&survey.outlooks[index.0]);
        let file = asked.file.map(|file| format!("{} ", quote::shell(&file.to_string_lossy())));
        let command = format!("pipe run {}{}", file.unwrap_or_default(), quote::shell(&name));
        let message = format!("`{name}` is not up to date ({state}: {reason}); `{command}` computes it");
        return Err(Failure::new(Exit::StageFailed, message));
    };
    let Some(stored) = manifest.outputs.get(&output.name) else {
        let message = format!("the cached result of `{name}` has no output `{}`", output.name);
        return Err(Failure::new(Exit::CacheDamage, message));
    };
    match args.to.as_deref() {
        Some(to) if to != Path::new("-") => copy(project, stored, &destination(to, output), args.overwrite),
        _ => print(&survey, stored, output),
    }
}

/// Returns the one output that `STAGE` or `STAGE.OUTPUT` names.
fn resolve<'s>(survey: &'s Survey, what: &str) -> Result<(InstanceIndex, &'s OutputDecl), Failure> {
    let named = what.parse::<StageRef>().ok().and_then(|reference| reference.output().map(str::to_owned));
    let stage = match &named {
        Some(output) => what.trim().strip_suffix(output.as_str()).and_then(|stage| stage.strip_suffix('.')),
        None => None,
    };
    let found = select(survey.plan.pipeline(), &[stage.unwrap_or(what).to_owned()])?;
    let [index] = found[..] else {
        let names: Vec<String> = found.iter().take(5).map(|&index| survey.name(index)).collect();
        let (count, names) = (found.len(), names.join(", "));
        return Err(Failure::bad_input(format!(
            "`{what}` selects {count} instances: {names}; name one of them"
        )));
    };
    let outputs = &survey.plan.instance(index).outputs;
    let chosen = match &named {
        Some(name) => outputs.iter().find(|output| output.name == *name),
        None => outputs.first().filter(|_| outputs.len() == 1),
    };
    chosen.map(|output| (index, output)).ok_or_else(|| {
        let names: Vec<&str> = outputs.iter().map(|output| output.name.as_str()).collect();
        let stage = survey.name(index);
        let typo = named.as_ref().map(|name| match suggest::closest(name, names.iter().copied()) {
            Some(candidate) => format!("`{stage}` has no output `{name}`; did you mean `{candidate}`? "),
            None => format!("`{stage}` has no output `{name}`; "),
        });
        let start = typo.unwrap_or_else(|| format!("name one output of `{stage}`, as in `STAGE.OUTPUT`; "));
        let all = suggest::listed(names).unwrap_or_else(|| "no output".to_owned());
        Failure::bad_input(format!("{start}it has {all}"))
    })
}

/// Returns the path to copy to: in a directory, the output keeps its own file name.
fn destination(to: &Path, output: &OutputDecl) -> PathBuf {
    let name = Path::new(&output.file_name).file_name().map(Path::new).unwrap_or(Path::new(&output.name));
    let is_directory = to.is_dir() || to.as_os_str().as_encoded_bytes().ends_with(b"/");
    // An earlier copy is replaced.
    let is_copy = to.join(B3SUMS).exists();
    if is_directory && !is_copy { to.join(name) } else { to.to_owned() }
}

fn copy(project: &Project, stored: &Stored, to: &Path, overwrite: bool) -> Outcome {
    let store = project.store()?;
    if to.symlink_metadata().is_ok() {
        let same = store.is_copy(stored, to).unwrap_or(false);
        if !same && !overwrite {
            let message = format!("{} exists and differs; `--overwrite` replaces it", to.display());
            return Err(Failure::bad_input(message));
        }
    }
    if stored.directory {
        store.place_with_checksums(stored, to)?;
    } else {
        store.place(stored, to)?;
    }
    print_text(&format!("{}\n", to.display()))
}

fn print(survey: &Survey, stored: &Stored, output: &OutputDecl) -> Outcome {
    if stored.directory {
        let message =
            format!("`{}` is a directory, which cannot be printed; `--to PATH` copies it", output.name);
        return Err(Failure::bad_input(message));
    }
    // The path of a file is that of its content in the store, so nothing is created in the current directory.
    let path = survey.store.artifact(stored, Path::new("."))?;
    print_file(&path)
}
