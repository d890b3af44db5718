//! Training: batches in a seeded order, validation after every epoch, early stopping, and checkpoints from which a
//! killed run continues and ends with the same bits.

pub mod checkpoint;
pub mod divergence;
pub mod history;
pub mod host;
pub mod trainer;

#[cfg(test)]
mod tests;
