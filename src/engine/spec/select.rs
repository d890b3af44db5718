//! Targets from the command line: `train`, `train[adaptive]`, `eval[*]`.

use super::index::{Index, SelectError};
use super::pipeline::{InstanceIndex, Pipeline};
use pipe_core::reference::StageRef;

/// The instances that a target means, in the order of the pipeline. At least one.
pub fn select(pipeline: &Pipeline, text: &str) -> Result<Vec<InstanceIndex>, SelectError> {
    let error = |message: String, hint| SelectError { message, hint };
    let reference: StageRef = text
        .trim()
        .parse()
        .map_err(|bad: pipe_core::reference::BadReference| error(bad.to_string(), None))?;
    if let Some(output) = reference.output() {
        let message = format!("`{text}` names an output; a target is a stage or an instance");
        let stage = text.trim().strip_suffix(output).and_then(|text| text.strip_suffix('.'));
        return Err(error(message, stage.map(|stage| format!("write `{stage}`"))));
    }
    let index = Index::new(pipeline.instances.iter().map(|instance| &instance.id));
    index.find(&reference).map(|found| found.into_iter().map(InstanceIndex).collect())
}
