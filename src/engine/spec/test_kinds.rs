//! Stage kinds for the tests of the pipeline language, and helpers to load text with them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::diagnostic::Diagnostics;
use super::load::{FindInterpreter, LoadRequest, load_with};
use super::pipeline::{Pipeline, UnlocatedFile};
use pipe_core::builtin_part::BuiltinPart;
use pipe_core::issue::Issue;
use pipe_core::kind::{
    ANY, AxisUse, AxisUses, FILE, InputDecl, Kinds, OutputDecl, Program, SourceDecl, Vocabulary,
};
use pipe_core::reference::StageRef;
use pipe_core::stage::{KindOf, StageKind};

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

impl StageKind for Load {
    const NAME: &'static str = "load";
    const VERSION: u32 = 1;
    const SUMMARY: &'static str = "A kind for tests.";
    const PROGRAM: Program = Program::Pipe;

    fn inputs(&self) -> Vec<InputDecl> {
        let input_of = |path: &String| InputDecl::new("file", SourceDecl::Path(path.clone()), FILE);
        self.file.iter().map(input_of).collect()
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![output("data", "dataset", "data.bin")]
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Idf {
    data: StageRef,
}

impl StageKind for Idf {
    const NAME: &'static str = "idf";
    const VERSION: u32 = 1;
    const SUMMARY: &'static str = "A kind for tests.";
    const PROGRAM: Program = Program::Pipe;

    fn inputs(&self) -> Vec<InputDecl> {
        vec![one("data", &self.data, "dataset")]
    }

    fn outputs(&self) -> Vec<OutputDecl> {
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

impl StageKind for Train {
    const NAME: &'static str = "train";
    const VERSION: u32 = 1;
    const SUMMARY: &'static str = "A kind for tests.";
    const PROGRAM: Program = Program::Pipe;

    fn inputs(&self) -> Vec<InputDecl> {
        vec![one("data", &self.data, "dataset"), one("idf", &self.idf, "idf")]
    }

    fn outputs(&self) -> Vec<OutputDecl> {
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

impl StageKind for Evaluate {
    const NAME: &'static str = "evaluate";
    const VERSION: u32 = 1;
    const SUMMARY: &'static str = "A kind for tests.";
    const PROGRAM: Program = Program::Pipe;

    fn inputs(&self) -> Vec<InputDecl> {
        vec![one("model", &self.model, "model"), one("data", &self.data, "dataset")]
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![output("scores", "scores", "scores.json")]
    }

    fn metrics(&self) -> Option<Vec<&'static str>> {
        Some(vec!["f1", "recall"])
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

impl StageKind for Table {
    const NAME: &'static str = "table";
    const VERSION: u32 = 1;
    const SUMMARY: &'static str = "A kind for tests.";
    const PROGRAM: Program = Program::Pipe;

    fn inputs(&self) -> Vec<InputDecl> {
        vec![many("from", &self.from, "scores")]
    }

    fn outputs(&self) -> Vec<OutputDecl> {
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
            slots: vec!["from".to_owned()],
            given: vec![("part", vec!["test", "validation"])],
            others: Some(Vocabulary::of_metrics(["f1", "recall"])),
            uses: rows.map(row).chain(self.only.iter().flat_map(only)).collect(),
        }
    }
}

/// Takes any artifact and sees some environment variables.
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

impl StageKind for Command {
    const NAME: &'static str = "command";
    const VERSION: u32 = 1;
    const SUMMARY: &'static str = "A kind for tests.";
    const PROGRAM: Program = Program::Pipe;

    fn inputs(&self) -> Vec<InputDecl> {
        let mut inputs: Vec<_> =
            self.inputs.iter().map(|(slot, reference)| one(slot, reference, ANY)).collect();
        if !self.all.is_empty() {
            inputs.push(many("all", &self.all, ANY));
        }
        inputs
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![output("out", FILE, "out.txt")]
    }

    fn environment(&self) -> Vec<String> {
        self.env.clone()
    }

    fn metrics(&self) -> Option<Vec<&'static str>> {
        None
    }
}

pub(super) const KINDS: Kinds<'static> = &[
    &KindOf::<Load>::new(),
    &KindOf::<Idf>::new(),
    &KindOf::<Train>::new(),
    &KindOf::<Evaluate>::new(),
    &KindOf::<Table>::new(),
    &KindOf::<Command>::new(),
];

/// Built-in parts, of which one extends another.
const PARTS: &[BuiltinPart] = &[
    BuiltinPart {
        name: "base",
        text: "name: base\nvars: { set: a }\nstages:\n  d: { load: { dataset: \"${vars.set}\" } }\n",
    },
    BuiltinPart { name: "twice", text: "extends: builtin/base\nstages:\n  e: { load: { dataset: b } }\n" },
];

/// Files in memory; the first one is loaded.
pub(super) struct Project<'a> {
    pub files: &'a [(&'a str, &'a [u8])],
    pub set: &'a [&'a str],
    pub env: &'a [(&'a str, &'a str)],
}

impl Project<'_> {
    pub(super) fn load(&self) -> Result<Pipeline<UnlocatedFile>, Diagnostics> {
        let environment = |name: &str| {
            self.env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let read = |path: &Path| {
            let file = self.files.iter().find(|(name, _)| Path::new(name) == path);
            file.map(|(_, text)| text.to_vec())
                .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "not found"))
        };
        let overrides = self.set.iter().map(|text| text.parse().unwrap()).collect();
        let file = self.files[0].0.into();
        let find_interpreter: FindInterpreter = &|_| Ok(None);
        let request =
            LoadRequest { file, overrides, environment: &environment, find_interpreter, parts: PARTS };
        load_with(&request, KINDS, &read).map(|plan| plan.pipeline().clone())
    }
}

pub(super) fn load_text(text: &str) -> Result<Pipeline<UnlocatedFile>, Diagnostics> {
    Project { files: &[("p.yaml", text.as_bytes())], set: &[], env: &[] }.load()
}

/// Returns a pipeline that must load.
pub(super) fn loaded(text: &str) -> Pipeline<UnlocatedFile> {
    load_text(text).unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

/// Returns the rendered issues of a pipeline that must not load.
pub(super) fn issues(text: &str) -> String {
    match load_text(text) {
        Ok(_) => panic!("this should not load:\n{text}"),
        Err(diagnostics) => diagnostics.render(false),
    }
}

/// Returns the names of all instances.
pub(super) fn names(pipeline: &Pipeline<UnlocatedFile>) -> Vec<String> {
    pipeline.instances.iter().map(|instance| instance.id.to_string()).collect()
}
