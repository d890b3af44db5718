//! The status of a stage on a page, as a word and a colour.

/// The status of a stage, in the order of importance to a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    Failed,
    Running,
    /// It would run again, because something that it depends on has changed.
    Stale,
    Skipped,
    /// It has not started yet.
    Waiting,
    Computed,
    /// Its result was taken from the cache.
    Cached,
    /// Its result is in the cache.
    Fresh,
}

impl Status {
    /// All statuses.
    pub const ALL: [Self; 8] = [
        Self::Failed,
        Self::Running,
        Self::Stale,
        Self::Skipped,
        Self::Waiting,
        Self::Computed,
        Self::Cached,
        Self::Fresh,
    ];

    /// Returns the word for readers, for the style sheet and for scripts.
    pub fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Running => "running",
            Self::Stale => "stale",
            Self::Skipped => "skipped",
            Self::Waiting => "waiting",
            Self::Computed => "computed",
            Self::Cached => "cached",
            Self::Fresh => "fresh",
        }
    }
}
