//! What this machine has. Read when it is needed, not at start-up.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use pipe_core::captured::captured;

/// Returns the GPUs that stages may use, as CUDA names them: those in `CUDA_VISIBLE_DEVICES`, or all that the driver
/// shows.
pub fn gpus() -> Vec<String> {
    match std::env::var("CUDA_VISIBLE_DEVICES") {
        Ok(visible) => visible_devices(&visible),
        Err(_) => (0..)
            .take_while(|number| fs::exists(format!("/dev/nvidia{number}")).unwrap_or(false))
            .map(|number| number.to_string())
            .collect(),
    }
}

/// CUDA ends the list at the first entry that names no device.
fn visible_devices(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim);
    names.take_while(|name| !name.is_empty() && !name.starts_with('-')).map(str::to_owned).collect()
}

/// Returns how often the kernel killed a process of our control group because of lack of memory.
pub fn out_of_memory_kills() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let ours = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let directory = PathBuf::from("/sys/fs/cgroup").join(ours.trim_start_matches('/'));
    let events = fs::read_to_string(directory.join("memory.events"))
        .or_else(|_| fs::read_to_string("/sys/fs/cgroup/memory.events"))
        .ok()?;
    events.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

/// Describes this machine for manifests. Never part of a key.
pub fn describe(project: &Path) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::from([
        ("pipe".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("os".to_owned(), format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)),
    ]);
    let system = rustix::system::uname();
    facts.insert("kernel".to_owned(), system.release().to_string_lossy().into_owned());
    if let Some(text) = first_processor() {
        if let Some(model) = cpu_field(&text, "model name") {
            facts.insert("cpu".to_owned(), model.to_owned());
        }
        if let Some(vendor) = cpu_field(&text, "vendor_id") {
            facts.insert("cpu vendor".to_owned(), vendor.to_owned());
        }
        if let Some(flags) = cpu_field(&text, "flags") {
            facts.insert("cpu features".to_owned(), vector_features(flags));
        }
    }
    if let Some(commit) = commit(project) {
        facts.insert("git".to_owned(), commit);
    }
    facts
}

/// Returns the git commit of the project, with `-dirty` appended if tracked files differ from it.
fn commit(project: &Path) -> Option<String> {
    let arguments = ["describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"];
    let mut git = Command::new("git");
    git.arg("-C").arg(project).args(arguments);
    let output = captured(&mut git).ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim_end().to_owned())
}

/// Returns the start of `/proc/cpuinfo`; on a large machine the kernel takes long to generate all of it.
fn first_processor() -> Option<String> {
    let mut text = vec![0; 8 << 10];
    let length = File::open("/proc/cpuinfo").ok()?.read(&mut text).ok()?;
    text.truncate(length);
    Some(String::from_utf8_lossy(&text).into_owned())
}

fn cpu_field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    let value_of = |line: &'a str| {
        let (field, value) = line.split_once(':')?;
        (field.trim() == name).then(|| value.trim())
    };
    cpuinfo.lines().find_map(value_of)
}

/// Returns the features that decide which numeric kernels are used, and therefore how sums are rounded.
fn vector_features(flags: &str) -> String {
    let kept = |flag: &&str| ["sse4_2", "avx", "avx2", "fma"].contains(flag) || flag.starts_with("avx512");
    flags.split_whitespace().filter(kept).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_gpu_hides_those_behind_it() {
        assert_eq!(visible_devices("0, 2"), ["0", "2"]);
        assert_eq!(visible_devices("GPU-5a,-1,3"), ["GPU-5a"]);
        assert!(visible_devices("").is_empty());
    }

    #[test]
    fn only_processor_features_that_change_rounding_are_recorded() {
        let text = "model name\t: Fast One\nflags\t\t: fpu avx2 avx512f cat\n\nmodel name\t: Second\n";
        assert_eq!(cpu_field(text, "model name"), Some("Fast One"));
        assert_eq!(vector_features(cpu_field(text, "flags").unwrap()), "avx2 avx512f");
        assert_eq!(describe(Path::new("."))["pipe"], env!("CARGO_PKG_VERSION"));
    }
}
