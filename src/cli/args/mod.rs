//! The command line, as clap reads it: every doc comment here is a help text.

mod command;
mod compute;
mod inspect;
mod model;
mod pipeline;
mod reproduce;
mod results;
mod storage;

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum, ValueHint};

pub(super) use command::*;
pub(super) use compute::*;
pub(super) use inspect::*;
pub(super) use model::*;
pub(super) use pipeline::*;
pub(super) use reproduce::*;
pub(super) use results::*;
pub(super) use storage::*;

/// Declarative, content-hashed experiment pipelines for multi-label classification.
///
/// A YAML file describes a graph of stages. `pipe run` computes only the stages whose code, parameters or inputs changed.
#[derive(Debug, Parser)]
#[command(name = "pipe", disable_version_flag = true, arg_required_else_help = true, max_term_width = 100)]
pub(super) struct Cli {
    #[command(flatten)]
    pub global: Global,
    /// Print the versions of `pipe` and `pipe-worker`.
    #[arg(short = 'V', long)]
    pub version: bool,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The heading of the options that every command has.
const EVERYWHERE: &str = "Options of every command";

// `Project` reads the environment variables: clap would show their values in usage lines as if they had been typed.
#[derive(Debug, Args)]
pub(super) struct Global {
    /// Work as if started in this directory, which is then the project directory [default: the nearest directory, from the
    /// current one upwards, that has pipelines].
    #[arg(short = 'C', long, global = true, help_heading = EVERYWHERE, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: Option<PathBuf>,
    /// Directory of the cache [default: cache] [env: PIPE_CACHE].
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cache_dir: Option<PathBuf>,
    /// Directory of the data sets [default: data] [env: PIPE_DATA_DIR].
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,
    /// Whether to use colour; `auto` uses it on a terminal unless NO_COLOR is set.
    #[arg(long, global = true, help_heading = EVERYWHERE, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorChoice,
    /// Print only errors and warnings as status.
    #[arg(short, long, global = true, help_heading = EVERYWHERE, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print more status: every cached stage, every log line.
    #[arg(short, long, global = true, help_heading = EVERYWHERE)]
    pub verbose: bool,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ColorChoice {
    #[default]
    Auto,
    Always,
    Never,
}
