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
//!     env: [CUDA_HOME]                     # or packages: { uv: uv.lock }, { venv: requirements.txt }, { conda: environment.yml }
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
//!
//! Under `env`, a tool and its file stand for the packages that the program finds. The files enter the slots `env` and, for
//! uv, `pyproject`; their content and the version of the interpreter are part of the key. The runner installs the packages once
//! and puts them first on `PATH`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_untagged::UntaggedEnumVisitor;

use super::one_or_many::UserFile;
use pipe_core::issue::Issue;
use pipe_core::kind::{ANY, FILE, InputDecl, OutputDecl, Program, SourceDecl};
use pipe_core::packages::{PackageFile, PackageRequest, PackageTool};
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
    /// Environment variables that the program may see, whose values are part of the key; or the packages that it finds.
    #[serde(default)]
    env: CommandEnv,
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

/// The variables and the packages that the program finds.
#[derive(Debug, PartialEq)]
enum CommandEnv {
    Variables(BTreeSet<String>),
    Packages(CommandPackages),
}

/// The packages that the program finds: exactly one of `uv`, `venv` and `conda`.
#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CommandPackages {
    /// The path of `uv.lock`, which has a `pyproject.toml` beside it.
    uv: Option<String>,
    /// A file of requirements for pip.
    venv: Option<String>,
    /// An `environment.yml`, or an explicit list of conda packages.
    conda: Option<String>,
    /// The interpreter for `venv` (a program, by default `python3`) or `uv` (a request such as `3.12`).
    python: Option<String>,
    /// Environment variables that the program may see. Their values are part of the key.
    #[serde(default)]
    variables: BTreeSet<String>,
}

/// The slot of the file that packages are installed from.
const PACKAGES_SLOT: &str = "env";
/// The slot of the file that `uv` needs beside its lock.
const PYPROJECT_SLOT: &str = "pyproject";

impl CommandEnv {
    fn variables(&self) -> &BTreeSet<String> {
        match self {
            Self::Variables(variables) => variables,
            Self::Packages(packages) => &packages.variables,
        }
    }

    fn packages(&self) -> Option<&CommandPackages> {
        match self {
            Self::Variables(_) => None,
            Self::Packages(packages) => Some(packages),
        }
    }
}

impl Default for CommandEnv {
    fn default() -> Self {
        Self::Variables(BTreeSet::new())
    }
}

impl CommandPackages {
    /// Returns the tools that are named, with their files.
    fn tools(&self) -> Vec<(PackageTool, &str)> {
        let named =
            [(PackageTool::Uv, &self.uv), (PackageTool::Venv, &self.venv), (PackageTool::Conda, &self.conda)];
        named.into_iter().filter_map(|(tool, file)| Some((tool, file.as_deref()?))).collect()
    }

    /// Returns the slots of the files that the packages are installed from, with their paths.
    fn files(&self) -> Vec<(&'static str, PathBuf)> {
        let mut files = Vec::new();
        if let [(tool, file)] = self.tools()[..] {
            files.push((PACKAGES_SLOT, PathBuf::from(file)));
            if tool == PackageTool::Uv {
                files.push((PYPROJECT_SLOT, Path::new(file).with_file_name("pyproject.toml")));
            }
        }
        files
    }

    fn request(&self) -> Option<PackageRequest> {
        let [(tool, file)] = self.tools()[..] else { return None };
        let named = |(slot, path): (&str, PathBuf)| PackageFile {
            slot: slot.to_owned(),
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        };
        Some(PackageRequest {
            tool,
            files: self.files().into_iter().map(named).collect(),
            python: self.python.clone(),
            directory: Path::new(file).parent().unwrap_or(Path::new("")).to_owned(),
        })
    }

    /// Returns what is wrong, and what to do about it.
    fn issues(&self, inputs: &BTreeMap<String, CommandInput>) -> Vec<Issue> {
        let mut issues = Vec::new();
        match self.tools()[..] {
            [(PackageTool::Uv, file)] if Path::new(file).file_name().is_none_or(|name| name != "uv.lock") => {
                let issue = Issue::new("env.uv", format!("`{file}` is not called `uv.lock`"));
                issues.push(issue.hint("name the lock that `uv lock` has written"));
            }
            [(PackageTool::Conda, _)] if self.python.is_some() => {
                let issue = Issue::new("env.python", "a conda environment has its own interpreter");
                issues.push(issue.hint("name its version in the file, as in `python=3.12`"));
            }
            [_] => {}
            _ => {
                let issue = Issue::new("env", "exactly one of `uv`, `venv` and `conda` is expected");
                issues.push(issue.hint("name a tool and its file, as in `{ venv: requirements.txt }`"));
            }
        }
        for (slot, path) in self.files().iter().filter(|(slot, _)| inputs.contains_key(*slot)) {
            let message = format!("`in/{slot}` is `{}`, which the packages come from", path.display());
            issues.push(Issue::new(format!("inputs.{slot}"), message).hint("rename this input"));
        }
        issues
    }
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
        let packages = self.env.packages().map(CommandPackages::files).unwrap_or_default();
        let packages = packages.into_iter().map(|(slot, path)| {
            let source = SourceDecl::Path(path.to_string_lossy().into_owned());
            InputDecl::new(slot, source, ANY).written_in("env")
        });
        self.inputs.iter().map(declare).chain(packages).collect()
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
            let field = || format!("inputs.{name}");
            if !is_name(name) {
                report(field(), format!("`{name}` cannot name a file under `in/`"), NAME_HINT);
            } else if let Some(other) = variables.insert(variable(name), name) {
                let message =
                    format!("`{name}` and `{other}` would share the variable PIPE_IN_{}", variable(name));
                report(field(), message, "rename one of them");
            }
        }
        if self.outputs.0.is_empty() {
            let hint = "name at least one file that the command writes, such as `outputs: [table.csv]`";
            report("outputs".into(), "the command has no outputs, so nothing would be kept".into(), hint);
        }
        let mut taken: Vec<(&String, &Path)> = Vec::new();
        for (name, path) in &self.outputs.0 {
            let (field, path) = (|| format!("outputs.{name}"), Path::new(path));
            if !is_name(name) {
                report(field(), format!("`{name}` cannot name an output"), NAME_HINT);
            }
            if !stays_inside(path) {
                let message = format!("`{}` is not a path inside the working directory", path.display());
                report(field(), message, "use a relative path without `..`, outside `in/`");
            } else if let Some((other, _)) =
                taken.iter().find(|(_, taken)| path.starts_with(taken) || taken.starts_with(path))
            {
                let message = format!("`{}` is also (part of) the output `{other}`", path.display());
                report(field(), message, "give each output a path of its own");
            } else {
                taken.push((name, path));
            }
        }
        for name in self.env.variables() {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
            if name.is_empty() || !name.bytes().all(plain) || name.as_bytes()[0].is_ascii_digit() {
                report("env".into(), format!("`{name}` cannot name an environment variable"), ENV_HINT);
            } else if name.starts_with("PIPE_") {
                report("env".into(), format!("`{name}` is set by pipe itself"), "leave it out");
            }
        }
        issues.extend(self.env.packages().map(|packages| packages.issues(&self.inputs)).unwrap_or_default());
        issues
    }

    fn environment(&self) -> Vec<String> {
        self.env.variables().iter().cloned().collect()
    }

    fn packages(&self) -> Option<PackageRequest> {
        self.env.packages().and_then(CommandPackages::request)
    }

    fn metrics(&self) -> Option<Vec<&'static str>> {
        None
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

/// Serialises without the files and the interpreter: the content of the files and the version of the interpreter are parts of the
/// key of their own.
impl Serialize for CommandEnv {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self::Packages(packages) = self else { return self.variables().serialize(serializer) };
        let tools: Vec<&str> = packages.tools().iter().map(|(tool, _)| tool.name()).collect();
        let mut fields = serializer.serialize_map(Some(2))?;
        fields.serialize_entry("packages", &tools.join(" "))?;
        fields.serialize_entry("variables", &packages.variables)?;
        fields.end()
    }
}

impl<'de> Deserialize<'de> for CommandEnv {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UntaggedEnumVisitor::new()
            .expecting("a list of variables, or packages such as `{ venv: requirements.txt }`")
            .seq(|variables| variables.deserialize().map(Self::Variables))
            .map(|fields| fields.deserialize().map(Self::Packages))
            .deserialize(deserializer)
    }
}

impl JsonSchema for CommandEnv {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CommandEnv".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let packages = generator.subschema_for::<CommandPackages>();
        json_schema!({
            "description": "Names of environment variables, or the packages that the program finds.",
            "anyOf": [
                { "type": "array", "items": { "type": "string" }, "uniqueItems": true },
                packages
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
    fn packages_enter_by_the_content_of_their_files_and_not_by_their_paths() {
        let body = check("{ run: x, outputs: [a], env: { uv: ml/uv.lock, variables: [TOKEN] } }").unwrap();
        let inputs: Vec<_> = body.inputs.iter().map(|input| (input.slot.as_str(), &input.source)).collect();
        let path = |text: &str| SourceDecl::Path(text.to_owned());
        let (lock, project) = (path("ml/uv.lock"), path("ml/pyproject.toml"));
        assert_eq!(inputs, [("env", &lock), ("pyproject", &project)]);
        assert_eq!(body.environment, ["TOKEN"]);
        let request = body.packages.unwrap();
        assert_eq!((request.tool, request.directory), (PackageTool::Uv, PathBuf::from("ml")));
        let params = |env: &str| check(&format!("{{ run: x, outputs: [a], env: {env} }}")).unwrap().params;
        assert_eq!(params("{ venv: a/r.txt, python: python3.12 }"), params("{ venv: b.txt }"));
        assert_ne!(params("{ venv: r.txt }"), params("{ conda: r.txt }"));
        assert_ne!(params("{ venv: r.txt }"), params("{ venv: r.txt, variables: [A] }"));
        assert_eq!(params("[A]")["env"], serde_json::json!(["A"]), "keys of old pipelines stay the same");
    }

    #[test]
    fn packages_that_cannot_be_installed_are_reported_before_anything_runs() {
        let issues = |env: &str| issues(&format!("{{ run: x, outputs: [a], env: {env} }}"));
        let one = "env: exactly one of `uv`, `venv` and `conda` is expected";
        assert_eq!(issues("{}"), [one]);
        assert_eq!(issues("{ uv: uv.lock, venv: r.txt }"), [one]);
        assert_eq!(
            issues("{ uv: requirements.txt }"),
            ["env.uv: `requirements.txt` is not called `uv.lock`"]
        );
        assert_eq!(
            issues("{ conda: e.yml, python: '3.12' }"),
            ["env.python: a conda environment has its own interpreter"]
        );
        assert_eq!(
            issues("{ venv: r.txt, variables: [A=1] }"),
            ["env: `A=1` cannot name an environment variable"]
        );
        assert_eq!(
            super::tests::issues("{ run: x, outputs: [a], inputs: { env: load }, env: { venv: r.txt } }"),
            ["inputs.env: `in/env` is `r.txt`, which the packages come from"]
        );
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
            ("{ run: x, outputs: [a], env: { pip: r.txt } }", "unknown field `pip`"),
            ("{ run: x, outputs: [a], env: A }", "a list of variables, or packages"),
        ] {
            let error = check(yaml).unwrap_err();
            assert!(error.contains(expected), "{yaml}: {error}");
        }
    }
}
