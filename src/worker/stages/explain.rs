//! The job of `pipe explain`: why a model decided about a row as it did.

use anyhow::{Context, Result, ensure};
use pipe_core::work::Work;
use pipe_ml::data::examples::Unlabelled;
use pipe_ml::data::split_data::SplitData;
use pipe_ml::data::transform::read_new_rows;
use pipe_ml::explanation::{LabelExplanation, Subject};
use pipe_stages::predict::Explain;
use serde::Deserialize;

use super::evaluate::write_json;
use super::subject::open_system;
use crate::part::sparse;
use crate::system::Asked;

pub fn run(work: &mut Work) -> Result<()> {
    let job = Explain::deserialize(&work.job().body)?;
    let directory = work.input("data")?.path.clone();
    let data = SplitData::open(&directory)?;
    let features = match work.job().inputs.contains_key("rows") {
        true => {
            let (scratch, threads) = (&work.job().scratch, work.job().threads);
            read_new_rows(&work.input("rows")?.path, &directory, &job.read, scratch, threads)?
        }
        false => sparse(data.features(job.part)?),
    };
    let count = features.rows();
    ensure!(job.row < count, "there is no row {}: the rows are 0 to {}", job.row, count.saturating_sub(1));
    let names = data.label_names()?;
    let label =
        job.label.as_deref().map(|label| number(label, names.as_deref(), data.meta().labels)).transpose()?;
    let mut system = open_system(work, &data, job.device, job.signal)?;
    let rows: Vec<u32> = (0..count as u32).collect();
    let asked = Asked { row: job.row, label, rule: job.cut };
    let mut explanation = system.explain(Unlabelled { features: &features, rows: &rows }, &asked)?;
    let feature_names = data.feature_names()?;
    for label in &mut explanation.labels {
        label.name = names.as_ref().map(|names| names[label.label as usize].clone());
        if let Some(names) = &feature_names {
            name_features(label, names);
        }
    }
    write_json(work.output("explanation")?, &explanation)
}

fn name_features(label: &mut LabelExplanation, names: &[String]) {
    let evidence = label.score_terms.iter_mut().filter_map(|term| term.evidence.as_mut());
    for cause in evidence.flat_map(|evidence| &mut evidence.causes) {
        if let Subject::Feature { feature, name } = &mut cause.what {
            *name = Some(names[*feature as usize].clone());
        }
    }
}

/// A label by its name, or else by its number.
fn number(label: &str, names: Option<&[String]>, labels: u64) -> Result<u32> {
    let named = names.and_then(|names| names.iter().position(|name| name == label)).map(|at| at as u32);
    let numbered = || label.parse().ok().filter(|&number: &u32| u64::from(number) < labels);
    named
        .or_else(numbered)
        .with_context(|| format!("there is no label `{label}`; there are {labels} of them"))
}
