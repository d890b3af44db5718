//! The commands that only read: `plan`, `why`, `status`, `show` and `logs`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::args::{LogsArgs, PlanArgs, ShowArgs, StageArgs, StatusArgs};
use super::exit::{Exit, Failure, Outcome};
use super::pipeline_selection::PipelineSelection;
use super::project::{Project, select};
use super::survey::{Cause, InstanceRecord, Survey, manifest};
use super::table::{Grid, terminal_width, wrap_indented};
use super::user_files;
use super::{print_json, print_status, print_text, text};
use pipe_core::artifact::Artifact;
use pipe_core::suggest;
use pipe_engine::plan::Why;
use pipe_engine::runner::Outlook;
use pipe_engine::runner::cluster::{has_job, log_of_job};
use pipe_engine::spec::pipeline::{InputSource, Instance, InstanceIndex};
use pipe_engine::store::manifest::{Manifest, Stored};
use pipe_ml::metric::bootstrap::Interval;
use pipe_ml::metric::record::EvaluationRecord;
use pipe_stages::parts::PARTS;

/// `pipe plan`: lists what would run and why. Fresh instances are only counted.
pub(super) fn plan(project: &Project, args: &PlanArgs) -> Outcome {
    let selection = PipelineSelection::stages(&args.pipeline, args.file.as_ref(), &args.targets)?;
    let survey = Survey::of(project, selection.file.as_ref(), &args.pipeline, &selection.stages)?;
    project.warn_of_unused_variables(&survey.plan);
    let is_unmet = survey.warn_of_unmet_expectations(project);
    let selected: Vec<bool> =
        survey.outlooks.iter().map(|outlook| !matches!(outlook, Outlook::NotSelected)).collect();
    user_files::require(project, &survey.plan, &selected)?;
    let stale: Vec<InstanceIndex> =
        survey.instances().filter(|(_, _, outlook)| !outlook.is_fresh()).map(|(index, ..)| index).collect();
    if args.json {
        let records: Vec<InstanceRecord> =
            survey.instances().map(|(index, ..)| survey.record(index)).collect();
        print_json(&records)?;
    } else {
        let mut grid = Grid::new(&["stage", "outlook", "why"]).wrapped(&[0, 2]);
        for &index in &stale {
            let (state, reason) = survey.state(index);
            grid.row([survey.name(index), state, reason]);
        }
        let fresh = survey.instances().filter(|(_, _, outlook)| manifest(outlook).is_some()).count();
        let count = match (stale.len(), fresh) {
            (0, fresh) => format!("{} fresh, nothing to run\n", text::count(fresh, "stage")),
            (stale, fresh) => format!("{} not fresh, {fresh} fresh\n", text::count(stale, "stage")),
        };
        print_text(&format!("{grid}{count}{}", survey.verdicts(project)))?;
    }
    Ok(if args.check && (is_unmet || !stale.is_empty()) { Exit::Stale } else { Exit::Done })
}

/// `pipe status`: prints one line per instance, including fresh ones.
pub(super) fn status(project: &Project, args: &StatusArgs) -> Outcome {
    let selection = PipelineSelection::file(&args.pipeline, args.file.as_ref())?;
    let survey = Survey::of(project, selection.file.as_ref(), &args.pipeline, &[])?;
    survey.warn_of_unmet_expectations(project);
    if args.json {
        let records: Vec<InstanceRecord> =
            survey.instances().map(|(index, ..)| survey.record(index)).collect();
        return print_json(&records);
    }
    let mut grid = Grid::new(&["stage", "kind", "state", "computed", "took"]).wrapped(&[0]).optional(&[1, 3]);
    for (index, instance, outlook) in survey.instances() {
        let (state, _) = survey.state(index);
        let (computed, took) = manifest(outlook)
            .map(|manifest| (manifest.finished.clone(), text::duration(manifest.seconds)))
            .unwrap_or_default();
        grid.row([survey.name(index), instance.kind.to_owned(), state, computed, took]);
    }
    print_text(&format!("{grid}{}", survey.verdicts(project)))
}

/// `pipe why`: explains why instances would run.
pub(super) fn why(project: &Project, args: &StageArgs) -> Outcome {
    let selection = PipelineSelection::stage(&args.pipeline, args.file.as_ref(), &args.stage)?;
    let survey = Survey::of(project, selection.file.as_ref(), &args.pipeline, &[])?;
    let selected = select(survey.plan.pipeline(), &selection.stages)?;
    if args.json {
        let record = |&index: &InstanceIndex| {
            let mut record = serde_json::to_value(survey.record(index)).map_err(anyhow::Error::from)?;
            record["causes"] = serde_json::to_value(survey.causes(index)?).map_err(anyhow::Error::from)?;
            Ok::<Value, Failure>(record)
        };
        return print_json(&selected.iter().map(record).collect::<Result<Vec<Value>, _>>()?);
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
        if let Some(error) = survey.error_of(index) {
            let _ = writeln!(out, "  the error was: {error}");
        }
        for (instances, Cause { state, reason, error, .. }) in grouped(survey.causes(index)?) {
            let _ = writeln!(out, "  caused by {} ({state}): {reason}", text::first_of(&instances));
            if let Some(error) = error {
                let _ = writeln!(out, "    the error was: {error}");
            }
        }
    }
    print_text(&out)
}

/// Puts stages with the same cause together, and those with an error first.
fn grouped(causes: Vec<Cause>) -> Vec<(Vec<String>, Cause)> {
    let mut groups: Vec<(Vec<String>, Cause)> = Vec::new();
    for cause in causes {
        let is_same = |(_, known): &&mut (Vec<String>, Cause)| {
            (&known.state, &known.reason, &known.error) == (&cause.state, &cause.reason, &cause.error)
        };
        match groups.iter_mut().find(is_same) {
            Some((instances, _)) => instances.push(cause.instance),
            None => groups.push((vec![cause.instance.clone()], cause)),
        }
    }
    groups.sort_by_key(|(_, cause)| cause.error.is_none());
    groups
}

/// `pipe show`: prints the parameters, inputs, outputs and result of instances, or a built-in part.
pub(super) fn show(project: &Project, args: &ShowArgs) -> Outcome {
    if let Some(name) = &args.part {
        return show_part(name);
    }
    let stage = args.stage.as_deref().unwrap_or_default();
    let selection = PipelineSelection::stage(&args.pipeline, args.file.as_ref(), stage)?;
    let survey = Survey::of(project, selection.file.as_ref(), &args.pipeline, &[])?;
    let selected = select(survey.plan.pipeline(), &selection.stages)?;
    if args.json {
        let shown: Vec<Value> = selected.iter().map(|&index| shown_json(&survey, index)).collect();
        return print_json(&shown);
    }
    let texts: Vec<String> =
        selected.iter().map(|&index| shown_text(project, &survey, index)).collect::<Result<_, _>>()?;
    let text = texts.join("\n");
    print_text(&match terminal_width() {
        Some(width) => wrap_indented(&text, width),
        None => text,
    })
}

fn show_part(name: &str) -> Outcome {
    let Some(part) = PARTS.iter().find(|part| part.name == name) else {
        let names = PARTS.iter().map(|part| part.name);
        let hint = suggest::did_you_mean(name, "the built-in parts are", names).unwrap_or_default();
        return Err(Failure::bad_input(format!("there is no built-in part `{name}`; {hint}")));
    };
    print_text(part.text)
}

/// Returns the sources of each slot: `stage.output` or the path of a file.
fn sources(survey: &Survey, instance: &Instance) -> BTreeMap<String, Vec<String>> {
    let source_text = |source: &InputSource| match source {
        InputSource::Output { producer, output, .. } => format!("{}.{output}", survey.name(*producer)),
        InputSource::File(path) => path.display().to_string(),
    };
    let inputs = instance.inputs.iter();
    inputs.map(|input| (input.slot.clone(), input.sources.iter().map(source_text).collect())).collect()
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
        "parameters": instance.params.value(),
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
    let parameters = without_references(&instance.params.value());
    if parameters.as_object().is_none_or(|fields| !fields.is_empty()) {
        let _ = writeln!(out, "{}", paint.bold("parameters"));
        for line in serde_yaml::to_string(&parameters).map_err(anyhow::Error::from)?.lines() {
            let _ = writeln!(out, "  {line}");
        }
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
        out.push_str(&recorded(manifest, &intervals(survey, instance, manifest), project));
    }
    Ok(out)
}

fn described(stored: &Stored) -> String {
    let shape = if stored.directory { "directory, " } else { "" };
    format!(", {shape}{}, {}", text::bytes(stored.bytes), stored.blob.short())
}

/// Returns the confidence intervals of an evaluation, by metric, if its content is in the cache.
fn intervals(survey: &Survey, instance: &Instance, manifest: &Manifest) -> BTreeMap<String, (f64, f64)> {
    let output = instance.outputs.iter().find(|output| output.artifact == EvaluationRecord::TYPE);
    let stored = output.and_then(|output| manifest.outputs.get(&output.name));
    let bytes = stored.and_then(|stored| survey.store.read(stored).ok());
    let record = bytes.and_then(|bytes| serde_json::from_slice::<EvaluationRecord>(&bytes).ok());
    let values = record.and_then(|record| record.intervals).map(|intervals| intervals.values);
    let named = |interval: Interval| (interval.metric.name().to_owned(), (interval.low, interval.high));
    values.unwrap_or_default().into_iter().map(named).collect()
}

fn recorded(manifest: &Manifest, intervals: &BTreeMap<String, (f64, f64)>, project: &Project) -> String {
    let mut out = String::new();
    if !manifest.metrics.is_empty() {
        let _ = writeln!(out, "{}", project.paint_out.bold("metrics"));
        for (name, value) in &manifest.metrics {
            let interval = intervals.get(name).map(|&(low, high)| [low, high].map(text::value));
            let interval = interval.map(|[low, high]| format!(" [{low}, {high}]")).unwrap_or_default();
            let _ = writeln!(out, "  {name}: {}{interval}{}", text::value(value.value), value.suffix());
        }
    }
    let _ = writeln!(out, "{}", project.paint_out.bold("computed"));
    let (seconds, cpu) = (text::duration(manifest.seconds), text::duration(manifest.cpu_seconds));
    let memory = text::bytes(manifest.max_rss_bytes);
    let _ =
        writeln!(out, "  {} in {seconds} ({cpu} of processor time, {memory} of memory)", manifest.finished);
    if let Some(writer) = &manifest.taken_from {
        let _ = writeln!(out, "  by {writer}, and taken from the remote");
    }
    let _ = writeln!(out, "  key {}", manifest.key);
    for (name, value) in &manifest.environment {
        let _ = writeln!(out, "  {name}: {value}");
    }
    for warning in &manifest.warnings {
        let _ = writeln!(out, "  warning: {warning}");
    }
    out
}

/// Removes references, which serialise as null and are shown as inputs, and what is empty.
fn without_references(params: &Value) -> Value {
    let is_empty = |value: &Value| {
        value.is_null()
            || value.as_object().is_some_and(serde_json::Map::is_empty)
            || value.as_array().is_some_and(Vec::is_empty)
    };
    match params {
        Value::Object(fields) => {
            let kept = fields.iter().map(|(name, value)| (name.clone(), without_references(value)));
            Value::Object(kept.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => {
            Value::Array(items.iter().map(without_references).filter(|value| !is_empty(value)).collect())
        }
        other => other.clone(),
    }
}

/// `pipe logs`: prints what a stage wrote when it was computed or when it failed, or what its job on a cluster has written so far.
pub(super) fn logs(project: &Project, args: &LogsArgs) -> Outcome {
    let selection = PipelineSelection::stage(&args.pipeline, args.file.as_ref(), &args.stage)?;
    let survey = Survey::of(project, selection.file.as_ref(), &args.pipeline, &[])?;
    let selected = select(survey.plan.pipeline(), &selection.stages)?;
    let mut out = Vec::new();
    for &index in &selected {
        let name = survey.name(index);
        if selected.len() > 1 {
            out.extend_from_slice(format!("==> {name} <==\n").as_bytes());
        }
        let streams = if args.stderr { &["stderr"][..] } else { &["stdout", "stderr"][..] };
        let mut has_log = false;
        for stream in streams {
            if let Some(written) = log_of(&survey, index, stream)? {
                has_log = true;
                out.extend_from_slice(&written);
            }
        }
        let warnings =
            manifest(&survey.outlooks[index.0]).map_or(&[][..], |manifest| manifest.warnings.as_slice());
        for warning in warnings {
            project.warn(&format!("{name}: {warning}"));
        }
        if !has_log && warnings.is_empty() {
            let fresh = manifest(&survey.outlooks[index.0]).is_some();
            let what = if fresh {
                "wrote nothing"
            } else if survey.key_of(index).is_some_and(|key| has_job(&survey.store, key)) {
                "has a job on the cluster, which has written nothing so far; `pipe jobs` shows its state"
            } else {
                "has not been run yet, or its logs were removed"
            };
            print_status(&format!("{name} {what}"));
        }
    }
    print_text(&String::from_utf8_lossy(&out))
}

fn log_of(survey: &Survey, index: InstanceIndex, stream: &str) -> Result<Option<Vec<u8>>, Failure> {
    if let Some(manifest) = manifest(&survey.outlooks[index.0]) {
        let stored = if stream == "stdout" { &manifest.stdout } else { &manifest.stderr };
        return Ok(stored.as_ref().map(|stored| survey.store.read(stored)).transpose()?);
    }
    let of_job = survey.key_of(index).and_then(|key| log_of_job(&survey.store, key, stream));
    if of_job.is_some() {
        return Ok(of_job);
    }
    let name = survey.name(index);
    let runs = survey.store.runs()?;
    Ok(runs.iter().find_map(|run| survey.store.kept_log(&run.id, &name, stream)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_with_the_same_cause_are_one_line_after_those_that_failed() {
        let cause = |instance: &str, reason: &str, error: Option<&str>| Cause {
            instance: instance.to_owned(),
            state: "will run".to_owned(),
            reason: reason.to_owned(),
            error: error.map(str::to_owned),
        };
        let causes = vec![
            cause("a", "epochs 1 -> 2", None),
            cause("b", "it failed", Some("no such file")),
            cause("c", "epochs 1 -> 2", None),
        ];
        let shown: Vec<String> = grouped(causes).iter().map(|(names, _)| names.join(" ")).collect();
        assert_eq!(shown, ["b", "a c"]);
    }
}
