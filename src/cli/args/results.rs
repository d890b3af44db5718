//! The arguments of the commands that print and compare results.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use super::pipeline::{PipelineArgs, positive};

// The arguments of `pipe table`.
#[derive(Debug, Args)]
pub(in crate::cli) struct TableArgs {
    /// The pipeline file [default: the one run last here].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// The stage [default: every `table` stage].
    pub stage: Option<String>,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// The format: a table for the terminal, or one of the files that the stage wrote.
    #[arg(long, value_enum, default_value_t)]
    pub format: TableFormat,
}

/// The formats of tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum TableFormat {
    #[default]
    Text,
    Md,
    Tex,
    Csv,
    Json,
    Macros,
}

// The arguments of `pipe labels`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(in crate::cli) struct LabelsArgs {
    /// The pipeline file [default: the one run last here].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// An `evaluate` stage: `eval[macro]`.
    pub stage: String,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// Show only the K labels with the most training rows.
    #[arg(long, value_name = "K", value_parser = positive)]
    pub top: Option<usize>,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

// The arguments of `pipe report`.
#[derive(Debug, Args)]
pub(in crate::cli) struct ReportArgs {
    /// The pipeline file [default: the one run last here].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// The file to write; `-` is standard output [default: results/NAME.html].
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

// The arguments of `pipe runs`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct RunsArgs {
    #[command(subcommand)]
    pub command: Option<RunsCommand>,
    /// List at most this many runs.
    #[arg(short = 'n', long, default_value_t = 20, value_name = "N")]
    pub limit: usize,
    /// Show the best value of this metric among the stages of each run, such as `macro_f1`.
    #[arg(short, long, value_name = "NAME")]
    pub metric: Vec<String>,
    /// Sort by the first metric, best run first, instead of by time.
    #[arg(long, requires = "metric")]
    pub sort: bool,
    /// Print the list as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum RunsCommand {
    /// Show what happened to every stage in one run.
    Show {
        /// The run: its id, the beginning of its id, `latest`, or `latest~1` for the one before.
        #[arg(default_value = "latest")]
        run: String,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
}

// The arguments of `pipe diff`.
#[derive(Debug, Args)]
pub(in crate::cli) struct DiffArgs {
    /// The old side: a run (`latest~1` or the beginning of an id), a lock file, or a lock in git (`HEAD~1:pipelines/x.lock`).
    #[arg(default_value = "latest~1")]
    pub old: String,
    /// The new side.
    #[arg(default_value = "latest")]
    pub new: String,
    /// Show only the changes of this metric, such as `macro_f1`, in results and in the cells of tables.
    #[arg(short, long, value_name = "NAME", conflicts_with = "volatile")]
    pub metric: Vec<String>,
    /// Also compare outputs that always differ, such as timings.
    #[arg(long)]
    pub volatile: bool,
    /// Print the differences as JSON.
    #[arg(long)]
    pub json: bool,
    /// Write an HTML page, with figures side by side, to this file; `-` is standard output.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "json")]
    pub html: Option<PathBuf>,
}
