//! Events on their way from the run to any number of readers.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pipe_engine::runner::event::Event;

#[derive(Default)]
pub(super) struct Feed {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    /// Everything but progress, as JSON.
    told: Vec<Arc<str>>,
    /// Of progress only the newest is kept, with the number of the news that brought it.
    progress: BTreeMap<String, (u64, Arc<str>)>,
    number: u64,
    ended: bool,
    readers: usize,
}

/// One reader's place.
pub(super) struct Reader<'a> {
    feed: &'a Feed,
    told: usize,
    number: u64,
}

pub(super) enum News {
    Lines(Vec<Arc<str>>),
    /// Nothing happened for as long as the reader would wait.
    Nothing,
    End,
}

impl Feed {
    pub(super) fn tell(&self, event: &Event) {
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
                state.told.push(json);
            }
        }
        self.news.notify_all();
    }

    /// Nothing more will come. Waits for readers to have heard everything, but not long.
    pub(super) fn end(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut state = self.lock();
        state.ended = true;
        self.news.notify_all();
        while state.readers > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.news.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// From the beginning.
    pub(super) fn reader(&self) -> Reader<'_> {
        self.lock().readers += 1;
        Reader { feed: self, told: 0, number: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader<'_> {
    /// What happened since the last call.
    pub(super) fn next(&mut self, patience: Duration) -> News {
        let state = self.feed.lock();
        let waiting = |state: &mut State| !state.ended && state.number == self.number;
        let (state, _) = self
            .feed
            .news
            .wait_timeout_while(state, patience, waiting)
            .unwrap_or_else(PoisonError::into_inner);
        if state.number == self.number {
            return if state.ended { News::End } else { News::Nothing };
        }
        let mut lines: Vec<Arc<str>> = state.told[self.told..].to_vec();
        let fresh = state.progress.values().filter(|(number, _)| *number > self.number);
        lines.extend(fresh.map(|(_, json)| Arc::clone(json)));
        (self.told, self.number) = (state.told.len(), state.number);
        News::Lines(lines)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.feed.lock().readers -= 1;
        self.feed.news.notify_all();
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
        Event::Metric { instance: "a".into(), name: "f1".into(), value, protocol: None }
    }

    fn lines(reader: &mut Reader) -> Vec<String> {
        match reader.next(Duration::ZERO) {
            News::Lines(lines) => lines.iter().map(|line| line.to_string()).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn a_reader_hears_every_event_once_and_only_the_newest_progress() {
        let feed = Feed::default();
        let mut early = feed.reader();
        feed.tell(&metric(1.0));
        assert_eq!(lines(&mut early).len(), 1);
        for done in 0..1000 {
            feed.tell(&progress(done));
        }
        feed.tell(&metric(2.0));
        let heard = lines(&mut early);
        assert_eq!(heard.len(), 2, "{heard:?}");
        assert!(heard[0].contains("2.0") && heard[1].contains("999"), "{heard:?}");
        assert!(matches!(early.next(Duration::ZERO), News::Nothing));
        assert_eq!(lines(&mut feed.reader()).len(), 3, "who comes late hears it all");
    }

    #[test]
    fn the_end_comes_after_the_last_event() {
        let feed = Feed::default();
        let mut reader = feed.reader();
        feed.tell(&metric(1.0));
        feed.end(Duration::ZERO);
        assert_eq!(lines(&mut reader).len(), 1);
        assert!(matches!(reader.next(Duration::from_secs(60)), News::End));
        drop(reader);
        feed.end(Duration::from_secs(60));
    }
}
