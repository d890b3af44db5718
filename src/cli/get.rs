//! `pipe get`: one output of a stage, copied to a path or printed.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::args::GetArgs;
use super::exit::{Exit, Failure, Outcome};
use super::pipeline_selection::PipelineSelection;
use super::print_text;
use super::project::{Project, select};
use super::survey::Survey;
use pipe_core::kind::OutputDecl;
use pipe_core::reference::StageRef;
use pipe_engine::spec::pipeline::InstanceIndex;
use pipe_engine::store::manifest::Stored;

pub(super) fn get(project: &Project, args: &GetArgs) -> Outcome {
    let asked = PipelineSelection::stage(&args.pipeline, args.file.as_ref(), &args.what)?;
    let survey = Survey::of(project, asked.file.as_ref(), &args.pipeline, &[])?;
    let (index, output) = meant(&survey, &args.what)?;
    let name = survey.name(index);
    let Some(manifest) = survey.fresh(index) else {
        let (state, reason) = survey.words(&survey.outlooks[index.0]);
        let file = asked.file.map(|file| format!("{} ", file.display())).unwrap_or_default();
        let message =
            format!("`{name}` is not up to date ({state}: {reason}); `pipe run {file}'{name}'` computes it");
        return Err(Failure::new(Exit::StageFailed, message));
    };
    let Some(stored) = manifest.outputs.get(&output.name) else {
        let message = format!("what the cache has of `{name}` has no output `{}`", output.name);
        return Err(Failure::new(Exit::CacheDamage, message));
    };
    match args.to.as_deref() {
        Some(to) if to != Path::new("-") => copy(project, stored, &destination(to, output), args.overwrite),
        _ => print(&survey, stored, output),
    }
}

/// The one output that `STAGE` or `STAGE.OUTPUT` means.
fn meant<'s>(survey: &'s Survey, what: &str) -> Result<(InstanceIndex, &'s OutputDecl), Failure> {
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
            "`{what}` means {count} instances: {names}; name one of them"
        )));
    };
    let outputs = &survey.plan.instance(index).outputs;
    let chosen = match &named {
        Some(name) => outputs.iter().find(|output| output.name == *name),
        None => outputs.first().filter(|_| outputs.len() == 1),
    };
    let names: Vec<String> = outputs.iter().map(|output| format!("`{}`", output.name)).collect();
    let message = || format!("which output of `{}`? It has {}", survey.name(index), names.join(", "));
    chosen.map(|output| (index, output)).ok_or_else(|| Failure::bad_input(message()))
}

/// In a directory, an output has its own name.
fn destination(to: &Path, output: &OutputDecl) -> PathBuf {
    let name = Path::new(&output.file_name).file_name().map(Path::new).unwrap_or(Path::new(&output.name));
    let into = to.is_dir() || to.as_os_str().as_encoded_bytes().ends_with(b"/");
    if into { to.join(name) } else { to.to_owned() }
}

fn copy(project: &Project, stored: &Stored, to: &Path, overwrite: bool) -> Outcome {
    let store = project.store()?;
    if to.symlink_metadata().is_ok() {
        let present = store.digest_source(to).ok().map(|source| (source.blob, source.directory));
        let same = present == Some((stored.blob, stored.directory));
        if !same && !overwrite {
            let message = format!("{} is there and differs; --overwrite replaces it", to.display());
            return Err(Failure::bad_input(message));
        }
    }
    store.place(stored, to)?;
    print_text(&format!("{}\n", to.display()))
}

fn print(survey: &Survey, stored: &Stored, output: &OutputDecl) -> Outcome {
    if stored.directory {
        let message = format!("`{}` is a directory; name a place for it: `--to PATH`", output.name);
        return Err(Failure::bad_input(message));
    }
    // Of a file, the path is that of the content itself, and nothing is made at the other.
    let path = survey.store.artifact(stored, Path::new("."))?;
    match io::copy(&mut File::open(path)?, &mut io::stdout().lock()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(Exit::Done),
    }
}
