//! The thread pool that all computations run in.

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// Returns a thread pool in which libtorch computes with one thread per call.
///
/// Work is divided among the threads here, in blocks that do not depend on the number of threads. libtorch has its own
/// thread count for every calling thread, and would otherwise start more threads from each thread of the pool.
pub fn pool(threads: usize) -> Result<ThreadPool, ThreadPoolBuildError> {
    let use_one_libtorch_thread = |_| tch::set_num_threads(1);
    ThreadPoolBuilder::new().num_threads(threads.max(1)).start_handler(use_one_libtorch_thread).build()
}
