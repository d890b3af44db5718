//! Training: batches in a seeded order, an epoch's figures, when to stop, and checkpoints from
//! which a killed run goes on to the same bits.

pub mod checkpoint;
pub mod divergence;
pub mod history;
pub mod host;
pub mod trainer;

#[cfg(test)]
mod tests;
