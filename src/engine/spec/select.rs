//! Selects instances by the targets of a command: `train`, `train[adaptive]`, `eval[*]`.

use super::index::{SelectError, StageIndex};
use super::pipeline::{InstanceIndex, Pipeline};
use pipe_core::reference::{BadReference, StageRef};

/// Returns the instances that a target selects, in the order of the pipeline. At least one.
pub fn select<F>(pipeline: &Pipeline<F>, text: &str) -> Result<Vec<InstanceIndex>, SelectError> {
    let reference: StageRef = text
        .trim()
        .parse()
        .map_err(|bad: BadReference| SelectError { message: bad.to_string(), hint: None })?;
    if let Some(output) = reference.output() {
        let message = format!("`{text}` names an output; a target is a stage or an instance");
        let stage = text.trim().strip_suffix(output).and_then(|text| text.strip_suffix('.'));
        return Err(SelectError { message, hint: stage.map(|stage| format!("write `{stage}`")) });
    }
    let index = StageIndex::new(pipeline.instances.iter().map(|instance| &instance.id));
    index.find(&reference).map(|found| found.into_iter().map(InstanceIndex).collect())
}
