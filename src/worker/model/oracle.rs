//! The paper's evaluation, which tells the thresholds the true labels of the rows being evaluated.
//!
//! What comes out is no prediction: no deployed model could make it. It is here so that the
//! published figures can be reproduced, and every table marks what was made by it.

use super::predict::{PredictError, Predictor};
use crate::engine::{Scores, score};
use pipe_ml::data::examples::Examples;
use pipe_ml::signal::supply::LocalSupply;

impl Predictor {
    /// Eqs. 4-6 over the true labels of each evaluated batch, and the released code's global signal
    /// where the model has it.
    pub fn oracle_scores_from_true_labels(
        &mut self,
        evaluated: Examples,
        take: impl FnMut(usize, &Scores) + Send,
    ) -> Result<(), PredictError> {
        self.check(evaluated.unlabelled())?;
        let Self { method, map, engine, pool } = self;
        let supply = match method.variant.uses_local() {
            true => LocalSupply::BatchLabels(method.signal.clone()),
            false => LocalSupply::None,
        };
        let scored = || score::score_with_labels(&mut **engine, map, &supply, evaluated, method.batch, take);
        Ok(pool.install(scored)?)
    }
}
