//! A request to stop, which a signal handler can make.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// A request to stop. After the first one, running stages may write their checkpoint and end; after the second, they end
/// at once.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicU8>);

/// How fast running stages have to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    Gently,
    Now,
}

impl Stop {
    /// A request that has not been made yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests a stop with one atomic operation, which is safe in a signal handler.
    pub fn request(&self) {
        let at_most_two = |asked: u8| Some((asked + 1).min(2));
        // The update always succeeds, so the result says nothing.
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, at_most_two);
    }

    /// Returns what was requested so far.
    pub fn requested(&self) -> Option<Urgency> {
        match self.0.load(Ordering::SeqCst) {
            0 => None,
            1 => Some(Urgency::Gently),
            _ => Some(Urgency::Now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_request_is_urgent_and_so_is_every_further_one() {
        let stop = Stop::new();
        assert_eq!(stop.requested(), None);
        stop.request();
        assert_eq!(stop.clone().requested(), Some(Urgency::Gently));
        for _ in 0..300 {
            stop.request();
            assert_eq!(stop.requested(), Some(Urgency::Now));
        }
    }
}
