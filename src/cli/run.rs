//! `pipe run`, and the hidden `pipe worker` that runs one built-in stage.

use std::collections::{HashMap, HashSet};
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use super::args::RunArgs;
use super::claims;
use super::console::{Console, Style, Verbosity};
use super::engine;
use super::exit::{Exit, Failure, Outcome};
use super::git_head;
use super::live::{self, LiveServer};
use super::lock;
use super::pipeline_selection::PipelineSelection;
use super::print_status;
use super::print_text;
use super::project::{Opened, Project, select};
use super::settings::Use;
use super::show_table;
use super::survey::manifest;
use super::text;
use super::user_files;
use super::variant_files::normalised_overrides;
use pipe_core::digest::StageKey;
use pipe_core::harness;
use pipe_core::kind::Program;
use pipe_core::stage::StageKind;
use pipe_engine::plan::Plan;
use pipe_engine::runner::cluster::Cluster;
use pipe_engine::runner::event::Event;
use pipe_engine::runner::local::{LocalProcess, OnUndeclared, Programs};
use pipe_engine::runner::{self, Options, Stop, file_trace};
use pipe_engine::spec::pipeline::InstanceIndex;
use pipe_engine::store::Store;
use pipe_stages::judge::WithoutNetworks;
use pipe_stages::plot::Plot;
use pipe_stages::report::Report;
use pipe_stages::table::TableStage;
use pipe_stages::{command, judge, registry};

/// The kinds that also run here if the other stages run on a cluster: they take less time than a job needs to start.
const LIGHT: [&str; 3] = [Plot::NAME, Report::NAME, TableStage::NAME];

/// Runs the selected stages that are not in the cache, and updates the lock.
pub(super) fn run(project: &Project, args: &RunArgs) -> Outcome {
    let words =
        args.file.iter().map(|file| file.to_string_lossy()).chain(args.targets.iter().map(Into::into));
    if let (Some(0), Some(port)) = (args.serve, words.into_iter().find(|word| word.parse::<u16>().is_ok())) {
        return Err(Failure::bad_input(format!("a port is given with `=`: `--serve={port}`")));
    }
    let profile = engine::chosen(args.engine.as_deref())?;
    if args.detach && profile.is_none() {
        return Err(Failure::bad_input("--detach leaves jobs to a cluster, so it needs --engine"));
    }
    if args.sandbox && profile.is_some() {
        return Err(Failure::bad_input(
            "--sandbox observes commands on this machine, so it cannot be used with --engine; `--engine local` runs them here",
        ));
    }
    require_observation(args)?;
    let selection = PipelineSelection::stages(&args.pipeline, args.file.as_ref(), &args.targets)?;
    let opened = project.open(&selection, &args.pipeline.set)?;
    project.warn_of_unused_variables(&opened.plan);
    let pipeline = opened.plan.pipeline();
    let mut options = Options {
        jobs: args.jobs.unwrap_or_else(|| Options::default().jobs),
        keep_going: args.keep_going,
        set: normalised_overrides(&args.pipeline.set),
        note: args.note.clone(),
        commit: std::env::current_dir().ok().and_then(|here| git_head::checked_out(&here)),
        targets: opened.targets.clone(),
        until: select(pipeline, &args.until)?,
        force: select(pipeline, &args.force)?,
        locked_outputs: lock::recorded_contents(&pipeline.file),
        overwrite: args.overwrite,
        ..Options::default()
    };
    let selected = options.selection(&opened.plan);
    user_files::require(project, &opened.plan, &selected)?;
    let in_full = selection.stages.is_empty() && args.until.is_empty() && args.pipeline.set.is_empty();
    let updates_lock = in_full && !args.locked;
    if updates_lock {
        lock::require_readable(&pipeline.file)?;
    }
    let stop = Stop::new();
    if !args.offline {
        options.remote = project.remote(Use::AsSet, &stop)?.map(Arc::new);
    }
    let Opened { plan, .. } = opened.fetch_data(project, &selected, args.offline)?;
    // Opened for writing only now: a run that is refused leaves no cache behind.
    let store = project.store()?;
    if args.locked {
        options.gate = Some(lock::hold_to(&plan, &store, &project.cache_dir)?);
    }
    if let Some(profile) = profile {
        let directory = std::env::current_dir()?;
        options.cluster =
            Some(Arc::new(Cluster::new(profile, directory, std::env::current_exe()?, &LIGHT, args.detach)));
    }
    let mut executor = LocalProcess::new(programs()?);
    if args.sandbox {
        executor = executor.observing_files(&options.project, OnUndeclared::Fail);
    }
    stop_on_signals(&stop)?;

    let live = args.serve.map(|port| serve(port, &plan, &selected)).transpose()?;
    let mut console = Console::new(style(project, args), project.verbosity, project.paint);
    let tables = table_stages(&plan);
    let commands = if args.sandbox { commands(&plan) } else { HashSet::new() };
    let mut first_table: Option<(usize, StageKey)> = None;
    let mut not_observed = 0;
    let mut listen = |event| {
        console.show(&event);
        if let Event::Hit { instance, key, .. } | Event::Done { instance, key, .. } = &event
            && let Some(&position) = tables.get(instance)
            && first_table.is_none_or(|(first, _)| position < first)
        {
            first_table = Some((position, *key));
        }
        if let Event::Hit { instance, .. } = &event
            && commands.contains(instance)
        {
            not_observed += 1;
        }
        if let Some(live) = &live {
            live.send(&event);
        }
    };
    let summary = runner::run(&plan, &store, &executor, &options, &stop, &mut listen)?;
    if let Some(live) = live {
        live.end();
    }
    let printed = console.printed();
    if not_observed > 0 {
        let stages = text::count(not_observed, "command");
        project.warn(&format!(
            "--sandbox did not observe {stages} whose result was in the cache; `--force STAGE` runs a stage again"
        ));
    }
    if summary.interrupted {
        return Ok(Exit::Interrupted);
    }
    if !args.json {
        show_claims(project, &plan, &store, &selected, options.targets.clone());
    }
    if summary.failed > 0 {
        return Ok(Exit::StageFailed);
    }
    if summary.detached > 0 {
        project.status(
            "jobs were left to the cluster: `pipe jobs` lists them, and the next run takes their results",
        );
        return Ok(Exit::Done);
    }
    if !summary.kept.is_empty() {
        return Ok(Exit::KeptFiles);
    }
    if updates_lock {
        lock::update(project, &plan, &store)?;
    }
    if let Some((_, key)) = first_table {
        show_answer(project, args, &store, key, &plan)?;
    }
    // The process ends now, and taking apart a plan with thousands of instances would take a tenth of a run without work.
    std::mem::forget(plan);
    printed
}

/// Returns the position of each `table` stage, by the name of the instance.
fn table_stages(plan: &Plan) -> HashMap<String, usize> {
    let tables = plan.pipeline().instances.iter().enumerate();
    let tables = tables.filter(|(_, instance)| instance.kind == TableStage::NAME);
    tables.map(|(position, instance)| (instance.id.to_string(), position)).collect()
}

/// Returns the names of the instances that are commands of the user.
fn commands(plan: &Plan) -> HashSet<String> {
    let instances = plan.pipeline().instances.iter();
    instances
        .filter(|instance| instance.program == Program::Command)
        .map(|instance| instance.id.to_string())
        .collect()
}

/// Ends a run on a terminal with its answer: the first rows of the first table, and where to look next.
fn show_answer(project: &Project, args: &RunArgs, store: &Store, key: StageKey, plan: &Plan) -> Outcome {
    if args.json || project.verbosity == Verbosity::Quiet || !std::io::stdout().is_terminal() {
        return Ok(Exit::Done);
    }
    if let Some(rows) = show_table::first_rows(store, key, project.paint_out)? {
        let file = plan.pipeline().file.display();
        // Without the variables of this run, its results would be those of another one.
        let is_varied = !args.pipeline.set.is_empty() || args.pipeline.run.is_some();
        let variables = if is_varied { " --run latest" } else { "" };
        print_text(&format!("\n{rows}\n"))?;
        project.status(&format!(
            "`pipe table {file}{variables}` shows whole tables,\n\
             `pipe report {file}{variables}` writes a page with everything"
        ));
    }
    Ok(Exit::Done)
}

/// Shows what the selected claims say, also if nothing was computed.
fn show_claims(
    project: &Project,
    plan: &Plan,
    store: &Store,
    selected: &[bool],
    targets: Option<Vec<InstanceIndex>>,
) {
    let instances = &plan.pipeline().instances;
    if !instances.iter().zip(selected).any(|(instance, selected)| *selected && claims::is_claim(instance)) {
        return;
    }
    let outlooks = runner::survey(plan, store, &Options { targets, ..Options::default() });
    let verdicts = instances
        .iter()
        .zip(&outlooks)
        .filter_map(|(instance, outlook)| claims::verdict(instance, manifest(outlook)?));
    let sentences = claims::sentences(store, verdicts, project.paint);
    if !sentences.is_empty() {
        project.status(sentences.trim_end());
    }
}

/// Serves the live page and prints its URL to standard error: it is status, not a result.
fn serve(port: u16, plan: &Plan, selected: &[bool]) -> Result<LiveServer, Failure> {
    let page = live::page(plan, selected);
    let live = LiveServer::start(port, &page).map_err(|error| {
        let hint = if port == 0 { "" } else { "; `--serve` without a port uses any free port" };
        Failure::bad_input(format!("cannot serve on port {port} of 127.0.0.1: {error}{hint}"))
    })?;
    print_status(&format!("watch it at {}", live.url()));
    Ok(live)
}

/// Fails if `--sandbox` is given and files cannot be observed on this machine.
pub(super) fn require_observation(args: &RunArgs) -> Result<(), Failure> {
    match args.sandbox.then(file_trace::unavailable).flatten() {
        None => Ok(()),
        Some(reason) => Err(Failure::bad_input(format!(
            "`--sandbox` cannot observe which files commands read on this machine: {reason}"
        ))),
    }
}

/// Returns how the programs that stages run in are found.
pub(super) fn programs() -> std::io::Result<Programs> {
    let pipe = std::env::current_exe()?;
    Ok(Programs { pipe, command: command::argv, needs_worker: judge::needs_worker })
}

/// Runs one built-in stage in a child process.
pub(super) fn worker(job: &Path) -> ExitCode {
    let judging = (judge::stage_runners::<WithoutNetworks>(), judge::job_runners::<WithoutNetworks>());
    harness::main(job, &[registry::light_runners(), &judging.0, &judging.1], &[])
}

pub(super) fn style(project: &Project, args: &RunArgs) -> Style {
    let live = std::io::stderr().is_terminal() && !args.no_progress && project.verbosity != Verbosity::Quiet;
    match (args.json, live) {
        (true, _) => Style::Json,
        (false, true) => Style::Live,
        (false, false) => Style::Lines,
    }
}

/// Requests a stop on SIGINT, SIGTERM and SIGHUP. The run checks the request.
pub(super) fn stop_on_signals(stop: &Stop) -> std::io::Result<()> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        let stop = stop.clone();
        // SAFETY: the handler only does one atomic update, which is allowed in a signal handler.
        unsafe { signal_hook::low_level::register(signal, move || stop.request()) }?;
    }
    Ok(())
}
