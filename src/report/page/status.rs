//! How a stage stands, as a word and a colour.

/// In the order of what a reader should see first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    Failed,
    Running,
    /// It would run again: something that it depends on has changed.
    Stale,
    Skipped,
    /// Its turn has not come.
    Waiting,
    Computed,
    /// Taken from the cache.
    Cached,
    /// The cache has it.
    Fresh,
}

impl Status {
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

    /// For people, for the style sheet and for scripts.
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
