//! A file that comes from the user or from another stage.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_untagged::UntaggedEnumVisitor;

use super::one_or_many::UserFile;
use pipe_core::kind::SourceDecl;
use pipe_core::reference::StageRef;

/// An output of a stage, written as a reference, or a file of the user, written as `{ file: PATH }`.
///
/// Serialises as null: the content is part of the key, as an input, and where it comes from is not.
#[derive(Debug, Clone, PartialEq)]
pub enum StageOrFile {
    Stage(StageRef),
    /// A path relative to the project directory.
    File(String),
}

impl StageOrFile {
    /// Returns the source of the input.
    pub fn declare(&self) -> SourceDecl {
        match self {
            Self::Stage(reference) => SourceDecl::One(reference.clone()),
            Self::File(path) => SourceDecl::Path(path.clone()),
        }
    }
}

impl Serialize for StageOrFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for StageOrFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UntaggedEnumVisitor::new()
            .expecting("an output of a stage, or `{ file: PATH }`")
            .string(|text| text.parse().map(Self::Stage).map_err(serde::de::Error::custom))
            .map(|fields| fields.deserialize::<UserFile>().map(|field| Self::File(field.file)))
            .deserialize(deserializer)
    }
}

impl JsonSchema for StageOrFile {
    fn schema_name() -> Cow<'static, str> {
        "StageOrFile".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An output of a stage, or a file of yours.",
            "anyOf": [
                generator.subschema_for::<StageRef>(),
                {
                    "type": "object",
                    "properties": { "file": { "type": "string", "description": "Relative to the project directory." } },
                    "required": ["file"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

/// The same for parameters that are usually files: a path, or an output of a stage, written as `{ stage: REFERENCE }`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct FileOrStage(pub StageOrFile);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StageOutput {
    stage: StageRef,
}

impl<'de> Deserialize<'de> for FileOrStage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let source = UntaggedEnumVisitor::new()
            .expecting("a path, or `{ stage: STAGE.OUTPUT }`")
            .string(|path| Ok(StageOrFile::File(path.to_owned())))
            .map(|fields| fields.deserialize::<StageOutput>().map(|output| StageOrFile::Stage(output.stage)))
            .deserialize(deserializer)?;
        Ok(Self(source))
    }
}

impl JsonSchema for FileOrStage {
    fn schema_name() -> Cow<'static, str> {
        "FileOrStage".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A file of yours, or an output of a stage.",
            "anyOf": [
                { "type": "string", "description": "A path, relative to the project directory." },
                {
                    "type": "object",
                    "properties": { "stage": generator.subschema_for::<StageRef>() },
                    "required": ["stage"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_text_is_a_stage_for_one_type_and_a_path_for_the_other() {
        let stage = || SourceDecl::One("embed.features".parse().unwrap());
        let path = || SourceDecl::Path("embed.features".to_owned());
        let stage_or_file = |yaml| serde_yaml::from_str::<StageOrFile>(yaml).unwrap().declare();
        let file_or_stage = |yaml| serde_yaml::from_str::<FileOrStage>(yaml).unwrap().0.declare();
        assert_eq!((stage_or_file("embed.features"), file_or_stage("embed.features")), (stage(), path()));
        assert_eq!(stage_or_file("{ file: embed.features }"), path());
        assert_eq!(file_or_stage("{ stage: embed.features }"), stage());
        let error = serde_yaml::from_str::<FileOrStage>("{ stge: a }").unwrap_err().to_string();
        assert!(error.contains("unknown field `stge`"), "{error}");
    }
}
