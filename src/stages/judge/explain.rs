//! Runs the job of `pipe explain`: explains the decisions of a model about one row.

use std::marker::PhantomData;

use anyhow::{Error, Result, ensure};
use pipe_core::stage::RunStage;
use pipe_core::work::Work;
use pipe_ml::data::dataset_part::sparse;
use pipe_ml::data::examples::Unlabelled;
use pipe_ml::data::split_data::SplitData;
use pipe_ml::data::transform::{EncodedRows, read_new_rows};
use pipe_ml::system::ExplainRequest;

use super::OpenSystem;
use super::data_names::DataNames;
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
            let EncodedRows { features, warnings, .. } =
                read_new_rows(rows, directory, &stage.read, &work.job().scratch, work.job().threads)?;
            for warning in warnings {
                work.warn(warning);
            }
            features
        };
        let count = features.rows();
        ensure!(
            stage.row < count,
            "there is no row {}: the rows are numbered from 0 to {}",
            stage.row,
            count.saturating_sub(1)
        );
        let names = DataNames::open(work.input_path(DATA)?, &data)?;
        let label = stage.label.as_deref().map(|label| names.label_finder().find(label)).transpose();
        let label = label.map_err(Error::msg)?;
        let model = work.open(MODEL)?.0;
        let mut system = open_system::<O>(&model, &data, stage.device, stage.signal, work.job().threads)?;
        let rows: Vec<u32> = (0..count as u32).collect();
        let asked = ExplainRequest { row: stage.row, label, rule: stage.cut.clone() };
        let mut explanation = system.explain(Unlabelled { features: &features, rows: &rows }, &asked)?;
        names.add_to(&mut explanation);
        work.save(Explain::EXPLANATION, &explanation)
    }
}
