//! The arguments of the commands that write a pipeline and compute it, here or on a cluster.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::pipeline::{PipelineArgs, positive};

// The arguments of `pipe init`.
#[derive(Debug, Args)]
pub(in crate::cli) struct InitArgs {
    /// The file to write [default: pipelines/NAME.yaml, where NAME comes from the data or is `example` or `paper`].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Inspect these files and write a pipeline for them: CSV, JSON lines, LIBSVM, XMC, ARFF or NumPy. A role says what a file
    /// contains, if its name does not: `train=a.csv test=b.csv`, `rows=x.npy labels=y.npy`, `rows=notes.csv labels=codes.csv`.
    #[arg(long, num_args = 1.., value_name = "[ROLE=]FILE")]
    pub data: Vec<String>,
    /// The column of the text [default: found by its name and content].
    #[arg(long, value_name = "COLUMN", requires = "data")]
    pub text: Option<String>,
    /// The column of the labels [default: found by its name and content].
    #[arg(long, value_name = "COLUMN", requires = "data")]
    pub labels: Option<String>,
    /// What separates the labels of a row [default: found by trying].
    #[arg(long, value_name = "TEXT", requires = "data")]
    pub separator: Option<String>,
    /// The column of both files by which texts and labels in two CSV files are joined [default: the only common one].
    #[arg(long, value_name = "COLUMN", requires = "data")]
    pub join: Option<String>,
    /// Write the paper's grid instead of the recipe; without `--data`, on a small public data set.
    #[arg(long)]
    pub paper: bool,
    /// Write an example whose stages are shell commands (the default without `--data`).
    #[arg(long, conflicts_with_all = ["data", "paper"])]
    pub command: bool,
    /// Write the quickstart, which generates its data and shows the paper's method and our recipe in half a minute.
    #[arg(long, conflicts_with_all = ["data", "paper", "command"])]
    pub quickstart: bool,
}

// The arguments of `pipe run`.
#[derive(Debug, Args)]
pub(in crate::cli) struct RunArgs {
    /// The pipeline file [default: the one run last here].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Run only these stages and what they need: `train`, `train[adaptive]`, `eval[*]`.
    #[arg(value_name = "STAGE")]
    pub targets: Vec<String>,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// Run at most this many stages at once [default: the number of processors].
    #[arg(short, long, value_name = "N", value_parser = positive)]
    pub jobs: Option<usize>,
    /// After a failure, continue with the stages that do not depend on it.
    #[arg(short, long)]
    pub keep_going: bool,
    /// Run everything except the stages that depend on this one.
    #[arg(long, value_name = "STAGE")]
    pub until: Vec<String>,
    /// Compute this stage again even if it is cached.
    #[arg(long, value_name = "STAGE")]
    pub force: Vec<String>,
    /// Do not download anything; every data set must be in the data directory.
    #[arg(long)]
    pub offline: bool,
    /// Replace generated files even if they were edited by hand.
    #[arg(long)]
    pub overwrite: bool,
    /// Compute the named stages without recording anything: no result in the cache, no placed file, no lock, no log of a run.
    /// Prints their metrics and where their outputs are.
    #[arg(long = "try", conflicts_with_all = ["until", "force", "overwrite", "locked", "note", "engine", "detach", "serve"])]
    pub try_out: bool,
    /// Print plain lines instead of progress bars.
    #[arg(long)]
    pub no_progress: bool,
    /// Fail if the run would change the lock, or if a result differs from it.
    #[arg(long)]
    pub locked: bool,
    /// Observe which files commands read, and fail a stage that reads a file which it does not declare as an input.
    #[arg(long)]
    pub sandbox: bool,
    /// Write this about the run into its log; `pipe runs` shows it.
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// Print one JSON event per line to standard output.
    #[arg(long)]
    pub json: bool,
    /// Run stages on a cluster: `slurm`, or the name of a profile in `engines/`; `local` is this machine [env: PIPE_ENGINE].
    #[arg(long, value_name = "NAME")]
    pub engine: Option<String>,
    /// With --engine: submit what is ready and leave; the next run takes the results and continues.
    #[arg(long)]
    pub detach: bool,
    /// Show the run on a web page for a browser on this machine, on any free port or on `--serve=PORT`.
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    pub serve: Option<u16>,
}

// The arguments of `pipe shell`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(in crate::cli) struct ShellArgs {
    /// The pipeline file [default: the one run last here].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// The stage: `train`, or one instance, `train[adaptive,seed=1]`.
    pub stage: String,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
}

// The arguments of `pipe jobs`.
#[derive(Debug, Args)]
pub(in crate::cli) struct JobsArgs {
    /// Only the jobs of this engine.
    #[arg(long, value_name = "NAME")]
    pub engine: Option<String>,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

// The arguments of `pipe cancel`.
#[derive(Debug, Args)]
pub(in crate::cli) struct CancelArgs {
    /// Only the jobs of these stages or instances, or with these ids.
    #[arg(value_name = "STAGE")]
    pub stages: Vec<String>,
    /// Only the jobs of this engine.
    #[arg(long, value_name = "NAME")]
    pub engine: Option<String>,
}

// The arguments of `pipe torch`.
#[derive(Debug, Args)]
pub(in crate::cli) struct TorchArgs {
    #[command(subcommand)]
    pub command: Option<TorchCommand>,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum TorchCommand {
    /// Download libtorch from the package index that pip uses into the cache of the user, with `python3` and pip.
    Fetch {
        /// Take the libtorch for NVIDIA GPUs (several GB) instead of the one for processors (540 MB).
        #[arg(long)]
        cuda: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum EngineCommand {
    /// Write a profile to start from, `engines/NAME.yaml`; for Slurm with the partitions that `sinfo` lists.
    Init {
        /// `slurm`, or `template` for another scheduler.
        name: String,
    },
}
