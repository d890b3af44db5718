//! `pipe jobs` and `pipe cancel`, and the hidden `pipe job` that a scheduler starts on a node.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::args::{CancelArgs, JobsArgs};
use super::engine;
use super::exit::{Exit, Failure, Outcome};
use super::project::Project;
use super::run::stop_on_signals;
use super::table::Grid;
use super::{print_json, print_status, print_text, text};
use pipe_engine::runner::cluster::{JobSignals, JobSummary, cancel_jobs, carry_out, list_jobs};
use pipe_engine::runner::local::{LocalProcess, Programs};
use pipe_stages::{command, judge};

/// Carries out the job in a directory. Its end is recorded there; the exit code is for the scheduler.
pub(super) fn job(directory: &Path) -> ExitCode {
    let signals = JobSignals::default();
    let carried_out = handle_signals(&signals).and_then(|()| std::env::current_exe()).and_then(|pipe| {
        let executor =
            LocalProcess::new(Programs { pipe, command: command::argv, needs_worker: judge::needs_worker });
        carry_out(directory, &executor, &signals)
    });
    match carried_out {
        Ok(true) => Exit::Done.into(),
        Ok(false) => Exit::StageFailed.into(),
        Err(error) => {
            print_status(&format!(
                "error: the job in {} cannot be carried out: {error}",
                directory.display()
            ));
            Exit::BadInput.into()
        }
    }
}

/// Requests a stop on the usual signals, and on SIGUSR1, with which a scheduler announces the end of the job's time.
fn handle_signals(signals: &JobSignals) -> std::io::Result<()> {
    stop_on_signals(&signals.stop)?;
    let (stop, time_is_up) = (signals.stop.clone(), Arc::clone(&signals.time_is_up));
    // SAFETY: the handler only does two atomic updates, which are allowed in a signal handler.
    unsafe {
        signal_hook::low_level::register(signal_hook::consts::SIGUSR1, move || {
            time_is_up.store(true, Ordering::SeqCst);
            stop.request();
        })
    }?;
    Ok(())
}

/// Runs `pipe jobs`: lists the jobs of the cache.
pub(super) fn jobs(project: &Project, args: &JobsArgs) -> Outcome {
    let (jobs, problems) = jobs_of(project, args.engine.as_deref())?;
    for problem in problems {
        print_status(&format!("warning: {problem}"));
    }
    if args.json {
        return print_json(&jobs);
    }
    if jobs.is_empty() {
        project.status("no job is in the queue, and none has ended since the last run");
        return Ok(Exit::Done);
    }
    let mut grid = Grid::new(&["stage", "engine", "job", "state", "note"]).wrapped(&[0, 4]).optional(&[1]);
    for JobSummary { instance, engine, job, state, note, .. } in jobs {
        let note = note.lines().next().unwrap_or_default().to_owned();
        grid.row([instance, engine, job.unwrap_or_default(), state.to_owned(), note]);
    }
    print_text(&grid.to_string())
}

/// Returns the jobs of the cache, of all engines or of the one that is named, and why schedulers could not be asked.
fn jobs_of(project: &Project, engine: Option<&str>) -> Result<(Vec<JobSummary>, Vec<String>), Failure> {
    engine.map(engine::read).transpose()?;
    let profile_of = |name: &str| engine::read(name).map_err(|failure| failure.text);
    Ok(list_jobs(&project.store_to_read()?, &std::env::current_dir()?, engine, &profile_of)?)
}

/// Runs `pipe cancel`: ends all jobs of the cache, or those of some stages.
pub(super) fn cancel(project: &Project, args: &CancelArgs) -> Outcome {
    let (jobs, problems) = jobs_of(project, args.engine.as_deref())?;
    if let Some(problem) = problems.into_iter().next() {
        return Err(Failure::bad_input(problem));
    }
    let live: Vec<&JobSummary> = jobs.iter().filter(|job| job.is_live()).collect();
    let is_named = |job: &JobSummary, name: &String| {
        job.instance == *name
            || job.instance.split('[').next() == Some(name)
            || job.job.as_ref() == Some(name)
    };
    if let Some(name) = args.stages.iter().find(|name| !live.iter().any(|job| is_named(job, name))) {
        return Err(Failure::bad_input(format!(
            "no job of `{name}` is in the queue; `pipe jobs` lists the jobs"
        )));
    }
    let is_chosen =
        |job: &JobSummary| args.stages.is_empty() || args.stages.iter().any(|name| is_named(job, name));
    let mut chosen: BTreeMap<&str, Vec<&JobSummary>> = BTreeMap::new();
    // Without an id, there is nothing that could be cancelled.
    for job in live.into_iter().filter(|job| job.job.is_some() && is_chosen(job)) {
        chosen.entry(&job.engine).or_default().push(job);
    }
    if chosen.is_empty() {
        project.status("no job is in the queue");
        return Ok(Exit::Done);
    }
    let (store, directory) = (project.store_to_read()?, std::env::current_dir()?);
    for (engine, jobs) in &chosen {
        cancel_jobs(&store, &engine::read(engine)?, &directory, jobs).map_err(Failure::bad_input)?;
    }
    let count = chosen.values().map(Vec::len).sum();
    project.status(&format!("asked the scheduler to end {}", text::count(count, "job")));
    Ok(Exit::Done)
}
