//! Sends events to their one consumer and to the log of the run.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::event::{Event, Summary};
use crate::store::{RunLog, StoreError};
use pipe_core::event::LogLevel;

/// The consumer and the log of a run.
pub(super) struct Journal<'a> {
    log: RunLog<'a>,
    consumer: &'a mut dyn FnMut(Event),
    /// When the progress of an instance was last written to the log; the consumer gets all of it.
    noted: HashMap<String, Instant>,
    /// The warnings of instances so far. A warning that a worker sends is also stored with its result.
    warned: HashSet<(String, String)>,
    broken: bool,
}

/// Progress is written to the log at most this often per instance.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

impl<'a> Journal<'a> {
    pub(super) fn new(log: RunLog<'a>, consumer: &'a mut dyn FnMut(Event)) -> Self {
        Self { log, consumer, noted: HashMap::new(), warned: HashSet::new(), broken: false }
    }

    pub(super) fn run(&self) -> &str {
        self.log.id()
    }

    pub(super) fn emit(&mut self, event: Event) {
        if let Event::Log { instance: Some(instance), level: LogLevel::Warning, message } = &event {
            self.warned.insert((instance.clone(), message.clone()));
        }
        if self.should_log(&event) {
            let written = self.log.append(&event);
            self.report_failure(written);
        }
        (self.consumer)(event);
    }

    /// Writes what has happened to the log; called before waiting for anything.
    pub(super) fn flush(&mut self) {
        let written = self.log.flush();
        self.report_failure(written);
    }

    pub(super) fn warn(&mut self, instance: Option<&str>, message: String) {
        self.emit(Event::Log { instance: instance.map(str::to_owned), level: LogLevel::Warning, message });
    }

    /// Emits the warnings of a result that were not emitted while it was computed.
    pub(super) fn warn_of_result(&mut self, instance: &str, warnings: &[String]) {
        for warning in warnings {
            if !self.warned.contains(&(instance.to_owned(), warning.clone())) {
                self.warn(Some(instance), warning.clone());
            }
        }
    }

    pub(super) fn finish(mut self, summary: &Summary) {
        self.emit(Event::RunFinished { summary: summary.clone() });
        if let Err(error) = self.log.finish(summary) {
            let message = format!("the end of this run could not be written to its log: {error}");
            (self.consumer)(Event::Log { instance: None, level: LogLevel::Warning, message });
        }
    }

    fn should_log(&mut self, event: &Event) -> bool {
        let Event::Progress { instance, .. } = event else { return true };
        let now = Instant::now();
        match self.noted.get_mut(instance) {
            Some(last) if now - *last < PROGRESS_EVERY => false,
            Some(last) => {
                *last = now;
                true
            }
            None => {
                self.noted.insert(instance.clone(), now);
                true
            }
        }
    }

    /// Reports a log that cannot be written, once. It does not stop the run.
    fn report_failure(&mut self, written: Result<(), StoreError>) {
        if let Err(error) = written
            && !std::mem::replace(&mut self.broken, true)
        {
            let message = format!("the log of this run is incomplete: {error}");
            (self.consumer)(Event::Log { instance: None, level: LogLevel::Warning, message });
        }
    }
}
