//! The typed form of a pipeline file, apart from the stage kinds: files are checked against it, and the JSON Schema is
//! generated from it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZero;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny};
use serde_untagged::UntaggedEnumVisitor;

use super::compare::Compare;
use super::expect::Expect;
use super::pipeline::Resources;
use super::time_limit::TimeLimit;
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

/// The resources that an instance needs while it runs.
#[derive(Debug, Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResourceRequest {
    /// The number of threads; the default is 1.
    pub cpu: Option<NonZero<usize>>,
    /// The amount of memory, such as `500MB` or `4GB`.
    pub mem: Option<Memory>,
    /// The number of GPUs; the default is 0.
    pub gpu: Option<usize>,
    /// How long it may run on a cluster, such as `30m` or `4h`; the default is that of the cluster.
    pub time: Option<TimeLimit>,
}

impl ResourceRequest {
    /// Returns the resources, with defaults for those that are not stated.
    pub fn resources(&self) -> Resources {
        let Resources { cpu, mem, gpu } = Resources::default();
        Resources {
            cpu: self.cpu.map_or(cpu, NonZero::get),
            mem: self.mem.map_or(mem, |memory| memory.bytes),
            gpu: self.gpu.unwrap_or(gpu),
        }
    }
}

/// An amount of memory: a number and its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    pub bytes: u64,
}

impl Memory {
    fn parse(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, unit) = text.split_at(end);
        let factor: f64 = match unit.trim_start().to_ascii_lowercase().as_str() {
            "b" => 1.0,
            "kb" => 1e3,
            "mb" => 1e6,
            "gb" => 1e9,
            "tb" => 1e12,
            "kib" => 1024.0,
            "mib" => 1024f64.powi(2),
            "gib" => 1024f64.powi(3),
            "tib" => 1024f64.powi(4),
            _ => return None,
        };
        let bytes = (number.parse::<f64>().ok()? * factor).round();
        (1.0..1e18).contains(&bytes).then_some(Self { bytes: bytes as u64 })
    }
}

impl<'de> Deserialize<'de> for Memory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UntaggedEnumVisitor::new()
            .expecting("an amount of memory with its unit, such as `4GB`")
            .string(|text| {
                Memory::parse(text).ok_or_else(|| {
                    Error::custom(format_args!(
                        "`{text}` is not an amount of memory; write it like `500MB` or `4GB`"
                    ))
                })
            })
            .deserialize(deserializer)
    }
}

impl JsonSchema for Memory {
    fn schema_name() -> Cow<'static, str> {
        "Memory".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9.]+ *([kKmMgGtT]i?)?[bB]$|\\$\\{" })
    }
}

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

/// The axes of a stage, with `include` and `exclude`; the module `matrix` reads its content.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_a_unit() {
        let bytes = |text| Memory::parse(text).map(|memory| memory.bytes);
        assert_eq!(bytes("4GB"), Some(4_000_000_000));
        assert_eq!(bytes("1.5 KiB"), Some(1536));
        assert_eq!(bytes("500mb"), Some(500_000_000));
        for bad in ["", "4", "GB", "4 apples", "-4GB", "0GB", "1..5GB", "99999999TB"] {
            assert_eq!(bytes(bad), None, "{bad}");
        }
    }
}
