//! A model and the rows that it is judged on, shared by `evaluate` and `audit`.

use std::path::Path;

use anyhow::{Result, ensure};
use pipe_core::slot::Slot;
use pipe_core::work::{MATRIX_PRODUCT, Work};
use pipe_ml::artifacts::ModelDirectory;
use pipe_ml::composite::Composite;
use pipe_ml::config::device::Device;
use pipe_ml::config::signal::LocalSignal;
use pipe_ml::data::csr::Csr;
use pipe_ml::data::dataset_part::DatasetPart;
use pipe_ml::data::examples::Examples;
use pipe_ml::data::split_data::{PartName, SplitData};
use pipe_ml::data::stats::column_counts;
use pipe_ml::metric::marked::Protocol;
use pipe_ml::system::{BlockSink, System, SystemSettings};

use super::OpenSystem;
use crate::evaluate::EvaluatedPart;

/// A model with the rows that it is judged on.
pub(super) struct JudgedModel {
    pub(super) data: SplitData,
    pub(super) part: PartName,
    /// The rows of `part`.
    pub(super) evaluated: DatasetPart,
    pub(super) system: Box<dyn System>,
}

impl JudgedModel {
    /// Opens a data set and a model from the slots of a stage.
    pub(super) fn open<O: OpenSystem>(
        work: &mut Work,
        (data, model): (Slot<SplitData>, Slot<ModelDirectory>),
        part: EvaluatedPart,
        device: Device,
        signal: Option<LocalSignal>,
    ) -> Result<Self> {
        for input in work.inputs(&model) {
            ensure!(
                !Composite::is_at(&input.path)? || Composite::load(&input.path)?.fitted_on.is_train(),
                "this model was fitted on all rows, so these rows cannot show how good it is: evaluate the same model \
                 without `part: all`"
            );
        }
        let data = work.open(data)?;
        let part = part.name();
        let evaluated = DatasetPart::open(&data, part)?;
        let model = work.open(model)?.0;
        let system = open_system::<O>(&model, &data, device, signal, work.job().threads)?;
        work.fact(MATRIX_PRODUCT, "matrixmultiply");
        Ok(Self { data, part, evaluated, system })
    }

    /// Returns the number of training rows, and for each label the number of those that have it.
    pub(super) fn training_positives(&self) -> Result<(usize, Vec<u32>)> {
        let labels: Csr = self.data.labels(PartName::Train)?;
        let counts = column_counts(&labels, 0..labels.rows() as u32);
        Ok((labels.rows(), counts.into_iter().map(|count| count as u32).collect()))
    }
}

/// Opens a model, which must have the labels of the data set.
pub(super) fn open_system<O: OpenSystem>(
    model: &Path,
    data: &SplitData,
    device: Device,
    signal: Option<LocalSignal>,
    threads: usize,
) -> Result<Box<dyn System>> {
    let train =
        data.has_rows(PartName::Train).then(|| DatasetPart::open(data, PartName::Train)).transpose()?;
    let system = O::open(model, SystemSettings { device, threads, signal, train })?;
    let (model, labels) = (system.labels(), data.meta().labels as usize);
    ensure!(
        model == labels,
        "the model has {model} labels and the data set has {labels}: the model was made from another data set"
    );
    Ok(system)
}

/// Makes the decisions for rows. All decisions are made by this function; under the honest protocol, it does not pass
/// the labels on.
pub(super) fn decide(
    system: &mut dyn System,
    protocol: Protocol,
    rows: Examples,
    take: BlockSink,
) -> Result<()> {
    match protocol {
        Protocol::Honest => system.decide(rows.unlabelled(), take),
        Protocol::Oracle => system.decide_by_oracle(rows, take),
    }
}
