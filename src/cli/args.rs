//! The command line, as clap reads it: every doc comment here is a help text.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

use super::pipeline_selection::is_file;

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

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Bring a pipeline, or some of its stages, up to date.
    Run(RunArgs),
    /// Show what would run, and why.
    Plan(PlanArgs),
    /// Show why a stage would run: the old and the new value of everything that changed.
    Why(StageArgs),
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
    /// Print the JSON Schema of pipeline files, for editors.
    Schema,
    /// Write a pipeline: for your own data, with the paper's grid, or as an example.
    Init(InitArgs),
    /// Print a completion script for your shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
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
    pub(super) fn typed_paths(&mut self) -> Vec<&mut PathBuf> {
        let mut paths = Vec::new();
        match self {
            Self::Run(RunArgs { file, pipeline, .. })
            | Self::Plan(PlanArgs { file, pipeline, .. })
            | Self::Why(StageArgs { file, pipeline, .. })
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
            Self::Import(ImportArgs { bundle: file, .. }) | Self::Whence { file, .. } => paths.push(file),
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
            Self::Init(InitArgs { file, .. }) => paths.extend(file),
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
            | Self::Schema
            | Self::Completions { .. }
            | Self::Worker { .. } => {}
        }
        paths
    }

    /// Returns the words that may be a path or a name: a model, a data set, a side of a comparison.
    pub(super) fn typed_words(&mut self) -> Vec<&mut String> {
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
    pub(super) fn only_reads_the_cache(&self) -> bool {
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

    /// Returns where to put the default if this command needs a pipeline file and none was typed.
    pub(super) fn default_file(&mut self) -> Option<&mut Option<PathBuf>> {
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

/// The options that choose a pipeline and set its variables.
#[derive(Debug, Args)]
pub(super) struct PipelineArgs {
    /// The pipeline file, at any position [default: the one run last here].
    #[arg(short = 'f', long = "file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub named: Option<PathBuf>,
    /// Set a variable, e.g. `--set vars.epochs=3`.
    #[arg(long = "set", value_name = "VARS.NAME=VALUE")]
    pub set: Vec<String>,
}

/// The pipeline file of a command that concerns a whole pipeline: an argument, or `--file`.
#[derive(Debug, Args)]
pub(super) struct TheFile {
    /// The pipeline file [default: the one run last here].
    #[arg(value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// The pipeline file, at any position.
    #[arg(short = 'f', long = "file", value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "file")]
    named: Option<PathBuf>,
}

impl TheFile {
    fn typed(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.file.iter_mut().chain(&mut self.named)
    }
}

impl Deref for TheFile {
    type Target = Path;

    fn deref(&self) -> &Path {
        let file = self.file.as_deref().or(self.named.as_deref());
        file.unwrap_or_else(|| unreachable!("`Command::default_file` has set it"))
    }
}

// The arguments of `pipe run`.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
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

// The arguments of `pipe lock`.
#[derive(Debug, Args)]
pub(super) struct LockArgs {
    /// The pipeline file [default: the one run last here].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// The pipeline file, at any position.
    #[arg(short = 'f', long = "file", value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "file")]
    pub named: Option<PathBuf>,
    /// Replace a lock that differs from the results in the cache.
    #[arg(long)]
    pub rebuild: bool,
    /// Record next to the lock that this machine computed the same results; `pipe verify` counts the kinds of machines.
    #[arg(long)]
    pub witness: bool,
    /// Merge THEIRS into OURS, as a git merge driver.
    #[arg(long, num_args = 3, value_names = ["BASE", "OURS", "THEIRS"], conflicts_with_all = ["file", "named", "rebuild", "witness"])]
    pub merge: Option<Vec<PathBuf>>,
}

// The arguments of `pipe verify`.
#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    pub file: TheFile,
    /// Compare the pipeline, the files that it reads and the placed files with the lock (the default).
    #[arg(long)]
    pub lock: bool,
    /// Read and hash every result in the cache that the lock names.
    #[arg(long)]
    pub cache: bool,
    /// Compute again and compare with the lock: all stages, or these; `sample=K` and `budget=20m` limit them.
    #[arg(long, num_args = 0.., value_name = "WHAT")]
    pub rerun: Option<Vec<String>>,
    /// Compute all stages, or these, twice under different conditions, and compare; find inputs that are not declared.
    #[arg(long, num_args = 0.., value_name = "STAGE")]
    pub twice: Option<Vec<String>>,
    /// Compare what different writers stored on the remote for the stages of the lock.
    #[arg(long)]
    pub remote: bool,
    /// Report missing files as drift: placed files, published copies, and files that a stage reads.
    #[arg(long)]
    pub strict: bool,
    /// Accept that placed files, and files that a stage reads, are missing.
    #[arg(long, conflicts_with = "strict")]
    pub allow_missing: bool,
    /// Directory for results that are computed again [default: a new one in the cache directory].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub scratch: Option<PathBuf>,
    /// Run at most this many stages at once [default: the number of processors].
    #[arg(short, long, value_name = "N", value_parser = positive)]
    pub jobs: Option<usize>,
    /// Also write the checks as JUnit XML.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub junit: Option<PathBuf>,
    /// Print the checks as JSON.
    #[arg(long)]
    pub json: bool,
}

// The arguments of `pipe export`.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    pub file: TheFile,
    /// The file to write: `bundle.tar.zst`.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Pack only the results of these stages; of the others, only the digests.
    #[arg(long, num_args = 1.., value_name = "STAGE")]
    pub with: Vec<String>,
}

// The arguments of `pipe import`.
#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The bundle that `pipe export` wrote.
    #[arg(value_hint = ValueHint::FilePath)]
    pub bundle: PathBuf,
    /// Replace project files that differ.
    #[arg(long)]
    pub overwrite: bool,
}

// The arguments of `pipe provenance`.
#[derive(Debug, Args)]
pub(super) struct ProvenanceArgs {
    #[command(flatten)]
    pub file: TheFile,
    /// Write a Workflow Run RO-Crate: a new directory, or a file that ends in `.zip`.
    #[arg(long, value_name = "DIR|ZIP", value_hint = ValueHint::AnyPath)]
    pub ro_crate: PathBuf,
    /// The person who ran it, as a URI: `https://orcid.org/0000-0000-0000-0000`.
    #[arg(long, value_name = "URI", requires = "agent_name")]
    pub agent: Option<String>,
    /// The name of the person who ran it.
    #[arg(long, value_name = "NAME", requires = "agent")]
    pub agent_name: Option<String>,
    /// The licence of the crate's content, as a URI.
    #[arg(long, value_name = "URI")]
    pub license: Option<String>,
}

// The arguments of `pipe plan`.
#[derive(Debug, Args)]
pub(super) struct PlanArgs {
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
pub(super) struct StatusArgs {
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
pub(super) struct ShowArgs {
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
    #[arg(long, value_name = "NAME", conflicts_with_all = ["file", "stage", "named", "set", "json"])]
    pub part: Option<String>,
}

// The arguments of `pipe why`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(super) struct StageArgs {
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
pub(super) struct LogsArgs {
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
pub(super) struct GetArgs {
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

/// The options that choose a model and describe its input.
#[derive(Debug, Args)]
pub(super) struct ModelArgs {
    #[command(flatten)]
    pub source: ModelSource,
    /// The column or field that holds the text, in CSV and JSON lines [default: as in the training data].
    #[arg(long, value_name = "NAME")]
    pub text_column: Option<String>,
    /// The number of the first feature in LIBSVM text; needed if the model was not trained on LIBSVM text.
    #[arg(long, value_name = "0|1", value_parser = clap::value_parser!(u32).range(0..=1))]
    pub feature_base: Option<u32>,
    /// The local signal to use instead of the one that the model was trained with.
    #[arg(long, value_name = "SIGNAL", value_parser = ["none", "predicted", "train-neighbours"])]
    pub signal: Option<String>,
    /// The device: auto, cpu, cuda or cuda:1.
    #[arg(long, default_value = "auto")]
    pub device: String,
}

// Where a model is.
#[derive(Debug, Args)]
pub(super) struct ModelSource {
    /// A stage that trained a model, `train[adaptive,seed=0]`, or the directory of a model.
    pub model: String,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// The directory of the data set that the model was trained on [default: that of the stage].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data: Option<PathBuf>,
}

impl ModelSource {
    fn typed_paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.pipeline.named.iter_mut().chain(&mut self.data)
    }
}

// The arguments of `pipe serve`.
#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    pub source: ModelSource,
    /// The address and port to listen on, or only a port of 127.0.0.1; port 0 is any free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000", value_parser = listen_address)]
    pub listen: SocketAddr,
    /// How many threads score rows [default: one for each core].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub threads: Option<usize>,
    /// A file with the token that requests need [default: PIPE_SERVE_TOKEN, otherwise a new token, which is printed].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// Answer requests without a token; only for a loopback address.
    #[arg(long, conflicts_with = "token_file")]
    pub no_token: bool,
    /// The number of the first feature in sparse rows [default: as in the training data, or 0].
    #[arg(long, value_name = "0|1", value_parser = clap::value_parser!(u32).range(0..=1))]
    pub feature_base: Option<u32>,
    /// Print the address and the token as one line of JSON.
    #[arg(long)]
    pub json: bool,
}

/// Parses an address with a port, or only a port.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        Err(_) => text
            .parse()
            .map_err(|_| "write an address with a port, `127.0.0.1:8000`, or only a port, `8000`".to_owned()),
    }
}

// The arguments of `pipe predict`.
#[derive(Debug, Args)]
pub(super) struct PredictArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// The rows: LIBSVM text, CSV or JSON lines with texts, or a NumPy array; `-` is standard input.
    #[arg(value_hint = ValueHint::FilePath)]
    pub input: PathBuf,
    /// The column or field that identifies a row, in CSV and JSON lines; it is part of the output.
    #[arg(long, value_name = "NAME")]
    pub id_column: Option<String>,
    /// The output format: one JSON object per row, CSV with one line per row and label, or CSV with one line per row.
    #[arg(long, value_enum, default_value_t)]
    pub format: PredictFormat,
    /// Write the K labels with the highest scores of each row, predicted or not.
    #[arg(long, value_name = "K", value_parser = positive)]
    pub top: Option<usize>,
    /// Write to this file; `-` is standard output [default: -].
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// The formats of predictions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum PredictFormat {
    #[default]
    Jsonl,
    Csv,
    /// One line per row: its id or number, and its labels.
    Labels,
}

// The arguments of `pipe labels`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(super) struct LabelsArgs {
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

// The arguments of `pipe explain`.
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// The row, counted from 0.
    #[arg(long, value_name = "N")]
    pub row: usize,
    /// The file that has the row [default: the test rows of the model's data set].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub input: Option<PathBuf>,
    /// Explain only this label, by name or number.
    #[arg(long, value_name = "LABEL")]
    pub label: Option<String>,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

// The arguments of `pipe table`.
#[derive(Debug, Args)]
pub(super) struct TableArgs {
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
pub(super) enum TableFormat {
    #[default]
    Text,
    Md,
    Tex,
    Csv,
    Json,
    Macros,
}

// The arguments of `pipe report`.
#[derive(Debug, Args)]
pub(super) struct ReportArgs {
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
pub(super) struct RunsArgs {
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
pub(super) enum RunsCommand {
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
pub(super) struct DiffArgs {
    /// The old side: a run (`latest~1` or the beginning of an id), a lock file, or a lock in git (`HEAD~1:pipelines/x.lock`).
    #[arg(default_value = "latest~1")]
    pub old: String,
    /// The new side.
    #[arg(default_value = "latest")]
    pub new: String,
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

// The arguments of `pipe graph`.
#[derive(Debug, Args)]
pub(super) struct GraphArgs {
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
pub(super) enum GraphFormat {
    #[default]
    Tree,
    Mermaid,
    Dot,
}

// The arguments of `pipe jobs`.
#[derive(Debug, Args)]
pub(super) struct JobsArgs {
    /// Only the jobs of this engine.
    #[arg(long, value_name = "NAME")]
    pub engine: Option<String>,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

// The arguments of `pipe cancel`.
#[derive(Debug, Args)]
pub(super) struct CancelArgs {
    /// Only the jobs of these stages or instances, or with these ids.
    #[arg(value_name = "STAGE")]
    pub stages: Vec<String>,
    /// Only the jobs of this engine.
    #[arg(long, value_name = "NAME")]
    pub engine: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(super) enum EngineCommand {
    /// Write a profile to start from, `engines/NAME.yaml`; for Slurm with the partitions that `sinfo` lists.
    Init {
        /// `slurm`, or `template` for another scheduler.
        name: String,
    },
}

// The arguments of `pipe init`.
#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// The file to write [default: pipelines/NAME.yaml, where NAME comes from the data or is `example` or `paper`].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Inspect these files and write a pipeline for them: CSV, JSON lines, LIBSVM, XMC, ARFF or NumPy. A role says what a file
    /// contains, if its name does not: `train=a.csv test=b.csv`, `rows=x.npy labels=y.npy`.
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
    /// Write the paper's grid instead of the recipe; without `--data`, on a small public data set.
    #[arg(long)]
    pub paper: bool,
    /// Write an example whose stages are shell commands (the default without `--data`).
    #[arg(long, conflicts_with_all = ["data", "paper"])]
    pub command: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum CacheCommand {
    /// Show how much space the cache takes, by purpose.
    Du {
        /// Print the sizes as JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the cached results.
    Ls {
        /// Print the list as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove results that no registered pipeline needs; without `--yes`, only show what would be removed.
    Gc {
        /// Remove them.
        #[arg(long)]
        yes: bool,
        /// Keep removed results in the trash for this many days; with `--remote`, keep blobs that are younger than this.
        #[arg(long, default_value_t = 7, value_name = "DAYS")]
        grace: u64,
        /// Clean up the remote instead of the cache: remove results that were uploaded long ago.
        #[arg(long)]
        remote: bool,
        /// With `--remote`: remove results that were uploaded longer ago than this.
        #[arg(long, default_value_t = 90, value_name = "DAYS", requires = "remote")]
        older_than: u64,
        /// Keep this many run logs.
        #[arg(long, default_value_t = 50, value_name = "N")]
        keep_runs: usize,
        /// Print what is removed, or would be, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check every file in the cache against its digest.
    Fsck {
        /// Fetch damaged blobs again from the remote, if there is one, and remove the damaged results that are left, so that the
        /// next run computes them again.
        #[arg(long)]
        repair: bool,
        /// Read only one of several parts of the cache, such as `3/7` on the third day of the week.
        #[arg(long, value_name = "PART/PARTS", value_parser = super::cache::parse_subset)]
        subset: Option<pipe_engine::store::Subset>,
        /// Begin to read nothing more after this time, such as `10m`; every check begins at another place.
        #[arg(long, value_name = "TIME", value_parser = super::cache::parse_budget)]
        budget: Option<std::time::Duration>,
        /// Print what is damaged as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Upload results that were computed here to the remote.
    Push {
        /// Only the last results of this pipeline [default: everything in the cache].
        #[arg(value_hint = ValueHint::FilePath)]
        file: Option<PathBuf>,
        /// Print the numbers as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Fetch the results of a pipeline from the remote without computing anything.
    Pull {
        /// The pipeline file [default: the one run last here].
        #[arg(value_hint = ValueHint::FilePath)]
        file: Option<PathBuf>,
        /// Print the numbers as JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum KeyCommand {
    /// Create a key and print its public part, the line to put under `trusted:`.
    New {
        /// The name under which your results are known to others, such as `alice` or `ci-main`.
        name: String,
    },
    /// Print the public parts of your keys.
    Show {
        /// Only this key.
        name: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum ModelCommand {
    /// Write a model with the description of its data set into a new directory, which `pipe predict` reads without `--data`.
    Export(ModelExportArgs),
}

// The arguments of `pipe model export`.
#[derive(Debug, Args)]
pub(super) struct ModelExportArgs {
    /// A stage that trained a model: `recipe[macro]`.
    #[arg(value_name = "STAGE")]
    pub model: String,
    /// The directory to create.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub to: PathBuf,
    /// Copy the ids and texts of training rows that the data set keeps, so that explanations show them.
    #[arg(long)]
    pub training_texts: bool,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum DataCommand {
    /// List the data sets that `load` knows by name.
    List {
        /// Print everything that is known about them as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Describe a data set: size, sparsity, frequency of labels.
    Info {
        /// The name, as in `pipe data list`, or a directory that a `load` or `synthetic` stage wrote.
        dataset: String,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Download a data set into the data directory.
    Fetch {
        /// The name, as in `pipe data list`.
        dataset: String,
    },
    /// Print the paths of the files of a data set.
    Path {
        /// The name, as in `pipe data list`.
        dataset: String,
    },
}

/// Parses a positive number.
fn positive(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err("a whole number of at least 1 is expected".to_owned()),
    }
}
