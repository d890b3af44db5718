//! `pipe predict` and `pipe explain`: one job, outside of the cache.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::args::{ExplainArgs, ModelArgs, ModelSource, PredictArgs, PredictFormat};
use super::exit::{Exit, Failure, Outcome};
use super::exported_model;
use super::prediction_rows;
use super::project::{Project, select};
use super::run::stop_on_signals;
use super::standard_streams::print_file;
use super::survey::Survey;
use super::{print_json, print_status, print_text};
use pipe_core::artifact::{Artifact, FILE};
use pipe_core::event::{LogLevel, WorkerEvent};
use pipe_core::job::{Job, JobInput};
use pipe_core::kind::Program;
use pipe_core::stage::{JobBody, StageKind};
use pipe_core::suggest;
use pipe_engine::runner::executor::{AttemptError, Executor, ResourceUsage, Task};
use pipe_engine::runner::libtorch::Worker;
use pipe_engine::runner::local::{LocalProcess, Programs};
use pipe_engine::runner::{Stop, Urgency};
use pipe_engine::spec::pipeline::{InputSource, Instance, InstanceIndex};
use pipe_engine::store::{Confirmation, TemporaryDirectory};
use pipe_ml::artifacts::ModelDirectory;
use pipe_ml::config::device::Device;
use pipe_ml::config::signal::LocalSignal;
use pipe_ml::data::source::DEFAULT_LABEL_SEPARATOR;
use pipe_ml::data::split_data::{PartName, SplitData};
use pipe_ml::data::table::columns::TableColumn;
use pipe_ml::data::transform::NewRows;
use pipe_ml::explanation::Explanation;
use pipe_ml::explanation::cut::CutRule;
use pipe_stages::predict::{self as jobs, Explain, Predict, PredictionFormat};
use pipe_stages::select::{Choice, Select};
use pipe_stages::threshold::Threshold;
use pipe_stages::{command, judge};

/// How often to check for a request to stop.
const CHECK_STOP: Duration = Duration::from_millis(50);

/// Runs `pipe predict`: labels for new rows.
pub(super) fn predict(project: &Project, args: &PredictArgs) -> Outcome {
    let scratch = TemporaryDirectory::new()?;
    let place = ModelPlace::find(project, &args.model.source, &scratch)?;
    let rows = InputRows::open(&args.input, &scratch)?;
    let read = rows.read(&args.model, &place, args.id_column.as_deref())?;
    let body = Predict {
        format: match args.format {
            PredictFormat::Jsonl | PredictFormat::Labels => PredictionFormat::Jsonl,
            PredictFormat::Csv => PredictionFormat::Csv,
        },
        top: args.top,
        read,
        signal: args.model.signal()?,
        device: args.model.device()?,
    };
    let output = args.output.as_deref().filter(|output| *output != Path::new("-"));
    // Written beside the target and renamed, so that the target is complete or not there.
    let written = match output {
        Some(output) => {
            let mut beside = output.to_owned().into_os_string();
            beside.push(".part");
            PathBuf::from(beside)
        }
        None => scratch.join("predictions"),
    };
    let separator = place.stages.label_separator.as_deref().unwrap_or(DEFAULT_LABEL_SEPARATOR);
    let ran = run(
        Predict::KIND,
        &body,
        &place,
        Some(&rows.path),
        (Predict::PREDICTIONS.name(), &written),
        &scratch,
    )
    .map_err(|failure| rows.named(failure))
    .and_then(|()| match args.format {
        PredictFormat::Labels => prediction_rows::one_line_per_row(&written, separator),
        PredictFormat::Jsonl | PredictFormat::Csv => Ok(()),
    });
    if let (Err(_), Some(_)) = (&ran, output) {
        let _ = std::fs::remove_file(&written);
    }
    ran?;
    match output {
        Some(output) => std::fs::rename(&written, output)?,
        None => return print_file(&written),
    }
    Ok(Exit::Done)
}

/// Runs `pipe explain`: why a model decided about a row as it did.
pub(super) fn explain(project: &Project, args: &ExplainArgs) -> Outcome {
    let scratch = TemporaryDirectory::new()?;
    let place = ModelPlace::find(project, &args.model.source, &scratch)?;
    let rows = args.input.as_deref().map(|input| InputRows::open(input, &scratch)).transpose()?;
    let read = rows.as_ref().map(|rows| rows.read(&args.model, &place, None)).transpose()?;
    let body = Explain {
        row: args.row,
        part: PartName::Test,
        label: args.label.clone(),
        cut: place.stages.cut.clone(),
        read: read.unwrap_or_default(),
        signal: args.model.signal()?,
        device: args.model.device()?,
    };
    let written = scratch.join("explanation");
    let path = rows.as_ref().map(|rows| rows.path.as_path());
    run(Explain::KIND, &body, &place, path, (Explain::EXPLANATION.name(), &written), &scratch).map_err(
        |failure| match &rows {
            Some(rows) => rows.named(failure),
            None => failure,
        },
    )?;
    let explanation: Explanation =
        serde_json::from_slice(&std::fs::read(&written)?).map_err(anyhow::Error::from)?;
    if args.json { print_json(&explanation) } else { print_text(&explanation.text()) }
}

impl ModelArgs {
    fn device(&self) -> Result<Device, Failure> {
        self.device.parse().map_err(|error| Failure::bad_input(format!("--device: {error}")))
    }

    fn signal(&self) -> Result<Option<LocalSignal>, Failure> {
        let parse = |word: &String| serde_json::from_value(serde_json::Value::String(word.clone()));
        Ok(self.signal.as_ref().map(parse).transpose().map_err(anyhow::Error::from)?)
    }
}

/// The directories of a model and of the data set that it was trained on.
pub(super) struct ModelPlace {
    pub(super) model: PathBuf,
    pub(super) data: PathBuf,
    /// What the stages of the model say about it, as far as they are known.
    pub(super) stages: StageFacts,
}

/// What the stages of a model say about it. An exported model has it in a file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StageFacts {
    /// The rule that fitted the model's cuts.
    pub(super) cut: Option<CutRule>,
    /// The column of the texts that the model was trained on.
    text_column: Option<String>,
    /// What separated the labels of the data.
    label_separator: Option<String>,
    /// The column by which texts were joined: those with the same value became one row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    join_column: Option<String>,
    /// Columns and the values that rows had to have in them to be joined; other rows were left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    only: BTreeMap<String, String>,
}

/// A file of new rows.
struct InputRows {
    path: PathBuf,
    /// What the file is a copy of, if it is one.
    copied: Option<String>,
}

impl InputRows {
    /// Opens a file; `-` is standard input. What can be read only once, such as standard input or a pipe, is copied to `scratch`.
    fn open(input: &Path, scratch: &Path) -> Result<Self, Failure> {
        let is_standard_input = input == Path::new("-");
        let name = if is_standard_input { "standard input".to_owned() } else { input.display().to_string() };
        let failure = |error| Failure::bad_input(format!("cannot read {name}: {error}"));
        let mut reader: Box<dyn std::io::Read> = if is_standard_input {
            Box::new(std::io::stdin().lock())
        } else {
            let file = std::fs::File::open(input).map_err(failure)?;
            let kind = file.metadata().map_err(failure)?.file_type();
            if kind.is_file() || kind.is_dir() {
                return Ok(Self { path: input.to_owned(), copied: None });
            }
            Box::new(file)
        };
        let path = scratch.join("rows-to-predict");
        let mut copy = std::fs::File::create(&path)?;
        std::io::copy(&mut reader, &mut copy).map_err(failure)?;
        Ok(Self { path, copied: Some(name) })
    }

    /// Replaces the path of a copy in a message.
    fn named(&self, mut failure: Failure) -> Failure {
        if let Some(name) = &self.copied {
            failure.text = failure.text.replace(&*self.path.to_string_lossy(), name);
        }
        failure
    }

    /// Returns how the rows are read: like those of the training data, as far as the user does not say otherwise. Without
    /// `--id-column`, joined rows are known by what they were joined by.
    fn read(
        &self,
        args: &ModelArgs,
        place: &ModelPlace,
        id_column: Option<&str>,
    ) -> Result<NewRows, Failure> {
        let StageFacts { text_column: remembered, join_column, only, .. } = &place.stages;
        let columns = match id_column {
            // The job reads the file again, and says what is wrong with it and what the model needs.
            None => TableColumn::read_all(&self.path).unwrap_or_default(),
            Some(name) => {
                let columns = TableColumn::read_all(&self.path);
                let columns = columns.map_err(|error| self.named(Failure::bad_input(error.to_string())))?;
                check_id_column(&columns, name)?;
                columns
            }
        };
        let has = |name: &str| columns.iter().any(|column| column.name == name);
        // A file that has only a column `text` is read, too.
        let remembered = remembered.clone().filter(|name| has(name) || !has("text"));
        Ok(NewRows {
            input_column: args.text_column.clone().or(remembered),
            feature_base: args.feature_base,
            id_column: id_column.map(str::to_owned).or_else(|| join_column.clone()),
            join_column: join_column.clone(),
            only: only.clone(),
        })
    }
}

fn check_id_column(columns: &[TableColumn], name: &str) -> Result<(), Failure> {
    match columns.iter().filter(|column| column.name == name).count() {
        1 => Ok(()),
        0 => {
            let names = columns.iter().map(|column| column.name.as_str());
            let hint = suggest::did_you_mean(name, "the columns are", names).unwrap_or_default();
            Err(Failure::bad_input(format!("--id-column: there is no column `{name}`; {hint}")))
        }
        _ => {
            let reason = format!("--id-column: more than one column is named `{name}`: rename the others");
            Err(Failure::bad_input(reason))
        }
    }
}

impl ModelPlace {
    /// Finds a model by its stage or its directory, and checks it. The directories may be in `scratch`.
    pub(super) fn find(project: &Project, args: &ModelSource, scratch: &Path) -> Result<Self, Failure> {
        let directory = Path::new(&args.model);
        if directory.join("model.json").is_file() {
            confirm(project, directory)?;
            let exported = directory.join(exported_model::DATA);
            let data = match &args.data {
                Some(data) => {
                    confirm(project, data)?;
                    data.clone()
                }
                None if exported.is_dir() => exported,
                None => {
                    return Err(Failure::bad_input(
                        "this directory does not say how the features were transformed: name the data set that the model was \
                         trained on with `--data DIR`, name the model by its stage, or export it with `pipe model export`",
                    ));
                }
            };
            let stages = exported_model::stage_facts(directory)?;
            return Ok(Self { model: directory.to_owned(), data, stages });
        }
        if args.model.contains('/') && !args.model.contains('[') {
            let lacks =
                if directory.is_dir() { "contains no model (`model.json`)" } else { "does not exist" };
            return Err(Failure::bad_input(format!("the model directory `{}` {lacks}", args.model)));
        }
        let survey = Survey::of(project, args.pipeline.named.as_ref(), &args.pipeline, &[])?;
        Ok(Self::of_stage(&survey, &args.model, args.data.as_deref(), scratch)?.1)
    }

    /// Returns the one stage that a word selects among those that make a model, and the place of its model. The directories
    /// may be in `scratch`.
    pub(super) fn of_stage(
        survey: &Survey,
        word: &str,
        data: Option<&Path>,
        scratch: &Path,
    ) -> Result<(InstanceIndex, Self), Failure> {
        let chosen = select(survey.plan.pipeline(), &[word.to_owned()])?;
        let makers: Vec<InstanceIndex> =
            chosen.into_iter().filter(|&index| model_output(survey.plan.instance(index)).is_some()).collect();
        let [index] = makers[..] else { return Err(not_one_model(survey, word, &makers)) };
        let view = scratch.join("view");
        let instance = survey.plan.instance(index);
        let output = model_output(instance).unwrap_or_default();
        let model = artifact(survey, index, output, &view)?;
        let sources = instance.inputs.iter().flat_map(|input| &input.sources);
        let mut sets = sources.filter_map(|source| match source {
            InputSource::Output { producer, output, artifact, .. } if *artifact == SplitData::TYPE => {
                Some((*producer, output))
            }
            _ => None,
        });
        let set = sets.next();
        let read_option = |name: &str| {
            let (producer, _) = set?;
            survey.plan.instance(producer).params.value()["read"][name].as_str().map(str::to_owned)
        };
        let data = match data {
            Some(data) => data.to_owned(),
            None => {
                let (producer, output) = set.ok_or_else(|| {
                    let name = survey.name(index);
                    Failure::bad_input(format!("{name} reads no data set: name it with `--data DIR`"))
                })?;
                artifact(survey, producer, output, &view)?
            }
        };
        let body = instance.body.value();
        let cut = if instance.kind == Threshold::NAME {
            let stage = Threshold::deserialize(&body).map_err(anyhow::Error::from)?;
            Some(CutRule { rule: stage.rule(), objective: stage.objective })
        } else if instance.kind == Select::NAME {
            let stage = Select::deserialize(&body).map_err(anyhow::Error::from)?;
            let choice = Choice::open(&artifact(survey, index, Select::CHOICE.name(), &view)?)?;
            choice.best().map(|best| CutRule { rule: best.rule.clone(), objective: stage.objective })
        } else {
            None
        };
        let only =
            set.map(|(producer, _)| survey.plan.instance(producer).params.value()["read"]["only"].clone());
        let only = only.and_then(|only| serde_json::from_value(only).ok()).unwrap_or_default();
        let stages = StageFacts {
            cut,
            text_column: read_option("input_column"),
            label_separator: read_option("label_separator"),
            join_column: read_option("join_column"),
            only,
        };
        Ok((index, Self { model, data, stages }))
    }
}

/// Refuses a directory that is damaged, and warns if nothing shows that it is not.
fn confirm(project: &Project, directory: &Path) -> Result<(), Failure> {
    let confirmation = project.store_to_read()?.confirm(directory);
    match confirmation.map_err(|error| Failure::bad_input(error.to_string()))? {
        Confirmation::Confirmed => {}
        Confirmation::Unknown => print_status(&format!(
            "warning: nothing shows whether `{}` is complete and undamaged; a copy that `pipe get STAGE.OUTPUT --to DIR` makes \
             can be checked",
            directory.display()
        )),
    }
    Ok(())
}

fn model_output(instance: &Instance) -> Option<&str> {
    instance
        .outputs
        .iter()
        .find(|output| output.artifact == ModelDirectory::TYPE)
        .map(|output| output.name.as_str())
}

fn not_one_model(survey: &Survey, word: &str, makers: &[InstanceIndex]) -> Failure {
    let names: Vec<String> = makers.iter().take(5).map(|&index| survey.name(index)).collect();
    if !names.is_empty() {
        let (count, names) = (makers.len(), names.join(", "));
        return Failure::bad_input(format!("`{word}` selects {count} models: {names}; name one of them"));
    }
    let mut stages: Vec<&str> = Vec::new();
    for (_, instance, _) in survey.instances().filter(|(_, instance, _)| model_output(instance).is_some()) {
        if !stages.contains(&instance.id.stage.as_str()) {
            stages.push(&instance.id.stage);
        }
    }
    let others = if stages.is_empty() {
        "no stage of this pipeline trains a model".to_owned()
    } else {
        format!("these stages train models: {}", stages.join(", "))
    };
    Failure::bad_input(format!("`{word}` does not train a model; {others}"))
}

fn artifact(survey: &Survey, index: InstanceIndex, output: &str, view: &Path) -> Result<PathBuf, Failure> {
    let stored = survey.fresh(index).and_then(|manifest| manifest.outputs.get(output));
    let stored = stored.ok_or_else(|| {
        let name = survey.name(index);
        Failure::bad_input(format!("{name} is not up to date; run `pipe run FILE '{name}'` first"))
    })?;
    let path = survey.store.artifact(stored, view)?;
    Ok(std::path::absolute(path)?)
}

/// Runs one job outside of any pipeline, and prints its warnings.
///
/// The reason that a worker gives for a failure is about the model or the rows, so it counts as bad input.
fn run(
    kind: &str,
    body: &impl Serialize,
    place: &ModelPlace,
    rows: Option<&Path>,
    output: (&str, &Path),
    scratch: &Path,
) -> Result<(), Failure> {
    let pipe = std::env::current_exe()?;
    let task = task(kind, body, place, rows, output, scratch)?;
    if judge::needs_worker(&task.job)
        && let Err(problem) = Worker::find(&pipe)
    {
        return Err(Failure::bad_input(format!("the model has a network: {problem}")));
    }
    let executor =
        LocalProcess::new(Programs { pipe, command: command::argv, needs_worker: judge::needs_worker });
    let stop = Stop::new();
    stop_on_signals(&stop)?;
    let mut reason = None;
    let ended = execute(&executor, &task, &stop, &mut |event| match event {
        WorkerEvent::Failed { message } => reason = Some(message),
        WorkerEvent::Log { level: LogLevel::Warning, message } => {
            print_status(&format!("warning: {message}"));
        }
        _ => {}
    });
    let chatter = std::fs::read(&task.stderr).unwrap_or_default();
    if !chatter.is_empty() {
        print_status(String::from_utf8_lossy(&chatter).trim_end());
    }
    match (ended, reason) {
        (Ok(_), _) => Ok(()),
        (Err(AttemptError::Stopped { .. } | AttemptError::Detached { .. }), _) => {
            Err(Failure::new(Exit::Interrupted, "stopped"))
        }
        (Err(AttemptError::Failed { .. }), Some(reason)) => Err(Failure::bad_input(reason)),
        (Err(AttemptError::Failed { error, .. }), None) => {
            Err(Failure::new(Exit::StageFailed, format!("the prediction ended without saying why: {error}")))
        }
    }
}

/// Executes the task on this thread while another one watches for a request to stop.
fn execute(
    executor: &LocalProcess,
    task: &Task,
    stop: &Stop,
    report: &mut dyn FnMut(WorkerEvent),
) -> Result<ResourceUsage, AttemptError> {
    let (ended, watched) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = watched.recv_timeout(CHECK_STOP) {
                if stop.requested().is_some() {
                    // There is no checkpoint that it could write first.
                    return executor.stop(Urgency::Now);
                }
            }
        });
        let result = executor.execute(task, report);
        drop(ended);
        result
    })
}

fn task(
    kind: &str,
    body: &impl Serialize,
    place: &ModelPlace,
    rows: Option<&Path>,
    (output, path): (&str, &Path),
    directory: &Path,
) -> Result<Task<'static>, Failure> {
    // The worker has its own working directory.
    let input = |artifact: &str, path: &Path| -> std::io::Result<Vec<JobInput>> {
        let path = std::path::absolute(path)?;
        Ok(vec![JobInput { axes: Vec::new(), artifact: artifact.to_owned(), path, blob: None }])
    };
    let mut inputs = BTreeMap::from([
        (jobs::MODEL.name().to_owned(), input(ModelDirectory::TYPE, &place.model)?),
        (jobs::DATA.name().to_owned(), input(SplitData::TYPE, &place.data)?),
    ]);
    if let Some(rows) = rows {
        inputs.insert(jobs::ROWS.name().to_owned(), input(FILE, rows)?);
    }
    let subdirectory = |name: &str| -> std::io::Result<PathBuf> {
        let path = directory.join(name);
        std::fs::create_dir(&path).map(|()| path)
    };
    let job = Job {
        key: None,
        instance: kind.to_owned(),
        kind: kind.to_owned(),
        body: serde_json::to_value(body).map_err(anyhow::Error::from)?,
        inputs,
        outputs: BTreeMap::from([(output.to_owned(), std::path::absolute(path)?)]),
        scratch: subdirectory("scratch")?,
        checkpoints: subdirectory("checkpoints")?,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    Ok(Task {
        job,
        program: Program::Either,
        fan_ins: BTreeSet::new(),
        environment: &[],
        packages: None,
        directory: directory.to_owned(),
        stdout: directory.join("stdout"),
        stderr: directory.join("stderr"),
        gpus: Vec::new(),
    })
}
