//! The script that the scheduler starts on a node.

use std::fmt::Write;
use std::path::Path;

use super::profile::Profile;

/// Returns the script for jobs that are submitted together. `position` is the shell expression that tells them apart.
pub(super) fn text(profile: &Profile, pipe: &Path, position: Option<&str>, directories: &[&Path]) -> String {
    let mut text = String::from("#!/bin/sh\n# Written by pipe.\n");
    match (position, directories) {
        (Some(position), [_, _, ..]) => {
            let _ = writeln!(text, "case \"{position}\" in");
            for (number, directory) in directories.iter().enumerate() {
                let _ = writeln!(text, "{number}) job={};;", quoted(directory));
            }
            text.push_str("esac\n");
        }
        _ => {
            for directory in directories.iter().take(1) {
                let _ = writeln!(text, "job={}", quoted(directory));
            }
        }
    }
    text.push_str("exec >>\"$job/output\" 2>&1\n");
    if let Some(setup) = &profile.setup {
        // Results must not be computed in an environment that could not be set up.
        let _ = writeln!(text, "set -e\n{}\nset +e", setup.trim_end());
    }
    // `exec`, so that the signals of the scheduler reach the job.
    let _ = writeln!(text, "exec {} job \"$job\"", quoted(pipe));
    text
}

/// Returns a path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_computed_if_the_setup_fails() {
        let directory = tempfile::tempdir().unwrap();
        let profile = Profile { setup: Some("module_that_does_not_exist load x".into()), ..Profile::slurm() };
        let script = text(&profile, Path::new("/bin/echo"), None, &[directory.path()]);
        let ended = std::process::Command::new("sh").args(["-c", &script]).status().unwrap();
        assert!(!ended.success());
        let output = std::fs::read_to_string(directory.path().join("output")).unwrap();
        assert!(output.contains("module_that_does_not_exist") && !output.contains("job "), "{output}");
    }

    #[test]
    fn each_job_of_an_array_finds_its_own_directory() {
        let directory = tempfile::tempdir().unwrap();
        let jobs = ["it's one", "two"].map(|name| directory.path().join(name));
        for job in &jobs {
            std::fs::create_dir(job).unwrap();
        }
        let profile = Profile { setup: Some("SITE=set".into()), ..Profile::slurm() };
        let directories: Vec<&Path> = jobs.iter().map(|job| job.as_path()).collect();
        let script = text(&profile, Path::new("/bin/echo"), Some("${POSITION:-0}"), &directories);
        for (position, job) in jobs.iter().enumerate() {
            let ended = std::process::Command::new("sh")
                .args(["-c", &script])
                .env("POSITION", position.to_string())
                .status()
                .unwrap();
            assert!(ended.success());
            let output = std::fs::read_to_string(job.join("output")).unwrap();
            assert_eq!(output, format!("job {}\n", job.display()));
        }
    }
}
