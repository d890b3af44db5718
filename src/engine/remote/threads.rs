//! Several requests at the same time.

use std::sync::Mutex;
use std::sync::PoisonError;

/// How many requests of one kind are made at the same time.
const REQUESTS: usize = 8;

/// Calls `work` for each item, on several threads if there are several items. Returns the first error; items that
/// were not begun by then are left out.
pub(super) fn for_each<T: Send, E: Send>(
    items: Vec<T>,
    work: impl Fn(T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let threads = items.len().min(REQUESTS);
    if threads <= 1 {
        return items.into_iter().try_for_each(work);
    }
    let items = Mutex::new(items.into_iter());
    let error = Mutex::new(None);
    let next = || {
        if error.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return None;
        }
        items.lock().unwrap_or_else(PoisonError::into_inner).next()
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = next() {
                    if let Err(failed) = work(item) {
                        error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failed);
                    }
                }
            });
        }
    });
    error.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}
