//! The threads that hash in parallel. The system may refuse to start any (`ulimit -u`, `pids.max` of a container); rayon's
//! own pool would panic then, in the middle of a commit.

use std::sync::OnceLock;

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// Runs `parallel` in the pool, or `alone` if there is none.
pub(super) fn in_parallel<T: Send>(
    parallel: impl FnOnce() -> T + Send,
    alone: impl FnOnce() -> T + Send,
) -> T {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    match POOL.get_or_init(|| build(ThreadPoolBuilder::new)) {
        Some(pool) => pool.install(parallel),
        None => alone(),
    }
}

/// Builds a pool with a thread per processor, or else with one thread.
fn build(builder: impl Fn() -> ThreadPoolBuilder) -> Option<ThreadPool> {
    let named = |index| format!("hash {index}");
    let start = |builder: ThreadPoolBuilder| -> Result<ThreadPool, ThreadPoolBuildError> {
        builder.thread_name(named).build()
    };
    start(builder()).or_else(|_| start(builder().num_threads(1))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_without_threads_gives_no_pool_and_no_panic() {
        // No address space is large enough for such a stack.
        assert!(build(|| ThreadPoolBuilder::new().stack_size(1 << 60)).is_none());
        assert!(build(ThreadPoolBuilder::new).is_some());
    }
}
