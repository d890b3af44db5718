//! What a training run needs of whoever started it.

/// How far training is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Epochs finished, of how many.
    pub epoch: u64,
    pub epochs: u64,
    /// Batches finished in this epoch, of how many.
    pub batch: u64,
    pub batches: u64,
    /// Mean loss of this epoch so far.
    pub loss: f64,
    /// Of the last finished epoch.
    pub macro_f1: Option<f64>,
}

pub trait Host: Send {
    fn progress(&mut self, progress: Progress);
    fn warn(&mut self, message: String);
    /// Asked after every batch; after a yes, a checkpoint is written and training ends.
    fn should_stop(&mut self) -> bool;
}

/// Listens to nothing and never stops.
pub struct Quiet;

impl Host for Quiet {
    fn progress(&mut self, _: Progress) {}

    fn warn(&mut self, _: String) {}

    fn should_stop(&mut self) -> bool {
        false
    }
}
