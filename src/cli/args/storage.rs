//! The arguments of the commands for data sets, the cache and the keys that sign results.

use std::path::PathBuf;

use clap::{Subcommand, ValueHint};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum CacheCommand {
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
        #[arg(long, value_name = "PART/PARTS", value_parser = crate::cli::cache::parse_subset)]
        subset: Option<pipe_engine::store::Subset>,
        /// Begin to read nothing more after this time, such as `10m`; every check begins at another place.
        #[arg(long, value_name = "TIME", value_parser = crate::cli::cache::parse_budget)]
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
pub(in crate::cli) enum KeyCommand {
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
pub(in crate::cli) enum DataCommand {
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
