//! The typed form of a pipeline file, apart from the stage kinds: files are checked against it, and the JSON Schema is
//! generated from it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, IgnoredAny};
use serde_untagged::UntaggedEnumVisitor;

use super::compare::Compare;
use super::expect::Expect;
use super::resource_request::ResourceRequest;
use pipe_core::reference::StageRef;

/// A pipeline for `pipe`.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PipelineFile {
    /// The name of the pipeline; its results go to `results/<name>/`.
    pub name: String,
    /// A pipeline file, or a list of them, that this one extends. Paths are relative to this file;
    /// `builtin/NAME` is a part that is built into `pipe`.
    pub extends: Option<PathList>,
    /// Values to use as `${vars.name}`; `--set vars.name=value` overrides them.
    pub vars: Option<AnyMap>,
    /// Environment variables to use as `${env.NAME}`, each with its default. A variable without a default must be set.
    pub env: Option<BTreeMap<String, Option<PlainValue>>>,
    /// The stages by name.
    pub stages: AnyMap,
    /// The results to place outside the cache: a list of references, or a map from paths to references.
    pub outputs: Option<Outputs>,
    /// A directory with published copies of the placed files, relative to the project directory. `pipe verify` compares
    /// every file in it with the lock.
    pub published: Option<String>,
}

/// One stage: exactly one kind with its parameters, and any of these settings.
#[derive(Debug, Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StageSettings {
    /// The axes of the stage, which has one instance per combination of their values.
    pub matrix: Option<Matrix>,
    /// Another stage: there is one instance per instance of that stage, to which `${each}` refers.
    pub each: Option<StageRef>,
    /// The resources that an instance needs while it runs.
    pub resources: Option<ResourceRequest>,
    /// How often a failed instance is tried again.
    pub retries: Option<u32>,
    /// How closely a second computation has to agree with the first; the default is `exact`.
    pub compare: Option<Compare>,
    /// Bounds of metrics, such as `macro_f1: { min: 0.43 }`. A result outside of them fails the run and `pipe verify`.
    pub expect: Option<Expect>,
    /// A description for readers of the pipeline.
    pub description: Option<String>,
}

/// The keys of [`StageSettings`]. Every other key of a stage is its kind.
pub(super) const STAGE_SETTINGS: [&str; 7] =
    ["matrix", "each", "resources", "retries", "compare", "expect", "description"];

/// A map whose content other code reads.
#[derive(Debug)]
pub struct AnyMap;

impl<'de> Deserialize<'de> for AnyMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UntaggedEnumVisitor::new()
            .expecting("a map")
            .map(|map| map.deserialize::<IgnoredAny>().map(|_| AnyMap))
            .deserialize(deserializer)
    }
}

impl JsonSchema for AnyMap {
    fn schema_name() -> Cow<'static, str> {
        "AnyMap".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}

/// The axes of a stage, with `include`, `exclude` and `sample`; the module `matrix` reads its content.
#[derive(Debug)]
pub struct Matrix;

impl<'de> Deserialize<'de> for Matrix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        AnyMap::deserialize(deserializer).map(|AnyMap| Matrix)
    }
}

impl JsonSchema for Matrix {
    fn schema_name() -> Cow<'static, str> {
        "Matrix".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<PlainValue>();
        let combination = json_schema!({ "type": "object", "additionalProperties": value });
        json_schema!({
            "type": "object",
            "properties": {
                "include": {
                    "description": "Further combinations; each names every axis.",
                    "type": "array",
                    "items": combination,
                },
                "exclude": {
                    "description": "Combinations to leave out; each names some of the axes.",
                    "type": "array",
                    "items": combination,
                },
                "sample": {
                    "description": "Draws combinations at random, after `exclude` and before `include`.",
                    "type": "object",
                    "properties": {
                        "count": { "description": "How many combinations to draw.", "type": ["integer", "string"] },
                        "seed": { "description": "Another seed draws others; the default is 0.", "type": ["integer", "string"] },
                    },
                    "required": ["count"],
                    "additionalProperties": false,
                },
            },
            "additionalProperties": {
                "description": "An axis and its values.",
                "type": "array",
                "items": value,
                "minItems": 1,
            },
        })
    }
}

/// Text, a number, true or false.
#[derive(Debug)]
pub struct PlainValue;

impl<'de> Deserialize<'de> for PlainValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UntaggedEnumVisitor::new()
            .expecting("text, a number, true or false")
            .bool(|_| Ok(PlainValue))
            .i64(|_| Ok(PlainValue))
            .u64(|_| Ok(PlainValue))
            .f64(|_| Ok(PlainValue))
            .string(|_| Ok(PlainValue))
            .deserialize(deserializer)
    }
}

impl JsonSchema for PlainValue {
    fn schema_name() -> Cow<'static, str> {
        "PlainValue".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}

/// A text or a list of texts.
#[derive(Debug)]
pub struct PathList(pub Vec<String>);

impl<'de> Deserialize<'de> for PathList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UntaggedEnumVisitor::new()
            .expecting("the path of a file, or a list of them")
            .string(|text| Ok(PathList(vec![text.to_owned()])))
            .seq(|list| list.deserialize().map(PathList))
            .deserialize(deserializer)
    }
}

impl JsonSchema for PathList {
    fn schema_name() -> Cow<'static, str> {
        "PathList".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
    }
}

/// The outputs that are placed outside the cache.
#[derive(Debug)]
pub enum Outputs {
    /// Every output of these stages, under its own name.
    List(Vec<StageRef>),
    /// A path, or a directory that ends in `/`, and the reference to what goes there.
    Map(BTreeMap<String, StageRef>),
}

impl<'de> Deserialize<'de> for Outputs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UntaggedEnumVisitor::new()
            .expecting("a list of stages, or a map from path to stage")
            .seq(|list| list.deserialize().map(Outputs::List))
            .map(|map| map.deserialize().map(Outputs::Map))
            .deserialize(deserializer)
    }
}

impl JsonSchema for Outputs {
    fn schema_name() -> Cow<'static, str> {
        "Outputs".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let reference = generator.subschema_for::<StageRef>();
        json_schema!({
            "anyOf": [
                { "type": "array", "items": reference },
                { "type": "object", "additionalProperties": reference },
            ],
        })
    }
}
