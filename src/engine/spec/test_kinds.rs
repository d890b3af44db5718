//! A small set of stage kinds for the tests of the language, and a way to load text with them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_yaml::Value;

use super::diagnostic::Diagnostics;
use super::load::{Request, load_with};
use super::pipeline::Pipeline;
use super::typed::PathError;
use pipe_core::issue::Issue;
use pipe_core::kind::{
    ANY, AxisUse, AxisUses, CheckedBody, FILE, InputDecl, Kind, Kinds, OutputDecl, Program, SourceDecl,
    Vocabulary,
};
use pipe_core::reference::StageRef;

trait Fake: Serialize + DeserializeOwned + JsonSchema {
    fn inputs(&self) -> Vec<InputDecl>;
    fn outputs() -> Vec<OutputDecl>;

    fn issues(&self) -> Vec<Issue> {
        Vec::new()
    }

    fn environment(&self) -> Vec<String> {
        Vec::new()
    }

    fn axes(&self) -> AxisUses {
        AxisUses::default()
    }
}

struct FakeKind {
    name: &'static str,
    check: fn(Value) -> Result<CheckedBody, PathError>,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

impl Kind for FakeKind {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> u32 {
        1
    }

    fn summary(&self) -> &'static str {
        "A kind for tests."
    }

    fn program(&self) -> Program {
        Program::Pipe
    }

    fn check(&self, body: Value) -> Result<CheckedBody, PathError> {
        (self.check)(body)
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        (self.schema)(generator)
    }
}

fn check<T: Fake>(body: Value) -> Result<CheckedBody, PathError> {
    let typed: T = serde_path_to_error::deserialize(body)?;
    Ok(CheckedBody {
        params: serde_json::to_value(&typed).unwrap(),
        inputs: typed.inputs(),
        outputs: T::outputs(),
        issues: typed.issues(),
        environment: typed.environment(),
        axes: typed.axes(),
    })
}

fn schema<T: Fake>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

const fn fake<T: Fake>(name: &'static str) -> FakeKind {
    FakeKind { name, check: check::<T>, schema: schema::<T> }
}

fn one(slot: &str, reference: &StageRef, accepts: &'static str) -> InputDecl {
    InputDecl::one(slot, reference, accepts)
}

fn many(slot: &str, references: &[StageRef], accepts: &'static str) -> InputDecl {
    InputDecl::many(slot, references.to_vec(), accepts)
}

fn output(name: &str, artifact: &'static str, file_name: &str) -> OutputDecl {
    OutputDecl { name: name.to_owned(), artifact, file_name: file_name.to_owned() }
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Load {
    dataset: String,
    #[serde(default)]
    rows: Option<u32>,
    #[serde(default)]
    file: Option<String>,
}

impl Fake for Load {
    fn inputs(&self) -> Vec<InputDecl> {
        let path = |path: &String| InputDecl::new("file", SourceDecl::Path(path.clone()), FILE);
        self.file.iter().map(path).collect()
    }

    fn outputs() -> Vec<OutputDecl> {
        vec![output("data", "dataset", "data.bin")]
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Idf {
    data: StageRef,
}

impl Fake for Idf {
    fn inputs(&self) -> Vec<InputDecl> {
        vec![one("data", &self.data, "dataset")]
    }

    fn outputs() -> Vec<OutputDecl> {
        vec![output("idf", "idf", "idf.bin")]
    }
}

#[derive(Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "kebab-case")]
enum Variant {
    #[default]
    Adaptive,
    Static,
    KnnOnly,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Optimiser {
    lr: f64,
    #[serde(default)]
    momentum: f64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Train {
    data: StageRef,
    idf: StageRef,
    #[serde(default)]
    variant: Variant,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    epochs: u32,
    #[serde(default)]
    optimiser: Option<Optimiser>,
    #[serde(default)]
    hidden: Vec<u32>,
    #[serde(default)]
    verbose: bool,
}

impl Fake for Train {
    fn inputs(&self) -> Vec<InputDecl> {
        vec![one("data", &self.data, "dataset"), one("idf", &self.idf, "idf")]
    }

    fn outputs() -> Vec<OutputDecl> {
        vec![output("model", "model", "model.bin"), output("history", "history", "history.csv")]
    }

    fn issues(&self) -> Vec<Issue> {
        let lr = self.optimiser.as_ref().map(|optimiser| optimiser.lr).filter(|lr| *lr <= 0.0);
        let issue = |lr: f64| Issue {
            field: "optimiser.lr".to_owned(),
            message: format!("{lr} is not above 0"),
            hint: Some("typical values are 1e-4 to 1e-2".to_owned()),
        };
        lr.map(issue).into_iter().collect()
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Evaluate {
    model: StageRef,
    data: StageRef,
}

impl Fake for Evaluate {
    fn inputs(&self) -> Vec<InputDecl> {
        vec![one("model", &self.model, "model"), one("data", &self.data, "dataset")]
    }

    fn outputs() -> Vec<OutputDecl> {
        vec![output("scores", "scores", "scores.json")]
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Table {
    from: Vec<StageRef>,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    rows: Vec<String>,
    #[serde(default)]
    only: BTreeMap<String, serde_json::Value>,
}

impl Fake for Table {
    fn inputs(&self) -> Vec<InputDecl> {
        vec![many("from", &self.from, "scores")]
    }

    fn outputs() -> Vec<OutputDecl> {
        vec![output("tex", FILE, "table.tex"), output("csv", FILE, "table.csv")]
    }

    /// Rows are axes or one of two metrics; `only` maps an axis to one value.
    fn axes(&self) -> AxisUses {
        let rows = self.rows.iter().filter(|row| !["f1", "recall"].contains(&row.as_str()));
        let row =
            |row: &String| AxisUse { field: "rows", axis: row.clone(), or_other: true, ..AxisUse::default() };
        let only = |(axis, value): (&String, &serde_json::Value)| {
            let named = |value| AxisUse { field: "only", axis: axis.clone(), value, ..AxisUse::default() };
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            [named(None), named(Some(text))]
        };
        AxisUses {
            slots: vec!["from"],
            given: vec![("part", vec!["test", "validation"])],
            others: Some(Vocabulary { noun: "metric", words: vec!["f1", "recall"] }),
            uses: rows.map(row).chain(self.only.iter().flat_map(only)).collect(),
        }
    }
}

/// Takes anything, sees some environment variables.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Command {
    run: String,
    #[serde(default)]
    inputs: BTreeMap<String, StageRef>,
    #[serde(default)]
    all: Vec<StageRef>,
    #[serde(default)]
    env: Vec<String>,
}

impl Fake for Command {
    fn inputs(&self) -> Vec<InputDecl> {
        let mut inputs: Vec<_> =
            self.inputs.iter().map(|(slot, reference)| one(slot, reference, ANY)).collect();
        if !self.all.is_empty() {
            inputs.push(many("all", &self.all, ANY));
        }
        inputs
    }

    fn outputs() -> Vec<OutputDecl> {
        vec![output("out", FILE, "out.txt")]
    }

    fn environment(&self) -> Vec<String> {
        self.env.clone()
    }
}

pub(super) const KINDS: Kinds<'static> = &[
    &fake::<Load>("load"),
    &fake::<Idf>("idf"),
    &fake::<Train>("train"),
    &fake::<Evaluate>("evaluate"),
    &fake::<Table>("table"),
    &fake::<Command>("command"),
];

/// Files in memory, the first of which is loaded.
pub(super) struct Project<'a> {
    pub files: &'a [(&'a str, &'a [u8])],
    pub set: &'a [&'a str],
    pub env: &'a [(&'a str, &'a str)],
}

impl Project<'_> {
    pub(super) fn load(&self) -> Result<Pipeline, Diagnostics> {
        let environment = |name: &str| {
            self.env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let read = |path: &Path| {
            let file = self.files.iter().find(|(name, _)| Path::new(name) == path);
            file.map(|(_, text)| text.to_vec())
                .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "not found"))
        };
        let overrides = self.set.iter().map(|text| text.parse().unwrap()).collect();
        let request = Request { file: self.files[0].0.into(), overrides, environment: &environment };
        load_with(&request, KINDS, &read)
    }
}

pub(super) fn load_text(text: &str) -> Result<Pipeline, Diagnostics> {
    Project { files: &[("p.yaml", text.as_bytes())], set: &[], env: &[] }.load()
}

/// The pipeline, which must be right.
pub(super) fn loaded(text: &str) -> Pipeline {
    load_text(text).unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

/// The problems, of which there must be some.
pub(super) fn problems(text: &str) -> String {
    match load_text(text) {
        Ok(_) => panic!("this should not load:\n{text}"),
        Err(diagnostics) => diagnostics.render(false),
    }
}

/// The names of all instances.
pub(super) fn names(pipeline: &Pipeline) -> Vec<String> {
    pipeline.instances.iter().map(|instance| instance.id.to_string()).collect()
}
