//! The JSON Schema of pipeline files, for editors: completion and checks while typing.

use std::collections::BTreeMap;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::pipeline_file::{PipelineFile, StageSettings};
use pipe_core::kind::Kinds;

/// Returns a schema generator with the settings of the pipeline schema.
pub(super) fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().into_generator()
}

/// The title of the schema.
pub const TITLE: &str = "A pipeline for `pipe`";

/// Generates the schema from the types that files are deserialized into.
pub fn schema(kinds: Kinds) -> Value {
    let mut generator = generator();
    let mut file = object(generator.root_schema_for::<PipelineFile>().to_value());
    let mut stage = object(generator.root_schema_for::<StageSettings>().to_value());
    let mut one_kind = Vec::new();
    let mut parameters = Map::new();
    for kind in kinds {
        let mut body = kind.schema(&mut generator).to_value();
        if let Value::Object(body) = &mut body {
            body.insert("description".to_owned(), kind.summary().into());
        }
        parameters.insert(kind.name().to_owned(), body);
        one_kind.push(json!({ "required": [kind.name()] }));
    }
    if let Some(Value::Object(properties)) = stage.get_mut("properties") {
        properties.append(&mut parameters);
    }
    stage.insert("oneOf".to_owned(), one_kind.into());
    for root_only in ["$schema", "$defs", "title"] {
        stage.remove(root_only);
    }
    let mut definitions = generator.take_definitions(true);
    definitions.insert("Stage".to_owned(), Value::Object(stage));
    let about: BTreeMap<String, Value> = definitions
        .iter()
        .filter_map(|(name, rule)| Some((name.clone(), rule.get("description")?.clone())))
        .collect();
    for definition in definitions.values_mut() {
        describe_properties(definition, &about);
        accept_placeholders(definition);
    }
    let patches: Vec<_> =
        definitions.iter().map(|(name, rule)| (format!("{name}Patch"), patch(rule))).collect();
    definitions.extend(patches);
    if let Some(Value::Object(properties)) = file.get_mut("properties") {
        replace(properties, "vars", named(json!(true)));
    }
    let about_stages = file.get("properties").and_then(|properties| properties["stages"].get("description"));
    let about_stages = about_stages.cloned().unwrap_or_default();
    let stages = |rule: Value| {
        let mut stages = named(rule);
        stages["description"] = about_stages.clone();
        json!({ "stages": stages })
    };
    let required = file.remove("required");
    file.insert("if".to_owned(), json!({ "required": ["extends"] }));
    let patched = json!({ "anyOf": [{ "$ref": "#/$defs/StagePatch" }, { "type": "null" }] });
    file.insert("then".to_owned(), json!({ "properties": stages(patched) }));
    let whole = json!({ "$ref": "#/$defs/Stage" });
    file.insert("else".to_owned(), json!({ "properties": stages(whole), "required": required }));
    file.insert("$defs".to_owned(), Value::Object(definitions));
    file.insert("title".to_owned(), TITLE.into());
    Value::Object(file)
}

/// Returns the schema of a map from user-chosen names.
fn named(rule: Value) -> Value {
    let names = json!({ "pattern": "^[A-Za-z_][A-Za-z0-9_-]*$" });
    json!({ "type": "object", "propertyNames": names, "additionalProperties": rule })
}

/// Returns the same rule for a file that extends another: the base may have the required keys.
fn patch(rule: &Value) -> Value {
    match rule {
        Value::Object(object) => {
            let is_required_list = |keyword: &str, value: &Value| keyword == "required" && value.is_array();
            let kept = object
                .iter()
                .filter(|(keyword, value)| !is_required_list(keyword, value) && !is_choice_of_keys(value));
            let patched = kept.map(|(keyword, value)| match (keyword.as_str(), value) {
                ("$ref", Value::String(target)) => (keyword.clone(), format!("{target}Patch").into()),
                _ => (keyword.clone(), patch(value)),
            });
            Value::Object(patched.collect())
        }
        Value::Array(items) => items.iter().map(patch).collect(),
        other => other.clone(),
    }
}

/// Returns true for a choice between required keys, such as the kinds of a stage.
fn is_choice_of_keys(value: &Value) -> bool {
    let only_required = |choice: &Value| choice.as_object().is_some_and(|c| c.keys().eq(["required"]));
    value.as_array().is_some_and(|choices| !choices.is_empty() && choices.iter().all(only_required))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// Replaces the rule of a property and keeps its description.
fn replace(properties: &mut Map<String, Value>, name: &str, mut rule: Value) {
    let description = properties.get(name).and_then(|old| old.get("description")).cloned();
    if let (Value::Object(rule), Some(description)) = (&mut rule, description) {
        rule.insert("description".to_owned(), description);
    }
    properties.insert(name.to_owned(), rule);
}

/// Describes the properties that have no description of their own: by that of their type, or, for the word that chooses a
/// variant, by that of the variant. `about` has the descriptions of types.
fn describe_properties(rule: &mut Value, about: &BTreeMap<String, Value>) {
    let Value::Object(rule) = rule else { return };
    let of_variant = rule.get("description").cloned();
    if let Some(Value::Object(properties)) = rule.get_mut("properties") {
        for property in properties.values_mut().filter_map(Value::as_object_mut) {
            let of_type = || type_names(property).find_map(|name| about.get(name)).cloned();
            let description = match property.get("const") {
                _ if property.contains_key("description") => None,
                Some(_) => of_variant.clone(),
                None => of_type(),
            };
            property.extend(description.map(|description| ("description".to_owned(), description)));
        }
    }
    for inner in rule.values_mut() {
        match inner {
            Value::Array(items) => {
                for item in items {
                    describe_properties(item, about);
                }
            }
            inner => describe_properties(inner, about),
        }
    }
}

/// Returns the names of the types that a rule refers to.
fn type_names(rule: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let choices = rule.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    let targets = choices.chain(rule.get("allOf").and_then(Value::as_array).into_iter().flatten());
    let targets = targets.filter_map(|choice| choice.get("$ref")).chain(rule.get("$ref"));
    targets.filter_map(|target| target.as_str()?.rsplit('/').next())
}

/// Allows a text with `${...}` wherever a value is expected.
fn accept_placeholders(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    for (keyword, inner) in schema.iter_mut() {
        match (keyword.as_str(), inner) {
            ("properties", Value::Object(properties)) => {
                for property in properties.values_mut() {
                    accept_placeholder(property);
                }
            }
            ("items" | "additionalProperties", inner @ Value::Object(_)) => accept_placeholder(inner),
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(inner)) => {
                for choice in inner {
                    accept_placeholders(choice);
                }
            }
            _ => {}
        }
    }
}

fn accept_placeholder(rule: &mut Value) {
    accept_placeholders(rule);
    let Value::Object(object) = rule else { return };
    let any_text = object.get("type").is_some_and(|types| match types {
        Value::Array(types) => types.iter().any(|of| of == "string"),
        of => of == "string",
    }) && !object.contains_key("enum")
        && !object.contains_key("pattern")
        && !object.contains_key("const");
    if any_text || object.is_empty() {
        return;
    }
    let about = ["description", "default"].map(|keyword| (keyword, object.remove(keyword)));
    let mut either = json!({ "anyOf": [object, { "type": "string", "pattern": "\\$\\{" }] });
    for (keyword, about) in about {
        if let (Value::Object(either), Some(about)) = (&mut either, about) {
            either.insert(keyword.to_owned(), about);
        }
    }
    *rule = either;
}

#[cfg(test)]
mod tests {
    use super::super::test_kinds::KINDS;
    use super::*;

    fn at<'v>(schema: &'v Value, pointer: &str) -> &'v Value {
        schema.pointer(pointer).unwrap_or_else(|| panic!("{pointer} is missing in {schema:#}"))
    }

    fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get("$ref").and_then(Value::as_str));
                for value in object.values() {
                    references(value, found);
                }
            }
            Value::Array(items) => {
                for value in items {
                    references(value, found);
                }
            }
            _ => {}
        }
    }

    #[test]
    fn every_kind_is_a_key_of_a_stage_and_exactly_one_is_required() {
        let schema = schema(KINDS);
        let stage = at(&schema, "/$defs/Stage");
        for kind in KINDS {
            at(stage, &format!("/properties/{}", kind.name()));
        }
        assert_eq!(at(stage, "/oneOf").as_array().map(Vec::len), Some(KINDS.len()));
        assert_eq!(at(stage, "/additionalProperties"), &json!(false));
        assert_eq!(at(&schema, "/else/properties/stages/additionalProperties/$ref"), "#/$defs/Stage");
        assert_eq!(at(&schema, "/else/required"), &json!(["name", "stages"]));
    }

    #[test]
    fn a_file_that_extends_another_may_leave_things_out() {
        let schema = schema(KINDS);
        assert_eq!(at(&schema, "/if"), &json!({ "required": ["extends"] }));
        let stage = at(&schema, "/$defs/StagePatch");
        assert!(stage.get("oneOf").is_none());
        assert!(at(stage, "/properties/train").to_string().contains("#/$defs/TrainPatch"));
        assert!(at(&schema, "/$defs/TrainPatch").get("required").is_none());
        assert!(at(&schema, "/$defs/Train").get("required").is_some());
    }

    #[test]
    fn every_reference_has_a_definition() {
        let schema = schema(KINDS);
        let mut found = Vec::new();
        references(&schema, &mut found);
        assert!(found.len() > KINDS.len());
        for reference in found {
            at(&schema, reference.trim_start_matches('#'));
        }
    }

    #[test]
    fn a_placeholder_is_accepted_for_numbers_lists_and_words() {
        let schema = schema(KINDS);
        let train = at(&schema, "/$defs/Train/properties");
        for parameter in ["seed", "hidden", "variant", "optimiser"] {
            let choices = at(train, &format!("/{parameter}/anyOf")).as_array().unwrap();
            assert!(choices.contains(&json!({ "type": "string", "pattern": "\\$\\{" })), "{choices:?}");
        }
        let settings = at(&schema, "/$defs/Stage/properties");
        assert!(at(settings, "/retries/anyOf/1/pattern").is_string());
        assert!(at(&schema, "/$defs/Matrix/additionalProperties/anyOf/1/pattern").is_string());
    }
}
