//! The script that the scheduler starts on a node.

use std::fmt::Write;
use std::path::Path;

use super::directory::EndRecord;
use super::profile::Profile;
use crate::runner::executor::AttemptError;

/// Returns the script for jobs that are submitted together. `position` is the shell expression that tells them apart.
pub(super) fn text(profile: &Profile, pipe: &Path, position: Option<&str>, directories: &[&Path]) -> String {
    let mut text = String::from("#!/bin/sh\n# Written by pipe.\n");
    match (position, directories) {
        (Some(position), [_, _, ..]) => {
            let _ = writeln!(text, "case \"{position}\" in");
            for (number, directory) in directories.iter().enumerate() {
                let _ = writeln!(text, "{number}) job={};;", quoted_path(directory));
            }
            text.push_str("esac\n");
        }
        _ => {
            for directory in directories.iter().take(1) {
                let _ = writeln!(text, "job={}", quoted_path(directory));
            }
        }
    }
    text.push_str("exec >>\"$job/output\" 2>&1\n");
    if let Some(setup) = &profile.setup {
        // Results must not be computed in an environment that could not be set up. Some shells also call the function if a signal
        // ends them, with the status of the last command, which is 0, or of the signal, which is larger than 128.
        let record = quoted(&setup_failed());
        let _ = writeln!(
            text,
            "setup_failed() {{\nstatus=$?\nif [ $status -gt 0 ] && [ $status -lt 128 ]; then\n\
             printf %s {record} >\"$job/.end.json.setup\" && mv \"$job/.end.json.setup\" \"$job/end.json\"\nfi\n}}\n\
             trap setup_failed EXIT\nset -e\n{}\nset +e\ntrap - EXIT",
            setup.trim_end()
        );
    }
    // `exec`, so that the signals of the scheduler reach the job.
    let _ = writeln!(text, "exec {} job \"$job\"", quoted_path(pipe));
    text
}

/// Returns how a job ends whose `setup` fails, as its directory records it.
fn setup_failed() -> String {
    let error = AttemptError::permanent(
        "`setup` in the profile of the engine failed on the node, so nothing was computed; correct it, and run again",
    );
    serde_json::to_string(&EndRecord { error: Some(error), time_is_up: false }).unwrap_or_default()
}

fn quoted_path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

/// Returns a text as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, Signal, kill_process};

    use super::super::directory::JobDirectory;
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
        let end = JobDirectory::new(directory.path().to_owned()).end().unwrap();
        assert!(
            matches!(&end.error, Some(AttemptError::Failed { error, .. }) if error.contains("`setup`")),
            "{end:?}"
        );
    }

    #[test]
    fn a_job_that_is_ended_during_its_setup_has_not_failed() {
        let directory = tempfile::tempdir().unwrap();
        let profile = Profile { setup: Some("touch begun; sleep 5".into()), ..Profile::slurm() };
        let script = text(&profile, Path::new("/bin/echo"), None, &[directory.path()]);
        for shell in ["sh", "bash"] {
            let mut job = std::process::Command::new(shell)
                .args(["-c", &script])
                .current_dir(directory.path())
                .spawn()
                .unwrap();
            while !directory.path().join("begun").exists() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            kill_process(Pid::from_child(&job), Signal::TERM).unwrap();
            assert!(!job.wait().unwrap().success());
            assert_eq!(JobDirectory::new(directory.path().to_owned()).end(), None, "{shell}");
            std::fs::remove_file(directory.path().join("begun")).unwrap();
        }
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
