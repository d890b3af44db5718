//! The likely cause of a loss that is not finite.

use crate::engine::EngineState;
use pipe_ml::config::method::Method;
use pipe_ml::data::examples::Examples;

/// Returns a sentence about the likely cause, from the rows of the batch and the weights after the step.
pub fn likely_cause(method: &Method, train: Examples, rows: &[u32], state: &EngineState) -> String {
    for &row in rows {
        let values = train.features.row_values(row as usize);
        if let Some(position) = values.iter().position(|value| !value.is_finite()) {
            let feature = train.features.row(row as usize)[position];
            return format!("row {row} of the data has the value {} for feature {feature}", values[position]);
        }
    }
    let largest = |values: &[f32]| values.iter().fold(0f32, |largest, value| largest.max(value.abs()));
    let broken =
        state.weights.named().into_iter().find(|(_, _, values)| values.iter().any(|v| !v.is_finite()));
    let (name, grown) = match broken {
        Some((name, _, _)) => (name, "is not finite".to_owned()),
        None => {
            let sizes = state.weights.named().into_iter().map(|(name, _, values)| (name, largest(values)));
            let (name, size) = sizes.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
            (name, format!("has grown to {size:e}"))
        }
    };
    let clip = match method.optimiser.clip.value() {
        Some(_) => "lower `optimiser.clip`",
        None => "set `optimiser.clip`, for example to 1",
    };
    format!(
        "`{name}` {grown}: the learning rate {:?} is probably too high; lower `optimiser.lr` or {clip}",
        method.optimiser.lr
    )
}
