//! What users do to a project between two runs.

use std::path::Path;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::Fault;
use crate::golden::Golden;
use crate::oracle::check_results;
use crate::project::{FIRST_VERSION, Files, Pipeline};
use crate::rng::Rng;
use crate::trial::{Outcome, Start, Trial};

/// Something that a user does.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Step {
    /// Runs and locks the pipeline, then removes the cache. The lock says what was placed.
    RemoveCache,
    /// Renames the project directory.
    RenameProject,
    /// Copies the project to another place, as `cp -a` does, and goes on there.
    CopyProject,
    /// Copies the project, edits and runs the copy, and goes on in the original.
    TryInACopy,
    /// Renames the pipeline file.
    RenamePipeline,
    /// Removes the results.
    RemoveResults,
    /// Checks out the lock and the results of another branch.
    RestoreOldResults,
    /// Edits the data.
    Edit,
    /// Runs another variant of the data at the same time as this one.
    TwoVersionsAtOnce,
}

const STEPS: [Step; 9] = [
    Step::RemoveCache,
    Step::RenameProject,
    Step::CopyProject,
    Step::TryInACopy,
    Step::RenamePipeline,
    Step::RemoveResults,
    Step::RestoreOldResults,
    Step::Edit,
    Step::TwoVersionsAtOnce,
];

/// Some steps after a run. The next run has to bring the results up to date.
#[derive(Serialize, Deserialize)]
pub(super) struct Upkeep {
    steps: Vec<Step>,
}

impl Fault for Upkeep {
    const NAME: &'static str = "upkeep";
    const TITLE: &'static str = "the cache removed, the project moved, copied or renamed, old results checked out, two versions run at once";
    const WEIGHT: u32 = 5;

    fn draw(rng: &mut Rng, _: u64, _: &Golden) -> Result<Self> {
        Ok(Self { steps: (0..=rng.below(3)).map(|_| rng.pick(&STEPS)).collect() })
    }

    fn inject<'a>(&self, golden: &'a Golden) -> Result<Trial<'a>> {
        let mut trial = Trial::new(golden, Pipeline::Commands, Start::Fresh)?;
        let lock = trial.pipe(&["lock", "pipeline.yaml"])?.finish()?;
        ensure!(lock.code == Some(0), "`pipe lock` failed: {lock:?}");
        let old_lock = std::fs::read(trial.place.project().join("pipeline.lock"))?;
        for step in &self.steps {
            trial.faults += 1;
            step.apply(&mut trial, &old_lock)?;
        }
        trial.stored.clear();
        Ok(trial)
    }
}

impl Step {
    fn apply(self, trial: &mut Trial, old_lock: &[u8]) -> Result<()> {
        let project = trial.place.project();
        let lock = Path::new(&trial.file).with_extension("lock");
        match self {
            Self::RemoveCache => {
                let running = trial.run()?;
                trial.finish(running, false)?;
                let running = trial.pipe(&["lock", &trial.file])?;
                trial.finish(running, false)?;
                std::fs::remove_dir_all(project.join("cache"))?;
            }
            Self::RenameProject => {
                trial.place.name.push_str("-moved");
                std::fs::rename(project, trial.place.project())?;
            }
            Self::CopyProject => {
                trial.place.name.push_str("-copy");
                let copy = trial.place.project();
                crate::process::tool("cp", &["-a", &project.to_string_lossy(), &copy.to_string_lossy()])?;
                std::fs::remove_dir_all(project)?;
            }
            Self::TryInACopy => {
                let (name, version) = (trial.place.name.clone(), trial.version);
                trial.place.name.push_str("-trial");
                let copy = trial.place.project();
                crate::process::tool("cp", &["-a", &project.to_string_lossy(), &copy.to_string_lossy()])?;
                trial.edit(1 + version % 2)?;
                let running = trial.run()?;
                let ended = trial.finish(running, false)?;
                if ended.code == Some(0) {
                    check_results(trial, "the run in the copy")?;
                } else {
                    let text = format!("the run in the copy exited with {:?}\n{}", ended.code, ended.tail());
                    trial.note(Outcome::Hand, text);
                }
                std::fs::remove_dir_all(copy)?;
                (trial.place.name, trial.version) = (name, version);
            }
            Self::RenamePipeline => {
                let old = std::mem::replace(&mut trial.file, "renamed.yaml".to_owned());
                std::fs::rename(project.join(&old), project.join("renamed.yaml"))?;
                std::fs::rename(project.join(lock), project.join("renamed.lock"))?;
            }
            Self::RemoveResults => {
                let _ = std::fs::remove_dir_all(project.join("results"));
            }
            Self::RestoreOldResults => {
                let known = trial.known.clone();
                put(&project, &known.results[FIRST_VERSION as usize])?;
                std::fs::write(project.join(lock), old_lock)?;
            }
            Self::Edit => trial.edit(1 + trial.version % 2)?,
            Self::TwoVersionsAtOnce => {
                let first = trial.run()?;
                trial.edit(1 + trial.version % 2)?;
                let second = trial.run()?;
                trial.finish(first, false)?;
                trial.finish(second, false)?;
            }
        }
        Ok(())
    }
}

/// Writes results as a version control system does: the old directory goes, the files get the time of now.
fn put(project: &Path, results: &Files) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let _ = std::fs::remove_dir_all(project.join("results"));
    for (path, content) in results {
        let path = project.join(path);
        match (content.as_slice(), path.ends_with("link")) {
            (b"/", _) => std::fs::create_dir_all(path)?,
            (target, true) => std::os::unix::fs::symlink(String::from_utf8_lossy(target).as_ref(), path)?,
            (bytes, false) => {
                let (content, executable) = bytes.split_at(bytes.len() - 1);
                std::fs::write(&path, content)?;
                let mode = if executable == [1] { 0o755 } else { 0o644 };
                std::fs::set_permissions(&path, PermissionsExt::from_mode(mode))?;
            }
        }
    }
    Ok(())
}
