//! The events that a worker process sends to the runner while it runs a [job](crate::job).
//!
//! The worker writes one [`WorkerEvent`] per line to standard output, as JSON. It exits with 0 after
//! [`WorkerEvent::Done`] and with another code after [`WorkerEvent::Failed`]. Standard error is free text, which the
//! runner keeps. A line on standard output that is not an event is kept as a log line.

use serde::{Deserialize, Serialize};

use crate::protocol::Protocol;

/// One message from a worker to the runner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum WorkerEvent {
    /// The process is alive. A separate thread sends this every few seconds.
    Alive,
    /// `done` of `total` `unit`s are done; the message is for people (`epoch 3, macro-F1 0.38`).
    Progress { done: u64, total: Option<u64>, unit: String, message: String },
    /// A value to keep in the manifest; the last one of a name wins.
    Metric {
        name: String,
        #[serde(with = "crate::float")]
        value: f64,
        /// The protocol under which it was measured; `None` for a value that no protocol applies to (`train_rows`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        protocol: Option<Protocol>,
        /// The epoch after which it was measured, for a point of a learning curve; `None` for a result of the stage.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<u64>,
    },
    /// What the result was computed with (`libtorch`, `device`). Kept in the manifest, never part of a key.
    Fact { name: String, value: String },
    /// A message for the user.
    Log { level: LogLevel, message: String },
    /// Files that a command used without declaring them. Sent by the runner itself, which observes commands if it is asked to.
    Undeclared { read: Vec<String>, written: Vec<String> },
    /// The stage succeeded.
    Done,
    /// The stage failed; says why.
    Failed { message: String },
}

/// How important a log line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    Debug,
    Info,
    Warning,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinities_and_nan_can_be_written_and_read_back() {
        let metric = |value| WorkerEvent::Metric { name: "loss".into(), value, protocol: None, epoch: None };
        for value in [0.1, f64::INFINITY, f64::NEG_INFINITY] {
            let event = metric(value);
            let text = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<WorkerEvent>(&text).unwrap(), event, "{text}");
        }
        let nan = serde_json::to_string(&metric(f64::NAN)).unwrap();
        let back = serde_json::from_str(&nan).unwrap();
        assert!(matches!(back, WorkerEvent::Metric { value, .. } if value.is_nan()), "{nan}");
    }

    #[test]
    fn the_protocol_of_a_value_is_written_and_read_back() {
        let event = WorkerEvent::Metric {
            name: "macro_f1".into(),
            value: 0.5,
            protocol: Some(Protocol::Oracle),
            epoch: None,
        };
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(text, r#"{"event":"metric","name":"macro_f1","value":0.5,"protocol":"oracle"}"#);
        assert_eq!(serde_json::from_str::<WorkerEvent>(&text).unwrap(), event);
    }
}
