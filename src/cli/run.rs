//! `pipe run`, and the hidden `pipe worker` that runs one built-in stage.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use super::args::RunArgs;
use super::asked::Asked;
use super::console::{Console, Style, Verbosity};
use super::data_files;
use super::exit::{Exit, Failure, Outcome};
use super::live::{self, LiveServer};
use super::lock;
use super::own_files;
use super::project::{Project, select};
use super::variant_files::normalised_overrides;
use pipe_core::harness;
use pipe_engine::plan::Plan;
use pipe_engine::runner::local::{LocalProcess, Programs};
use pipe_engine::runner::{self, Options, RunError, Stop};
use pipe_stages::{command, registry};

pub(super) fn run(project: &Project, args: &RunArgs) -> Outcome {
    let asked = Asked::stages(&args.pipeline, args.file.as_ref(), &args.targets)?;
    let file = project.pipeline_file(asked.file.as_ref(), &project.store_to_read()?)?;
    let pipeline = project.load(&file, &args.pipeline.set)?;
    let mut options = Options {
        jobs: args.jobs.unwrap_or_else(|| Options::default().jobs),
        keep_going: args.keep_going,
        set: normalised_overrides(&args.pipeline.set),
        targets: if asked.stages.is_empty() { None } else { Some(select(&pipeline, &asked.stages)?) },
        until: select(&pipeline, &args.until)?,
        force: select(&pipeline, &args.force)?,
        overwrite: args.overwrite,
        ..Options::default()
    };
    let mut plan = Plan::new(pipeline).map_err(|cycle| Failure::bad_input(cycle.to_string()))?;
    let selected = options.selection(&plan);
    own_files::require(project, &plan, &selected)?;
    let in_full = asked.stages.is_empty() && args.until.is_empty() && args.pipeline.set.is_empty();
    let updates_lock = in_full && !args.locked;
    if updates_lock {
        lock::require_readable(&file)?;
    }
    let store = project.store()?;
    data_files::obtain(&mut plan, &selected, project, &store, args.offline)?;
    if args.locked {
        options.judge = Some(lock::hold_to(&plan, &store, &project.cache_dir)?);
    }
    let pipe = std::env::current_exe()?;
    let executor = LocalProcess::new(Programs { pipe, command: command::argv });
    let stop = Stop::new();
    stop_on_signals(&stop)?;

    let live = args.serve.map(|port| serve(port, &plan, &selected)).transpose()?;
    let mut console = Console::new(style(project, args), project.verbosity, project.paint);
    let mut listen = |event| {
        console.show(&event);
        if let Some(live) = &live {
            live.send(&event);
        }
    };
    let summary =
        runner::run(&plan, &store, &executor, &options, &stop, &mut listen).map_err(|error| match error {
            RunError::Store(error) => error.into(),
            other => Failure::bad_input(other.to_string()),
        })?;
    if let Some(live) = live {
        live.end();
    }
    if updates_lock && !summary.interrupted && summary.failed == 0 {
        lock::update(project, &plan, &store)?;
    }
    Ok(match summary {
        summary if summary.interrupted => Exit::Interrupted,
        summary if summary.failed > 0 => Exit::StageFailed,
        // What lies there is not what the lock records.
        summary if args.locked && !summary.kept.is_empty() => Exit::StageFailed,
        _ => Exit::Done,
    })
}

/// The address goes to standard error, as all that is no result.
fn serve(port: u16, plan: &Plan, selected: &[bool]) -> Result<LiveServer, Failure> {
    let page = live::page(plan, selected);
    let live = LiveServer::start(port, &page).map_err(|error| {
        let hint = if port == 0 { "" } else { "; `--serve` alone takes any port that is free" };
        Failure::bad_input(format!("cannot serve on port {port} of 127.0.0.1: {error}{hint}"))
    })?;
    eprintln!("watch it at {}", live.url());
    Ok(live)
}

pub(super) fn worker(job: &Path) -> ExitCode {
    harness::main(job, &[registry::light_runners()], &[])
}

fn style(project: &Project, args: &RunArgs) -> Style {
    let live = std::io::stderr().is_terminal() && !args.no_progress && project.verbosity != Verbosity::Quiet;
    match (args.json, live) {
        (true, _) => Style::Json,
        (false, true) => Style::Live,
        (false, false) => Style::Lines,
    }
}

/// The handler is one atomic operation; the run notices.
pub(super) fn stop_on_signals(stop: &Stop) -> std::io::Result<()> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        let stop = stop.clone();
        // SAFETY: the handler only does one atomic update, which is allowed in a signal handler.
        unsafe { signal_hook::low_level::register(signal, move || stop.request()) }?;
    }
    Ok(())
}
