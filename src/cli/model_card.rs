//! The model card of an exported model: what it was made from, how well it does, and how to use it.

use std::fmt::Write as _;
use std::path::Path;

use super::exit::Failure;
use super::predict::ModelPlace;
use super::survey::Survey;
use pipe_core::artifact::Artifact;
use pipe_core::digest::Digest;
use pipe_core::stage::StageKind;
use pipe_engine::lock::path_of;
use pipe_engine::spec::pipeline::{InputSource, Instance, InstanceIndex};
use pipe_ml::artifacts::LabelRecords;
use pipe_ml::composite::Composite;
use pipe_ml::data::split_data::SplitData;
use pipe_ml::explanation::composite::model_words;
use pipe_ml::metric::label::LabelRecord;
use pipe_ml::metric::marked::Protocol;
use pipe_ml::metric::record::EvaluationRecord;
use pipe_report::table::markdown;
use pipe_stages::evaluate::Evaluate;

/// How many labels that are never predicted are listed by name.
const LISTED: usize = 50;

/// Returns the card of the model that a stage made, in Markdown.
pub(super) fn model_card(
    survey: &Survey,
    index: InstanceIndex,
    place: &ModelPlace,
    scratch: &Path,
) -> Result<String, Failure> {
    let name = survey.name(index);
    let data = SplitData::open(&place.data).map_err(anyhow::Error::from)?;
    let names = data.label_names().map_err(anyhow::Error::from)?;
    let mut card = format!("# Model card: `{name}`\n\n");
    let _ = writeln!(card, "- Model: {}", words(place)?);
    let file = &survey.plan.pipeline().file;
    let _ = writeln!(card, "- Pipeline: `{}`, stage `{name}`", file.display());
    if let Some(manifest) = survey.fresh(index) {
        let _ = writeln!(card, "- Key of the stage: `{}`", manifest.key);
    }
    if let Ok(lock) = std::fs::read(path_of(file)) {
        let _ = writeln!(card, "- BLAKE3 digest of the lock: `{}`", Digest::of(&lock));
    }
    let meta = data.meta();
    let parts: Vec<String> = meta.rows.iter().map(|(part, rows)| format!("{rows} {}", part.name())).collect();
    let (features, labels) = (meta.features, meta.labels);
    let _ = writeln!(card, "- Data: {} rows; {features} features, {labels} labels", parts.join(", "));
    let _ = writeln!(card, "- Split: {}", meta.split);
    let evaluations: Vec<InstanceIndex> = survey
        .instances()
        .filter(|(_, instance, _)| instance.kind == Evaluate::NAME && reads(instance, index))
        .map(|(evaluation, ..)| evaluation)
        .collect();
    if evaluations.is_empty() {
        card += "\nNo stage of the pipeline evaluates this model, so its quality is not known.\n";
    }
    for evaluation in evaluations {
        let name = survey.name(evaluation);
        let open = |output: &str| {
            let stored = survey.fresh(evaluation).and_then(|manifest| manifest.outputs.get(output));
            stored.map(|stored| survey.store.artifact(stored, scratch)).transpose()
        };
        match (open(Evaluate::EVALUATION.name())?, open(Evaluate::LABELS.name())?) {
            (Some(record), Some(records)) => {
                let record = EvaluationRecord::open(&record)?;
                let LabelRecords(records) = LabelRecords::open(&records)?;
                card += &quality(&name, &record, &records, names.as_deref());
            }
            _ => {
                let _ = writeln!(
                    card,
                    "\nThe evaluation `{name}` was not up to date when the model was exported."
                );
            }
        }
    }
    card += "\n## Use\n\n```text\npipe predict DIR FILE\npipe explain DIR --row 0 --input FILE\nb3sum --check B3SUMS\n```\n";
    Ok(card)
}

/// Describes the model: its parts and how its cuts were chosen.
fn words(place: &ModelPlace) -> Result<String, Failure> {
    if !Composite::is_at(&place.model).map_err(anyhow::Error::from)? {
        return Ok("a network with thresholds, as `train` made it".to_owned());
    }
    let model = Composite::load(&place.model).map_err(anyhow::Error::from)?;
    Ok(model_words(&model, place.stages.cut.as_ref()))
}

/// Returns whether an instance reads an output of another one.
fn reads(instance: &Instance, index: InstanceIndex) -> bool {
    let mut sources = instance.inputs.iter().flat_map(|input| &input.sources);
    sources.any(|source| matches!(source, InputSource::Output { producer, .. } if *producer == index))
}

/// Returns the section about one evaluation.
fn quality(
    name: &str,
    record: &EvaluationRecord,
    records: &[LabelRecord],
    names: Option<&[String]>,
) -> String {
    let mut section = format!("\n## Evaluation `{name}`\n\n");
    let (protocol, mark) = match record.protocol() {
        Protocol::Honest => ("honest protocol", ""),
        Protocol::Oracle => ("oracle protocol (†): the labels of these rows influenced the decisions", "†"),
    };
    let rows = record.evaluation.rows();
    let _ = writeln!(section, "{rows} {} rows, {protocol}.\n", record.part.name());
    let confidence = record.intervals.as_ref().map_or(0.95, |intervals| intervals.bootstrap.confidence);
    let percent = 100.0 * confidence;
    let _ = writeln!(section, "| metric | value | {percent} % interval |\n|---|--:|---|");
    for (metric, value) in record.evaluation.iter() {
        let interval = record.interval(metric).map(|interval| interval.reveal().1);
        let interval = interval.map(|interval| format!("{:.4} to {:.4}", interval.low, interval.high));
        let (title, value) = (metric.title(), value.reveal().1);
        let _ = writeln!(section, "| {title} | {value:.4}{mark} | {} |", interval.unwrap_or_default());
    }
    let never: Vec<u32> =
        records.iter().filter(|record| record.tp + record.fp == 0).map(|record| record.label).collect();
    let _ = write!(section, "\nLabels that are never predicted: {} of {}", never.len(), records.len());
    let label = |&label: &u32| match names {
        Some(names) => markdown::escape(&names[label as usize]),
        None => label.to_string(),
    };
    let listed: Vec<String> = never.iter().take(LISTED).map(label).collect();
    if !listed.is_empty() {
        let more = if never.len() > LISTED { ", ..." } else { "" };
        let _ = write!(section, " ({}{more})", listed.join(", "));
    }
    section + ".\n"
}
