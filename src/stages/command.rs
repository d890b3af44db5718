//! `command`: runs any program as a stage of a pipeline.
//!
//! ```yaml
//! fit:
//!   command:
//!     run: python3 in/script --data in/table > scores.csv
//!     inputs:
//!       table: load                        # an output of another stage
//!       folds: ["split[*]"]                # a list is a fan-in: in/folds/<axes>
//!       script: { file: scripts/fit.py }   # a file or directory of yours
//!     outputs: { scores: scores.csv }      # or a list, [scores.csv], named after the stem of the file
//!     env: [CUDA_HOME]
//! ```
//!
//! The program runs in a directory that contains only `in/`, and writes its outputs there. Inputs are at `in/<name>` and,
//! as absolute paths, in `$PIPE_IN_<NAME>`; outputs go to the declared paths, which are also in `$PIPE_OUT_<NAME>`. Text
//! is run by `sh -e -c`, so that the first failing command fails the stage, or with `shell: bash` by
//! `bash -euo pipefail -c`, which also notices a failure on the left of a `|` and a variable that is not set. A list is a
//! program and its arguments, without a shell.
//!
//! The environment contains only `PATH`, `HOME`, `TMPDIR` (an empty directory next to the working directory, removed with
//! it), `LANG=C.UTF-8`, `TZ=UTC`, `PIPE_THREADS`, and the variables listed under `env`, whose values are part of the key.
//! The value of `PATH` is part of the key only if it is listed, because the same tools are in different places on
//! different machines.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_untagged::UntaggedEnumVisitor;

use super::one_or_many::UserFile;
use pipe_core::issue::Issue;
use pipe_core::kind::{ANY, FILE, InputDecl, OutputDecl, Program, SourceDecl};
use pipe_core::reference::StageRef;
use pipe_core::stage::StageKind;

/// The parameters of `command`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The command line, or a list with a program and its arguments.
    run: Run,
    /// The inputs of the program, by their names under `in/`.
    #[serde(default)]
    inputs: BTreeMap<String, CommandInput>,
    outputs: CommandOutputs,
    /// Environment variables that the program may see. Their values are part of the key.
    #[serde(default)]
    env: BTreeSet<String>,
    /// The shell that runs `run` if it is text: `sh` (as `sh -e`), `bash` (as `bash -euo pipefail`), or another one (with `-e`).
    #[serde(default = "default_shell")]
    shell: String,
}

const DEFAULT_SHELL: &str = "sh";

fn default_shell() -> String {
    DEFAULT_SHELL.to_owned()
}

/// Text for a shell, or a program and its arguments.
#[derive(Debug, PartialEq)]
enum Run {
    Shell(String),
    Program(Vec<String>),
}

/// An input of the program.
#[derive(Debug, PartialEq)]
enum CommandInput {
    One(StageRef),
    Many(Vec<StageRef>),
    File(String),
}

/// Paths in the working directory, by output name.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct CommandOutputs(BTreeMap<String, String>);

impl StageKind for Command {
    const NAME: &'static str = "command";
    const VERSION: u32 = 1;
    const SUMMARY: &'static str = "Runs any program in a clean directory and environment";
    const PROGRAM: Program = Program::Command;

    fn inputs(&self) -> Vec<InputDecl> {
        let declare = |(name, input): (&String, &CommandInput)| {
            let source = match input {
                CommandInput::One(reference) => SourceDecl::One(reference.clone()),
                CommandInput::Many(references) => SourceDecl::Many(references.clone()),
                CommandInput::File(path) => SourceDecl::Path(path.clone()),
            };
            InputDecl::new(name, source, ANY)
        };
        self.inputs.iter().map(declare).collect()
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        let declare = |(name, path): (&String, &String)| OutputDecl {
            name: name.clone(),
            artifact: FILE,
            file_name: path.clone(),
        };
        self.outputs.0.iter().map(declare).collect()
    }

    fn issues(&self) -> Vec<Issue> {
        let mut issues = Vec::new();
        let mut report = |field: String, message: String, hint: &str| {
            issues.push(Issue::new(field, message).hint(hint));
        };
        match &self.run {
            Run::Shell(text) if text.trim().is_empty() => {
                report("run".into(), "there is nothing to run".into(), "write the command line here");
            }
            Run::Program(words) if words.first().is_none_or(String::is_empty) => {
                report("run".into(), "there is no program to run".into(), "the first word is the program");
            }
            _ if self.shell.trim().is_empty() => {
                let hint = "name a shell such as `bash`, or leave `shell` out";
                report("shell".into(), "the shell has no name".into(), hint);
            }
            Run::Program(_) if self.shell != DEFAULT_SHELL => {
                let message = "a list is run without a shell".to_owned();
                report("shell".into(), message, "leave `shell` out, or write `run` as text");
            }
            _ => {}
        }
        let mut variables = BTreeMap::new();
        for name in self.inputs.keys() {
            let field = format!("inputs.{name}");
            if !is_name(name) {
                report(field, format!("`{name}` cannot name a file under `in/`"), NAME_HINT);
            } else if let Some(other) = variables.insert(variable(name), name) {
                let message =
                    format!("`{name}` and `{other}` would share the variable PIPE_IN_{}", variable(name));
                report(field, message, "rename one of them");
            }
        }
        if self.outputs.0.is_empty() {
            let hint = "name at least one file that the command writes, such as `outputs: [table.csv]`";
            report("outputs".into(), "the command has no outputs, so nothing would be kept".into(), hint);
        }
        let mut taken: Vec<(&String, &Path)> = Vec::new();
        for (name, path) in &self.outputs.0 {
            let (field, path) = (format!("outputs.{name}"), Path::new(path));
            if !is_name(name) {
                report(field.clone(), format!("`{name}` cannot name an output"), NAME_HINT);
            }
            if !stays_inside(path) {
                let message = format!("`{}` is not a path inside the working directory", path.display());
                report(field, message, "use a relative path without `..`, outside `in/`");
            } else if let Some((other, _)) =
                taken.iter().find(|(_, taken)| path.starts_with(taken) || taken.starts_with(path))
            {
                let message = format!("`{}` is also (part of) the output `{other}`", path.display());
                report(field, message, "give each output a path of its own");
            } else {
                taken.push((name, path));
            }
        }
        for name in &self.env {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
            if name.is_empty() || !name.bytes().all(plain) || name.as_bytes()[0].is_ascii_digit() {
                report("env".into(), format!("`{name}` cannot name an environment variable"), ENV_HINT);
            } else if name.starts_with("PIPE_") {
                report("env".into(), format!("`{name}` is set by pipe itself"), "leave it out");
            }
        }
        issues
    }

    fn environment(&self) -> Vec<String> {
        self.env.iter().cloned().collect()
    }
}

const NAME_HINT: &str = "use letters, digits, `_` and `-`, and start with a letter";
const ENV_HINT: &str = "list names only; their values are taken from the environment of `pipe`";

/// Returns the program and its arguments for the body of a command.
pub fn argv(body: &serde_json::Value) -> Result<Vec<String>, serde_json::Error> {
    let command = Command::deserialize(body)?;
    Ok(match command.run {
        Run::Shell(text) => {
            let is_bash = Path::new(&command.shell).file_name().is_some_and(|name| name == "bash");
            let options: &[&str] = if is_bash { &["-euo", "pipefail"] } else { &["-e"] };
            let options = options.iter().map(|option| (*option).to_owned());
            std::iter::once(command.shell).chain(options).chain(["-c".to_owned(), text]).collect()
        }
        Run::Program(words) => words,
    })
}

/// Returns whether a text can name an input or an output.
fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Returns the name as the end of an environment variable: `my-table` becomes `MY_TABLE`.
fn variable(name: &str) -> String {
    name.to_ascii_uppercase().replace('-', "_")
}

/// Returns whether a path is relative, has no `..`, and is outside of `in/`.
fn stays_inside(path: &Path) -> bool {
    let mut components = path.components();
    let first = components.next();
    let normal = |component| matches!(component, Component::Normal(_));
    first.is_some_and(|first| normal(first) && first.as_os_str() != "in") && components.all(normal)
}

/// Returns a path without `./` in front and `/` at the end, so that equal paths have equal text.
fn tidy(path: &str) -> String {
    let mut path = path;
    while let Some(rest) = path.strip_prefix("./") {
        path = rest;
    }
    path.trim_end_matches('/').to_owned()
}

impl Serialize for Run {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Shell(text) => serializer.serialize_str(text),
            Self::Program(words) => words.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Run {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UntaggedEnumVisitor::new()
            .expecting("a command line, or a list with a program and its arguments")
            .string(|text| Ok(Self::Shell(text.to_owned())))
            .seq(|words| words.deserialize().map(Self::Program))
            .deserialize(deserializer)
    }
}

impl JsonSchema for Run {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CommandRun".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Text for a shell, or a program and its arguments.",
            "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" }, "minItems": 1 }
            ]
        })
    }
}

/// Serialises as null, like [`StageRef`]: the content of an input is part of the key, its name and path are not.
impl Serialize for CommandInput {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for CommandInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UntaggedEnumVisitor::new()
            .expecting("a stage, a list of stages, or `{ file: PATH }`")
            .string(|text| text.parse().map(Self::One).map_err(Error::custom))
            .seq(|references| references.deserialize().map(Self::Many))
            .map(|fields| fields.deserialize::<UserFile>().map(|field| Self::File(field.file)))
            .deserialize(deserializer)
    }
}

impl JsonSchema for CommandInput {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CommandInput".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let reference = generator.subschema_for::<StageRef>();
        json_schema!({
            "description": "An output of another stage, a list of such outputs (at `in/<name>/<axes>`), or a file of yours.",
            "anyOf": [
                reference,
                { "type": "array", "items": reference, "minItems": 1 },
                {
                    "type": "object",
                    "properties": { "file": { "type": "string", "description": "Relative to the project directory." } },
                    "required": ["file"],
                    "additionalProperties": false
                }
            ]
        })
    }
}

impl<'de> Deserialize<'de> for CommandOutputs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UntaggedEnumVisitor::new()
            .expecting("a list of paths, or names with their paths")
            .seq(|paths| named_by_stem(paths.deserialize()?).map(Self).map_err(Error::custom))
            .map(|fields| {
                let outputs: BTreeMap<String, String> = fields.deserialize()?;
                Ok(Self(outputs.into_iter().map(|(name, path)| (name, tidy(&path))).collect()))
            })
            .deserialize(deserializer)
    }
}

/// Returns the outputs of a list of paths, each named by the stem of its file.
fn named_by_stem(paths: Vec<String>) -> Result<BTreeMap<String, String>, String> {
    let mut outputs = BTreeMap::new();
    for path in paths {
        let path = tidy(&path);
        let stem = Path::new(&path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let stem = stem.unwrap_or_default();
        if let Some(other) = outputs.insert(stem.clone(), path.clone()) {
            return Err(format!(
                "`{other}` and `{path}` would both be called `{stem}`; name them: `{{ NAME: {path}, ... }}`"
            ));
        }
    }
    Ok(outputs)
}

impl JsonSchema for CommandOutputs {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CommandOutputs".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Files or directories that the command writes: paths, or names with their paths.",
            "anyOf": [
                { "type": "array", "items": { "type": "string" }, "minItems": 1 },
                { "type": "object", "additionalProperties": { "type": "string" }, "minProperties": 1 }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_core::kind::{CheckedBody, Kind};
    use pipe_core::stage::KindOf;

    fn check(yaml: &str) -> Result<CheckedBody, String> {
        let body = serde_yaml::from_str(yaml).unwrap();
        KindOf::<Command>::new().check(&body).map_err(|error| error.to_string())
    }

    fn issues(yaml: &str) -> Vec<String> {
        check(yaml).unwrap().issues.into_iter().map(|c| format!("{}: {}", c.field, c.message)).collect()
    }

    #[test]
    fn references_lists_and_files_are_distinguished() {
        let body = check(
            "{ run: x, outputs: [a.csv], inputs: { one: load, many: ['eval[*]', other], mine: { file: s/fit.py } } }",
        )
        .unwrap();
        let sources: Vec<_> = body.inputs.iter().map(|input| (input.slot.as_str(), &input.source)).collect();
        let reference = |text: &str| text.parse::<StageRef>().unwrap();
        assert_eq!(
            sources,
            [
                ("many", &SourceDecl::Many(vec![reference("eval[*]"), reference("other")])),
                ("mine", &SourceDecl::Path("s/fit.py".into())),
                ("one", &SourceDecl::One(reference("load"))),
            ]
        );
    }

    #[test]
    fn a_listed_output_is_named_after_the_stem_of_its_file() {
        let body = check("{ run: x, outputs: [./deep/table.csv, models/] }").unwrap();
        let outputs: Vec<_> = body.outputs.iter().map(|o| (o.name.as_str(), o.file_name.as_str())).collect();
        assert_eq!(outputs, [("models", "models"), ("table", "deep/table.csv")]);
        let clash = check("{ run: x, outputs: [a/t.csv, b/t.csv] }").unwrap_err();
        assert!(clash.contains("would both be called `t`"), "{clash}");
    }

    #[test]
    fn where_an_input_comes_from_and_how_outputs_are_listed_are_not_parameters() {
        let params = |yaml| check(yaml).unwrap().params;
        assert_eq!(
            params("{ run: x, outputs: [t.csv], inputs: { data: load, s: { file: a.py } } }"),
            params(
                "{ shell: sh, inputs: { s: { file: b/a.py }, data: renamed }, outputs: { t: ./t.csv }, run: x, env: [] }"
            ),
        );
        assert_ne!(params("{ run: x, outputs: [t.csv] }"), params("{ run: [x], outputs: [t.csv] }"));
    }

    #[test]
    fn text_goes_to_a_shell_that_stops_at_the_first_failure_and_a_list_does_not() {
        let argv = |text: &str| super::argv(&serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!(argv(r#"{"run": "a | b", "outputs": ["x"]}"#), ["sh", "-e", "-c", "a | b"]);
        assert_eq!(
            argv(r#"{"run": "a", "shell": "bash", "outputs": ["x"]}"#),
            ["bash", "-euo", "pipefail", "-c", "a"]
        );
        assert_eq!(argv(r#"{"run": "a", "shell": "zsh", "outputs": ["x"]}"#), ["zsh", "-e", "-c", "a"]);
        assert_eq!(argv(r#"{"run": ["a", "b c"], "outputs": ["x"]}"#), ["a", "b c"]);
    }

    #[test]
    fn unusable_parameters_are_reported_before_anything_runs() {
        assert_eq!(issues("{ run: ' ', outputs: [a] }"), ["run: there is nothing to run"]);
        assert_eq!(issues("{ run: [], outputs: [a] }"), ["run: there is no program to run"]);
        assert_eq!(
            issues("{ run: [x], shell: bash, outputs: [a] }"),
            ["shell: a list is run without a shell"]
        );
        assert_eq!(issues("{ run: x, shell: '', outputs: [a] }"), ["shell: the shell has no name"]);
        assert_eq!(
            issues("{ run: x, outputs: {} }"),
            ["outputs: the command has no outputs, so nothing would be kept"]
        );
        for path in ["/etc/passwd", "../up", "in/data", "a/../../b", ""] {
            let issues = issues(&format!("{{ run: x, outputs: {{ a: '{path}' }} }}"));
            assert_eq!(issues, [format!("outputs.a: `{path}` is not a path inside the working directory")]);
        }
        assert_eq!(
            issues("{ run: x, outputs: { a: d, b: d/e } }"),
            ["outputs.b: `d/e` is also (part of) the output `a`"]
        );
        assert_eq!(
            issues("{ run: x, outputs: [a], inputs: { a-b: s, a_b: s, ../c: s } }"),
            [
                "inputs.../c: `../c` cannot name a file under `in/`",
                "inputs.a_b: `a_b` and `a-b` would share the variable PIPE_IN_A_B",
            ]
        );
        assert_eq!(
            issues("{ run: x, outputs: [a], env: [A=1, PIPE_X, OK_1] }"),
            ["env: `A=1` cannot name an environment variable", "env: `PIPE_X` is set by pipe itself"]
        );
    }

    #[test]
    fn a_wrong_type_or_field_is_refused_with_what_was_expected() {
        for (yaml, expected) in [
            ("{ run: { a: 1 }, outputs: [a] }", "a command line, or a list with a program and its arguments"),
            ("{ run: x, outputs: [a], inputs: { d: { path: a } } }", "unknown field `path`, expected `file`"),
            ("{ run: x, outputs: [a], inputs: { d: {} } }", "missing field `file`"),
            ("{ run: x, outputs: 3 }", "a list of paths, or names with their paths"),
            ("{ run: x, outputs: [a], cwd: b }", "unknown field `cwd`"),
        ] {
            let error = check(yaml).unwrap_err();
            assert!(error.contains(expected), "{yaml}: {error}");
        }
    }
}
