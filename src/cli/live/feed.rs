//! A list of events that the run appends to and any number of browsers read from.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pipe_engine::runner::event::Event;

/// The events of a run.
#[derive(Default)]
pub(super) struct Feed {
    state: Mutex<FeedState>,
    changed: Condvar,
}

#[derive(Default)]
struct FeedState {
    /// All events except progress, as JSON.
    events: Vec<Arc<str>>,
    /// The newest progress of each instance, with the number of the event.
    progress: BTreeMap<String, (u64, Arc<str>)>,
    /// How many events were pushed, progress included.
    number: u64,
    ended: bool,
    readers: usize,
}

/// The position of one reader in the feed.
pub(super) struct FeedReader<'a> {
    feed: &'a Feed,
    events: usize,
    number: u64,
}

/// What a reader gets.
pub(super) enum Received {
    Events(Vec<Arc<str>>),
    /// There was no event within the timeout.
    Nothing,
    /// The run is over and all events were read.
    End,
}

impl Feed {
    /// Appends an event.
    pub(super) fn push(&self, event: &Event) {
        let Ok(json) = line(event) else { return };
        let json: Arc<str> = json.into();
        let mut state = self.lock();
        state.number += 1;
        let number = state.number;
        match event {
            Event::Progress { instance, .. } => {
                state.progress.insert(instance.clone(), (number, json));
            }
            event => {
                if let Event::Done { instance, .. } | Event::Failed { instance, .. } = event {
                    state.progress.remove(instance);
                }
                state.events.push(json);
            }
        }
        self.changed.notify_all();
    }

    /// Marks the end, and waits until all readers are gone or the timeout is over.
    pub(super) fn end(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        state.ended = true;
        self.changed.notify_all();
        while state.readers > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns a reader that starts at the first event.
    pub(super) fn reader(&self) -> FeedReader<'_> {
        self.lock().readers += 1;
        FeedReader { feed: self, events: 0, number: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FeedReader<'_> {
    /// Returns the events since the last call; waits for one until the timeout is over.
    pub(super) fn next(&mut self, timeout: Duration) -> Received {
        let state = self.feed.lock();
        let waiting = |state: &mut FeedState| !state.ended && state.number == self.number;
        let (state, _) = self
            .feed
            .changed
            .wait_timeout_while(state, timeout, waiting)
            .unwrap_or_else(PoisonError::into_inner);
        if state.number == self.number {
            return if state.ended { Received::End } else { Received::Nothing };
        }
        let mut lines: Vec<Arc<str>> = state.events[self.events..].to_vec();
        let fresh = state.progress.values().filter(|(number, _)| *number > self.number);
        lines.extend(fresh.map(|(_, json)| Arc::clone(json)));
        (self.events, self.number) = (state.events.len(), state.number);
        Received::Events(lines)
    }
}

impl Drop for FeedReader<'_> {
    fn drop(&mut self) {
        self.feed.lock().readers -= 1;
        self.feed.changed.notify_all();
    }
}

/// The event as JSON. The page has no sentences of its own, so a start carries its reason as text, too.
fn line(event: &Event) -> serde_json::Result<String> {
    let mut json = serde_json::to_value(event)?;
    if let Event::Started { why, .. } = event {
        json["message"] = why.to_string().into();
    }
    serde_json::to_string(&json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(done: u64) -> Event {
        let (unit, message) = (String::new(), String::new());
        Event::Progress { instance: "a".into(), done, total: None, unit, message }
    }

    fn metric(value: f64) -> Event {
        Event::Metric { instance: "a".into(), name: "f1".into(), value, protocol: None, epoch: None }
    }

    fn lines(reader: &mut FeedReader) -> Vec<String> {
        match reader.next(Duration::ZERO) {
            Received::Events(lines) => lines.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn a_reader_gets_every_event_once_and_only_the_newest_progress() {
        let feed = Feed::default();
        let mut early = feed.reader();
        feed.push(&metric(1.0));
        assert_eq!(lines(&mut early).len(), 1);
        for done in 0..1000 {
            feed.push(&progress(done));
        }
        feed.push(&metric(2.0));
        let received = lines(&mut early);
        assert_eq!(received.len(), 2, "{received:?}");
        assert!(received[0].contains("2.0") && received[1].contains("999"), "{received:?}");
        assert!(matches!(early.next(Duration::ZERO), Received::Nothing));
        assert_eq!(lines(&mut feed.reader()).len(), 3, "a late reader gets all events");
    }

    #[test]
    fn the_end_comes_after_the_last_event() {
        let feed = Feed::default();
        let mut reader = feed.reader();
        feed.push(&metric(1.0));
        feed.end(Duration::ZERO);
        assert_eq!(lines(&mut reader).len(), 1);
        assert!(matches!(reader.next(Duration::from_secs(60)), Received::End));
        drop(reader);
        feed.end(Duration::from_secs(60));
    }
}
