//! The wish to stop, as a signal handler can state it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Asked once, running stages may write their checkpoint and end; asked again, they end now.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicU8>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    Gently,
    Now,
}

impl Stop {
    pub fn new() -> Self {
        Self::default()
    }

    /// One atomic operation: safe in a signal handler.
    pub fn request(&self) {
        let at_most_two = |asked: u8| Some((asked + 1).min(2));
        // The update never declines, so there is nothing to learn from the result.
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, at_most_two);
    }

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
