//! The threads of a run.

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// A pool whose threads each let libtorch compute alone. Parallelism is ours, by blocks that do
/// not depend on the number of threads; libtorch keeps its own number per calling thread, and would
/// otherwise start a second team beside every one of these.
pub fn pool(threads: usize) -> Result<ThreadPool, ThreadPoolBuildError> {
    let alone = |_| tch::set_num_threads(1);
    ThreadPoolBuilder::new().num_threads(threads.max(1)).start_handler(alone).build()
}
