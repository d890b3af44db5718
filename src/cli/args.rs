//! The command line, as clap reads it.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

/// Declarative, content-hashed experiment pipelines for multi-label classification.
///
/// A YAML file describes a graph of stages; only what changed is computed again.
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

/// Where the options are listed that every command has.
const EVERYWHERE: &str = "Everywhere";

// The environment is read by `Project`: what clap reads there it takes for typed, and shows it so in usage lines.
#[derive(Debug, Args)]
pub(super) struct Global {
    /// Work as if started in this directory (the project directory).
    #[arg(short = 'C', long, global = true, help_heading = EVERYWHERE, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: Option<PathBuf>,
    /// Where results are kept [default: cache] [env: PIPE_CACHE].
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cache_dir: Option<PathBuf>,
    /// Where data sets are looked for and downloaded to [default: data] [env: PIPE_DATA_DIR].
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,
    /// Colour: `auto` is on for a terminal unless NO_COLOR is set.
    #[arg(long, global = true, help_heading = EVERYWHERE, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorChoice,
    /// Say only what went wrong.
    #[arg(short, long, global = true, help_heading = EVERYWHERE, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more: every cached stage, every log line.
    #[arg(short, long, global = true, help_heading = EVERYWHERE)]
    pub verbose: bool,
}

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
    /// Say why a stage would run: the old and the new value of everything that changed.
    Why(StageArgs),
    /// Write down what a pipeline's stages gave, to be committed beside it.
    Lock(LockArgs),
    /// Say whether what is published still follows from code, parameters and data.
    Verify(VerifyArgs),
    /// Pack a pipeline, its lock and its results into one file for another machine.
    Export(ExportArgs),
    /// Take in what `pipe export` packed.
    Import(ImportArgs),
    /// Describe what was computed, how and from what, for other tools.
    Provenance(ProvenanceArgs),
    /// Draw the pipeline.
    Graph(GraphArgs),
    /// One line per stage: fresh or not, when it was computed, how long it took.
    Status(StatusArgs),
    /// Everything about one stage: parameters, inputs, outputs, metrics.
    Show(StageArgs),
    /// Print the finished table of a `table` stage.
    Table(TableArgs),
    /// What a stage printed.
    Logs(LogsArgs),
    /// Copy or print one output of a stage.
    Get(GetArgs),
    /// Write everything about a pipeline as one self-contained HTML page.
    Report(ReportArgs),
    /// List past runs, newest first, or show one.
    Runs(RunsArgs),
    /// Compare two runs or two locks: parameters, metrics, outputs.
    Diff(DiffArgs),
    /// Decide about new rows: a model's labels for each of them.
    Predict(PredictArgs),
    /// Break a model's decisions about one row down into what led to them.
    Explain(ExplainArgs),
    /// Look after the store.
    #[command(subcommand)]
    Cache(CacheCommand),
    /// Find, describe and download data sets.
    #[command(subcommand)]
    Data(DataCommand),
    /// List the metrics that an evaluation gives, with their definitions.
    Metrics {
        /// Only those with this name, or with this in their name.
        name: Option<String>,
        /// Print the same as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of pipeline files, for editors.
    Schema,
    /// Write a small pipeline to start from.
    Init(InitArgs),
    /// Print a completion script for your shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Run one job file (internal).
    #[command(hide = true)]
    Worker { job: PathBuf },
}

/// Which pipeline, and with which variables.
#[derive(Debug, Args)]
pub(super) struct PipelineArgs {
    /// The pipeline file, wherever on the line [default: the one run last here].
    #[arg(short = 'f', long = "file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub named: Option<PathBuf>,
    /// Set a variable, e.g. `--set vars.epochs=3`.
    #[arg(long = "set", value_name = "VARS.NAME=VALUE")]
    pub set: Vec<String>,
}

/// A pipeline file that has to be named, in one way or the other.
#[derive(Debug, Args)]
pub(super) struct TheFile {
    /// The pipeline file.
    #[arg(value_hint = ValueHint::FilePath, required_unless_present = "named")]
    file: Option<PathBuf>,
    /// The pipeline file, wherever on the line.
    #[arg(short = 'f', long = "file", value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "file")]
    named: Option<PathBuf>,
}

impl Deref for TheFile {
    type Target = Path;

    fn deref(&self) -> &Path {
        let file = self.file.as_deref().or(self.named.as_deref());
        file.unwrap_or_else(|| unreachable!("clap requires one of them"))
    }
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The pipeline file [default: the one run last here].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Only these stages and what they need: `train`, `train[adaptive]`, `eval[*]`.
    #[arg(value_name = "STAGE")]
    pub targets: Vec<String>,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// How many stages may run at once [default: the number of processors].
    #[arg(short, long, value_name = "N", value_parser = positive)]
    pub jobs: Option<usize>,
    /// After a failure go on with what does not depend on it, rather than stop.
    #[arg(short, long)]
    pub keep_going: bool,
    /// Run everything except what comes after this stage.
    #[arg(long, value_name = "STAGE")]
    pub until: Vec<String>,
    /// Compute this stage again even if it is cached.
    #[arg(long, value_name = "STAGE")]
    pub force: Vec<String>,
    /// Download nothing: every data set must be in the data directory.
    #[arg(long)]
    pub offline: bool,
    /// Replace generated files even where they were edited by hand.
    #[arg(long)]
    pub overwrite: bool,
    /// Plain lines in place of the live view.
    #[arg(long)]
    pub no_progress: bool,
    /// Compute nothing that would change the lock, and accept no result that differs from it.
    #[arg(long)]
    pub locked: bool,
    /// One JSON event per line on standard output.
    #[arg(long)]
    pub json: bool,
    /// Show the run as it goes on a page for this machine's browser; any free port unless one is given.
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    pub serve: Option<u16>,
}

#[derive(Debug, Args)]
pub(super) struct LockArgs {
    /// The pipeline file.
    #[arg(value_hint = ValueHint::FilePath, required_unless_present_any = ["merge", "named"])]
    pub file: Option<PathBuf>,
    /// The pipeline file, wherever on the line.
    #[arg(short = 'f', long = "file", value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "file")]
    pub named: Option<PathBuf>,
    /// Replace a lock that differs from what the cache has.
    #[arg(long)]
    pub rebuild: bool,
    /// Merge two locks that grew from one into the second, as a merge driver of git.
    #[arg(long, num_args = 3, value_names = ["BASE", "OURS", "THEIRS"], conflicts_with_all = ["file", "named", "rebuild"])]
    pub merge: Option<Vec<PathBuf>>,
}

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    pub file: TheFile,
    /// Hold the pipeline and the placed files against the lock (what is done if nothing else is asked for).
    #[arg(long)]
    pub lock: bool,
    /// Read and hash everything in the cache that the lock names.
    #[arg(long)]
    pub cache: bool,
    /// Compute again and compare: everything, or these stages, `sample=K`, `budget=20m`.
    #[arg(long, num_args = 0.., value_name = "WHAT")]
    pub rerun: Option<Vec<String>>,
    /// Compute everything, or these stages, twice under other conditions, and compare.
    #[arg(long, num_args = 0.., value_name = "STAGE")]
    pub twice: Option<Vec<String>>,
    /// Where to compute again [default: a new directory in the cache directory].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub scratch: Option<PathBuf>,
    /// How many stages may run at once [default: the number of processors].
    #[arg(short, long, value_name = "N", value_parser = positive)]
    pub jobs: Option<usize>,
    /// Also write the result as JUnit XML.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub junit: Option<PathBuf>,
    /// Print the checks as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    pub file: TheFile,
    /// The file to write: `bundle.tar.zst`.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Only the results of these stages; of the others, what went in and came out by digest only.
    #[arg(long, num_args = 1.., value_name = "STAGE")]
    pub with: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// What `pipe export` wrote.
    #[arg(value_hint = ValueHint::FilePath)]
    pub bundle: PathBuf,
    /// Replace files of the project that differ.
    #[arg(long)]
    pub overwrite: bool,
}

#[derive(Debug, Args)]
pub(super) struct ProvenanceArgs {
    #[command(flatten)]
    pub file: TheFile,
    /// Write a Workflow Run RO-Crate: a new directory, or a file that ends in `.zip`.
    #[arg(long, value_name = "DIR|ZIP", value_hint = ValueHint::AnyPath)]
    pub ro_crate: PathBuf,
    /// Who ran it, as an address: `https://orcid.org/0000-0000-0000-0000`. Nobody is named unless you do.
    #[arg(long, value_name = "URI", requires = "agent_name")]
    pub agent: Option<String>,
    /// The name of who ran it.
    #[arg(long, value_name = "NAME", requires = "agent")]
    pub agent_name: Option<String>,
    /// The licence of what is in the crate, as an address.
    #[arg(long, value_name = "URI")]
    pub license: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    /// The pipeline file [default: the one run last here].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Only these stages and what they need.
    #[arg(value_name = "STAGE")]
    pub targets: Vec<String>,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// Exit with 10 if anything would run.
    #[arg(long)]
    pub check: bool,
    /// Print the outlook of every instance as JSON.
    #[arg(long)]
    pub json: bool,
}

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
    /// Print the same as JSON.
    #[arg(long)]
    pub json: bool,
}

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
    /// Only standard error.
    #[arg(long)]
    pub stderr: bool,
}

#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(super) struct GetArgs {
    /// The pipeline file [default: the one run last here].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// The stage, and which of its outputs if it has several: `train[adaptive,seed=1].model`.
    #[arg(value_name = "STAGE[.OUTPUT]")]
    pub what: String,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// Where to put a copy; into a directory under its own name; `-` is standard output [default: -].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub to: Option<PathBuf>,
    /// Replace what is there.
    #[arg(long)]
    pub overwrite: bool,
}

/// Which model, and what it needs to know of the data that it was trained on.
#[derive(Debug, Args)]
pub(super) struct ModelArgs {
    /// A stage that made a model, `train[adaptive,seed=0]`, or a model's directory.
    pub model: String,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// The data set that the model was trained on, as a directory; a stage's is found by itself.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data: Option<PathBuf>,
    /// The column or field of the text, in CSV and JSON lines [default: text].
    #[arg(long, value_name = "NAME")]
    pub text_column: Option<String>,
    /// The number of the first feature, in LIBSVM text; needed where the model's own data was no such text.
    #[arg(long, value_name = "0|1", value_parser = clap::value_parser!(u32).range(0..=1))]
    pub feature_base: Option<u32>,
    /// The local signal in place of the model's own choice.
    #[arg(long, value_name = "SIGNAL", value_parser = ["none", "predicted", "train-neighbours"])]
    pub signal: Option<String>,
    /// Where to compute: auto, cpu, cuda or cuda:1.
    #[arg(long, default_value = "auto")]
    pub device: String,
}

#[derive(Debug, Args)]
pub(super) struct PredictArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// The rows: LIBSVM text, CSV or JSON lines with texts, or a NumPy array.
    #[arg(value_hint = ValueHint::FilePath)]
    pub input: PathBuf,
    /// What to write: one JSON object per row, or CSV with one line per row and label.
    #[arg(long, value_enum, default_value_t)]
    pub format: PredictFormat,
    /// The K likeliest labels of each row, predicted or not.
    #[arg(long, value_name = "K", value_parser = positive)]
    pub top: Option<usize>,
    /// Write to this file rather than to standard output.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum PredictFormat {
    #[default]
    Jsonl,
    Csv,
}

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// The row, counted from 0.
    #[arg(long, value_name = "N")]
    pub row: usize,
    /// A file that the row is in [default: the test part of the model's data].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub input: Option<PathBuf>,
    /// Only this label, by name or number.
    #[arg(long, value_name = "LABEL")]
    pub label: Option<String>,
    /// Print the same as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct TableArgs {
    /// The pipeline file [default: the one run last here].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// The stage [default: every `table` stage].
    pub stage: Option<String>,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// What to print: a table for the terminal, or one of the files of the stage.
    #[arg(long, value_enum, default_value_t)]
    pub format: TableFormat,
}

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

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// The pipeline file [default: the one run last here].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// Where to write it; `-` is standard output [default: results/NAME.html].
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct RunsArgs {
    #[command(subcommand)]
    pub command: Option<RunsCommand>,
    /// How many to list.
    #[arg(short = 'n', long, default_value_t = 20, value_name = "N")]
    pub limit: usize,
    /// Print the list as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum RunsCommand {
    /// What became of every stage in one run.
    Show {
        /// The id or its beginning, `latest`, or `latest~1` for the one before.
        #[arg(default_value = "latest")]
        run: String,
        /// Print the same as JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    /// The older side: a run (`latest~1`, an id, or its beginning), a lock file, or one in git (`HEAD~1:pipelines/x.lock`).
    #[arg(default_value = "latest~1")]
    pub old: String,
    /// The newer side.
    #[arg(default_value = "latest")]
    pub new: String,
    /// Also outputs that are never the same twice, such as timings.
    #[arg(long)]
    pub volatile: bool,
    /// Print the differences as JSON.
    #[arg(long)]
    pub json: bool,
    /// Write a page, with figures side by side, to this file; `-` is standard output.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "json")]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct GraphArgs {
    /// The pipeline file [default: the one run last here].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// What to print: a tree for the terminal, or text for a program that draws.
    #[arg(long, value_enum, default_value_t)]
    pub format: GraphFormat,
    /// One node per instance rather than per stage.
    #[arg(long)]
    pub instances: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum GraphFormat {
    #[default]
    Tree,
    Mermaid,
    Dot,
}

#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// Where to write it.
    #[arg(default_value = "pipelines/example.yaml", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(super) enum CacheCommand {
    /// How much space the store takes, and what for.
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
    /// Remove results that no registered pipeline needs. Only says what it would do unless `--yes`.
    Gc {
        /// Do it.
        #[arg(long)]
        yes: bool,
        /// How many days removed results stay in the trash.
        #[arg(long, default_value_t = 7, value_name = "DAYS")]
        grace: u64,
        /// How many run logs to keep.
        #[arg(long, default_value_t = 50, value_name = "N")]
        keep_runs: usize,
        /// Print what is, or would be, removed as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check every file in the store against its digest.
    Fsck {
        /// Drop what is damaged, so that the next run computes it again.
        #[arg(long)]
        repair: bool,
        /// Print what is damaged as JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum DataCommand {
    /// The data sets that `load` knows by name.
    List {
        /// Print everything that is known of them as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Size, sparsity and label tail of a data set, by name or by directory.
    Info {
        /// Its name, as `pipe data list` has it, or a directory that a `load` or `synthetic` stage made.
        dataset: String,
        /// Print the same as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Download a data set into the data directory.
    Fetch {
        /// Its name, as `pipe data list` has it.
        dataset: String,
    },
    /// Where the files of a data set are.
    Path {
        /// Its name, as `pipe data list` has it.
        dataset: String,
    },
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err("a whole number of at least 1 is expected".to_owned()),
    }
}
