//! The arguments of the commands that use a model.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use super::pipeline::{PipelineArgs, positive};

/// The options that choose a model and describe its input.
#[derive(Debug, Args)]
pub(in crate::cli) struct ModelArgs {
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
pub(in crate::cli) struct ModelSource {
    /// A stage that trained a model, `train[adaptive,seed=0]`, or the directory of a model.
    pub model: String,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// The directory of the data set that the model was trained on [default: that of the stage].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data: Option<PathBuf>,
}

impl ModelSource {
    pub(super) fn typed_paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.pipeline.named.iter_mut().chain(&mut self.data)
    }
}

// The arguments of `pipe serve`.
#[derive(Debug, Args)]
pub(in crate::cli) struct ServeArgs {
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
pub(in crate::cli) struct PredictArgs {
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
pub(in crate::cli) enum PredictFormat {
    #[default]
    Jsonl,
    Csv,
    /// One line per row: its id or number, and its labels.
    Labels,
}

// The arguments of `pipe explain`.
#[derive(Debug, Args)]
pub(in crate::cli) struct ExplainArgs {
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

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ModelCommand {
    /// Write a model with the description of its data set into a new directory, which `pipe predict` reads without `--data`.
    Export(ModelExportArgs),
}

// The arguments of `pipe model export`.
#[derive(Debug, Args)]
pub(in crate::cli) struct ModelExportArgs {
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
