//! The command line: the only layer that prints, and the place where the layers are wired together.
//!
//! Status goes to standard error, results go to standard output.

mod args;
mod bundle;
mod cache;
mod claims;
mod completion;
mod console;
mod data;
mod data_files;
mod diff;
mod engine;
mod exit;
mod exported_model;
mod get;
mod git_head;
mod graph;
mod help;
mod history;
mod init;
mod inspect_commands;
mod jobs;
mod key;
mod labels;
mod live;
mod lock;
mod loopback;
mod metrics;
mod model_card;
mod pipeline_selection;
mod predict;
mod prediction_rows;
mod project;
mod project_dir;
mod provenance;
mod remote;
mod report;
mod run;
mod runs;
mod sandbox;
mod schema;
mod serve;
mod settings;
mod shell;
mod show_table;
mod snapshot;
mod standard_streams;
mod survey;
mod table;
mod text;
mod torch;
mod try_out;
mod user_files;
mod variant_files;
mod verify;
mod version;
mod whence;
mod witness;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::FromArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use args::{Cli, Command};
use exit::{Exit, Failure, Outcome};
use pipe_core::suggest;
use project::Project;
use standard_streams::{outcome, print_json, print_status, print_text, write_result};

/// Runs the program: reads the command line, runs one command, prints its error.
pub(crate) fn main() -> ExitCode {
    completion::answer_request();
    let read = help::command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match read {
        Ok(cli) => cli,
        Err(error) => return report_usage_error(error),
    };
    if let Some(Command::Worker { job }) = &cli.command {
        return run::worker(job);
    }
    if let Some(Command::Job { directory }) = &cli.command {
        return jobs::job(directory);
    }
    match dispatch(cli) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if wants_json() {
                let _ = print_text(&format!("{}\n", failure.json()));
            }
            report_failure(&failure)
        }
    }
}

/// Prints the error that ends the program, and returns its exit code.
fn report_failure(failure: &Failure) -> ExitCode {
    let heading = if failure.headed { "" } else { "error: " };
    print_status(&format!("{heading}{}", failure.text.trim_end()));
    failure.exit.into()
}

/// Reports a command-line error; `--help` exits with 0 if it could be printed.
fn report_usage_error(mut error: clap::Error) -> ExitCode {
    suggest_command(&mut error);
    let printed = error.print().and_then(|()| std::io::stdout().flush());
    if !error.use_stderr() {
        return outcome(printed).map_or_else(|failure| report_failure(&failure), ExitCode::from);
    }
    if error.kind() == ErrorKind::MissingRequiredArgument && !Path::new("pipelines").exists() {
        print_status(
            "\nThere is no directory `pipelines` here. `pipe init` writes a pipeline to start from.",
        );
    }
    if wants_json() {
        let text = error.render().to_string();
        let message = text.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
        let _ = print_text(&format!("{}\n", Failure::bad_input(message).json()));
    }
    Exit::BadInput.into()
}

/// Replaces clap's suggestion for a mistyped command by ours, which knows swapped letters: `rnu` is `run`, not `runs`.
fn suggest_command(error: &mut clap::Error) {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let command = help::command();
    let names =
        command.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
    if let Some(name) = suggest::closest(typed, names) {
        let name = ContextValue::Strings(vec![name.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, name);
    }
}

/// Returns whether `--json` was given. Reads the raw arguments, because clap may have refused them.
fn wants_json() -> bool {
    std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json")
}

/// Runs the command that was given.
fn dispatch(cli: Cli) -> Outcome {
    if cli.version {
        return version::version();
    }
    let Some(mut command) = cli.command else {
        return Err(Failure::bad_input("no command was given; `pipe --help` lists the commands"));
    };
    let project = Project::enter(cli.global, &mut command)?;
    match &command {
        Command::Run(args) if args.try_out => try_out::try_out(&project, args),
        Command::Run(args) => run::run(&project, args),
        Command::Shell(args) => shell::shell(&project, args),
        Command::Lock(args) => lock::lock(&project, args),
        Command::Verify(args) => verify::verify(&project, args),
        Command::Export(args) => bundle::export(&project, args),
        Command::Import(args) => bundle::import(&project, args),
        Command::Provenance(args) => provenance::provenance(&project, args),
        Command::Plan(args) => inspect_commands::plan(&project, args),
        Command::Why(args) => inspect_commands::why(&project, args),
        Command::Status(args) => inspect_commands::status(&project, args),
        Command::Show(args) => inspect_commands::show(&project, args),
        Command::Logs(args) => inspect_commands::logs(&project, args),
        Command::Table(args) => show_table::table(&project, args),
        Command::Labels(args) => labels::labels(&project, args),
        Command::Get(args) => get::get(&project, args),
        Command::Whence { file, json } => whence::whence(&project, file, *json),
        Command::Graph(args) => graph::graph(&project, args),
        Command::Report(args) => report::report(&project, args),
        Command::Runs(args) => runs::runs(&project, args),
        Command::Diff(args) => diff::diff(&project, args),
        Command::Jobs(args) => jobs::jobs(&project, args),
        Command::Cancel(args) => jobs::cancel(&project, args),
        Command::Engine(command) => engine::engine(command),
        Command::Cache(command) => cache::cache(&project, command),
        Command::Key(command) => key::key(&project, command),
        Command::Data(command) => data::data(&project, command),
        Command::Predict(args) => predict::predict(&project, args),
        Command::Explain(args) => predict::explain(&project, args),
        Command::Serve(args) => serve::serve(&project, args),
        Command::Model(command) => exported_model::model(&project, command),
        Command::Metrics { name, json } => metrics::metrics(name.as_deref(), *json),
        Command::Torch(args) => torch::torch(&project, args),
        Command::Schema { write, file } => schema::schema(*write, file.as_deref()),
        Command::Init(args) => init::init(args),
        Command::Completions { shell } => completion::script(*shell),
        Command::Man { to } => completion::man(to),
        Command::Worker { job: path } | Command::Job { directory: path } => {
            unreachable!("{}: main runs jobs", path.display())
        }
    }
}
