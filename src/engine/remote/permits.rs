//! A limit for how many threads do something at the same time.

use std::sync::{Condvar, Mutex, PoisonError};

/// A number of permits, which threads acquire and give back.
pub(super) struct Permits {
    free: Mutex<usize>,
    given_back: Condvar,
}

/// A permit, which is given back when it is dropped.
pub(super) struct Permit<'a>(&'a Permits);

impl Permits {
    pub(super) fn new(count: usize) -> Self {
        Self { free: Mutex::new(count), given_back: Condvar::new() }
    }

    /// Waits until a permit is free, and takes it.
    pub(super) fn acquire(&self) -> Permit<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.given_back.wait_while(free, |free| *free == 0);
        *free.unwrap_or_else(PoisonError::into_inner) -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.given_back.notify_one();
    }
}
