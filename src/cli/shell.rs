//! `pipe shell`: opens a shell in a working directory of a stage, with its inputs and its environment.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use super::args::ShellArgs;
use super::exit::{Exit, Failure, Outcome};
use super::pipeline_selection::PipelineSelection;
use super::print_status;
use super::project::{Opened, Project};
use super::run::programs;
use super::sandbox::Sandbox;
use pipe_core::event::WorkerEvent;
use pipe_core::kind::Program;
use pipe_core::quote;
use pipe_engine::runner::executor::{AttemptError, Executor, ResourceUsage, Task};
use pipe_engine::runner::local::LocalProcess;
use pipe_engine::runner::{Options, Outlook, Urgency, survey};
use pipe_engine::spec::pipeline::InstanceIndex;
use pipe_stages::command;

/// Runs `pipe shell`. Everything that the stage needs has to be computed.
pub(super) fn shell(project: &Project, args: &ShellArgs) -> Outcome {
    let selection = PipelineSelection::stage(&args.pipeline, args.file.as_ref(), &args.stage)?;
    let opened = project.open(&selection, &args.pipeline.set)?.find_data(project);
    let Opened { plan, store, targets, .. } = opened;
    let targets = targets.unwrap_or_default();
    let name = |index: InstanceIndex| plan.instance(index).id.to_string();
    let [target] = targets[..] else {
        let names: Vec<String> = targets.iter().take(5).map(|&index| name(index)).collect();
        let (count, names) = (targets.len(), names.join(", "));
        let stage = &args.stage;
        return Err(Failure::bad_input(format!(
            "`{stage}` selects {count} instances: {names}; name one of them"
        )));
    };
    let outlooks = survey(&plan, &store, &Options::default());
    let fresh = |index: InstanceIndex| match &outlooks[index.0] {
        Outlook::Fresh(manifest) => Some(manifest.key),
        _ => None,
    };
    if let Some(needed) = plan.dependencies(target).filter(|&needed| fresh(needed).is_none()).min() {
        let (needed, target) = (name(needed), name(target));
        let file = quote::shell(&plan.pipeline().file.to_string_lossy());
        let set = super::variant_files::set_arguments(&args.pipeline.set);
        let command = format!("pipe run {file} {}{set}", quote::shell(&needed));
        return Err(Failure::new(
            Exit::StageFailed,
            format!("`{target}` needs `{needed}`, which is not up to date; `{command}` computes it"),
        ));
    }
    let known = |index: InstanceIndex| fresh(index).filter(|_| index != target);
    let target_name = name(target);
    let sandbox = Sandbox::new(project, plan.for_comparison(), &store, &project.cache_dir, None)?;
    let shell = Shell { processes: LocalProcess::new(programs()?), is_over: AtomicBool::new(false) };
    let run =
        sandbox.run_with(&store, "shell", &[target], &known, Options::default(), &shell, &mut |_| {})?;
    if !shell.is_over.into_inner() {
        let reason = run.failures.get(&target_name).map_or("something that it needs failed", String::as_str);
        return Err(Failure::new(Exit::StageFailed, format!("`{target_name}` cannot start: {reason}")));
    }
    project.status("nothing was recorded, and the directory is removed");
    Ok(Exit::Done)
}

/// An executor that opens a shell instead of running a stage.
struct Shell {
    processes: LocalProcess,
    is_over: AtomicBool,
}

impl Executor for Shell {
    fn execute(
        &self,
        task: &Task,
        report: &mut dyn FnMut(WorkerEvent),
    ) -> Result<ResourceUsage, AttemptError> {
        let program = std::env::var("SHELL").ok().filter(|shell| !shell.is_empty());
        let mut shell = self.processes.command_process(task, program.as_deref().unwrap_or("sh"), report)?;
        if let Some(terminal) = std::env::var_os("TERM") {
            shell.env("TERM", terminal);
        }
        let how = how_to_run(task).map_err(|error| AttemptError::permanent(error.to_string()))?;
        let (instance, directory) = (&task.job.instance, task.job.scratch.display());
        print_status(&format!("`{instance}` would run in {directory}\n{how}; `exit` ends the shell"));
        wait(&mut shell)?;
        self.is_over.store(true, Ordering::SeqCst);
        // A result would be recorded, if only in the sandbox.
        Err(AttemptError::permanent("a shell has no result"))
    }

    /// Does nothing: the terminal tells the shell itself.
    fn stop(&self, _urgency: Urgency) {}
}

fn wait(shell: &mut Command) -> Result<(), AttemptError> {
    let program = shell.get_program().to_string_lossy().into_owned();
    shell
        .status()
        .map_err(|error| AttemptError::permanent(format!("`{program}` could not be started: {error}")))?;
    Ok(())
}

/// Returns a sentence about how to run the stage in the shell. For a command, writes the script that does it.
fn how_to_run(task: &Task) -> anyhow::Result<String> {
    if task.program != Program::Command {
        let kind = &task.job.kind;
        return Ok(format!("its inputs are in `in`, and `pipe` itself computes a stage of kind `{kind}`"));
    }
    let words: Vec<String> = command::argv(&task.job.body)?.iter().map(|word| quote::shell(word)).collect();
    let script = task.directory.join("run");
    fs::write(&script, format!("#!/bin/sh\nexec {}\n", words.join(" ")))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700))?;
    Ok("`../run` runs its command, whose inputs are in `in`".to_owned())
}
