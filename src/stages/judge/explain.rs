//! Runs the job of `pipe explain`: explains the decisions of a model about one row.

use std::marker::PhantomData;

use anyhow::{Context, Result, ensure};
use pipe_core::stage::RunStage;
use pipe_core::suggest;
use pipe_core::work::Work;
use pipe_ml::data::dataset_part::sparse;
use pipe_ml::data::examples::Unlabelled;
use pipe_ml::data::split_data::SplitData;
use pipe_ml::data::transform::read_new_rows;
use pipe_ml::explanation::{CauseSubject, LabelExplanation};
use pipe_ml::system::ExplainRequest;

use super::OpenSystem;
use super::judged_model::open_system;
use crate::predict::{DATA, Explain, MODEL, ROWS};

/// Runs the job of `pipe explain` with the models that `O` opens.
pub(super) struct RunExplain<O>(PhantomData<O>);

impl<O: OpenSystem> RunStage for RunExplain<O> {
    type Stage = Explain;

    fn run(stage: &Explain, work: &mut Work) -> Result<()> {
        let data = SplitData::open_unverified(work.input_path(DATA)?)?;
        let features = if work.inputs(&ROWS).is_empty() {
            ensure!(
                !data.has(stage.part) || data.has_rows(stage.part),
                "an exported model has no rows of its data set: name a file of rows with `--input FILE`"
            );
            sparse(data.features(stage.part)?)
        } else {
            let (rows, directory) = (work.input_path(ROWS)?, work.input_path(DATA)?);
            read_new_rows(rows, directory, &stage.read, &work.job().scratch, work.job().threads)?
        };
        let count = features.rows();
        ensure!(
            stage.row < count,
            "there is no row {}: the rows are numbered from 0 to {}",
            stage.row,
            count.saturating_sub(1)
        );
        let names = data.label_names()?;
        let label = stage
            .label
            .as_deref()
            .map(|label| label_number(label, names.as_deref(), data.meta().labels))
            .transpose()?;
        let mut system = open_system::<O>(work, MODEL, &data, stage.device, stage.signal)?;
        let rows: Vec<u32> = (0..count as u32).collect();
        let asked = ExplainRequest { row: stage.row, label, rule: stage.cut.clone() };
        let mut explanation = system.explain(Unlabelled { features: &features, rows: &rows }, &asked)?;
        let feature_names = data.feature_names()?;
        for label in &mut explanation.labels {
            label.name = names.as_ref().map(|names| names[label.label as usize].clone());
            if let Some(names) = &feature_names {
                name_features(label, names);
            }
        }
        work.save(Explain::EXPLANATION, &explanation)
    }
}

fn name_features(label: &mut LabelExplanation, names: &[String]) {
    let evidence = label.score_terms.iter_mut().filter_map(|term| term.evidence.as_mut());
    for cause in evidence.flat_map(|evidence| &mut evidence.causes) {
        if let CauseSubject::Feature { feature, name } = &mut cause.what {
            *name = Some(names[*feature as usize].clone());
        }
    }
}

/// Returns the number of a label that is given by its name or its number.
fn label_number(label: &str, names: Option<&[String]>, labels: u64) -> Result<u32> {
    let named = names.and_then(|names| names.iter().position(|name| name == label)).map(|at| at as u32);
    let numbered = || label.parse().ok().filter(|&number: &u32| u64::from(number) < labels);
    named.or_else(numbered).with_context(|| {
        let names = names.unwrap_or_default().iter().map(String::as_str);
        let hint = suggest::closest(label, names).map(|name| format!("; did you mean `{name}`?"));
        format!("there is no label `{label}` among the {labels} labels{}", hint.unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_found_by_name_or_number_and_a_misspelt_one_gets_a_hint() {
        let names = ["role::program", "role::library"].map(str::to_owned);
        let number = |label| label_number(label, Some(&names), 2).map_err(|error| error.to_string());
        assert_eq!((number("role::library"), number("0")), (Ok(1), Ok(0)));
        assert!(number("role::progra").unwrap_err().ends_with("did you mean `role::program`?"));
        assert!(number("2").unwrap_err().ends_with("among the 2 labels"));
    }
}
