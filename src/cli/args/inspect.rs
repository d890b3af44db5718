//! The arguments of the commands that show the stages of a pipeline.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::pipeline::PipelineArgs;

// The arguments of `pipe plan`.
#[derive(Debug, Args)]
pub(in crate::cli) struct PlanArgs {
    /// The pipeline file [default: the one run last here].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Show only these stages and what they need.
    #[arg(value_name = "STAGE")]
    pub targets: Vec<String>,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// Exit with 10 if anything would run.
    #[arg(long)]
    pub check: bool,
    /// Print the state of every instance as JSON.
    #[arg(long)]
    pub json: bool,
}

// The arguments of `pipe status`.
#[derive(Debug, Args)]
pub(in crate::cli) struct StatusArgs {
    /// The pipeline file [default: the one run last here].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// Print every instance as JSON.
    #[arg(long)]
    pub json: bool,
}

// The arguments of `pipe show`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(in crate::cli) struct ShowArgs {
    /// The pipeline file [default: the one run last here].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// The stage: `train`, or one instance, `train[adaptive,seed=1]`.
    #[arg(required_unless_present = "part")]
    pub stage: Option<String>,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
    /// Print a built-in part, which pipelines use with `extends: builtin/NAME`.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["file", "stage", "named", "set", "run", "json"])]
    pub part: Option<String>,
}

// The arguments of `pipe why`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(in crate::cli) struct StageArgs {
    /// The pipeline file [default: the one run last here].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// The stage: `train`, or one instance, `train[adaptive,seed=1]`.
    pub stage: String,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

// The arguments of `pipe logs`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(in crate::cli) struct LogsArgs {
    /// The pipeline file [default: the one run last here].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// The stage: `train`, or one instance, `train[adaptive,seed=1]`.
    pub stage: String,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// Print only standard error.
    #[arg(long)]
    pub stderr: bool,
}

// The arguments of `pipe get`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(in crate::cli) struct GetArgs {
    /// The pipeline file [default: the one run last here].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// The stage, and one of its outputs if it has several: `train[adaptive,seed=1].model`.
    #[arg(value_name = "STAGE[.OUTPUT]")]
    pub what: String,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// Copy the output to this file or into this directory; `-` is standard output [default: -].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub to: Option<PathBuf>,
    /// Replace the file or directory if it exists and differs.
    #[arg(long)]
    pub overwrite: bool,
}

// The arguments of `pipe graph`.
#[derive(Debug, Args)]
pub(in crate::cli) struct GraphArgs {
    /// The pipeline file [default: the one run last here].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// The format: a tree for the terminal, or the input of a drawing program.
    #[arg(long, value_enum, default_value_t)]
    pub format: GraphFormat,
    /// Draw one node per instance instead of one per stage.
    #[arg(long)]
    pub instances: bool,
}

/// The formats of graphs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum GraphFormat {
    #[default]
    Tree,
    Mermaid,
    Dot,
}
