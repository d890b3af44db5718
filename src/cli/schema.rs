//! `pipe schema`: prints the JSON Schema of pipeline files, or writes it where editors look for it.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::exit::{Failure, Outcome};
use super::project::pipeline_files;
use super::{print_json, print_text, project_dir};
use pipe_engine::spec;
use pipe_engine::store::write_atomically;
use pipe_stages::registry;

/// The beginning of the comment that tells editors where the schema of a YAML file is.
const EDITOR_COMMENT: &str = "# yaml-language-server: $schema=";

/// Runs `pipe schema`. With `write`, looks at `file`, or else at every pipeline in `pipelines/`.
pub(super) fn schema(write: bool, file: Option<&Path>) -> Outcome {
    let schema = spec::schema(registry::kinds());
    if !write {
        return print_json(&schema);
    }
    let pipelines = file.map_or_else(pipeline_files, |file| vec![file.to_owned()]);
    let mut places = BTreeSet::new();
    for pipeline in &pipelines {
        let text = std::fs::read_to_string(pipeline)
            .map_err(|error| Failure::bad_input(format!("{}: {error}", pipeline.display())))?;
        places.extend(place(pipeline, &text));
    }
    if places.is_empty() {
        let which =
            file.map_or("no pipeline in `pipelines`".to_owned(), |file| format!("`{}`", file.display()));
        let has = if file.is_some() { "does not say" } else { "says" };
        return Err(Failure::bad_input(format!(
            "{which} {has} where its schema is; make this its first line: `{EDITOR_COMMENT}pipe.schema.json`"
        )));
    }
    let mut out = String::new();
    for place in places {
        require_schema(&place)?;
        let text = serde_json::to_string_pretty(&schema).map_err(anyhow::Error::from)?;
        write_atomically(&place, |file| writeln!(file, "{text}"))
            .map_err(|error| Failure::bad_input(format!("cannot write {}: {error}", place.display())))?;
        out.push_str(&format!("{}\n", place.display()));
    }
    print_text(&out)
}

/// Returns the path in the editor comment of a pipeline; `None` if there is none, or if it is a URL.
fn place(pipeline: &Path, text: &str) -> Option<PathBuf> {
    let path = text.lines().find_map(|line| line.trim().strip_prefix(EDITOR_COMMENT))?.trim();
    let is_url = path.contains("://");
    let directory = pipeline.parent().unwrap_or(Path::new(""));
    (!is_url && !path.is_empty()).then(|| project_dir::seen_from(Path::new(""), directory, Path::new(path)))
}

/// Fails if there is a file at the path that is not a schema of `pipe`, so that a comment cannot overwrite anything else.
fn require_schema(path: &Path) -> Result<(), Failure> {
    let Ok(bytes) = std::fs::read(path) else { return Ok(()) };
    let title = serde_json::from_slice(&bytes)
        .ok()
        .and_then(|found: Value| Some(found["title"].as_str()? == spec::TITLE));
    if title == Some(true) {
        return Ok(());
    }
    Err(Failure::bad_input(format!("{} is not a schema of `pipe`, so it was not replaced", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_comment_is_relative_to_the_pipeline_and_a_url_is_left_alone() {
        let found = |text: &str| place(Path::new("pipelines/x.yaml"), text);
        assert_eq!(found("# yaml-language-server: $schema=../s.json\nname: x"), Some("s.json".into()));
        assert_eq!(found("name: x"), None);
        assert_eq!(found("# yaml-language-server: $schema=https://example.org/s.json"), None);
    }

    fn undescribed(rule: &Value, path: &str, found: &mut Vec<String>) {
        match rule {
            Value::Object(fields) => {
                let properties = fields.get("properties").and_then(|all| all.as_object());
                // One of several forms, `{ precision: 0.9 }`, is described as a whole.
                let is_form =
                    properties.is_some_and(|all| all.len() == 1) && fields.contains_key("description");
                for (name, property) in properties.into_iter().flatten().filter(|_| !is_form) {
                    if property.get("description").is_none_or(|text| text.as_str().is_none_or(str::is_empty))
                    {
                        found.push(format!("{path}/{name}"));
                    }
                }
                for (name, inner) in fields {
                    undescribed(inner, &format!("{path}/{name}"), found);
                }
            }
            Value::Array(items) => {
                for item in items {
                    undescribed(item, path, found);
                }
            }
            _ => {}
        }
    }

    #[test]
    fn every_property_of_the_schema_has_a_description() {
        let mut found = Vec::new();
        undescribed(&spec::schema(registry::kinds()), "", &mut found);
        assert_eq!(found, [""; 0]);
    }
}
