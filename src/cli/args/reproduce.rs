//! The arguments of the commands that record, check and share results.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::pipeline::{TheFile, positive};

// The arguments of `pipe lock`.
#[derive(Debug, Args)]
pub(in crate::cli) struct LockArgs {
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
pub(in crate::cli) struct VerifyArgs {
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
pub(in crate::cli) struct ExportArgs {
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
pub(in crate::cli) struct ImportArgs {
    /// The bundle that `pipe export` wrote.
    #[arg(value_hint = ValueHint::FilePath)]
    pub bundle: PathBuf,
    /// Replace project files that differ.
    #[arg(long)]
    pub overwrite: bool,
}

// The arguments of `pipe provenance`.
#[derive(Debug, Args)]
pub(in crate::cli) struct ProvenanceArgs {
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
