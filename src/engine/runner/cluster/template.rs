//! Any other scheduler, through three commands that the profile gives. They get their arguments as environment variables,
//! so that nothing has to be quoted.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::scheduler::{
    Ending, GiveUp, JobRequest, JobState, ListedJob, Scheduler, SubmitError, ToolError, ask_tool, run_tool,
};

const SUBMIT_PATIENCE: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(20);

/// The exit code with which `submit` asks to be called again later (EX_TEMPFAIL).
const TEMPORARY: i32 = 75;

/// The commands of a site.
pub(super) struct Template {
    pub submit: String,
    pub status: String,
    pub cancel: String,
    pub project: PathBuf,
}

impl Template {
    fn shell(&self, text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]).current_dir(&self.project);
        command
    }
}

impl Scheduler for Template {
    fn submit(&self, jobs: &[JobRequest]) -> Result<Vec<String>, SubmitError> {
        let mut ids = Vec::with_capacity(jobs.len());
        for JobRequest { name, instance, directory, resources } in jobs {
            let mut command = self.shell(&self.submit);
            command
                .env("PIPE_JOB_NAME", name)
                .env("PIPE_JOB_INSTANCE", instance)
                .env("PIPE_JOB_SCRIPT", directory.join("script"))
                .env("PIPE_JOB_CPU", resources.cpu.to_string())
                .env("PIPE_JOB_MEM_MB", resources.mem_mib().to_string())
                .env("PIPE_JOB_GPU", resources.gpu.to_string())
                .env("PIPE_JOB_GPU_TYPE", resources.gpu_type.as_deref().unwrap_or_default())
                .env("PIPE_JOB_MINUTES", resources.minutes().unwrap_or(0).to_string());
            let answer = run_tool(&mut command, SUBMIT_PATIENCE).map_err(|error| {
                let sentence = error.sentence("submit");
                match error {
                    ToolError::TimedOut | ToolError::Failed(Some(TEMPORARY), _) => {
                        SubmitError::Later(sentence)
                    }
                    _ => SubmitError::Refused(sentence),
                }
            })?;
            match answer.lines().last().map(str::trim) {
                Some(id) if !id.is_empty() && !id.contains(char::is_whitespace) => ids.push(id.to_owned()),
                _ => {
                    return Err(SubmitError::Refused(format!(
                        "the command `submit` of the profile printed `{answer}`; its last line must be the id of the job"
                    )));
                }
            }
        }
        Ok(ids)
    }

    fn list(&self, ids: &[String], give_up: GiveUp) -> Result<Vec<ListedJob>, String> {
        let mut command = self.shell(&self.status);
        command.env("PIPE_JOB_IDS", ids.join(" "));
        let answer = ask_tool(&mut command, PATIENCE, give_up).map_err(|error| error.sentence("status"))?;
        answer.lines().filter(|line| !line.trim().is_empty()).map(listed).collect()
    }

    fn cancel(&self, ids: &[String]) -> Result<(), String> {
        let mut command = self.shell(&self.cancel);
        command.env("PIPE_JOB_IDS", ids.join(" "));
        run_tool(&mut command, PATIENCE).map(drop).map_err(|error| error.sentence("cancel"))
    }

    fn largest_batch(&self) -> usize {
        1
    }

    fn position_variable(&self) -> Option<&'static str> {
        None
    }
}

/// Reads a line that `status` printed: the id of a job, its state, and its name. The last two may be missing.
fn listed(line: &str) -> Result<ListedJob, String> {
    let mut words = line.split_whitespace();
    let id = words.next().unwrap_or_default().to_owned();
    let state = match words.next().unwrap_or("running") {
        "pending" => JobState::Pending(String::new()),
        "running" => JobState::Running,
        "finished" => JobState::Ended(Ending::Finished),
        "failed" => JobState::Ended(Ending::Failed),
        "cancelled" => JobState::Ended(Ending::Cancelled),
        "time_limit" => JobState::Ended(Ending::TimeLimit),
        "out_of_memory" => JobState::Ended(Ending::OutOfMemory),
        "preempted" => JobState::Ended(Ending::Preempted),
        "node_failed" => JobState::Ended(Ending::NodeFailed),
        other => {
            return Err(format!(
                "the command `status` of the profile printed the state `{other}`; it must be `pending`, `running`, \
                 `finished`, `failed`, `cancelled`, `time_limit`, `out_of_memory`, `preempted` or `node_failed`"
            ));
        }
    };
    Ok(ListedJob { id, state, name: words.next().map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_status_is_an_id_a_state_and_a_name() {
        let job = |id: &str, state, name: Option<&str>| ListedJob {
            id: id.into(),
            state,
            name: name.map(str::to_owned),
        };
        assert_eq!(listed("7").unwrap(), job("7", JobState::Running, None));
        assert_eq!(listed("7 failed").unwrap(), job("7", JobState::Ended(Ending::Failed), None));
        let pending = JobState::Pending(String::new());
        assert_eq!(listed("7.server pending pipe-a").unwrap(), job("7.server", pending, Some("pipe-a")));
        assert!(listed("7 qw").unwrap_err().contains("`qw`"));
    }
}
