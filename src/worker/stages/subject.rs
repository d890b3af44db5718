//! A model and the rows that it is to be judged on: what `evaluate` and `audit` have in common.

use anyhow::{Result, ensure};
use pipe_core::work::Work;
use pipe_ml::config::device::Device;
use pipe_ml::config::signal::LocalSignal;
use pipe_ml::data::csr::Csr;
use pipe_ml::data::examples::Examples;
use pipe_ml::data::split_data::{PartName, SplitData};
use pipe_ml::data::stats::column_counts;
use pipe_ml::metric::marked::Protocol;
use pipe_stages::evaluate::EvaluatedPart;

use crate::part::Part;
use crate::system::{self, Settings, System, Take};

pub struct Subject {
    pub data: SplitData,
    pub part: PartName,
    pub evaluated: Part,
    pub system: Box<dyn System>,
}

impl Subject {
    /// From the inputs `data` and `model`.
    pub fn open(
        work: &Work,
        part: EvaluatedPart,
        device: Device,
        signal: Option<LocalSignal>,
    ) -> Result<Self> {
        let data = SplitData::open(&work.input("data")?.path)?;
        let part = match part {
            EvaluatedPart::Test => PartName::Test,
            EvaluatedPart::Validation => PartName::Validation,
        };
        let evaluated = Part::open(&data, part)?;
        let system = open_system(work, &data, device, signal)?;
        Ok(Self { data, part, evaluated, system })
    }

    /// The training rows that each label is true in.
    pub fn training_positives(&self) -> Result<(usize, Vec<u32>)> {
        let labels: Csr = self.data.labels(PartName::Train)?;
        let counts = column_counts(&labels, 0..labels.rows() as u32);
        Ok((labels.rows(), counts.into_iter().map(|count| count as u32).collect()))
    }
}

/// The input `model`, which must be of the data set.
pub fn open_system(
    work: &Work,
    data: &SplitData,
    device: Device,
    signal: Option<LocalSignal>,
) -> Result<Box<dyn System>> {
    let train = Some(Part::open(data, PartName::Train)?);
    let settings = Settings { device, threads: work.job().threads, signal, train };
    let system = system::open(&work.input("model")?.path, settings)?;
    let (model, labels) = (system.labels(), data.meta().labels as usize);
    ensure!(
        model == labels,
        "the model knows {model} labels, the data set has {labels}: they do not belong together"
    );
    Ok(system)
}

/// The one way from rows to decisions. Under the honest protocol the labels end here.
pub fn judge(system: &mut dyn System, protocol: Protocol, rows: Examples, take: Take) -> Result<()> {
    match protocol {
        Protocol::Honest => system.decide(rows.unlabelled(), take),
        Protocol::Oracle => system.decide_by_oracle(rows, take),
    }
}
