//! Witnesses: who computed the results of a lock, on which class of machines, and got the same bytes.
//!
//! They are in a file next to the lock, one line per stage, class and person. Lines are sorted, and each can be checked by
//! itself, so the lines of two branches can be merged in any order:
//!
//! ```text
//! pipe witnesses 1
//! train <digest of the result> 2026-11-18 alice:<signature> x86_64 threads=1 libtorch=2.13.0 device=cpu kernels=avx2 vendor=AuthenticAMD
//! ```
//!
//! The digest is that of the lines of the lock that name the key, the metrics, and the outputs without volatile ones. Without a key to
//! sign with, `-:<16 digits>` takes the place of the signature: a checksum, which only tells that a line was not edited.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use super::class::EnvironmentClass;
use super::record::{Lock, LockRecord};
use super::report::{Check, CheckOutcome};
use super::text::{LockError, body, is_conflict_marker, seal, unescape, word};
use crate::remote::{SigningKey, Trust};
use crate::store::manifest::Manifest;
use pipe_core::digest::Digest;

const HEAD: &str = "pipe witnesses 1";
const PURPOSE: &str = "pipe witness 1";
const UNSIGNED: &str = "-";

/// A statement that a machine computed a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witness {
    /// The name of the stage instance; for people. The result says what was computed.
    stage: String,
    result: Digest,
    /// The day on which it was computed.
    day: String,
    class: EnvironmentClass,
    /// Who signed it, or [`UNSIGNED`].
    writer: String,
    /// The signature of the writer, or a checksum.
    proof: String,
}

/// Returns the digest of what a stage computed from what, wherever and whenever it did.
fn result_of(record: &LockRecord) -> Digest {
    let is_result = |line: &&str| match line.split_once(' ') {
        Some(("out", output)) => !output.ends_with(" volatile"),
        Some((keyword, _)) => ["key", "metric"].contains(&keyword),
        None => false,
    };
    let body = body("", record);
    let lines: Vec<&str> = body.lines().filter(is_result).collect();
    Digest::of(lines.join("\n").as_bytes())
}

impl Witness {
    /// Returns the witness of a result that was computed on the machine which its manifest describes.
    pub fn new(stage: &str, record: &LockRecord, manifest: &Manifest, key: Option<&SigningKey>) -> Self {
        let mut witness = Self {
            stage: stage.to_owned(),
            result: result_of(record),
            day: manifest.finished.split('T').next().unwrap_or_default().to_owned(),
            class: EnvironmentClass::of_machine(&manifest.environment),
            writer: UNSIGNED.to_owned(),
            proof: String::new(),
        };
        let statement = witness.statement();
        match key {
            Some(key) => {
                witness.writer = key.name().to_owned();
                witness.proof = key.sign(PURPOSE, statement.as_bytes());
            }
            None => witness.proof = seal(&statement),
        }
        witness
    }

    /// Returns what is signed.
    fn statement(&self) -> String {
        format!("{} {} {} {}", word(&self.stage), self.result, self.day, self.class)
    }

    /// Checks that the line was not edited. The error completes the sentence "it was refused: ...".
    fn check(&self, trust: &Trust) -> Result<(), String> {
        let statement = self.statement();
        if self.writer != UNSIGNED {
            return trust.check(PURPOSE, statement.as_bytes(), &self.writer, &self.proof);
        }
        if seal(&statement) == self.proof { Ok(()) } else { Err("it was edited".to_owned()) }
    }

    fn states_the_same_as(&self, other: &Self) -> bool {
        (self.result, &self.class, &self.writer) == (other.result, &other.class, &other.writer)
    }
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, result, day, class, writer, proof } = self;
        write!(f, "{} {result} {day} {writer}:{proof} {class}", word(stage))
    }
}

impl FromStr for Witness {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let read = || {
            let mut words = line.splitn(5, ' ');
            let stage = unescape(words.next()?)?;
            let result = words.next()?.parse().ok()?;
            let day = words.next()?.to_owned();
            let (writer, proof) = words.next()?.split_once(':')?;
            let class = EnvironmentClass::from_text(words.next()?);
            Some(Self { stage, result, day, class, writer: writer.to_owned(), proof: proof.to_owned() })
        };
        read().ok_or_else(|| format!("`{line}` is not a witness"))
    }
}

/// The witnesses of a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WitnessFile {
    witnesses: Vec<Witness>,
}

impl WitnessFile {
    /// Adds a witness. One that states the same stays, with its day, so that a repetition changes nothing.
    pub fn add(&mut self, witness: Witness) {
        if !self.witnesses.iter().any(|known| known.states_the_same_as(&witness)) {
            self.witnesses.push(witness);
        }
    }

    /// Removes the lines of a writer, and those that nobody signed, that [`Self::check`] would refuse.
    pub fn remove_refused(&mut self, writer: Option<&str>, trust: &Trust) {
        let is_own =
            |witness: &Witness| witness.writer == UNSIGNED || Some(witness.writer.as_str()) == writer;
        self.witnesses.retain(|witness| !is_own(witness) || witness.check(trust).is_ok());
    }

    /// Removes the witnesses of results that are not in the lock.
    pub fn keep_those_of(&mut self, lock: &Lock) {
        let results: BTreeSet<Digest> = lock.stages.values().map(result_of).collect();
        self.witnesses.retain(|witness| results.contains(&witness.result));
    }

    /// Checks every line, and counts on how many classes of machines the results of the lock were computed. `name` is that of the
    /// file.
    pub fn check(&self, name: &str, lock: &Lock, trust: &Trust) -> Vec<Check> {
        let mut checks = Vec::new();
        let mut strangers = BTreeSet::new();
        let mut classes: BTreeMap<String, ClassReport> = BTreeMap::new();
        let mut classes_of: BTreeMap<Digest, BTreeSet<String>> =
            lock.stages.values().map(|record| (result_of(record), BTreeSet::new())).collect();
        for witness in &self.witnesses {
            let Witness { stage, writer, class, .. } = witness;
            if writer != UNSIGNED && !trust.knows(writer) {
                strangers.insert(writer.as_str());
            } else if let Err(reason) = witness.check(trust) {
                let who = if writer == UNSIGNED { String::new() } else { format!(" by `{writer}`") };
                checks.push(Check::drift(
                    "witness",
                    name,
                    format!("the witness of `{stage}`{who} was refused: {reason}"),
                ));
            } else if let Some(found) = classes_of.get_mut(&witness.result) {
                found.insert(class.to_string());
                let report = classes.entry(class.to_string()).or_default();
                report.results.insert(witness.result);
                report.writers.insert(writer.as_str());
            }
        }
        let mut message = count(&classes_of.values().map(BTreeSet::len).collect::<Vec<_>>());
        if !strangers.is_empty() {
            let strangers = strangers.into_iter().collect::<Vec<_>>().join("`, `");
            message.push_str(&format!(
                "; the witnesses of `{strangers}` do not count, because `trusted:` has no such key"
            ));
        }
        let outcome = if classes.is_empty() { CheckOutcome::NotChecked } else { CheckOutcome::Same };
        let detail = classes.iter().map(|(class, report)| format!("{class}: {report}\n")).collect();
        checks.push(Check::new("witness", name, outcome, message).with_detail(detail));
        checks
    }
}

/// What is known about one class of machines.
#[derive(Default)]
struct ClassReport<'a> {
    results: BTreeSet<Digest>,
    writers: BTreeSet<&'a str>,
}

impl fmt::Display for ClassReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let results = self.results.len();
        let writers = self.writers.iter().map(|writer| match *writer {
            UNSIGNED => "unsigned".to_owned(),
            name => format!("by `{name}`"),
        });
        let plural = if results == 1 { "" } else { "s" };
        write!(f, "{results} result{plural}, {}", writers.collect::<Vec<_>>().join(", "))
    }
}

/// Returns a sentence, given on how many classes each result of a lock was computed.
fn count(classes: &[usize]) -> String {
    let reproduced = classes.iter().filter(|&&count| count > 0).count();
    let least = classes.iter().copied().filter(|&count| count > 0).min().unwrap_or(0);
    let most = classes.iter().copied().max().unwrap_or(0);
    let plural = if most == 1 { "" } else { "es" };
    let on = match least {
        0 => return "no result of the lock has a witness; `pipe lock --witness` adds them".to_owned(),
        least if least == most => format!("on {most} machine class{plural}"),
        least => format!("on {least} to {most} machine class{plural}"),
    };
    match classes.len() {
        all if all == reproduced => format!("reproduced {on}"),
        all => format!("{reproduced} of {all} results were reproduced, {on}"),
    }
}

impl fmt::Display for WitnessFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: BTreeSet<String> = self.witnesses.iter().map(Witness::to_string).collect();
        writeln!(f, "{HEAD}")?;
        lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl FromStr for WitnessFile {
    type Err = LockError;

    /// Reads the lines of a file. Lines, and the first line, may be there twice: two branches may have added them.
    fn from_str(text: &str) -> Result<Self, LockError> {
        let mut file = Self::default();
        if text.lines().next() != Some(HEAD) {
            let problem = format!("this version of `pipe` expects `{HEAD}`");
            return Err(LockError { line: 1, problem });
        }
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty() && *line != HEAD) {
            let error = |problem: String| LockError { line: index + 1, problem };
            if is_conflict_marker(line) {
                return Err(error(
                    "two versions were merged; keep the lines of both, and remove this one".to_owned(),
                ));
            }
            let witness: Witness = line.parse().map_err(error)?;
            if !file.witnesses.contains(&witness) {
                file.witnesses.push(witness);
            }
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::LockedOutput;
    use crate::store::manifest::{Computed, Stored};
    use pipe_core::digest::BlobId;
    use pipe_core::key::KeyParts;

    fn manifest(vendor: &str, day: &str) -> Manifest {
        let parts = KeyParts::new(BTreeMap::from([("kind".to_owned(), "train".to_owned())]));
        let facts = [("os", "linux x86_64"), ("cpu features", "avx2 fma"), ("cpu vendor", vendor)];
        Manifest {
            key: parts.key(),
            finished: format!("{day}T10:15:00Z"),
            taken_from: None,
            computed: Computed {
                kind: "train".into(),
                instance: "train".into(),
                parts,
                outputs: BTreeMap::new(),
                volatile: BTreeSet::new(),
                stdout: None,
                stderr: None,
                metrics: BTreeMap::new(),
                seconds: 0.0,
                cpu_seconds: 0.0,
                max_rss_bytes: 0,
                environment: facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
                warnings: Vec::new(),
            },
        }
    }

    fn record(content: &str, timings: &str) -> LockRecord {
        let manifest = manifest("AMD", "2026-01-31");
        let output = |content: &str, volatile: bool| {
            let blob = BlobId::new(Digest::of(content.as_bytes()));
            LockedOutput { stored: Stored { blob, bytes: 4, directory: false }, volatile }
        };
        LockRecord {
            key: manifest.key,
            class: EnvironmentClass::of(&manifest.environment),
            compare: "exact".into(),
            parts: manifest.parts.clone(),
            outputs: [("model", output(content, false)), ("timings", output(timings, true))]
                .map(|(name, output)| (name.to_owned(), output))
                .into(),
            metrics: BTreeMap::new(),
        }
    }

    fn lock(stages: &[(&str, &str)]) -> Lock {
        let record = |(name, content): &(&str, &str)| (name.to_string(), record(content, "1 s"));
        Lock { stages: stages.iter().map(record).collect(), ..Lock::default() }
    }

    fn messages(file: &WitnessFile, lock: &Lock, trust: &Trust) -> Vec<String> {
        file.check("x", lock, trust).into_iter().map(|check| check.message).collect()
    }

    #[test]
    fn classes_are_counted_once_and_only_for_results_of_the_lock() {
        let lock = lock(&[("data", "d"), ("train", "m")]);
        let mut file = WitnessFile::default();
        assert!(messages(&file, &lock, &Trust::Anyone)[0].starts_with("no result of the lock has a witness"));
        for (vendor, day) in [("AMD", "2026-01-31"), ("AMD", "2026-02-01"), ("Intel", "2026-02-02")] {
            file.add(Witness::new("train", &record("m", "another time"), &manifest(vendor, day), None));
        }
        assert_eq!(
            messages(&file, &lock, &Trust::Anyone),
            ["1 of 2 results were reproduced, on 2 machine classes"]
        );
        file.add(Witness::new("data", &record("d", "1 s"), &manifest("AMD", "2026-01-31"), None));
        assert_eq!(messages(&file, &lock, &Trust::Anyone), ["reproduced on 1 to 2 machine classes"]);
        let text = file.to_string();
        assert_eq!(text.lines().count(), 4, "the first day of a class stays: {text}");
        assert!(!text.contains("2026-02-01"), "{text}");

        let changed = self::lock(&[("train", "other")]);
        assert!(messages(&file, &changed, &Trust::Anyone)[0].starts_with("no result"));
        file.keep_those_of(&self::lock(&[("renamed", "m")]));
        assert_eq!(file.to_string().lines().count(), 3, "the name of a stage does not matter");
    }

    #[test]
    fn a_line_that_was_edited_is_refused_and_one_of_a_stranger_does_not_count() {
        let alice = SigningKey::generate("alice").unwrap();
        let bob = SigningKey::generate("bob").unwrap();
        let trust = Trust::Keys(vec![alice.public()]);
        let lock = lock(&[("train", "m")]);
        let witness = |vendor: &str, key: Option<&SigningKey>| {
            Witness::new("train", &lock.stages["train"], &manifest(vendor, "2026-01-31"), key)
        };
        for key in [None, Some(&alice)] {
            let mut file = WitnessFile::default();
            file.add(witness("AMD", key));
            assert_eq!(messages(&file, &lock, &trust), ["reproduced on 1 machine class"]);
            let edited: WitnessFile = file.to_string().replace("vendor=AMD", "vendor=Other").parse().unwrap();
            let found = messages(&edited, &lock, &trust);
            assert!(found[0].contains("was refused") && found[1].starts_with("no result"), "{found:?}");
        }
        let mut file = WitnessFile::default();
        file.add(witness("AMD", Some(&alice)));
        file.add(witness("Intel", Some(&bob)));
        let found = messages(&file, &lock, &trust);
        assert!(
            found[0].starts_with("reproduced on 1 machine class; the witnesses of `bob` do not count"),
            "{found:?}"
        );
        assert_eq!(messages(&file, &lock, &Trust::Anyone), ["reproduced on 2 machine classes"]);
    }

    #[test]
    fn lines_of_two_branches_can_be_joined_in_any_order() {
        let lock = lock(&[("train[note=\"a b\"]", "m")]);
        let (name, record) = lock.stages.first_key_value().unwrap();
        let branches = ["AMD", "Intel"].map(|vendor| {
            let mut file = WitnessFile::default();
            file.add(Witness::new(name, record, &manifest(vendor, "2026-01-31"), None));
            file.to_string()
        });
        let [joined, reverse] =
            [[0, 1], [1, 0]].map(|order| order.map(|branch| branches[branch].as_str()).concat());
        let joined: WitnessFile = joined.parse().unwrap();
        assert_eq!(messages(&joined, &lock, &Trust::Anyone), ["reproduced on 2 machine classes"]);
        assert_eq!(joined.to_string(), reverse.parse::<WitnessFile>().unwrap().to_string());
    }

    #[test]
    fn refused_lines_of_ones_own_are_replaced_and_those_of_others_stay() {
        let (alice, bob) = (SigningKey::generate("alice").unwrap(), SigningKey::generate("bob").unwrap());
        let trust = Trust::Keys(vec![alice.public(), bob.public()]);
        let lock = lock(&[("train", "m")]);
        let witness = |key: Option<&SigningKey>| {
            Witness::new("train", &lock.stages["train"], &manifest("AMD", "2026-01-31"), key)
        };
        let mut whole = WitnessFile::default();
        for key in [None, Some(&alice), Some(&bob)] {
            whole.add(witness(key));
        }
        for edit in [("2026-01-31", "2026-01-30"), ("vendor=AMD", "vendor=Other")] {
            let mut file: WitnessFile = whole.to_string().replace(edit.0, edit.1).parse().unwrap();
            file.remove_refused(Some("alice"), &trust);
            file.add(witness(Some(&alice)));
            let said = messages(&file, &lock, &trust);
            assert!(said[0].contains("by `bob` was refused") && said.len() == 2, "{said:?}");
            assert_eq!(said[1], "reproduced on 1 machine class");
        }
        let mut untouched = whole.clone();
        untouched.remove_refused(Some("alice"), &trust);
        assert_eq!(untouched, whole);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_refused_with_the_line() {
        let refused = |text: &str| text.parse::<WitnessFile>().unwrap_err().to_string();
        assert!(refused("").starts_with("line 1: "));
        assert!(refused("pipe witnesses 2\n").contains("expects `pipe witnesses 1`"));
        assert!(refused(&format!("{HEAD}\n\nnonsense\n")).starts_with("line 3: `nonsense`"));
        assert!(refused(&format!("{HEAD}\n<<<<<<< HEAD\n")).contains("keep the lines of both"));
    }
}
