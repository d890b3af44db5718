//! Past runs, read back from their logs.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;

use super::exit::Failure;
use pipe_core::digest::StageKey;
use pipe_core::protocol::MetricValue;
use pipe_core::suggest;
use pipe_engine::runner::event::{Event, Summary};
use pipe_engine::store::{RunRecord, Store};
use pipe_ml::metric::registry::{Direction, Metric};

/// A past run.
pub(super) struct PastRun {
    pub record: RunRecord,
    events: Vec<Event>,
}

/// What happened to one instance in a past run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct PastInstance {
    pub instance: String,
    /// `cached`, `computed`, `failed`, `skipped` or `no end`.
    pub outcome: &'static str,
    pub key: Option<StageKey>,
    /// How long it took to compute; if it was cached, how long it would have taken.
    pub seconds: Option<f64>,
    /// Why it ran, why it failed, or why it was skipped.
    pub note: String,
}

impl PastRun {
    /// Reads the log of a run.
    pub(super) fn read(store: &Store, record: RunRecord) -> Result<Self, Failure> {
        let text = store.run_events(&record.id)?;
        // The last line of a run that was killed may be incomplete.
        let events = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok(Self { record, events })
    }

    /// Returns the name of the pipeline.
    pub(super) fn pipeline(&self) -> &str {
        let name = self.events.iter().find_map(|event| match event {
            Event::RunStarted { pipeline, .. } => Some(pipeline.as_str()),
            _ => None,
        });
        name.unwrap_or_default()
    }

    /// Returns the pipeline file. It is not known of runs of earlier versions.
    pub(super) fn file(&self) -> Option<&Path> {
        self.events.iter().find_map(|event| match event {
            Event::RunStarted { file, .. } => file.as_deref(),
            _ => None,
        })
    }

    fn is_of(&self, file: &Path) -> bool {
        let same = |past: &Path| past == file || past.canonicalize().ok() == file.canonicalize().ok();
        self.file().is_none_or(same)
    }

    /// Returns the `--set` values of the run.
    pub(super) fn set(&self) -> &[String] {
        let set = self.events.iter().find_map(|event| match event {
            Event::RunStarted { set, .. } => Some(set.as_slice()),
            _ => None,
        });
        set.unwrap_or_default()
    }

    /// Returns what the user wrote about the run.
    pub(super) fn note(&self) -> Option<&str> {
        self.events.iter().find_map(|event| match event {
            Event::RunStarted { note, .. } => note.as_deref(),
            _ => None,
        })
    }

    /// Returns the commit that was checked out.
    pub(super) fn commit(&self) -> Option<&str> {
        self.events.iter().find_map(|event| match event {
            Event::RunStarted { commit, .. } => commit.as_deref(),
            _ => None,
        })
    }

    /// Returns the best value of a metric among the results of the run. Values under the oracle protocol count only if
    /// there is no other.
    pub(super) fn best(&self, metric: &str, store: &Store) -> Option<MetricValue> {
        let keys = self.instances().into_iter().filter_map(|instance| instance.key);
        let values = keys.filter_map(|key| store.record(key)?.metrics.get(metric).copied());
        values.filter(|value| value.value.is_finite()).min_by(|a, b| compare(metric, *a, *b))
    }

    /// Returns the names of the metrics that the results of the run have.
    pub(super) fn metrics(&self, store: &Store) -> BTreeSet<String> {
        let keys = self.instances().into_iter().filter_map(|instance| instance.key);
        keys.filter_map(|key| store.record(key))
            .flat_map(|record| record.metrics.keys().cloned().collect::<Vec<_>>())
            .collect()
    }

    /// Returns when the run started: `2026-01-31 10:15:00 UTC`.
    pub(super) fn started(&self) -> String {
        let time = self.record.started().map(|time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string());
        time.unwrap_or_default()
    }

    /// Returns the summary, or `None` if the run was killed or is still running.
    pub(super) fn summary(&self) -> Option<Summary> {
        serde_json::from_value(self.record.summary.clone()?).ok()
    }

    /// Returns how the run ended, in one or two words.
    pub(super) fn state(&self) -> &'static str {
        match self.summary() {
            None => "no end",
            Some(summary) if summary.interrupted => "interrupted",
            Some(summary) if summary.failed > 0 => "failed",
            Some(_) => "done",
        }
    }

    /// Returns the instances in the order in which they ended; those that did not end come last.
    pub(super) fn instances(&self) -> Vec<PastInstance> {
        let mut ended: Vec<PastInstance> = Vec::new();
        let mut started: Vec<(&str, String)> = Vec::new();
        for event in &self.events {
            let end = |instance: &str, outcome, key: Option<StageKey>, seconds, note: &str| PastInstance {
                instance: instance.to_owned(),
                outcome,
                key,
                seconds,
                note: note.to_owned(),
            };
            ended.push(match event {
                Event::Started { instance, why, attempt: 1, .. } => {
                    started.push((instance, why.to_string()));
                    continue;
                }
                Event::Hit { instance, key, saved, writer } => {
                    let note =
                        writer.as_ref().map(|writer| format!("taken from {writer}")).unwrap_or_default();
                    end(instance, "cached", Some(*key), Some(*saved), &note)
                }
                Event::Done { instance, key, seconds, .. } => {
                    let why =
                        started.iter().find(|(name, _)| name == instance).map_or("", |(_, why)| why.as_str());
                    end(instance, "computed", Some(*key), Some(*seconds), why)
                }
                Event::Failed { instance, error, will_retry: false, .. } => {
                    end(instance, "failed", None, None, error)
                }
                Event::Skipped { instance, because } => end(instance, "skipped", None, None, because),
                _ => continue,
            });
        }
        let open = started.iter().filter(|(name, _)| !ended.iter().any(|end| end.instance == *name));
        let open: Vec<PastInstance> = open
            .map(|(name, why)| PastInstance {
                instance: (*name).to_owned(),
                outcome: "no end",
                key: None,
                seconds: None,
                note: why.clone(),
            })
            .collect();
        ended.extend(open);
        ended
    }

    /// Returns how many instances had this outcome.
    pub(super) fn count(&self, outcome: &str) -> usize {
        self.instances().iter().filter(|instance| instance.outcome == outcome).count()
    }
}

/// Orders values of a metric, best first: honest before oracle, then by the direction of the metric. Of a metric whose
/// direction is not known, the largest value comes first.
pub(super) fn compare(metric: &str, a: MetricValue, b: MetricValue) -> Ordering {
    let by_value = match metric.parse::<Metric>().map_or(Direction::Neither, Metric::direction) {
        Direction::Lower => a.value.total_cmp(&b.value),
        Direction::Higher | Direction::Neither => b.value.total_cmp(&a.value),
    };
    a.is_oracle().cmp(&b.is_oracle()).then(by_value)
}

/// Finds a run by its id, by the beginning of its id, as `latest`, or as `latest~N`: N runs of the same pipeline
/// before the latest.
pub(super) fn find(store: &Store, word: &str) -> Result<PastRun, Failure> {
    find_of(store, word, None)
}

/// Finds a run as [`find`] does, among the runs of one pipeline file if it is given.
pub(super) fn find_of(store: &Store, word: &str, file: Option<&Path>) -> Result<PastRun, Failure> {
    let runs = store.runs()?;
    if runs.is_empty() {
        return Err(Failure::bad_input("nothing has been run here yet; `pipe run FILE` runs a pipeline"));
    }
    if let Some(back) = steps_back(word) {
        let mut left = back;
        let mut pipeline: Option<String> = None;
        for record in runs {
            let past = PastRun::read(store, record)?;
            if file.is_some_and(|file| !past.is_of(file)) {
                continue;
            }
            let wanted = pipeline.get_or_insert_with(|| past.pipeline().to_owned());
            if past.pipeline() != wanted {
                continue;
            }
            if left == 0 {
                return Ok(past);
            }
            left -= 1;
        }
        let of_file = || file.map(|file| file.display().to_string());
        let name = pipeline.or_else(of_file).unwrap_or_default();
        return Err(Failure::bad_input(format!(
            "there is no `{word}`: `{name}` was run only {} here",
            super::text::count(back - left, "time")
        )));
    }
    let mut matching = runs.into_iter().filter(|run| run.id.starts_with(word));
    match (matching.next(), matching.next()) {
        (Some(record), None) => {
            let past = PastRun::read(store, record)?;
            match file.filter(|file| !past.is_of(file)) {
                None => Ok(past),
                Some(file) => Err(Failure::bad_input(format!(
                    "run {} is of the pipeline `{}`, not of {}",
                    past.record.id,
                    past.pipeline(),
                    file.display()
                ))),
            }
        }
        (Some(one), Some(two)) => Err(Failure::bad_input(format!(
            "`{word}` could be {} or {}; give more of the id",
            one.id, two.id
        ))),
        (None, _) => {
            let (name, back) = word.split_at(word.find('~').unwrap_or(word.len()));
            let meant =
                suggest::closest(name, ["latest"]).map(|name| format!(" (did you mean `{name}{back}`?)"));
            let meant = meant.unwrap_or_default();
            Err(Failure::bad_input(format!("there is no run `{word}`{meant}; `pipe runs` lists them")))
        }
    }
}

/// Returns how many runs to go back: 0 for `latest`, N for `latest~N`.
fn steps_back(word: &str) -> Option<usize> {
    match word.strip_prefix("latest")? {
        "" => Some(0),
        rest => rest.strip_prefix('~')?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_core::digest::Digest;
    use pipe_engine::plan::Why;

    #[test]
    fn latest_counts_back() {
        assert_eq!(
            ["latest", "latest~2", "latest~", "late", "2026"].map(steps_back),
            [Some(0), Some(2), None, None, None]
        );
    }

    #[test]
    fn a_killed_run_shows_which_stages_were_running() {
        let key = StageKey::new(Digest::of(b"key"));
        let started =
            |name: &str, attempt| Event::Started { instance: name.into(), key, why: Why::NeverRun, attempt };
        let done =
            Event::Done { instance: "a".into(), key, seconds: 2.0, cpu_seconds: 1.0, max_rss_bytes: 0 };
        let record = RunRecord { id: "20260131T101500Z-1a2b3c4d".into(), summary: None, bytes: 0 };
        let past = PastRun { record, events: vec![started("a", 1), started("b", 1), started("b", 2), done] };
        let ended: Vec<_> =
            past.instances().into_iter().map(|end| (end.instance, end.outcome, end.note)).collect();
        let why = "never run before".to_owned();
        assert_eq!(ended, [("a".to_owned(), "computed", why.clone()), ("b".to_owned(), "no end", why)]);
        assert_eq!((past.state(), past.started().as_str()), ("no end", "2026-01-31 10:15:00 UTC"));
    }
}
