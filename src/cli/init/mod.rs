//! `pipe init`: writes a pipeline that runs as it is, for the user's own data or as an example.

mod data_pipeline;
mod findings;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::args::InitArgs;
use super::exit::{Exit, Failure, Outcome};
use super::print_status;
use super::user_files::is_pipe;
use data_pipeline::{DataPipeline, PipelineKind};
use pipe_core::quote;
use pipe_ml::data::inspect::{FileRole, GivenFile, Wishes, inspect};

const COMMAND_EXAMPLE: &str = include_str!("command.yaml");
const PAPER_EXAMPLE: &str = include_str!("paper.yaml");
const QUICKSTART: &str = include_str!("../../../pipelines/quickstart.yaml");

/// Runs `pipe init`. Never overwrites: the file is created, or the command fails.
pub(super) fn init(args: &InitArgs) -> Outcome {
    if !args.data.is_empty() {
        return for_data(args);
    }
    let (name, text) = match (args.quickstart, args.paper) {
        (true, _) => ("quickstart", quickstart()),
        (_, true) => ("paper", PAPER_EXAMPLE.to_owned()),
        _ => ("example", COMMAND_EXAMPLE.to_owned()),
    };
    let file = args.file.clone().unwrap_or_else(|| default_file(name));
    write_new(&file, &text)?;
    if name == "example" && !args.command {
        print_status("for your own data: pipe init --data FILE");
    }
    Ok(Exit::Done)
}

/// The first lines of every pipeline that is written.
const SCHEMA_COMMENT: &str = "# yaml-language-server: $schema=pipe.schema.json\n\
    # `pipe schema --write` writes that schema, with which editors complete and check this file.\n#\n";

/// Returns the quickstart without the lines that refer to files of its repository.
fn quickstart() -> String {
    let refers = |line: &str| line.starts_with("# yaml-language-server") || line.starts_with("published:");
    let lines = QUICKSTART.split_inclusive('\n').filter(|line| !refers(line));
    lines.skip_while(|line| line.trim() == "#").collect()
}

/// Inspects the user's data, says what was found, and writes a pipeline for it.
fn for_data(args: &InitArgs) -> Outcome {
    let given: Vec<GivenFile> = args.data.iter().map(|word| given_file(word)).collect::<Result<_, _>>()?;
    if let Some(file) = args.labels.as_deref().filter(|labels| Path::new(labels).is_file()) {
        return Err(Failure::bad_input(format!(
            "`--labels` names a column, but `{file}` is a file: a file of labels is one of the data, \
             `--data rows=TEXTS labels={file}`"
        )));
    }
    let wishes = Wishes {
        text: args.text.clone(),
        labels: args.labels.clone(),
        separator: args.separator.clone(),
        join: args.join.clone(),
    };
    let scratch = tempfile::tempdir()?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let found = inspect(&given, &wishes, &scratch.path().join("rows"), threads)
        .map_err(|error| Failure::bad_input(error.to_string()))?;
    print_status(&findings::text(&found));
    let rows = found.files.iter().find(|(role, _)| matches!(role, FileRole::Rows | FileRole::Train));
    let file = args.file.clone().unwrap_or_else(|| {
        default_file(&rows.map_or_else(|| "data".to_owned(), |(_, path)| data_pipeline::name_of_data(path)))
    });
    let name = data_pipeline::name(&file);
    let kind = if args.paper { PipelineKind::Grid } else { PipelineKind::Recipe };
    let pipeline = DataPipeline { name: &name, file: &file, found: &found, kind };
    write_new(&file, &pipeline.text())?;
    Ok(Exit::Done)
}

/// Reads `FILE` or `ROLE=FILE`.
fn given_file(word: &str) -> Result<GivenFile, Failure> {
    let stated = word.split_once('=').and_then(|(role, path)| Some((FileRole::named(role)?, path)));
    let (role, path) = match stated {
        Some((role, path)) => (Some(role), path),
        None => (None, word),
    };
    let is_pipeline = [".yaml", ".yml"].iter().any(|ending| path.ends_with(ending));
    if is_pipeline && role.is_none() {
        return Err(Failure::bad_input(format!(
            "`{path}` follows `--data`, so it would be a file of data; write `pipe init {path} --data ...`"
        )));
    }
    let path = PathBuf::from(path);
    if is_pipe(&path) {
        return Err(Failure::bad_input(format!(
            "`{}` is a pipe, which can be read only once: write its content to a file, which the pipeline then reads",
            path.display()
        )));
    }
    Ok(GivenFile { role, path })
}

fn default_file(name: &str) -> PathBuf {
    Path::new("pipelines").join(format!("{name}.yaml"))
}

/// Creates a file and says how to go on.
fn write_new(file: &Path, text: &str) -> Result<(), Failure> {
    let failure = |error: std::io::Error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AlreadyExists => "; name another file: `pipe init FILE`",
            _ => "",
        };
        Failure::bad_input(format!("cannot write {}: {error}{hint}", file.display()))
    };
    if let Some(parent) = file.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(failure)?;
    }
    let mut handle = OpenOptions::new().write(true).create_new(true).open(file).map_err(failure)?;
    handle.write_all(format!("{SCHEMA_COMMENT}{text}").as_bytes()).map_err(failure)?;
    let word = quote::shell(&file.display().to_string());
    print_status(&format!("wrote {}\nnext: pipe run {word}", file.display()));
    Ok(())
}
