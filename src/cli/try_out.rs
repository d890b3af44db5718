//! `pipe run --try`: computes stages without recording anything.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;

use super::args::RunArgs;
use super::console::Console;
use super::exit::{Exit, Failure, Outcome};
use super::pipeline_selection::PipelineSelection;
use super::project::{Opened, Project};
use super::run::{programs, require_observation, style};
use super::sandbox::{Sandbox, SandboxRun};
use super::{print_text, text};
use pipe_engine::plan::Why;
use pipe_engine::runner::event::Event;
use pipe_engine::runner::local::{LocalProcess, OnUndeclared};
use pipe_engine::runner::{Options, Outlook, survey};
use pipe_engine::spec::pipeline::{Instance, InstanceIndex};
use pipe_engine::store::TemporaryDirectory;
use pipe_engine::store::manifest::Manifest;

/// Runs `pipe run STAGE --try`. What the stages need is taken from the cache, or computed if it is not there.
pub(super) fn try_out(project: &Project, args: &RunArgs) -> Outcome {
    let selection = PipelineSelection::stages(&args.pipeline, args.file.as_ref(), &args.targets)?;
    if selection.stages.is_empty() {
        return Err(Failure::bad_input("`--try` needs the stages to try: `pipe run STAGE --try`"));
    }
    require_observation(args)?;
    let opened = project.open(&selection, &args.pipeline.set)?.find_data(project);
    let Opened { plan, store, targets, .. } = opened;
    let targets = targets.unwrap_or_default();
    let outlooks = survey(&plan, &store, &Options::default());
    let known = |index: InstanceIndex| match &outlooks[index.0] {
        Outlook::Fresh(manifest) if !targets.contains(&index) => Some(manifest.key),
        _ => None,
    };
    let mut console = Console::new(style(project, args), project.verbosity, project.paint);
    // In the store of the trial everything is new; the reason to run is the one in the store of the project.
    let reasons: HashMap<String, Why> = (0..outlooks.len())
        .map(InstanceIndex)
        .filter_map(|index| {
            let why = match &outlooks[index.0] {
                _ if targets.contains(&index) => Why::Tried,
                Outlook::WillRun(why) | Outlook::MayRun { known: Some(why), .. } => why.clone(),
                _ => return None,
            };
            Some((plan.instance(index).id.to_string(), why))
        })
        .collect();
    let sandbox = Sandbox::new(project, plan.without_placements(), &store, &project.cache_dir, args.jobs)?;
    let options = Options { jobs: sandbox.jobs, keep_going: args.keep_going, ..Options::default() };
    let mut executor = LocalProcess::new(programs()?);
    if args.sandbox {
        executor = executor.observing_files(&options.project, OnUndeclared::Fail);
    }
    let run = sandbox.run_with(&store, "try", &targets, &known, options, &executor, &mut |event| {
        let mut event = event.clone();
        if let Event::Started { instance, why, .. } = &mut event
            && let Some(reason) = reasons.get(instance)
        {
            why.clone_from(reason);
        }
        console.show(&event);
    })?;
    console.printed()?;
    let outputs = TemporaryDirectory::new()?;
    let mut shown = String::new();
    for &index in &targets {
        if let Some(manifest) = run.results.get(&index) {
            shown.push_str(&result(&run, sandbox.plan.instance(index), manifest, &outputs, args.json)?);
        }
    }
    if !shown.is_empty() {
        outputs.keep();
        print_text(&shown)?;
    }
    project.status("nothing was recorded; `pipe run` without `--try` computes and records");
    Ok(if run.failures.is_empty() { Exit::Done } else { Exit::StageFailed })
}

/// Copies the outputs of an instance to the directory, and returns what is printed about its result.
fn result(
    run: &SandboxRun,
    instance: &Instance,
    manifest: &Manifest,
    directory: &Path,
    as_json: bool,
) -> Result<String, Failure> {
    let name = instance.id.to_string();
    let mut paths = Vec::new();
    for output in &instance.outputs {
        if let Some(stored) = manifest.outputs.get(&output.name) {
            let path = directory.join(&name).join(&output.file_name);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            run.store.place(stored, &path)?;
            paths.push((&output.name, path));
        }
    }
    if as_json {
        let outputs: serde_json::Map<_, _> =
            paths.into_iter().map(|(name, path)| (name.clone(), json!(path))).collect();
        let line =
            json!({ "event": "tried", "instance": name, "metrics": manifest.metrics, "outputs": outputs });
        return Ok(format!("{line}\n"));
    }
    let mut out = format!("{name}\n");
    for (metric, value) in &manifest.metrics {
        let _ = writeln!(out, "  {metric}: {}{}", text::value(value.value), value.suffix());
    }
    for (output, path) in paths {
        let _ = writeln!(out, "  {output}: {}", path.display());
    }
    Ok(out)
}
