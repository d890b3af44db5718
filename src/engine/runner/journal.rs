//! Where events go: to the one consumer, and to the run's log.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::event::{Event, Summary};
use crate::store::{RunLog, StoreError};
use pipe_core::event::LogLevel;

pub(super) struct Journal<'a> {
    log: RunLog<'a>,
    consumer: &'a mut dyn FnMut(Event),
    /// When an instance's progress was last written down; the consumer hears all of it.
    noted: HashMap<String, Instant>,
    broken: bool,
}

/// Progress is written to the log at most this often per instance.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

impl<'a> Journal<'a> {
    pub(super) fn new(log: RunLog<'a>, consumer: &'a mut dyn FnMut(Event)) -> Self {
        Self { log, consumer, noted: HashMap::new(), broken: false }
    }

    pub(super) fn run(&self) -> &str {
        self.log.id()
    }

    pub(super) fn emit(&mut self, event: Event) {
        if self.worth_keeping(&event) {
            let written = self.log.append(&event);
            self.complain(written);
        }
        (self.consumer)(event);
    }

    /// Before waiting for anything: what has happened is to be seen in the log.
    pub(super) fn flush(&mut self) {
        let written = self.log.flush();
        self.complain(written);
    }

    pub(super) fn warn(&mut self, instance: Option<&str>, message: String) {
        self.emit(Event::Log { instance: instance.map(str::to_owned), level: LogLevel::Warning, message });
    }

    pub(super) fn finish(mut self, summary: &Summary) {
        self.emit(Event::RunFinished { summary: summary.clone() });
        if let Err(error) = self.log.finish(summary) {
            let message = format!("the end of this run could not be written down: {error}");
            (self.consumer)(Event::Log { instance: None, level: LogLevel::Warning, message });
        }
    }

    fn worth_keeping(&mut self, event: &Event) -> bool {
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

    /// A log that cannot be written is told once and does not stop the run.
    fn complain(&mut self, written: Result<(), StoreError>) {
        if let Err(error) = written
            && !std::mem::replace(&mut self.broken, true)
        {
            let message = format!("the log of this run is incomplete: {error}");
            (self.consumer)(Event::Log { instance: None, level: LogLevel::Warning, message });
        }
    }
}
