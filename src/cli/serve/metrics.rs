//! Counts what the server does, and prints it in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The upper bounds of the histogram, in seconds.
const BOUNDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// What a server has done since it was started.
pub(super) struct Metrics {
    model: String,
    responses: Mutex<BTreeMap<(&'static str, u16), Times>>,
    rows: AtomicU64,
    batches: AtomicU64,
}

/// How long the requests with one path and one status took.
#[derive(Default)]
struct Times {
    /// The number of requests up to each bound.
    up_to: [u64; BOUNDS.len()],
    count: u64,
    seconds: f64,
}

impl Metrics {
    /// Starts to count for a model.
    pub(super) fn new(model: &str) -> Self {
        let (rows, batches) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { model: model.to_owned(), responses: Mutex::default(), rows, batches }
    }

    /// Counts a response.
    pub(super) fn responded(&self, path: &'static str, status: u16, took: Duration) {
        let mut responses = self.responses.lock().unwrap_or_else(PoisonError::into_inner);
        let times = responses.entry((path, status)).or_default();
        let seconds = took.as_secs_f64();
        for (count, bound) in times.up_to.iter_mut().zip(BOUNDS) {
            *count += u64::from(seconds <= bound);
        }
        times.count += 1;
        times.seconds += seconds;
    }

    /// Counts rows that were scored together.
    pub(super) fn scored(&self, rows: usize) {
        if rows > 0 {
            self.rows.fetch_add(rows as u64, Ordering::Relaxed);
            self.batches.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns everything as text. `waiting` is the number of requests that wait for the model.
    pub(super) fn text(&self, waiting: usize) -> String {
        let mut out = String::new();
        let mut head = |name: &str, kind: &str, help: &str, lines: &str| {
            let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}");
        };
        let model = self.model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let version = env!("CARGO_PKG_VERSION");
        let info = format!("pipe_serve_info{{model=\"{model}\",version=\"{version}\"}} 1\n");
        head("pipe_serve_info", "gauge", "The model and the version of pipe.", &info);
        let name = "pipe_serve_request_seconds";
        head(name, "histogram", "Time from the head of a request to its response.", &self.histogram(name));
        for (name, kind, help, value) in [
            ("pipe_serve_rows_total", "counter", "Rows that were scored.", self.rows.load(Ordering::Relaxed)),
            (
                "pipe_serve_batches_total",
                "counter",
                "Batches of rows that were scored together.",
                self.batches.load(Ordering::Relaxed),
            ),
            ("pipe_serve_waiting", "gauge", "Requests that wait for the model.", waiting as u64),
            ("process_resident_memory_bytes", "gauge", "Resident memory.", resident_memory()),
        ] {
            head(name, kind, help, &format!("{name} {value}\n"));
        }
        out
    }

    fn histogram(&self, name: &str) -> String {
        let mut lines = String::new();
        let responses = self.responses.lock().unwrap_or_else(PoisonError::into_inner);
        for ((path, status), times) in &*responses {
            let of = format!("path=\"{path}\",status=\"{status}\"");
            for (count, bound) in times.up_to.iter().zip(BOUNDS) {
                let _ = writeln!(lines, "{name}_bucket{{{of},le=\"{bound}\"}} {count}");
            }
            let Times { count, seconds, .. } = times;
            let _ = writeln!(lines, "{name}_bucket{{{of},le=\"+Inf\"}} {count}");
            let _ = writeln!(lines, "{name}_sum{{{of}}} {seconds}\n{name}_count{{{of}}} {count}");
        }
        lines
    }
}

/// Returns the resident memory of this process in bytes; 0 if it is not known.
fn resident_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_counted_by_path_and_status_up_to_each_bound() {
        let metrics = Metrics::new("recipe[\"a\"]");
        metrics.responded("/predict", 200, Duration::from_millis(2));
        metrics.responded("/predict", 200, Duration::from_millis(600));
        metrics.responded("/predict", 400, Duration::from_secs(60));
        metrics.scored(32);
        let text = metrics.text(3);
        for line in [
            "pipe_serve_info{model=\"recipe[\\\"a\\\"]\",version=",
            "pipe_serve_request_seconds_bucket{path=\"/predict\",status=\"200\",le=\"0.001\"} 0\n",
            "pipe_serve_request_seconds_bucket{path=\"/predict\",status=\"200\",le=\"0.0025\"} 1\n",
            "pipe_serve_request_seconds_bucket{path=\"/predict\",status=\"200\",le=\"1\"} 2\n",
            "pipe_serve_request_seconds_bucket{path=\"/predict\",status=\"400\",le=\"10\"} 0\n",
            "pipe_serve_request_seconds_count{path=\"/predict\",status=\"400\"} 1\n",
            "pipe_serve_rows_total 32\n",
            "pipe_serve_batches_total 1\n",
            "pipe_serve_waiting 3\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(resident_memory() > 1 << 20);
    }
}
