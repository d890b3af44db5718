//! The arguments that choose a pipeline.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

/// The options that choose a pipeline and set its variables.
#[derive(Debug, Args)]
pub(in crate::cli) struct PipelineArgs {
    /// The pipeline file, at any position [default: the one run last here].
    #[arg(short = 'f', long = "file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub named: Option<PathBuf>,
    /// Set a variable, e.g. `--set vars.epochs=3`.
    #[arg(long = "set", value_name = "VARS.NAME=VALUE")]
    pub set: Vec<String>,
    /// Use the `--set` values of a past run: its id, the beginning of its id, `latest`, or `latest~1` for the one before.
    #[arg(long, value_name = "RUN", conflicts_with = "set")]
    pub run: Option<String>,
}

/// The pipeline file of a command that concerns a whole pipeline: an argument, or `--file`.
#[derive(Debug, Args)]
pub(in crate::cli) struct TheFile {
    /// The pipeline file [default: the one run last here].
    #[arg(value_hint = ValueHint::FilePath)]
    pub(super) file: Option<PathBuf>,
    /// The pipeline file, at any position.
    #[arg(short = 'f', long = "file", value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "file")]
    pub(super) named: Option<PathBuf>,
}

impl TheFile {
    pub(super) fn typed(&mut self) -> impl Iterator<Item = &mut PathBuf> {
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

/// Parses a positive number.
pub(super) fn positive(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err("a whole number of at least 1 is expected".to_owned()),
    }
}
