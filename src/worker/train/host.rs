//! The interface between a training run and the program that started it.

/// The progress of a training run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainingProgress {
    /// The number of finished epochs.
    pub epoch: u64,
    /// The number of epochs of the whole run.
    pub epochs: u64,
    /// The number of finished batches of the current epoch.
    pub batch: u64,
    /// The number of batches of an epoch.
    pub batches: u64,
    /// The mean loss of the current epoch so far.
    pub loss: f64,
    /// Macro-F1 on the validation rows after the last finished epoch.
    pub macro_f1: Option<f64>,
}

/// Receives the messages of a training run and can stop it.
pub trait TrainingHost: Send {
    /// Receives progress, about twice a second and after every epoch.
    fn progress(&mut self, progress: TrainingProgress);
    /// Receives a note, such as that training continues from a checkpoint.
    fn info(&mut self, message: String);
    /// Receives a warning.
    fn warn(&mut self, message: String);
    /// Is called after every batch. If it returns true, a checkpoint is written and training ends.
    fn should_stop(&mut self) -> bool;
}

/// A host that ignores all messages and never stops training.
pub struct SilentHost;

impl TrainingHost for SilentHost {
    fn progress(&mut self, _: TrainingProgress) {}

    fn info(&mut self, _: String) {}

    fn warn(&mut self, _: String) {}

    fn should_stop(&mut self) -> bool {
        false
    }
}
