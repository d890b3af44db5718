//! Slurm, through `sbatch`, `squeue` and `scancel`. Accounting (`sacct`) is never asked: it is often slow or switched off.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::profile::Profile;
use super::scheduler::{
    Ending, GiveUp, JobRequest, JobState, ListedJob, Scheduler, SubmitError, ToolError, ask_tool, run_tool,
};

/// A submission may take long on a busy controller; `sbatch` itself waits and tries again.
const SUBMIT_PATIENCE: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(20);

/// The size of the arrays in which jobs are submitted. The default limit of a site is 1001.
const LARGEST_ARRAY: usize = 500;

/// How long before the end of its time a job is asked to write a checkpoint. The signal may come a minute early.
const NOTICE: Duration = Duration::from_secs(120);
/// Jobs with less time get no such signal, because it would come too early.
const WORTH_A_NOTICE: Duration = Duration::from_secs(600);

/// What `sbatch` and `squeue` say if they should be asked again later, or for fewer jobs at once.
const TEMPORARY: [&str; 12] = [
    "SubmitJob",
    "submit limit",
    "JobLimit",
    "temporarily un",
    "queue full",
    "Unable to contact",
    "timed out",
    "Connection refused",
    "connect failure",
    "Zero Bytes",
    "Invalid job array",
    "backup controller",
];

/// Why Slurm holds a job that a node could not start.
const LAUNCH_FAILED: &str = "launch failed requeued held";

/// The commands of Slurm, with the settings of the site.
pub(super) struct Slurm {
    profile: Profile,
    project: PathBuf,
}

impl Slurm {
    pub(super) fn new(profile: Profile, project: PathBuf) -> Self {
        Self { profile, project }
    }

    fn sbatch(&self, jobs: &[JobRequest]) -> Option<Command> {
        let first = jobs.first()?;
        let mut command = Command::new("sbatch");
        command.args(["--parsable", "--requeue", "--open-mode=append", "--output=/dev/null"]);
        command.arg(format!("--job-name={}", array_name(&first.name)));
        command.arg(format!("--comment={}", first.instance));
        command.arg("--chdir").arg(&self.project);
        let resources = &first.resources;
        command.arg(format!("--cpus-per-task={}", resources.cpu));
        if resources.mem > 0 {
            command.arg(format!("--mem={}M", resources.mem_mib()));
        }
        if resources.gpu > 0 {
            let gpu_type = resources.gpu_type.iter().map(|name| format!("{name}:")).collect::<String>();
            command.arg(format!("--gres=gpu:{gpu_type}{}", resources.gpu));
        }
        if let Some(minutes) = resources.minutes() {
            command.arg(format!("--time={minutes}"));
        }
        if resources.time.is_none_or(|time| time >= WORTH_A_NOTICE) {
            command.arg(format!("--signal=B:USR1@{}", NOTICE.as_secs()));
        }
        let Profile { partition, account, qos, constraint, flags, .. } = &self.profile;
        let settings =
            [("partition", partition), ("account", account), ("qos", qos), ("constraint", constraint)];
        for (name, value) in settings {
            if let Some(value) = value {
                command.arg(format!("--{name}={value}"));
            }
        }
        command.args(flags);
        if jobs.len() > 1 {
            command.arg(format!("--array=0-{}", jobs.len() - 1));
        }
        command.arg(first.directory.join("script"));
        Some(command)
    }
}

/// Returns the name of the array that a job is part of.
fn array_name(job: &str) -> &str {
    job.rsplit_once('_').map_or(job, |(array, _)| array)
}

impl Scheduler for Slurm {
    fn submit(&self, jobs: &[JobRequest]) -> Result<Vec<String>, SubmitError> {
        let Some(mut command) = self.sbatch(jobs) else { return Ok(Vec::new()) };
        match run_tool(&mut command, SUBMIT_PATIENCE) {
            Ok(answer) => match submitted_ids(&answer, jobs.len()) {
                Some(ids) => Ok(ids),
                None => Err(SubmitError::Later(format!("`sbatch` answered `{answer}`, which names no job"))),
            },
            Err(error) => Err(classify(&error)),
        }
    }

    fn list(&self, _ids: &[String], give_up: GiveUp) -> Result<Vec<ListedJob>, String> {
        let mut command = Command::new("squeue");
        command.args(["--noheader", "--array", "--states=all", "--format=%i|%K|%t|%r|%j"]);
        command.arg(format!("--user={}", rustix::process::getuid().as_raw()));
        let answer = ask_tool(&mut command, PATIENCE, give_up).map_err(|error| error.sentence("squeue"))?;
        Ok(answer.lines().filter_map(listed).collect())
    }

    fn cancel(&self, ids: &[String]) -> Result<(), String> {
        match run_tool(Command::new("scancel").arg("--quiet").args(ids), PATIENCE) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.sentence("scancel")),
        }
    }

    fn largest_batch(&self) -> usize {
        LARGEST_ARRAY
    }

    fn position_variable(&self) -> Option<&'static str> {
        Some("${SLURM_ARRAY_TASK_ID:-0}")
    }
}

/// Returns the ids of the jobs; `--parsable` prints `ID` or `ID;CLUSTER`.
fn submitted_ids(answer: &str, count: usize) -> Option<Vec<String>> {
    let id = answer.lines().last()?.split(';').next()?.trim();
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if count == 1 {
        return Some(vec![id.to_owned()]);
    }
    Some((0..count).map(|position| format!("{id}_{position}")).collect())
}

fn classify(error: &ToolError) -> SubmitError {
    let sentence = error.sentence("sbatch");
    match error {
        ToolError::TimedOut => SubmitError::Later(sentence),
        ToolError::NotFound => SubmitError::Refused(sentence),
        ToolError::Failed(_, text) if TEMPORARY.iter().any(|part| text.contains(part)) => {
            SubmitError::Later(sentence)
        }
        ToolError::Failed(..) => SubmitError::Refused(format!(
            "{sentence}; the settings of the site are in the profile of the engine, and `sinfo` lists the partitions"
        )),
    }
}

/// Reads one line of `squeue`.
fn listed(line: &str) -> Option<ListedJob> {
    let mut fields = line.splitn(5, '|');
    let [id, position, state, reason, name] = std::array::from_fn(|_| fields.next());
    let (id, position, name) = (id?.to_owned(), position?, name?);
    // A part of an array is listed under the name of the array.
    let name = if position.parse::<u64>().is_ok() { format!("{name}_{position}") } else { name.to_owned() };
    Some(ListedJob { id, name: Some(name), state: job_state(state?, reason?) })
}

fn job_state(code: &str, reason: &str) -> JobState {
    match code {
        // No node could start it, for example because a controller that was killed has given its id to two jobs. It would wait for ever.
        "PD" if reason.contains(LAUNCH_FAILED) => JobState::Ended(Ending::NodeFailed),
        "PD" | "CF" | "RQ" | "RH" | "RD" | "SE" | "RF" | "RV" => JobState::Pending(reason.to_owned()),
        "CD" => JobState::Ended(Ending::Finished),
        "CA" => JobState::Ended(Ending::Cancelled),
        "F" | "BF" | "DL" => JobState::Ended(Ending::Failed),
        "TO" => JobState::Ended(Ending::TimeLimit),
        "OOM" => JobState::Ended(Ending::OutOfMemory),
        "PR" => JobState::Ended(Ending::Preempted),
        "NF" => JobState::Ended(Ending::NodeFailed),
        _ => JobState::Running,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::cluster::scheduler::JobResources;

    #[test]
    fn single_jobs_and_parts_of_arrays_are_listed_under_the_names_that_they_were_given() {
        let name = |line| listed(line).and_then(|job| job.name);
        assert_eq!(name("12|N/A|R|None|pipe-a").as_deref(), Some("pipe-a"));
        assert_eq!(name("12_3|3|PD|Resources|pipe-a").as_deref(), Some("pipe-a_3"));
        assert_eq!(name("12|N/A|R|None|a|name|with bars").as_deref(), Some("a|name|with bars"));
        assert_eq!(listed("a line without fields"), None);
        assert_eq!(
            listed("12_3|3|PD|Resources|x").map(|job| (job.id, job.state)),
            Some(("12_3".to_owned(), JobState::Pending("Resources".to_owned())))
        );
        assert_eq!(job_state("TO", "TimeLimit"), JobState::Ended(Ending::TimeLimit));
        assert_eq!(job_state("CG", "None"), JobState::Running, "it may still write");
        assert_eq!(job_state("PD", "launch failed requeued held"), JobState::Ended(Ending::NodeFailed));
    }

    #[test]
    fn the_answer_of_sbatch_gives_one_id_per_job() {
        assert_eq!(submitted_ids("17", 1).unwrap(), ["17"]);
        assert_eq!(submitted_ids("17;cluster", 2).unwrap(), ["17_0", "17_1"]);
        assert_eq!(submitted_ids("a banner of the site\n17", 1).unwrap(), ["17"]);
        assert_eq!(submitted_ids("no idea", 1), None);
    }

    #[test]
    fn limits_and_silence_are_temporary_and_wrong_settings_are_not() {
        let failed = |text: &str| classify(&ToolError::Failed(Some(1), text.to_owned()));
        for text in [
            "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates \
             accounting/QOS policy (job submit limit, user's size and/or time limits)",
            "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
            "sbatch: error: Batch job submission failed: Invalid job array specification",
        ] {
            assert!(matches!(failed(text), SubmitError::Later(_)), "{text}");
        }
        let wrong = failed("sbatch: error: invalid partition specified: gpuu");
        assert!(
            matches!(wrong, SubmitError::Refused(text) if text.contains("gpuu") && text.contains("sinfo"))
        );
        assert!(matches!(classify(&ToolError::NotFound), SubmitError::Refused(_)));
    }

    #[test]
    fn the_settings_of_the_site_and_the_resources_of_the_stage_reach_sbatch() {
        let profile =
            Profile { partition: Some("gpu".into()), flags: vec!["--exclusive".into()], ..Profile::slurm() };
        let resources = JobResources {
            cpu: 4,
            mem: 1_500_000_000,
            gpu: 2,
            gpu_type: None,
            time: Some(Duration::from_secs(7201)),
        };
        let typed = JobResources { gpu_type: Some("a100".into()), ..resources.clone() };
        let job = |position: usize| JobRequest {
            name: format!("pipe-a_{position}"),
            instance: "train".into(),
            directory: "/store/jobs/a/1".into(),
            resources: resources.clone(),
        };
        let slurm = Slurm::new(profile, "/project".into());
        let typed = slurm.sbatch(&[JobRequest { resources: typed, ..job(0) }]).unwrap();
        assert!(typed.get_args().any(|word| word == "--gres=gpu:a100:2"), "{typed:?}");
        let command = slurm.sbatch(&[job(0), job(1)]).unwrap();
        let words: Vec<&str> = command.get_args().filter_map(|word| word.to_str()).collect();
        for word in [
            "--job-name=pipe-a",
            "--cpus-per-task=4",
            "--mem=1431M",
            "--gres=gpu:2",
            "--time=121",
            "--partition=gpu",
            "--exclusive",
            "--array=0-1",
            "--signal=B:USR1@120",
        ] {
            assert!(words.contains(&word), "{word}: {words:?}");
        }
        assert_eq!(words.last(), Some(&"/store/jobs/a/1/script"));
    }
}
