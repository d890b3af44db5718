//! The settings of a cluster, which differ from site to site. They are never part of a key.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::spec::resource_request::Memory;
use crate::spec::time_limit::TimeLimit;
use pipe_core::suggest;

/// The content of a profile file, such as `engines/slurm.yaml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The name by which the user chooses it: that of its file.
    #[serde(skip)]
    pub name: String,
    pub engine: EngineKind,
    /// For Slurm: the partition, account, quality of service and constraint of every job; the site's defaults if missing.
    pub partition: Option<String>,
    pub account: Option<String>,
    pub qos: Option<String>,
    pub constraint: Option<String>,
    /// For Slurm: further arguments of `sbatch`.
    #[serde(default)]
    pub flags: Vec<String>,
    /// For `template`: the commands that submit, list and cancel jobs.
    pub submit: Option<String>,
    pub status: Option<String>,
    pub cancel: Option<String>,
    /// Shell lines that a job runs first, such as `module load cuda`.
    pub setup: Option<String>,
    /// The time limit of stages that state none; the site's default if missing.
    pub time: Option<TimeLimit>,
    /// The memory of stages that state none, and of those with `mem: auto` that have never run; the site's default if missing.
    pub mem: Option<Memory>,
    /// Up to how much memory `pipe` asks for by itself.
    pub mem_max: Option<Memory>,
    /// How many jobs a run may have in the queue at once.
    #[serde(default = "many")]
    pub max_jobs: usize,
    /// How long a job that the scheduler does not know may be silent before it counts as lost.
    #[serde(default = "a_minute")]
    pub lost_after: TimeLimit,
    /// The path of `pipe` on the nodes, if it is not the one here.
    pub pipe: Option<PathBuf>,
    /// The kinds whose stages run on this machine, because they take less time than a job needs to start.
    pub local: Option<Vec<String>>,
}

/// The interface to a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    Slurm,
    Template,
}

impl Profile {
    /// Returns the profile for a Slurm whose defaults are used.
    pub fn slurm() -> Self {
        Self {
            name: "slurm".to_owned(),
            engine: EngineKind::Slurm,
            partition: None,
            account: None,
            qos: None,
            constraint: None,
            flags: Vec::new(),
            submit: None,
            status: None,
            cancel: None,
            setup: None,
            time: None,
            mem: None,
            mem_max: None,
            max_jobs: many(),
            lost_after: a_minute(),
            pipe: None,
            local: None,
        }
    }

    /// Returns a sentence about fields that do not belong to the engine, that it lacks, or whose values cannot be used. `kinds`
    /// are the stage kinds.
    pub fn check(&self, kinds: &[&str]) -> Result<(), String> {
        let of_slurm = [
            ("partition", self.partition.is_some()),
            ("account", self.account.is_some()),
            ("qos", self.qos.is_some()),
            ("constraint", self.constraint.is_some()),
            ("flags", !self.flags.is_empty()),
        ];
        let of_template = [
            ("submit", self.submit.is_some()),
            ("status", self.status.is_some()),
            ("cancel", self.cancel.is_some()),
        ];
        let foreign = match self.engine {
            EngineKind::Slurm => of_template.iter().find(|(_, given)| *given),
            EngineKind::Template => of_slurm.iter().find(|(_, given)| *given),
        };
        if let Some((name, _)) = foreign {
            let owner = match self.engine {
                EngineKind::Slurm => "template",
                EngineKind::Template => "slurm",
            };
            return Err(format!("`{name}` belongs to `engine: {owner}`"));
        }
        if self.engine == EngineKind::Template
            && let Some((name, _)) = of_template.iter().find(|(_, given)| !given)
        {
            return Err(format!(
                "`engine: template` needs the commands `submit`, `status` and `cancel`; `{name}` is missing"
            ));
        }
        if self.max_jobs == 0 {
            return Err("`max_jobs` must be at least 1".to_owned());
        }
        if let (Some(mem), Some(max)) = (self.mem, self.mem_max)
            && mem.bytes > max.bytes
        {
            return Err("`mem` must not be larger than `mem_max`".to_owned());
        }
        let local = self.local.iter().flatten();
        if let Some(unknown) = local.map(String::as_str).find(|kind| !kinds.contains(kind)) {
            let hint = suggest::did_you_mean(unknown, "the kinds are", kinds.iter().copied());
            return Err(format!(
                "`local` names `{unknown}`, which is not a stage kind{}",
                hint.map(|hint| format!("; {hint}")).unwrap_or_default()
            ));
        }
        Ok(())
    }
}

fn many() -> usize {
    1000
}

fn a_minute() -> TimeLimit {
    TimeLimit { duration: Duration::from_secs(60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Profile, String> {
        let profile: Profile = serde_yaml::from_str(text).map_err(|error| error.to_string())?;
        profile.check(&["plot", "table", "train"])?;
        Ok(profile)
    }

    #[test]
    fn a_typo_in_a_profile_is_refused() {
        let error = read("engine: slurm\npartion: gpu").unwrap_err();
        assert!(error.contains("partion") && error.contains("partition"), "{error}");
        assert!(read("engine: slurn").unwrap_err().contains("slurm"));
        assert!(read("{ engine: slurm, time: 4 hours }").unwrap_err().contains("not a time"));
    }

    #[test]
    fn a_profile_has_the_fields_of_its_engine() {
        assert!(read("{ engine: slurm, time: 4h, max_jobs: 5 }").is_ok());
        assert!(read("{ engine: template, submit: a, status: b, cancel: c }").is_ok());
        assert!(read("{ engine: template, submit: a, status: b }").unwrap_err().contains("`cancel`"));
        assert!(read("{ engine: slurm, submit: a }").unwrap_err().contains("template"));
        assert!(read("{ engine: slurm, max_jobs: 0 }").unwrap_err().contains("at least 1"));
        assert!(read("{ engine: slurm, mem: 2GB, mem_max: 1GB }").unwrap_err().contains("not be larger"));
        assert!(read("{ engine: slurm, local: [plot, table] }").is_ok());
        assert!(read("{ engine: slurm, local: [tabel] }").unwrap_err().contains("did you mean `table`?"));
    }
}
