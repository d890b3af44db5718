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
use pipe_ml::data::split_data::{PartName, SplitData};
use pipe_ml::explanation::composite::model_words;
use pipe_ml::metric::curves::Curves;
use pipe_ml::metric::label::LabelRecord;
use pipe_ml::metric::marked::Protocol;
use pipe_ml::metric::record::EvaluationRecord;
use pipe_ml::metric::registry::Metric;
use pipe_report::table::markdown;
use pipe_stages::evaluate::Evaluate;
use pipe_stages::fit::Fit;

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
    let model = composite(place)?;
    let _ = writeln!(card, "- Model: {}", words(model.as_ref(), place));
    for part in model.iter().flat_map(|model| &model.parts) {
        if let Some(reason) = &part.chosen_because {
            let _ = writeln!(
                card,
                "- Chosen by the sizes of the data: `{}`, because {reason}",
                part.model.name()
            );
        }
    }
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
    card += &left_out(labels, meta.labels_before);
    if let Some(reason) = &meta.weight_reason {
        let _ = writeln!(
            card,
            "- Weights chosen by `weight: auto`: {}, because {reason}",
            meta.weight.describe()
        );
    }
    let _ = writeln!(card, "- Split: {}", split(&meta.split, data.has(PartName::Test)));
    let fitted_on_all = model.as_ref().is_some_and(|model| !model.fitted_on.is_train());
    let rows = if fitted_on_all { "all rows" } else { "the training rows" };
    let _ = writeln!(card, "- Fitted on: {rows}");
    let measured: Vec<InstanceIndex> =
        if fitted_on_all { fitted_on_training_rows(survey, index) } else { vec![index] };
    let evaluations: Vec<(InstanceIndex, InstanceIndex)> = survey
        .instances()
        .filter(|(_, instance, _)| instance.kind == Evaluate::NAME)
        .filter_map(|(evaluation, instance, _)| {
            measured.iter().find(|&&model| reads(instance, model)).map(|&model| (evaluation, model))
        })
        .collect();
    if evaluations.is_empty() {
        card += "\nNo stage of the pipeline evaluates this model, so its quality is not known.\n";
    }
    for (evaluation, of) in evaluations {
        let name = survey.name(evaluation);
        let open = |output: &str| {
            let stored = survey.fresh(evaluation).and_then(|manifest| manifest.outputs.get(output));
            stored.map(|stored| survey.store.artifact(stored, scratch)).transpose()
        };
        let record = open(Evaluate::EVALUATION.name())?;
        let (records, curves) = (open(Evaluate::LABELS.name())?, open(Evaluate::CURVES.name())?);
        match (record, records, curves) {
            (Some(record), Some(records), Some(curves)) => {
                let record = EvaluationRecord::open(&record)?;
                let LabelRecords(records) = LabelRecords::open(&records)?;
                let curves = Curves::open(&curves)?;
                let _ = writeln!(card, "\n## Evaluation `{name}`\n");
                if of != index {
                    let of = survey.name(of);
                    let _ = writeln!(
                        card,
                        "Nothing can be measured with this model, because it was fitted on all rows. These values are those of \
                         `{of}`, which the same stages made from the training rows alone.\n"
                    );
                }
                card += &quality(&record, &records, &curves, names.as_deref());
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

/// Returns a line about the labels that the filter of the data set left out, or an empty text if it left out none.
fn left_out(labels: u64, before: u64) -> String {
    match before.saturating_sub(labels) {
        0 => String::new(),
        left_out => format!(
            "- Labels that the model does not know: {left_out} of {before}, which the filter of the data set left out. No \
             value below counts them\n"
        ),
    }
}

/// Describes the parts of the data set. It is stored in the same words with and without test rows.
fn split(stored: &str, has_test: bool) -> String {
    if has_test { stored.to_owned() } else { stored.replace("test rows as given", "no test rows") }
}

/// Returns the ends of an interval. A share is never outside of 0 to 1, although its interval may be.
fn ends(metric: Metric, low: f64, high: f64) -> (f64, f64) {
    let is_share = !matches!(metric, Metric::Bce | Metric::TrainingLoss);
    if is_share { (low.clamp(0.0, 1.0), high.clamp(0.0, 1.0)) } else { (low, high) }
}

/// Reads the description of the model; `None` if `train` made it.
fn composite(place: &ModelPlace) -> Result<Option<Composite>, Failure> {
    let is_composite = Composite::is_at(&place.model).map_err(anyhow::Error::from)?;
    let model = is_composite.then(|| Composite::load(&place.model));
    Ok(model.transpose().map_err(anyhow::Error::from)?)
}

/// Describes the model: its parts and how its cuts were chosen.
fn words(model: Option<&Composite>, place: &ModelPlace) -> String {
    match model {
        Some(model) => model_words(model, place.stages.cut.as_ref()),
        None => "a network with thresholds, as `train` made it".to_owned(),
    }
}

/// Returns the instances that make the same model from the training rows alone.
fn fitted_on_training_rows(survey: &Survey, index: InstanceIndex) -> Vec<InstanceIndex> {
    let others = survey.instances().map(|(other, ..)| other).filter(|&other| other != index);
    others.filter(|&other| differs_only_in_rows(survey, index, other)).collect()
}

/// Returns whether two instances, and all before them, differ at most in the rows that models are fitted on.
fn differs_only_in_rows(survey: &Survey, a: InstanceIndex, b: InstanceIndex) -> bool {
    if a == b {
        return true;
    }
    let [one, other] = [a, b].map(|index| survey.plan.instance(index));
    let parameters = |instance: &Instance| {
        let mut parameters = instance.params.value();
        if let Some(fields) = parameters.as_object_mut().filter(|_| instance.kind == Fit::NAME) {
            fields.remove("part");
        }
        parameters
    };
    let sources = |instance: &Instance| -> Vec<InputSource> {
        instance.inputs.iter().flat_map(|input| input.sources.clone()).collect()
    };
    let same = |(one, other): (&InputSource, &InputSource)| match (one, other) {
        (
            InputSource::Output { producer: one, output: from, .. },
            InputSource::Output { producer: other, output: of, .. },
        ) => from == of && differs_only_in_rows(survey, *one, *other),
        (InputSource::File(one), InputSource::File(other)) => one == other,
        _ => false,
    };
    let (inputs, others) = (sources(one), sources(other));
    one.kind == other.kind
        && parameters(one) == parameters(other)
        && inputs.len() == others.len()
        && inputs.iter().zip(&others).all(same)
}

/// Returns whether an instance reads an output of another one.
fn reads(instance: &Instance, index: InstanceIndex) -> bool {
    let mut sources = instance.inputs.iter().flat_map(|input| &input.sources);
    sources.any(|source| matches!(source, InputSource::Output { producer, .. } if *producer == index))
}

/// Returns the section about one evaluation.
fn quality(
    record: &EvaluationRecord,
    records: &[LabelRecord],
    curves: &Curves,
    names: Option<&[String]>,
) -> String {
    let mut section = String::new();
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
        let interval = interval.map(|interval| ends(metric, interval.low, interval.high));
        let interval = interval.map(|(low, high)| format!("{low:.4} to {high:.4}"));
        let (title, value) = (metric.title(), value.reveal().1);
        let _ = writeln!(section, "| {title} | {value:.4}{mark} | {} |", interval.unwrap_or_default());
    }
    let _ = writeln!(section, "\n| training rows of a label | labels | mean F1 |\n|---|--:|--:|");
    for bin in curves.by_frequency.iter().filter(|bin| bin.labels > 0) {
        let frequency = bin.to.map_or(format!("{} or more", bin.from), |to| format!("{} to {to}", bin.from));
        let _ = writeln!(section, "| {frequency} | {} | {:.4}{mark} |", bin.labels, bin.macro_f1);
    }
    if !curves.reliability.is_empty() {
        let _ = writeln!(section, "\n| mean probability | decisions | share that is true |\n|--:|--:|--:|");
    }
    for bin in &curves.reliability {
        let share = bin.positives as f64 / bin.entries as f64;
        let _ = writeln!(section, "| {:.3} | {} | {share:.3}{mark} |", bin.mean_probability, bin.entries);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_the_filter_left_out_are_counted() {
        assert_eq!(left_out(5, 5), "");
        assert!(left_out(5, 39).contains("34 of 39"));
    }

    #[test]
    fn test_rows_that_do_not_exist_are_not_mentioned() {
        assert_eq!(split("test rows as given", true), "test rows as given");
        assert_eq!(
            split("the first 5 training rows, test rows as given", false),
            "the first 5 training rows, no test rows"
        );
    }

    #[test]
    fn an_interval_of_a_share_stays_within_0_and_1() {
        assert_eq!(ends(Metric::MicroF1, -0.1, 1.02), (0.0, 1.0));
        assert_eq!(ends(Metric::Bce, 0.5, 1.02), (0.5, 1.02));
    }
}
