//! The commands, and what all of them have in common: which paths they take, and whether they only read.

use std::path::PathBuf;

use clap::{Subcommand, ValueHint};

use super::compute::{CancelArgs, EngineCommand, InitArgs, JobsArgs, RunArgs, ShellArgs, TorchArgs};
use super::inspect::{GetArgs, GraphArgs, LogsArgs, PlanArgs, ShowArgs, StageArgs, StatusArgs};
use super::model::{ExplainArgs, ModelArgs, ModelCommand, ModelExportArgs, PredictArgs, ServeArgs};
use super::pipeline::PipelineArgs;
use super::reproduce::{ExportArgs, ImportArgs, LockArgs, ProvenanceArgs, VerifyArgs};
use super::results::{DiffArgs, LabelsArgs, ReportArgs, RunsArgs, TableArgs};
use super::storage::{CacheCommand, DataCommand, KeyCommand};
use crate::cli::pipeline_selection::is_file;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Bring a pipeline, or some of its stages, up to date.
    Run(RunArgs),
    /// Show what would run, and why.
    Plan(PlanArgs),
    /// Show why a stage would run: the old and the new value of everything that changed.
    Why(StageArgs),
    /// Open a shell where a stage would run, with its inputs; nothing is recorded.
    Shell(ShellArgs),
    /// Record the results of a pipeline in a lock file, to be committed with it.
    Lock(LockArgs),
    /// Check whether published results still follow from code, parameters and data.
    Verify(VerifyArgs),
    /// Pack a pipeline, its lock and its results into one file for another machine.
    Export(ExportArgs),
    /// Unpack a bundle that `pipe export` wrote.
    Import(ImportArgs),
    /// Describe how the results were computed, in a format that other tools read.
    Provenance(ProvenanceArgs),
    /// Draw the graph of stages.
    Graph(GraphArgs),
    /// List the stages: whether each is fresh, when it was computed, how long it took.
    Status(StatusArgs),
    /// Show everything about a stage: parameters, inputs, outputs, metrics.
    Show(ShowArgs),
    /// Print the finished table of a `table` stage.
    Table(TableArgs),
    /// Print precision, recall and F1 of every label.
    Labels(LabelsArgs),
    /// Print what a stage wrote to standard output and standard error.
    Logs(LogsArgs),
    /// Copy or print one output of a stage.
    Get(GetArgs),
    /// Say which stage, run and commit a file comes from, and what it depends on.
    Whence {
        /// A file that `pipe` placed, or a copy of one.
        #[arg(value_hint = ValueHint::AnyPath)]
        file: PathBuf,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write everything about a pipeline as one self-contained HTML page.
    Report(ReportArgs),
    /// List past runs, newest first, or show one.
    Runs(RunsArgs),
    /// Compare two runs or two locks: parameters, metrics, outputs.
    Diff(DiffArgs),
    /// Predict the labels of new rows with a model.
    Predict(PredictArgs),
    /// Explain a model's decisions about one row.
    Explain(ExplainArgs),
    /// Serve a model over HTTP.
    Serve(ServeArgs),
    /// List the jobs that runs have left on a cluster.
    Jobs(JobsArgs),
    /// End jobs on a cluster: all of them, or those of some stages.
    Cancel(CancelArgs),
    /// Set up a cluster.
    #[command(subcommand)]
    Engine(EngineCommand),
    /// Inspect, clean, check and share the cache.
    #[command(subcommand)]
    Cache(CacheCommand),
    /// Create and show the keys that sign the results that you share.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Find, describe and download data sets.
    #[command(subcommand)]
    Data(DataCommand),
    /// Copy a model for use outside of the project.
    #[command(subcommand)]
    Model(ModelCommand),
    /// List the metrics of an evaluation, with their definitions.
    Metrics {
        /// Only metrics with this name, or with this in their name.
        name: Option<String>,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show which libtorch is used, and why that one; or download one.
    Torch(TorchArgs),
    /// Print the JSON Schema of pipeline files, for editors.
    Schema {
        /// Write it to the place that the comment `# yaml-language-server: $schema=PATH` of the pipelines names.
        #[arg(long)]
        write: bool,
        /// Write only the schema that this pipeline names [default: those that the pipelines in `pipelines` name].
        #[arg(requires = "write", value_hint = ValueHint::FilePath)]
        file: Option<PathBuf>,
    },
    /// Write a pipeline: for your own data, with the paper's grid, or as an example.
    Init(InitArgs),
    /// Print a completion script for your shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the man pages.
    Man {
        /// The directory to write to, such as `~/.local/share/man/man1`.
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        to: PathBuf,
    },
    /// Run one job file (internal).
    #[command(hide = true)]
    Worker { job: PathBuf },
    /// Carry out the job of a cluster in this directory (internal).
    #[command(hide = true)]
    Job { directory: PathBuf },
}

impl Command {
    /// Returns every path that the user may have typed. A word that can also be a stage, such as `FILE` in
    /// `[FILE] [STAGE]`, is a path if it looks like one or exists.
    pub(in crate::cli) fn typed_paths(&mut self) -> Vec<&mut PathBuf> {
        let mut paths = Vec::new();
        match self {
            Self::Run(RunArgs { file, pipeline, .. })
            | Self::Plan(PlanArgs { file, pipeline, .. })
            | Self::Why(StageArgs { file, pipeline, .. })
            | Self::Shell(ShellArgs { file, pipeline, .. })
            | Self::Show(ShowArgs { file, pipeline, .. })
            | Self::Status(StatusArgs { file, pipeline, .. })
            | Self::Table(TableArgs { file, pipeline, .. })
            | Self::Logs(LogsArgs { file, pipeline, .. })
            | Self::Labels(LabelsArgs { file, pipeline, .. })
            | Self::Graph(GraphArgs { file, pipeline, .. }) => {
                paths.extend(file.as_mut().filter(|file| is_file(file)));
                paths.extend(&mut pipeline.named);
            }
            Self::Get(GetArgs { file, pipeline, to: output, .. })
            | Self::Report(ReportArgs { file, pipeline, output, .. }) => {
                paths.extend(file.as_mut().filter(|file| is_file(file)));
                paths.extend(&mut pipeline.named);
                paths.extend(output);
            }
            Self::Lock(LockArgs { file, named, merge, .. }) => {
                paths.extend(file.as_mut().filter(|file| is_file(file)));
                paths.extend(named);
                paths.extend(merge.iter_mut().flatten());
            }
            Self::Verify(VerifyArgs { file, scratch, junit, .. }) => {
                paths.extend(file.typed());
                paths.extend(scratch.iter_mut().chain(junit));
            }
            Self::Export(ExportArgs { file, output, .. }) => paths.extend(file.typed().chain([output])),
            Self::Provenance(ProvenanceArgs { file, ro_crate, .. }) => {
                paths.extend(file.typed().chain([ro_crate]));
            }
            Self::Import(ImportArgs { bundle: file, .. })
            | Self::Whence { file, .. }
            | Self::Man { to: file } => paths.push(file),
            Self::Predict(PredictArgs { model, input, output, .. }) => {
                paths.extend(model.source.typed_paths());
                paths.push(input);
                paths.extend(output);
            }
            Self::Explain(ExplainArgs { model, input, .. }) => {
                paths.extend(model.source.typed_paths());
                paths.extend(input);
            }
            Self::Serve(ServeArgs { source, token_file, .. }) => {
                paths.extend(source.typed_paths());
                paths.extend(token_file);
            }
            Self::Model(ModelCommand::Export(ModelExportArgs { to, pipeline, .. })) => {
                paths.push(to);
                paths.extend(&mut pipeline.named);
            }
            Self::Diff(DiffArgs { html, .. }) => paths.extend(html),
            Self::Init(InitArgs { file, .. }) | Self::Schema { file, .. } => paths.extend(file),
            Self::Cache(CacheCommand::Push { file, .. } | CacheCommand::Pull { file, .. }) => {
                paths.extend(file);
            }
            Self::Cache(_)
            | Self::Key(_)
            | Self::Data(_)
            | Self::Runs(_)
            | Self::Jobs(_)
            | Self::Cancel(_)
            | Self::Engine(_)
            | Self::Job { .. }
            | Self::Metrics { .. }
            | Self::Torch(_)
            | Self::Completions { .. }
            | Self::Worker { .. } => {}
        }
        paths
    }

    /// Returns the words that may be a path or a name: a model, a data set, a side of a comparison.
    pub(in crate::cli) fn typed_words(&mut self) -> Vec<&mut String> {
        match self {
            Self::Predict(PredictArgs { model: ModelArgs { source, .. }, .. })
            | Self::Explain(ExplainArgs { model: ModelArgs { source, .. }, .. })
            | Self::Serve(ServeArgs { source, .. }) => vec![&mut source.model],
            Self::Data(DataCommand::Info { dataset, .. }) => vec![dataset],
            Self::Diff(DiffArgs { old, new, .. }) => vec![old, new],
            _ => Vec::new(),
        }
    }

    /// Returns whether the command shows what is in the cache and never creates one.
    pub(in crate::cli) fn only_reads_the_cache(&self) -> bool {
        match self {
            Self::Lock(_)
            | Self::Export(_)
            | Self::Provenance(_)
            | Self::Plan(_)
            | Self::Why(_)
            | Self::Status(_)
            | Self::Show(_)
            | Self::Logs(_)
            | Self::Table(_)
            | Self::Labels(_)
            | Self::Get(_)
            | Self::Whence { .. }
            | Self::Report(_)
            | Self::Runs(_)
            | Self::Predict(_)
            | Self::Explain(_)
            | Self::Serve(_)
            | Self::Diff(_)
            | Self::Model(_)
            | Self::Cache(
                CacheCommand::Du { .. }
                | CacheCommand::Ls { .. }
                | CacheCommand::Gc { .. }
                | CacheCommand::Fsck { .. },
            ) => true,
            Self::Verify(VerifyArgs { cache, .. }) => *cache,
            _ => false,
        }
    }

    /// Returns the options that choose a pipeline, and the word that may be its file.
    pub(in crate::cli) fn pipeline(&mut self) -> Option<(Option<&PathBuf>, &mut PipelineArgs)> {
        match self {
            Self::Run(RunArgs { file, pipeline, .. })
            | Self::Shell(ShellArgs { file, pipeline, .. })
            | Self::Plan(PlanArgs { file, pipeline, .. })
            | Self::Why(StageArgs { file, pipeline, .. })
            | Self::Show(ShowArgs { file, pipeline, .. })
            | Self::Status(StatusArgs { file, pipeline, .. })
            | Self::Table(TableArgs { file, pipeline, .. })
            | Self::Logs(LogsArgs { file, pipeline, .. })
            | Self::Labels(LabelsArgs { file, pipeline, .. })
            | Self::Graph(GraphArgs { file, pipeline, .. })
            | Self::Get(GetArgs { file, pipeline, .. })
            | Self::Report(ReportArgs { file, pipeline, .. }) => Some((file.as_ref(), pipeline)),
            Self::Predict(PredictArgs { model: ModelArgs { source, .. }, .. })
            | Self::Explain(ExplainArgs { model: ModelArgs { source, .. }, .. })
            | Self::Serve(ServeArgs { source, .. }) => Some((None, &mut source.pipeline)),
            Self::Model(ModelCommand::Export(ModelExportArgs { pipeline, .. })) => Some((None, pipeline)),
            _ => None,
        }
    }

    /// Returns where to put the default if this command needs a pipeline file and none was typed.
    pub(in crate::cli) fn default_file(&mut self) -> Option<&mut Option<PathBuf>> {
        match self {
            Self::Verify(VerifyArgs { file, .. })
            | Self::Export(ExportArgs { file, .. })
            | Self::Provenance(ProvenanceArgs { file, .. }) => {
                (file.file.is_none() && file.named.is_none()).then_some(&mut file.file)
            }
            Self::Lock(LockArgs { file, named, merge, .. }) => {
                (file.is_none() && named.is_none() && merge.is_none()).then_some(file)
            }
            _ => None,
        }
    }
}
