//! `pipe labels`: precision, recall and F1 of every label of an evaluation.

use std::borrow::Cow;

use serde::Serialize;

use super::args::LabelsArgs;
use super::exit::{Exit, Failure, Outcome};
use super::pipeline_selection::PipelineSelection;
use super::project::{Project, select};
use super::survey::Survey;
use super::table::{Grid, terminal_width, wrap};
use super::{print_json, print_text};
use pipe_core::artifact::Artifact;
use pipe_core::escape::terminal;
use pipe_core::quote;
use pipe_core::stage::StageKind;
use pipe_engine::spec::pipeline::{InputSource, InstanceIndex};
use pipe_ml::artifacts::LabelRecords;
use pipe_ml::data::split_data::SplitData;
use pipe_ml::metric::label::LabelRecord;
use pipe_ml::metric::marked::Protocol;
use pipe_ml::metric::record::EvaluationRecord;
use pipe_ml::metric::registry::Metric;
use pipe_stages::evaluate::Evaluate;

/// One label of the report.
#[derive(Serialize)]
struct LabelLine {
    label: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    precision: Estimate,
    recall: Estimate,
    f1: Estimate,
    /// The number of evaluated rows that have the label.
    support: u32,
    training_rows: Option<u32>,
}

/// A value with its 95 % interval.
#[derive(Clone, Copy, Serialize)]
struct Estimate {
    value: f64,
    /// `None` if there is nothing that the value could be estimated from.
    interval: Option<(f64, f64)>,
}

/// Runs `pipe labels`.
pub(super) fn labels(project: &Project, args: &LabelsArgs) -> Outcome {
    let selection = PipelineSelection::stage(&args.pipeline, args.file.as_ref(), &args.stage)?;
    let survey = Survey::of(project, selection.file.as_ref(), &args.pipeline, &[])?;
    let index = evaluation(&survey, &args.stage)?;
    let scratch = tempfile::tempdir()?;
    let path = |index: InstanceIndex, output: &str| {
        let stored = survey.fresh(index).and_then(|manifest| manifest.outputs.get(output));
        let stored = stored.ok_or_else(|| {
            let name = survey.name(index);
            let command = format!("pipe run {}", quote::shell(&name));
            Failure::new(Exit::StageFailed, format!("`{name}` is not up to date; `{command}` computes it"))
        })?;
        Ok::<_, Failure>(survey.store.artifact(stored, scratch.path())?)
    };
    let LabelRecords(mut records) = LabelRecords::open(&path(index, Evaluate::LABELS.name())?)?;
    let record = EvaluationRecord::open(&path(index, Evaluate::EVALUATION.name())?)?;
    let inputs = survey.plan.instance(index).inputs.iter().flat_map(|input| &input.sources);
    let mut names = None;
    for source in inputs {
        if let InputSource::Output { producer, output, artifact, .. } = source
            && *artifact == SplitData::TYPE
        {
            let data = SplitData::open(&path(*producer, output)?);
            names = data.and_then(|data| data.label_names()).map_err(anyhow::Error::from)?;
        }
    }
    // The most frequent labels first, as in the figures.
    records.sort_by_key(|record| std::cmp::Reverse((record.training_positives, record.support)));
    let all = records.len();
    records.truncate(args.top.unwrap_or(all));
    let lines: Vec<LabelLine> =
        records.iter().map(|record| LabelLine::of(record, names.as_deref())).collect();
    if args.json { print_json(&lines) } else { print_text(&report(&lines, all, &record)) }
}

/// Returns the one evaluation that a word selects.
fn evaluation(survey: &Survey, word: &str) -> Result<InstanceIndex, Failure> {
    let is_evaluation = |index: &InstanceIndex| survey.plan.instance(*index).kind == Evaluate::NAME;
    let mut found = select(survey.plan.pipeline(), &[word.to_owned()])?;
    found.retain(is_evaluation);
    if let [index] = found[..] {
        return Ok(index);
    }
    let names = |indices: &mut dyn Iterator<Item = InstanceIndex>| {
        indices.take(8).map(|index| survey.name(index)).collect::<Vec<_>>().join(", ")
    };
    Err(Failure::bad_input(if found.is_empty() {
        let all = &mut survey.instances().map(|(index, ..)| index).filter(is_evaluation);
        format!("`{word}` is not an `evaluate` stage; name one of: {}", names(all))
    } else {
        let count = found.len();
        format!("`{word}` selects {count} evaluations: {}; name one of them", names(&mut found.into_iter()))
    }))
}

impl LabelLine {
    fn of(record: &LabelRecord, names: Option<&[String]>) -> Self {
        let LabelRecord { tp, fp, fn_, .. } = *record;
        // F1 is 2J / (1 + J), where J is the share of true positives among all rows with the label or its prediction.
        let f1 = |share: f64| 2.0 * share / (1.0 + share);
        let union = wilson(tp, tp + fp + fn_);
        Self {
            label: record.label,
            name: names.and_then(|names| names.get(record.label as usize).cloned()),
            precision: Estimate { value: record.precision, interval: wilson(tp, tp + fp) },
            recall: Estimate { value: record.recall, interval: wilson(tp, tp + fn_) },
            f1: Estimate { value: record.f1, interval: union.map(|(low, high)| (f1(low), f1(high))) },
            support: record.support,
            training_rows: record.training_positives,
        }
    }
}

/// Returns Wilson's 95 % interval of a share; `None` for a share of nothing.
fn wilson(part: u32, whole: u32) -> Option<(f64, f64)> {
    const Z: f64 = 1.959_963_984_540_054;
    if whole == 0 {
        return None;
    }
    let (n, share) = (f64::from(whole), f64::from(part) / f64::from(whole));
    let centre = share + Z * Z / (2.0 * n);
    let reach = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    Some((((centre - reach) / scale).max(0.0), ((centre + reach) / scale).min(1.0)))
}

fn report(lines: &[LabelLine], all: usize, record: &EvaluationRecord) -> String {
    let mut grid = Grid::new(&["label", "precision", "recall", "f1", "test rows", "training rows"])
        .right_aligned(&[1, 2, 3, 4, 5])
        .wrapped(&[0])
        .optional(&[5, 4, 1, 2]);
    for line in lines {
        let name = line.name.as_deref().map(terminal);
        let name = name.map_or_else(|| line.label.to_string(), Cow::into_owned);
        let training = line.training_rows.map(|rows| rows.to_string()).unwrap_or_default();
        let [precision, recall, f1] = [line.precision, line.recall, line.f1].map(cell);
        grid.row([name, precision, recall, f1, line.support.to_string(), training]);
    }
    let summary = |precision, recall, f1| {
        [precision, recall, f1].map(|metric: Metric| {
            let estimate = record.get(metric).map(|value| value.reveal().1);
            let interval = record.interval(metric).map(|interval| interval.reveal().1);
            let interval = interval.map(|interval| (interval.low, interval.high));
            estimate.map(|value| cell(Estimate { value, interval })).unwrap_or_default()
        })
    };
    for (name, [precision, recall, f1]) in [
        ("micro average", summary(Metric::MicroPrecision, Metric::MicroRecall, Metric::MicroF1)),
        ("macro average", summary(Metric::MacroPrecision, Metric::MacroRecall, Metric::MacroF1)),
    ] {
        grid.row([name.to_owned(), precision, recall, f1, String::new(), String::new()]);
    }
    let mut notes = String::new();
    if lines.len() < all {
        notes += &format!("{} of {all} labels; the averages are over all of them\n", lines.len());
    }
    if record.protocol() == Protocol::Oracle {
        notes += "oracle protocol: the labels of the test rows influenced these decisions\n";
    }
    notes +=
        "in brackets: 95 % intervals, of a label by Wilson's method, of an average by a bootstrap over rows";
    format!("{grid}{}\n", wrap(&notes, terminal_width().unwrap_or(usize::MAX)))
}

fn cell(estimate: Estimate) -> String {
    match estimate.interval {
        Some((low, high)) => format!("{:.3} [{low:.2}, {high:.2}]", estimate.value),
        None => format!("{:.3}", estimate.value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_wilson() {
        // R: prop.test(8, 10, correct = FALSE)
        let (low, high) = wilson(8, 10).unwrap();
        assert!((low - 0.4902).abs() < 5e-5 && (high - 0.9433).abs() < 5e-5, "{low} {high}");
        assert_eq!(wilson(0, 0), None);
        assert_eq!(wilson(0, 5).unwrap().0, 0.0);
        assert_eq!(wilson(5, 5).unwrap().1, 1.0);
    }

    #[test]
    fn the_interval_of_f1_contains_it() {
        for (tp, fp, fn_) in [(0, 3, 2), (4, 1, 0), (7, 7, 7), (1, 0, 0)] {
            let mut record: LabelRecord = serde_json::from_value(serde_json::json!({
                "label": 0, "training_positives": 3, "support": tp + fn_, "tp": tp, "fp": fp, "fn": fn_,
                "precision": 0.0, "recall": 0.0, "f1": 0.0, "threshold": null,
            }))
            .unwrap();
            record.f1 = f64::from(2 * tp) / f64::from(2 * tp + fp + fn_);
            let f1 = LabelLine::of(&record, None).f1;
            let (low, high) = f1.interval.unwrap();
            assert!(low <= f1.value && f1.value <= high, "{low} {} {high}", f1.value);
        }
    }
}
