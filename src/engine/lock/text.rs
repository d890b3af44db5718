//! Locks as text, made for diffs and merges: one fact per line, records sorted by name, a blank line between them.
//!
//! ```text
//! pipe lock 2
//! pipeline bibtex
//!
//! stage idf
//! key <stage key>
//! class x86_64 threads=1
//! compare exact
//! in inputs.data <blob id>
//! in kind idf
//! in params.eps 1.0
//! in version 1
//! out idf <blob id> 8112
//! metric labels_without_rows 0.0
//! seal <16 digits>
//!
//! placed results/bibtex/table1.tex <blob id>
//! ```
//!
//! An output's line ends in `directory` or `volatile` where that applies, a metric's line in its protocol, `honest` or
//! `oracle`, if it has one. The seal is the start of the blake3 of the record's other lines, so that a record
//! that was edited, or merged line by line from two others, is noticed.
//! A name with white space in it, and a value with control characters, are written as `\` and a JSON text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::str::FromStr;

use super::class::EnvironmentClass;
use super::record::{Lock, LockRecord, LockedOutput};
use crate::store::manifest::Stored;
use pipe_core::digest::{BlobId, Digest, StageKey};
use pipe_core::key::KeyParts;
use pipe_core::protocol::{MetricValue, Protocol};

const HEAD: &str = "pipe lock 2";
/// The first line of the format before protocols were recorded with the metrics.
const OLD_HEAD: &str = "pipe lock 1";
const SEAL_DIGITS: usize = 16;

const OLD_FORMAT: &str = "this lock was written by an older version of `pipe` (format 1, which does not record the \
    protocol of metrics). Remove it, run the pipeline, and write a new one with `pipe lock FILE`";

/// Returns whether a person has to decide what becomes of a lock that cannot be read: it has an unresolved merge conflict, or is
/// of another version. Any other lock that cannot be read is damaged.
pub fn needs_a_person(text: &str) -> bool {
    let is_other_version = text.starts_with("pipe lock ") && !text.starts_with(&format!("{HEAD}\n"));
    is_other_version || text.lines().any(|line| line.starts_with("<<<<<<<"))
}

/// Why a lock cannot be read, and at which line.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{}{problem}", if *line > 0 { format!("line {line}: ") } else { String::new() })]
pub struct LockError {
    /// Counted from 1; 0 for the file as a whole.
    pub line: usize,
    pub problem: String,
}

/// Returns whether `git` wrote a line into a file that it could not merge.
pub(super) fn is_conflict_marker(line: &str) -> bool {
    ["<<<<<<<", "=======", ">>>>>>>", "|||||||"].iter().any(|marker| line.starts_with(marker))
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}\npipeline {}", word(&self.pipeline))?;
        for (name, record) in &self.stages {
            let body = body(name, record);
            writeln!(f, "\n{body}seal {}", seal(&body))?;
        }
        if !self.placed.is_empty() {
            writeln!(f)?;
        }
        for (path, blob) in &self.placed {
            writeln!(f, "placed {} {blob}", word(path))?;
        }
        Ok(())
    }
}

/// Returns the lines of a record without the seal. Writing to a String cannot fail.
pub(super) fn body(name: &str, record: &LockRecord) -> String {
    let mut text = String::new();
    let LockRecord { key, class, compare, parts, outputs, metrics } = record;
    let _ = writeln!(text, "stage {}", word(name));
    let _ = writeln!(text, "key {key}\nclass {class}\ncompare {compare}");
    for (name, value) in parts.iter() {
        let _ = writeln!(text, "in {} {}", word(name), rest(value));
    }
    for (name, output) in outputs {
        let _ = write!(text, "out {} {} {}", word(name), output.stored.blob, output.stored.bytes);
        text.push_str(if output.stored.directory { " directory" } else { "" });
        text.push_str(if output.volatile { " volatile" } else { "" });
        text.push('\n');
    }
    for (name, MetricValue { value, protocol }) in metrics {
        let _ = write!(text, "metric {} {value:?}", word(name));
        if let Some(protocol) = protocol {
            let _ = write!(text, " {protocol}");
        }
        text.push('\n');
    }
    text
}

pub(super) fn seal(body: &str) -> String {
    let mut digits = Digest::of(body.as_bytes()).to_hex();
    digits.truncate(SEAL_DIGITS);
    digits
}

/// Writes a text without spaces.
pub(super) fn word(text: &str) -> String {
    let plain = |c: char| !c.is_whitespace() && !c.is_control();
    if !text.is_empty() && !text.starts_with('\\') && text.chars().all(plain) {
        return text.to_owned();
    }
    let json = serde_json::Value::from(text).to_string();
    let mut word = String::from("\\");
    for c in json.chars() {
        match c {
            c if c.is_whitespace() || c.is_control() => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(word, "\\u{unit:04x}");
                }
            }
            c => word.push(c),
        }
    }
    word
}

/// Writes a text that goes to the end of the line.
fn rest(text: &str) -> String {
    let plain = !text.starts_with('\\') && !text.chars().any(char::is_control) && text.trim() == text;
    if plain && !text.is_empty() { text.to_owned() } else { word(text) }
}

pub(super) fn unescape(text: &str) -> Option<String> {
    match text.strip_prefix('\\') {
        None if text.is_empty() => None,
        None => Some(text.to_owned()),
        Some(json) => serde_json::from_str(json).ok(),
    }
}

impl FromStr for Lock {
    type Err = LockError;

    fn from_str(text: &str) -> Result<Self, LockError> {
        let mut reader = LockReader { lock: Lock::default(), open: None };
        let mut named = false;
        for (index, line) in text.lines().enumerate() {
            let error = |problem: String| LockError { line: index + 1, problem };
            if index == 0 {
                match line {
                    HEAD => {}
                    OLD_HEAD => return Err(error(OLD_FORMAT.to_owned())),
                    _ => {
                        let problem = format!(
                            "this is not a lock that this version of `pipe` reads: `{HEAD}` is expected"
                        );
                        return Err(error(problem));
                    }
                }
            } else if let Some(name) = line.strip_prefix("pipeline ").filter(|_| !named) {
                reader.lock.pipeline = unescape(name).ok_or_else(|| error("this is not a name".into()))?;
                named = true;
            } else if !line.is_empty() {
                reader.line(line).map_err(error)?;
            }
        }
        let last = text.lines().count();
        match reader {
            LockReader { open: Some(open), .. } => {
                let problem = format!("the record of `{}` has no seal: the lock is cut short", open.name);
                Err(LockError { line: last, problem })
            }
            LockReader { lock, .. } if named => Ok(lock),
            _ => {
                let problem = if last == 0 { "it is empty" } else { "it names no pipeline" };
                Err(LockError { line: last, problem: problem.to_owned() })
            }
        }
    }
}

struct LockReader {
    lock: Lock,
    open: Option<RecordDraft>,
}

/// A record whose lines have not all been read yet.
#[derive(Default)]
struct RecordDraft {
    name: String,
    text: String,
    key: Option<StageKey>,
    class: Option<EnvironmentClass>,
    compare: Option<String>,
    parts: BTreeMap<String, String>,
    outputs: BTreeMap<String, LockedOutput>,
    metrics: BTreeMap<String, MetricValue>,
}

impl LockReader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if is_conflict_marker(line) {
            return Err(
                "two versions were merged and disagree here; take either side of the whole file, then \
                        `pipe run` or `pipe lock --rebuild`"
                    .to_owned(),
            );
        }
        let bad = || format!("`{line}` is not a line of a lock");
        let (keyword, content) = line.split_once(' ').ok_or_else(bad)?;
        match (keyword, &mut self.open) {
            ("stage", None) => {
                let name = unescape(content).ok_or_else(bad)?;
                self.open = Some(RecordDraft { name, text: format!("{line}\n"), ..RecordDraft::default() });
                Ok(())
            }
            ("placed", None) => {
                let (path, blob) = content.split_once(' ').ok_or_else(bad)?;
                let path = unescape(path).ok_or_else(bad)?;
                let blob: BlobId = blob.parse().map_err(|_| bad())?;
                once(&mut self.lock.placed, path, blob)
            }
            ("seal", open @ Some(_)) => {
                let Some(draft) = open.take() else { return Err(bad()) };
                let (name, is_whole) = (draft.name.clone(), seal(&draft.text) == content);
                let record = draft.finish().ok_or_else(|| format!("the record of `{name}` is incomplete"))?;
                if !is_whole {
                    self.lock.edited.insert(name.clone());
                }
                once(&mut self.lock.stages, name, record)
            }
            (_, Some(draft)) => {
                draft.text.push_str(line);
                draft.text.push('\n');
                draft.line(keyword, content)?.ok_or_else(bad)
            }
            (_, None) => Err(bad()),
        }
    }
}

impl RecordDraft {
    /// Reads a line; returns `None` if it is not a line of a lock.
    fn line(&mut self, keyword: &str, content: &str) -> Result<Option<()>, String> {
        Ok(match keyword {
            "key" => content.parse().ok().map(|key| self.key = Some(key)),
            "class" => {
                self.class = Some(EnvironmentClass::from_text(content));
                Some(())
            }
            "compare" => {
                self.compare = Some(content.to_owned());
                Some(())
            }
            "in" => match split(content, unescape) {
                Some((name, value)) => Some(once(&mut self.parts, name, value)?),
                None => None,
            },
            "out" => match split(content, output) {
                Some((name, output)) => Some(once(&mut self.outputs, name, output)?),
                None => None,
            },
            "metric" => match split(content, metric) {
                Some((name, value)) => Some(once(&mut self.metrics, name, value)?),
                None => None,
            },
            _ => None,
        })
    }

    fn finish(self) -> Option<LockRecord> {
        Some(LockRecord {
            key: self.key?,
            class: self.class?,
            compare: self.compare?,
            parts: KeyParts::new(self.parts),
            outputs: self.outputs,
            metrics: self.metrics,
        })
    }
}

fn split<T>(content: &str, read: impl FnOnce(&str) -> Option<T>) -> Option<(String, T)> {
    let (name, value) = content.split_once(' ')?;
    Some((unescape(name)?, read(value)?))
}

fn output(text: &str) -> Option<LockedOutput> {
    let mut words = text.split(' ');
    let (blob, bytes) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let flags: BTreeSet<&str> = words.collect();
    let known = flags.iter().all(|flag| ["directory", "volatile"].contains(flag));
    let has = |flag| flags.contains(flag);
    let stored = Stored { blob, bytes, directory: has("directory") };
    known.then(|| LockedOutput { stored, volatile: has("volatile") })
}

fn metric(text: &str) -> Option<MetricValue> {
    let (value, protocol) = match text.split_once(' ') {
        Some((value, name)) => (value, Some(Protocol::from_name(name)?)),
        None => (text, None),
    };
    Some(MetricValue { value: value.parse().ok()?, protocol })
}

fn once<V>(map: &mut BTreeMap<String, V>, name: String, value: V) -> Result<(), String> {
    let twice = format!("`{name}` is there twice");
    match map.insert(name, value) {
        None => Ok(()),
        Some(_) => Err(twice),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn blob(content: &str) -> BlobId {
        BlobId::new(Digest::of(content.as_bytes()))
    }

    fn record(pairs: &[(&str, &str)]) -> LockRecord {
        let parts = KeyParts::new(pairs.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect());
        let stored = Stored { blob: blob("out"), bytes: 12, directory: true };
        let output = LockedOutput { stored, volatile: true };
        let oracle = MetricValue { value: 0.1 + 0.2, protocol: Some(Protocol::Oracle) };
        let honest = MetricValue { value: 0.5, protocol: Some(Protocol::Honest) };
        LockRecord {
            key: parts.key(),
            class: EnvironmentClass::from_text("x86_64 threads=1"),
            compare: "exact".into(),
            parts,
            outputs: BTreeMap::from([("model".into(), output)]),
            metrics: BTreeMap::from([
                ("f1".into(), oracle),
                ("p_at_1".into(), honest),
                ("worst".into(), MetricValue::unmarked(f64::NEG_INFINITY)),
            ]),
        }
    }

    fn lock(stages: &[(&str, LockRecord)]) -> Lock {
        Lock {
            pipeline: "test".into(),
            stages: stages.iter().map(|(name, record)| (name.to_string(), record.clone())).collect(),
            placed: BTreeMap::from([("results/a table.tex".into(), blob("t"))]),
            edited: BTreeSet::new(),
        }
    }

    #[test]
    fn a_lock_survives_its_text() {
        let odd = [
            ("kind", "command"),
            ("params.run", "\"a\\nb\""),
            ("inputs.x.order", "[note=a\nb]"),
            ("env.A", "unset"),
        ];
        let lock = lock(&[("train[note=\"a b\"]", record(&odd)), ("data", record(&[("kind", "load")]))]);
        let text = lock.to_string();
        assert_eq!(text.parse::<Lock>(), Ok(lock), "{text}");
        assert!(text.contains(
            "\nmetric f1 0.30000000000000004 oracle\nmetric p_at_1 0.5 honest\nmetric worst -inf\n"
        ));
        assert!(
            text.contains("\nin params.run \"a\\nb\"\n"),
            "text that needs no escape is written as it is: {text}"
        );
    }

    #[test]
    fn an_edited_record_is_read_and_noticed() {
        let text = lock(&[("data", record(&[("params.lr", "0.1")]))]).to_string();
        let edited: Lock = text.replace("params.lr 0.1", "params.lr 0.2").parse().unwrap();
        assert_eq!(edited.edited, BTreeSet::from(["data".to_owned()]));
        assert_eq!(edited.stages["data"].parts.get("params.lr"), Some("0.2"));
    }

    #[test]
    fn a_text_that_is_not_a_lock_is_refused_with_the_line() {
        let good = lock(&[("data", record(&[("kind", "load")]))]).to_string();
        let refused = |text: &str| text.parse::<Lock>().unwrap_err().to_string();
        assert_eq!(refused(""), "it is empty");
        assert_eq!(refused(HEAD), "line 1: it names no pipeline");
        assert!(refused(&good.replace("lock 2", "lock 3")).starts_with("line 1: this is not a lock"));
        assert!(refused(&good.replace("lock 2", "lock 1")).contains("write a new one with `pipe lock FILE`"));
        assert!(refused(&good.replace(" oracle\n", " prophet\n")).contains("metric f1"));
        let cut = good.split("seal").next().unwrap();
        assert!(refused(cut).contains("no seal"), "{}", refused(cut));
        let conflict = good.replace("class ", "<<<<<<< HEAD\nclass ");
        assert!(refused(&conflict).starts_with("line 6: ") && refused(&conflict).contains("merged"));
        assert!(refused(&good.replace("in kind load\n", "in kind load\nin kind load\n")).contains("twice"));
        assert!(refused(&good.replace("class x86_64 threads=1\n", "")).contains("incomplete"));
    }

    proptest! {
        #[test]
        fn any_text_survives_as_a_name_and_as_a_value(name in "\\PC*|[\\x00-\\x7f]*", value in "\\PC*|[\\x00-\\x7f]*") {
            let lock = lock(&[(&name, record(&[(&name, &value)]))]);
            let text = lock.to_string();
            prop_assert_eq!(text.parse::<Lock>(), Ok(lock), "{}", text);
        }
    }
}
