//! An executor without processes, for tests: a stage is a function of its task.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};

use super::executor::{AttemptError, Executor, ResourceUsage, Task};
use super::stop::Urgency;
use pipe_core::event::WorkerEvent;

type StageFunction = Box<dyn Fn(&Task, &mut dyn FnMut(WorkerEvent)) -> Result<(), AttemptError> + Sync>;

/// An executor whose stages are functions.
#[derive(Default)]
pub(super) struct Double {
    acts: BTreeMap<String, StageFunction>,
    ran: Mutex<Vec<String>>,
    pub stopped: Arc<Mutex<Option<Urgency>>>,
}

impl Double {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Sets what the instance of this name does, instead of writing its text.
    pub(super) fn with(
        mut self,
        name: &str,
        act: impl Fn(&Task, &mut dyn FnMut(WorkerEvent)) -> Result<(), AttemptError> + Sync + 'static,
    ) -> Self {
        self.acts.insert(name.to_owned(), Box::new(act));
        self
    }

    /// Returns the instances that ran, in the order in which they started.
    pub(super) fn ran(&self) -> Vec<String> {
        self.ran.lock().unwrap().clone()
    }
}

/// Writes the text in the stage's body; without one its name, followed by the content of its inputs in brackets.
pub(super) fn write_text(task: &Task) -> Result<(), AttemptError> {
    let params = &task.job.body;
    let text = params.get("text").or(params.get("name")).and_then(|text| text.as_str()).unwrap_or_default();
    let inputs: String = task
        .job
        .inputs
        .values()
        .flatten()
        .map(|input| fs::read_to_string(&input.path).unwrap_or_else(|e| e.to_string()))
        .collect();
    let constant = params.get("text").is_some();
    for path in task.job.outputs.values() {
        let content = if constant { text.to_owned() } else { format!("{text}({inputs})") };
        fs::write(path, content).map_err(|error| AttemptError::retryable(error.to_string()))?;
    }
    Ok(())
}

impl Executor for Double {
    fn execute(
        &self,
        task: &Task,
        report: &mut dyn FnMut(WorkerEvent),
    ) -> Result<ResourceUsage, AttemptError> {
        self.ran.lock().unwrap().push(task.job.instance.clone());
        match self.acts.get(&task.job.instance) {
            Some(act) => act(task, report)?,
            None => write_text(task)?,
        }
        Ok(ResourceUsage { seconds: 2.0, cpu_seconds: 1.0, max_rss_bytes: 1 << 20 })
    }

    fn stop(&self, urgency: Urgency) {
        *self.stopped.lock().unwrap() = Some(urgency);
    }
}
