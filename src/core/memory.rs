//! The memory of this machine.

use std::fs;

/// Returns the memory that processes may use together: that of the machine, or of the control group if that is less.
pub fn machine_memory() -> u64 {
    let total = fs::read_to_string("/proc/meminfo").ok().and_then(|text| mem_total(&text));
    let limit =
        fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    total.unwrap_or(u64::MAX).min(limit.unwrap_or(u64::MAX))
}

fn mem_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_kilobytes() {
        assert_eq!(mem_total("MemTotal:       16 kB\nMemFree: 1 kB\n"), Some(16 << 10));
        assert_eq!(mem_total("nothing"), None);
        assert!(machine_memory() > 1 << 20);
    }
}
