//! The view that the pipeline language has of a stage kind: its inputs, outputs, axes and checks.
//!
//! [`crate::stage`] implements it for typed parameters. The command line passes the registered kinds in, so that the
//! language knows no kind by name.

use schemars::{Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::issue::Issue;
use crate::packages::PackageRequest;
use crate::reference::StageRef;
use crate::suggest::did_you_mean;

pub use crate::artifact::{ANY, ArtifactType, FILE, TIMINGS};

/// The program that does the work of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// A child process of `pipe` itself, which starts in a millisecond.
    Pipe,
    /// `pipe-worker`, which has libtorch.
    Worker,
    /// `pipe-worker` if the model among the inputs needs libtorch, otherwise a child process of `pipe` itself.
    Either,
    /// The user's own program, started by the runner.
    Command,
}

/// An input that the parameters of a stage declare.
#[derive(Debug, Clone, PartialEq)]
pub struct InputDecl {
    /// The name in keys, in `pipe why` and in the job file: `data`, `from`, ...
    pub slot: String,
    /// Where the artifacts come from.
    pub source: SourceDecl,
    /// The type that the artifacts must have.
    pub accepts: ArtifactType,
    /// The parameter that names the source, if its name is not that of the slot.
    written_in: Option<&'static str>,
}

impl InputDecl {
    /// Declares an input from any source.
    pub fn new(slot: impl Into<String>, source: SourceDecl, accepts: ArtifactType) -> Self {
        Self { slot: slot.into(), source, accepts, written_in: None }
    }

    /// Declares an input of exactly one artifact.
    pub fn one(slot: &str, from: &StageRef, accepts: ArtifactType) -> Self {
        Self::new(slot, SourceDecl::One(from.clone()), accepts)
    }

    /// Declares an input of one artifact per matched instance.
    pub fn many(slot: &str, from: Vec<StageRef>, accepts: ArtifactType) -> Self {
        Self::new(slot, SourceDecl::Many(from), accepts)
    }

    /// Names the parameter that fills the slot. One parameter may fill several slots: a model comes with its scores.
    pub fn written_in(self, parameter: &'static str) -> Self {
        Self { written_in: Some(parameter), ..self }
    }

    /// Returns the name of the parameter that names the source.
    pub fn parameter(&self) -> &str {
        self.written_in.unwrap_or(&self.slot)
    }
}

/// The source of an input, as a stage declares it.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceDecl {
    /// Exactly one artifact.
    One(StageRef),
    /// One artifact of each instance that the references match, and at least one.
    Many(Vec<StageRef>),
    /// Every output of the accepted type, of all instances that the references match. If a stage has no output of that
    /// type, its only plain file, whose content tells the reader what it is.
    All(Vec<StageRef>),
    /// A file or directory of the user, relative to the project directory.
    Path(String),
    /// A file of a registered data set. It is found in the data directory, or fetched into it, before the stage's key
    /// is computed from its content.
    DataFile { dataset: String, file: String },
}

/// An output that the parameters of a stage declare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputDecl {
    /// The name in references: `tex` in `table.tex`.
    pub name: String,
    /// The type of the artifact.
    pub artifact: ArtifactType,
    /// The name of the file that users get: `table1.tex`.
    pub file_name: String,
}

impl OutputDecl {
    /// Declares an output.
    pub fn new(name: &str, artifact: ArtifactType, file_name: &str) -> Self {
        Self { name: name.to_owned(), artifact, file_name: file_name.to_owned() }
    }

    /// Returns whether equal inputs may give different bytes, as for measured times.
    pub fn is_volatile(&self) -> bool {
        self.artifact == TIMINGS
    }
}

/// The axes that a stage's parameters mention. The axes of the inputs are known before anything runs, so that a
/// misspelt axis is reported then.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AxisUses {
    /// The slots whose artifacts have the axes. It is enough if the artifacts of one of these slots have an axis.
    pub slots: Vec<String>,
    /// Further axes that every such artifact has, with their possible values.
    pub given: Vec<(&'static str, Vec<&'static str>)>,
    /// Words that are allowed in place of an axis where [`AxisUse::or_other`] is set.
    pub others: Option<Vocabulary>,
    /// The places where an axis is mentioned.
    pub uses: Vec<AxisUse>,
}

/// One mention of an axis in a stage's parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AxisUse {
    /// The parameter that contains it.
    pub field: &'static str,
    /// The name of the axis.
    pub axis: String,
    /// A value that the axis must have.
    pub value: Option<String>,
    /// Whether the word may be a misspelt one of [`AxisUses::others`].
    pub or_other: bool,
}

/// The words of one sort, such as the names of all metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vocabulary {
    /// What one of the words is called: `metric`.
    pub noun: &'static str,
    /// All words. A `*` stands for any text: `weight_*`.
    pub words: Vec<&'static str>,
}

impl Vocabulary {
    /// Returns the names of metrics.
    pub fn of_metrics(words: impl IntoIterator<Item = &'static str>) -> Self {
        Self { noun: "metric", words: words.into_iter().collect() }
    }

    /// Returns whether a word is one of them.
    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|known| match known.split_once('*') {
            Some((start, end)) => {
                word.strip_prefix(start).is_some_and(|rest| !rest.is_empty() && rest.ends_with(end))
            }
            None => *known == word,
        })
    }

    /// Returns "did you mean ...?" for a word that is none of them, or a list of them.
    pub fn hint(&self, word: &str) -> Option<String> {
        if self.words.is_empty() {
            return Some(format!("it has no {}s", self.noun));
        }
        did_you_mean(word, &format!("its {}s are", self.noun), self.words.iter().copied())
    }
}

/// The body of a stage whose types have been checked.
#[derive(Debug, Clone)]
pub struct CheckedBody {
    /// The typed parameters with defaults filled in and references left out (they serialise as null). Equal parameters
    /// give equal bytes, however the YAML is written.
    pub params: Value,
    /// The version of the computation; see [`crate::stage::StageKind::VERSION`].
    pub version: u32,
    /// The declared inputs.
    pub inputs: Vec<InputDecl>,
    /// The declared outputs.
    pub outputs: Vec<OutputDecl>,
    /// The fields whose values cannot be used.
    pub issues: Vec<Issue>,
    /// Names of the environment variables that the stage sees. Their values are part of its key.
    pub environment: Vec<String>,
    /// The packages that the stage needs.
    pub packages: Option<PackageRequest>,
    /// The axes that the parameters mention.
    pub axes: AxisUses,
    /// The metrics that the stage may record; `None` if only its program knows them.
    pub metrics: Option<Vocabulary>,
}

/// A metric that must be 1 in every result of a stage; another result fails the stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirement {
    pub metric: &'static str,
    /// The sentence about a result that does not meet it.
    pub otherwise: &'static str,
}

/// One registered stage kind.
pub trait Kind: Sync {
    /// Returns the name under which a pipeline uses the kind.
    fn name(&self) -> &'static str;
    /// Returns one line for the list of kinds.
    fn summary(&self) -> &'static str;
    /// Returns the program that does the work.
    fn program(&self) -> Program;
    /// Returns what every result has to meet.
    fn requirement(&self) -> Option<Requirement>;
    /// Deserializes the parameters into the typed struct of the kind. The error carries the path to the wrong field.
    fn check(&self, body: &Value) -> Result<CheckedBody, serde_path_to_error::Error<serde_json::Error>>;
    /// Returns the JSON schema of the body.
    fn schema(&self, generator: &mut SchemaGenerator) -> Schema;
}

/// The registered kinds.
pub type Kinds<'a> = &'a [&'a dyn Kind];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        let metrics = Vocabulary::of_metrics(["holds", "p_at_*", "labels_*_rows"]);
        assert!(["holds", "p_at_5", "labels_test_rows"].iter().all(|word| metrics.has(word)));
        assert!(
            !["hold", "p_at_", "labels_rows", "labels_test_row", ""].iter().any(|word| metrics.has(word))
        );
        assert_eq!(metrics.hint("hold").as_deref(), Some("did you mean `holds`?"));
        assert_eq!(
            metrics.hint("zebra").as_deref(),
            Some("its metrics are: `holds`, `p_at_*`, `labels_*_rows`")
        );
    }
}
