//! The commands that look and change nothing: `plan`, `why`, `status`, `show`, `logs`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Value, json};

use super::args::{LogsArgs, PipelineArgs, PlanArgs, StageArgs, StatusArgs};
use super::asked::Asked;
use super::cache::warn_of_damage;
use super::data_files;
use super::exit::{Exit, Failure, Outcome};
use super::leftover::{Leftover, leftovers, sentences, settled};
use super::own_files;
use super::project::{Project, select};
use super::table::Grid;
use super::{print_json, print_text, text};
use pipe_engine::plan::{Plan, Why};
use pipe_engine::runner::{Options, Outlook, survey};
use pipe_engine::spec::pipeline::{Instance, InstanceIndex, Source};
use pipe_engine::store::Store;
use pipe_engine::store::manifest::{Manifest, Stored};

/// A pipeline, and how each of its instances stands.
pub(super) struct Survey {
    pub store: Store,
    pub plan: Plan,
    pub outlooks: Vec<Outlook>,
    /// What other variants of the pipeline left in `results/`.
    pub leftovers: Vec<Leftover>,
}

impl Survey {
    pub(super) fn of(
        project: &Project,
        file: Option<&PathBuf>,
        PipelineArgs { set, .. }: &PipelineArgs,
        targets: &[String],
    ) -> Result<Self, Failure> {
        let store = project.store_to_read()?;
        let file = project.pipeline_file(file, &store)?;
        let mut pipeline = project.load(&file, set)?;
        data_files::find(&mut pipeline, &project.data_dir);
        let targets = if targets.is_empty() { None } else { Some(select(&pipeline, targets)?) };
        let plan = Plan::new(pipeline).map_err(|cycle| Failure::bad_input(cycle.to_string()))?;
        let options = Options { targets, ..Options::default() };
        let outlooks = survey(&plan, &store, &options);
        let (set, state) = (settled(set), store.pipeline_state(&file));
        let leftovers = leftovers(&plan, &outlooks, &state, &set);
        warn_of_damage(project, &store);
        sentences(&leftovers, &plan, &set).iter().for_each(|sentence| project.status(sentence));
        Ok(Self { store, plan, outlooks, leftovers })
    }

    pub(super) fn instances(&self) -> impl Iterator<Item = (InstanceIndex, &Instance, &Outlook)> {
        let instances = self.plan.pipeline().instances.iter().zip(&self.outlooks).enumerate();
        instances.map(|(index, (instance, outlook))| (InstanceIndex(index), instance, outlook))
    }

    /// The result of an instance that is up to date.
    pub(super) fn fresh(&self, index: InstanceIndex) -> Option<&Manifest> {
        manifest(&self.outlooks[index.0])
    }

    pub(super) fn name(&self, index: InstanceIndex) -> String {
        self.plan.instance(index).id.to_string()
    }

    fn names(&self, indices: &[InstanceIndex]) -> String {
        let shown: Vec<String> = indices.iter().take(3).map(|&index| self.name(index)).collect();
        let more = indices.len().saturating_sub(shown.len());
        if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
    }

    /// One word and, where there is one, the reason.
    pub(super) fn words(&self, outlook: &Outlook) -> (&'static str, String) {
        match outlook {
            Outlook::Fresh(_) => ("fresh", String::new()),
            Outlook::WillRun(why) => ("will run", why.to_string()),
            Outlook::MayRun { waits_for, known } => match known {
                Some(why) => ("will run", format!("{why}; after {}", self.names(waits_for))),
                None => ("may run", format!("depends on what {} gives", self.names(waits_for))),
            },
            Outlook::CannotRun(problem) => ("cannot run", problem.clone()),
            Outlook::NotAsked => ("not asked", String::new()),
        }
    }

    fn record(&self, index: InstanceIndex) -> Record {
        let outlook = &self.outlooks[index.0];
        let (state, reason) = self.words(outlook);
        let why = match outlook {
            Outlook::WillRun(why) | Outlook::MayRun { known: Some(why), .. } => Some(why.clone()),
            _ => None,
        };
        let waits_for = match outlook {
            Outlook::MayRun { waits_for, .. } => waits_for.iter().map(|&index| self.name(index)).collect(),
            _ => Vec::new(),
        };
        let manifest = manifest(outlook);
        Record {
            instance: self.name(index),
            kind: self.plan.instance(index).kind,
            state,
            reason,
            why,
            waits_for,
            key: manifest.map(|manifest| manifest.key.to_string()),
            finished: manifest.map(|manifest| manifest.finished.clone()),
            seconds: manifest.map(|manifest| manifest.seconds),
            leftovers: self.leftovers(index),
        }
    }

    /// What other variants of the instance left in `results/`.
    fn leftovers(&self, of: InstanceIndex) -> Vec<Leftover> {
        self.leftovers.iter().filter(|leftover| leftover.instance == of).cloned().collect()
    }
}

/// What `--json` prints of one instance.
#[derive(Serialize)]
struct Record {
    instance: String,
    kind: &'static str,
    state: &'static str,
    reason: String,
    why: Option<Why>,
    waits_for: Vec<String>,
    key: Option<String>,
    finished: Option<String>,
    seconds: Option<f64>,
    leftovers: Vec<Leftover>,
}

pub(super) fn manifest(outlook: &Outlook) -> Option<&Manifest> {
    match outlook {
        Outlook::Fresh(manifest) => Some(manifest),
        _ => None,
    }
}

/// What would run, and why. Fresh instances are only counted.
pub(super) fn plan(project: &Project, args: &PlanArgs) -> Outcome {
    let asked = Asked::stages(&args.pipeline, args.file.as_ref(), &args.targets)?;
    let survey = Survey::of(project, asked.file.as_ref(), &args.pipeline, &asked.stages)?;
    let asked: Vec<bool> =
        survey.outlooks.iter().map(|outlook| !matches!(outlook, Outlook::NotAsked)).collect();
    own_files::require(project, &survey.plan, &asked)?;
    let stale: Vec<InstanceIndex> =
        survey.instances().filter(|(_, _, outlook)| !outlook.is_fresh()).map(|(index, ..)| index).collect();
    if args.json {
        let records: Vec<Record> = survey.instances().map(|(index, ..)| survey.record(index)).collect();
        print_json(&records)?;
    } else {
        let mut grid = Grid::new(&["stage", "outlook", "why"]);
        for &index in &stale {
            let (state, reason) = survey.words(&survey.outlooks[index.0]);
            grid.row([survey.name(index), state.to_owned(), reason]);
        }
        let fresh = survey.instances().filter(|(_, _, outlook)| manifest(outlook).is_some()).count();
        let count = match (stale.len(), fresh) {
            (0, fresh) => format!("{} fresh, nothing to run\n", text::count(fresh, "stage")),
            (stale, fresh) => format!("{} to look at, {fresh} fresh\n", text::count(stale, "stage")),
        };
        print_text(&format!("{grid}{count}"))?;
    }
    Ok(if args.check && !stale.is_empty() { Exit::Stale } else { Exit::Done })
}

/// One line per instance, fresh ones included.
pub(super) fn status(project: &Project, args: &StatusArgs) -> Outcome {
    let file = Asked::file(&args.pipeline, args.file.as_ref())?;
    let survey = Survey::of(project, file.as_ref(), &args.pipeline, &[])?;
    if args.json {
        let records: Vec<Record> = survey.instances().map(|(index, ..)| survey.record(index)).collect();
        return print_json(&records);
    }
    let mut grid = Grid::new(&["stage", "kind", "state", "computed", "took"]);
    for (index, instance, outlook) in survey.instances() {
        let (state, _) = survey.words(outlook);
        let (computed, took) = manifest(outlook)
            .map(|manifest| (manifest.finished.clone(), text::duration(manifest.seconds)))
            .unwrap_or_default();
        grid.row([survey.name(index), instance.kind.to_owned(), state.to_owned(), computed, took]);
    }
    print_text(&grid.to_string())
}

pub(super) fn why(project: &Project, args: &StageArgs) -> Outcome {
    let asked = Asked::stage(&args.pipeline, args.file.as_ref(), &args.stage)?;
    let survey = Survey::of(project, asked.file.as_ref(), &args.pipeline, &[])?;
    let selected = select(survey.plan.pipeline(), &asked.stages)?;
    if args.json {
        let records: Vec<Record> = selected.iter().map(|&index| survey.record(index)).collect();
        return print_json(&records);
    }
    let mut out = String::new();
    for index in selected {
        let outlook = &survey.outlooks[index.0];
        let name = project.paint_out.bold(&survey.name(index));
        match outlook {
            Outlook::Fresh(manifest) => {
                let _ = writeln!(out, "{name}: fresh, computed {}", manifest.finished);
            }
            Outlook::WillRun(Why::Changed { changes })
            | Outlook::MayRun { known: Some(Why::Changed { changes }), .. } => {
                let _ = writeln!(out, "{name}: will run, because");
                for change in changes {
                    let _ = writeln!(out, "  {change}");
                }
            }
            other => {
                let (state, reason) = survey.words(other);
                let _ = writeln!(out, "{name}: {state}: {reason}");
            }
        }
    }
    print_text(&out)
}

pub(super) fn show(project: &Project, args: &StageArgs) -> Outcome {
    let asked = Asked::stage(&args.pipeline, args.file.as_ref(), &args.stage)?;
    let survey = Survey::of(project, asked.file.as_ref(), &args.pipeline, &[])?;
    let selected = select(survey.plan.pipeline(), &asked.stages)?;
    if args.json {
        let shown: Vec<Value> = selected.iter().map(|&index| shown_json(&survey, index)).collect();
        return print_json(&shown);
    }
    let texts: Vec<String> =
        selected.iter().map(|&index| shown_text(project, &survey, index)).collect::<Result<_, _>>()?;
    print_text(&texts.join("\n"))
}

/// `slot` -> where it comes from, as a person would write it.
fn sources(survey: &Survey, instance: &Instance) -> BTreeMap<String, Vec<String>> {
    let source = |source: &Source| match source {
        Source::Output { producer, output, .. } => format!("{}.{output}", survey.name(*producer)),
        Source::Path(path) => path.display().to_string(),
        Source::DataFile { dataset, file } => format!("{dataset}/{file}"),
    };
    let inputs = instance.inputs.iter();
    inputs.map(|input| (input.slot.clone(), input.sources.iter().map(source).collect())).collect()
}

fn shown_json(survey: &Survey, index: InstanceIndex) -> Value {
    let instance = survey.plan.instance(index);
    let manifest = manifest(&survey.outlooks[index.0]);
    let (state, reason) = survey.words(&survey.outlooks[index.0]);
    json!({
        "instance": survey.name(index),
        "kind": instance.kind,
        "version": instance.version,
        "state": state,
        "reason": reason,
        "parameters": instance.params,
        "inputs": sources(survey, instance),
        "outputs": instance.outputs.iter().map(|output| json!({
            "name": output.name,
            "artifact": output.artifact,
            "file_name": output.file_name,
            "stored": manifest.and_then(|manifest| manifest.outputs.get(&output.name)),
        })).collect::<Vec<_>>(),
        "manifest": manifest,
        "leftovers": survey.leftovers(index),
    })
}

fn shown_text(project: &Project, survey: &Survey, index: InstanceIndex) -> Result<String, Failure> {
    let instance = survey.plan.instance(index);
    let outlook = &survey.outlooks[index.0];
    let paint = project.paint_out;
    let (state, reason) = survey.words(outlook);
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let mut out = format!(
        "{}  {} (version {}), {state}{reason}\n",
        paint.bold(&survey.name(index)),
        instance.kind,
        instance.version
    );
    let _ = writeln!(out, "{}", paint.bold("parameters"));
    let yaml = serde_yaml::to_string(&without_references(&instance.params)).map_err(anyhow::Error::from)?;
    for line in yaml.lines() {
        let _ = writeln!(out, "  {line}");
    }
    let inputs = sources(survey, instance);
    if !inputs.is_empty() {
        let _ = writeln!(out, "{}", paint.bold("inputs"));
        for (slot, sources) in inputs {
            let _ = writeln!(out, "  {slot}: {}", sources.join(", "));
        }
    }
    let _ = writeln!(out, "{}", paint.bold("outputs"));
    let manifest = manifest(outlook);
    for output in &instance.outputs {
        let stored = manifest.and_then(|manifest| manifest.outputs.get(&output.name));
        let stored = stored.map(described).unwrap_or_default();
        let _ = writeln!(out, "  {}: {} ({}){stored}", output.name, output.file_name, output.artifact);
    }
    if let Some(manifest) = manifest {
        out.push_str(&recorded(manifest, project));
    }
    Ok(out)
}

fn described(stored: &Stored) -> String {
    let shape = if stored.directory { "directory, " } else { "" };
    format!(", {shape}{}, {}", text::bytes(stored.bytes), stored.blob.short())
}

fn recorded(manifest: &Manifest, project: &Project) -> String {
    let mut out = String::new();
    if !manifest.metrics.is_empty() {
        let _ = writeln!(out, "{}", project.paint_out.bold("metrics"));
        for (name, value) in &manifest.metrics {
            let _ = writeln!(out, "  {name}: {}{}", text::figure(value.value), value.suffix());
        }
    }
    let _ = writeln!(out, "{}", project.paint_out.bold("computed"));
    let (seconds, cpu) = (text::duration(manifest.seconds), text::duration(manifest.cpu_seconds));
    let memory = text::bytes(manifest.max_rss_bytes);
    let _ =
        writeln!(out, "  {} in {seconds} ({cpu} of processor time, {memory} of memory)", manifest.finished);
    let _ = writeln!(out, "  key {}", manifest.key);
    for (name, value) in &manifest.environment {
        let _ = writeln!(out, "  {name}: {value}");
    }
    for warning in &manifest.warnings {
        let _ = writeln!(out, "  warning: {warning}");
    }
    out
}

/// References serialise as null and are shown as inputs.
fn without_references(params: &Value) -> Value {
    match params {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name.clone(), without_references(value))).collect())
        }
        other => other.clone(),
    }
}

/// What the stage wrote when it was computed; of a stage that failed, what it wrote then.
pub(super) fn logs(project: &Project, args: &LogsArgs) -> Outcome {
    let asked = Asked::stage(&args.pipeline, args.file.as_ref(), &args.stage)?;
    let survey = Survey::of(project, asked.file.as_ref(), &args.pipeline, &[])?;
    let selected = select(survey.plan.pipeline(), &asked.stages)?;
    let mut out = Vec::new();
    for &index in &selected {
        let name = survey.name(index);
        if selected.len() > 1 {
            out.extend_from_slice(format!("==> {name} <==\n").as_bytes());
        }
        let streams = if args.stderr { &["stderr"][..] } else { &["stdout", "stderr"][..] };
        let mut known = false;
        for stream in streams {
            if let Some(written) = log_of(&survey, index, stream)? {
                known = true;
                out.extend_from_slice(&written);
            }
        }
        if !known {
            let fresh = manifest(&survey.outlooks[index.0]).is_some();
            let what =
                if fresh { "wrote nothing" } else { "has not been run yet, or its logs were collected" };
            eprintln!("{name} {what}");
        }
    }
    print_text(&String::from_utf8_lossy(&out))
}

fn log_of(survey: &Survey, index: InstanceIndex, stream: &str) -> Result<Option<Vec<u8>>, Failure> {
    if let Some(manifest) = manifest(&survey.outlooks[index.0]) {
        let stored = if stream == "stdout" { &manifest.stdout } else { &manifest.stderr };
        return Ok(stored.as_ref().map(|stored| survey.store.read(stored)).transpose()?);
    }
    let name = survey.name(index);
    let runs = survey.store.runs()?;
    Ok(runs.iter().find_map(|run| survey.store.kept_log(&run.id, &name, stream)))
}
