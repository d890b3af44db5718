//! Runs built-in stages in workers, which get a job file and answer with events.

use std::fs;
use std::process::Command;

use super::super::executor::{AttemptError, ResourceUsage, Task};
use super::super::libtorch::Worker;
use super::super::listen::Events;
use super::{LocalProcess, Start, io_error, job_file};
use pipe_core::event::WorkerEvent;
use pipe_core::kind::Program;

/// A time zone with half hours, and a language in which `i` is not the lower case of `I` and numbers have commas.
const PERTURBED: [(&str, &str); 3] =
    [("TZ", "Asia/Kolkata"), ("LC_ALL", "tr_TR.UTF-8"), ("LANG", "tr_TR.UTF-8")];

impl LocalProcess {
    pub(super) fn run_worker(
        &self,
        task: &Task,
        report: &mut dyn FnMut(WorkerEvent),
    ) -> Result<ResourceUsage, AttemptError> {
        let job = job_file(task);
        let text =
            serde_json::to_vec_pretty(&task.job).map_err(|e| AttemptError::retryable(e.to_string()))?;
        fs::write(&job, text).map_err(|e| io_error("write", &job, &e))?;
        let program = match task.program {
            Program::Either if (self.programs.needs_worker)(&task.job) => Program::Worker,
            Program::Either => Program::Pipe,
            stated => stated,
        };
        let (start, mut command) = match program {
            Program::Worker => (Start::Served, self.worker_command()?),
            _ => {
                let mut command = Command::new(&self.programs.pipe);
                command.arg("worker");
                (Start::Forked, command)
            }
        };
        let threads = task.job.threads.to_string();
        command
            .arg(&job)
            .current_dir(&task.job.scratch)
            .env("OMP_NUM_THREADS", &threads)
            .env("MKL_NUM_THREADS", &threads);
        if self.perturbed {
            command.envs(PERTURBED);
        }
        let mut said = Events::new(report, self.silence);
        let (exit, usage) = self.run(task, start, &mut command, &mut said)?;
        said.end();
        match (said.failed, exit.is_success(), said.done) {
            (Some(message), ..) => Err(self.failure(message)),
            (None, false, _) => Err(self.explain(exit, usage)),
            (None, true, false) => {
                Err(AttemptError::retryable("the worker ended without saying that it was done"))
            }
            (None, true, true) => Ok(usage),
        }
    }

    /// Returns a command that starts the worker, which is looked for once.
    fn worker_command(&self) -> Result<Command, AttemptError> {
        let found = self.worker.get_or_init(|| Worker::find(&self.programs.pipe));
        let needed =
            |problem: &String| AttemptError::permanent(format!("this stage needs `pipe-worker`: {problem}"));
        Ok(found.as_ref().map_err(needed)?.command())
    }
}
