//! Steps of exact AdamW that rows of the input table have not taken yet.
//!
//! The row of an input that does not occur in a batch has a gradient of zero; its moments shrink and its weights move on. In
//! a large table, most rows are idle in most steps. They take these steps together, when their input occurs again or when
//! all weights are read, so that a row goes through the memory once and not in every step. Every element goes through the
//! same operations in the same order as without waiting, so the bits are the same.

use rayon::prelude::*;

use super::adamw::{AdamwStep, idle_steps};
use super::table::{ROWS, TableRows};
use crate::net::input::InputGroups;

/// The steps that the rows of a table have not taken yet.
#[derive(Clone, Default)]
pub(super) struct DeferredSteps {
    /// The steps since all rows were up to date, in order.
    steps: Vec<AdamwStep>,
    /// How many of `steps` each row has taken; empty if there are none.
    taken: Vec<u32>,
    /// The largest rate of `steps`.
    largest_rate: f32,
}

impl DeferredSteps {
    /// Returns whether all rows are up to date.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Brings the rows of some inputs up to date.
    pub(super) fn catch_up(&mut self, table: TableRows, inputs: &InputGroups) {
        if self.is_empty() {
            return;
        }
        let Self { steps, taken, largest_rate } = self;
        let rows = table.of(inputs).into_par_iter().enumerate().with_min_len(16);
        rows.for_each(|(position, row)| {
            let taken = taken[inputs.input(position) as usize] as usize;
            idle_steps(&steps[taken..], *largest_rate, row.parameters, row.first, row.second);
        });
        self.mark(inputs);
    }

    /// Records a step that the rows of these inputs have taken, with their gradients, and the others have not.
    pub(super) fn record(&mut self, step: AdamwStep, rows: usize, inputs: &InputGroups) {
        self.steps.push(step);
        self.largest_rate = self.largest_rate.max(step.rate());
        self.taken.resize(rows, 0);
        self.mark(inputs);
    }

    /// Brings all rows up to date.
    pub(super) fn settle(&mut self, table: TableRows) {
        let (width, steps, rate) = (table.width, &self.steps, self.largest_rate);
        let parameters = table.parameters.par_chunks_mut(ROWS * width);
        let first = table.first.par_chunks_mut(ROWS * width);
        let moments = first.zip(table.second.par_chunks_mut(ROWS * width));
        parameters.zip(moments).zip(self.taken.par_chunks(ROWS)).for_each(|((p, (m, v)), taken)| {
            let rows =
                p.chunks_exact_mut(width).zip(m.chunks_exact_mut(width).zip(v.chunks_exact_mut(width)));
            for ((p, (m, v)), &taken) in rows.zip(taken) {
                idle_steps(&steps[taken as usize..], rate, p, m, v);
            }
        });
        self.forget();
    }

    /// Forgets all steps, for a table that is up to date.
    pub(super) fn forget(&mut self) {
        self.steps.clear();
        self.taken.clear();
        self.largest_rate = 0.0;
    }

    /// Marks the rows of these inputs as up to date.
    fn mark(&mut self, inputs: &InputGroups) {
        for position in 0..inputs.distinct() {
            self.taken[inputs.input(position) as usize] = self.steps.len() as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use pipe_ml::config::optimiser::{OptimiserConfig, OptimiserKind};
    use pipe_ml::config::preset::Preset;
    use pipe_ml::data::csr::Csr;
    use pipe_ml::data::random::Random;

    use super::super::optimiser::CpuOptimiser;
    use super::*;
    use crate::engine::EngineState;
    use crate::net::features::FeatureMap;
    use crate::net::input::BatchInputs;
    use crate::net::network::Gradients;
    use crate::net::weights::Weights;

    const INPUTS: usize = 40;
    /// Not a multiple of the parameters that take their steps together.
    const WIDTH: usize = 37;

    /// Takes 60 steps of exact AdamW with changing rates, in each of which a few inputs occur, and returns the bits of the
    /// table and its moments. All rows are settled after every `settled_every` steps.
    fn table_after_steps(settled_every: usize) -> Vec<u32> {
        let config = OptimiserConfig {
            kind: OptimiserKind::Adamw,
            weight_decay: 0.1,
            ..Preset::Paper.method().optimiser
        };
        let mut random = Random::new("deferred", 1);
        let mut weights = Weights::zeros(&[INPUTS, WIDTH, 3], 1, 0);
        for value in weights.table.iter_mut() {
            *value = random.normal() as f32;
        }
        let mut state = EngineState::new(weights, config.kind);
        let mut optimiser = CpuOptimiser::new(config);
        for step in 0..60 {
            let features =
                Csr::from_rows(INPUTS, &[vec![random.below(INPUTS) as u32], vec![random.below(7) as u32]]);
            let groups = InputGroups::new(&BatchInputs::new(
                &FeatureMap::All { features: INPUTS },
                &features,
                &[0, 1],
            ));
            let mut gradients = Gradients::new(&state.weights);
            gradients.table.resize(groups.distinct() * WIDTH);
            for value in gradients.table.iter_mut() {
                *value = random.normal() as f32;
            }
            optimiser.step(0.01 / (1.0 + step as f64), &mut state, &gradients, &groups, true);
            if step % settled_every == 0 {
                optimiser.settle(&mut state);
            }
        }
        optimiser.settle(&mut state);
        let moments = state.moments.unwrap();
        let tables = [&state.weights.table, &moments.0.table, &moments.1.table];
        tables.iter().flat_map(|table| table.iter().map(|value| value.to_bits())).collect()
    }

    #[test]
    fn rows_that_take_their_idle_steps_later_have_the_same_bits() {
        let at_once = table_after_steps(1);
        assert_eq!(at_once, table_after_steps(7));
        assert_eq!(at_once, table_after_steps(1000));
    }
}
