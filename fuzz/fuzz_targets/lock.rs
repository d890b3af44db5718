//! Any text as a lock file. A lock that is read must survive being written and read again.

#![no_main]

use pipe_engine::lock::Lock;
use pipe_engine::lock::merge::merge;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(lock) = text.parse::<Lock>()
        && lock.edited.is_empty()
    {
        let written = lock.to_string();
        let again: Lock = written.parse().expect("a lock that was written can be read");
        assert_eq!(again.to_string(), written);
        assert_eq!(again.changes_from(&lock), 0);
        let _ = merge(&lock, &again, &lock);
    }
});
