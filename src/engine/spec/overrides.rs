//! Overrides of variables from the command line: `--set vars.epochs=3`.

use std::str::FromStr;

use super::source_text::{SourceTexts, Span};
use super::spec_issue::{SpecIssue, SpecIssues};
use super::yaml_node::{YamlData, YamlNode, parse};
use pipe_core::name::is_name;
use pipe_core::suggest::did_you_mean;

/// A new value for an existing variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// The path below `vars`.
    path: Vec<String>,
    /// The value as YAML.
    value: String,
}

/// Why the text of an override is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadOverride {
    #[error("`{0}` has no `=`; write `vars.name=value`")]
    NoValue(String),
    #[error("`{0}` cannot be set; only variables can: `vars.{name}=value`", name = variable(.0))]
    NotAVariable(String),
}

/// Returns the variable that was meant: `x` for `x` and for `var.x`.
fn variable(written: &str) -> &str {
    let last = written.strip_prefix("var.").unwrap_or(written);
    if is_name(last) { last } else { "name" }
}

impl FromStr for Override {
    type Err = BadOverride;

    fn from_str(text: &str) -> Result<Self, BadOverride> {
        let (name, value) = text.split_once('=').ok_or_else(|| BadOverride::NoValue(text.to_owned()))?;
        let mut path = name.trim().split('.').map(str::to_owned);
        let root = path.next();
        let path: Vec<_> = path.collect();
        if root.as_deref() != Some("vars") || path.is_empty() || !is_name(&path[0]) {
            return Err(BadOverride::NotAVariable(name.trim().to_owned()));
        }
        Ok(Self { path, value: value.to_owned() })
    }
}

impl Override {
    /// Replaces the value in the tree of a pipeline.
    pub(super) fn apply(&self, pipeline: &mut YamlNode, sources: &mut SourceTexts, issues: &mut SpecIssues) {
        let source = format!("--set vars.{}={}", self.path.join("."), self.value);
        let file = sources.add(source, self.value.clone());
        let Some(value) = parse(&self.value, file, issues) else { return };
        let mut node = match &mut pipeline.data {
            YamlData::Map(entries) => {
                entries.iter_mut().find(|entry| entry.key == "vars").map(|entry| &mut entry.value)
            }
            _ => None,
        };
        let mut so_far = "vars".to_owned();
        for key in &self.path {
            let entries = match node.map(|node| &mut node.data) {
                Some(YamlData::Map(entries)) => entries.as_mut_slice(),
                Some(_) => {
                    issues.push(SpecIssue::new(
                        Span::whole(file),
                        format!("`{so_far}` is not a map; it has no key `{key}`"),
                    ));
                    return;
                }
                None => &mut [],
            };
            let Some(at) = entries.iter().position(|entry| entry.key == *key) else {
                let issue = SpecIssue::new(
                    Span::whole(file),
                    format!("there is no variable `{so_far}.{key}` to set"),
                );
                let names: Vec<_> = entries.iter().map(|entry| entry.key.as_str()).collect();
                issues.push(issue.maybe_hint(did_you_mean(key, "there is", names)));
                return;
            };
            so_far = format!("{so_far}.{key}");
            node = Some(&mut entries[at].value);
        }
        if let Some(node) = node {
            *node = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_about_a_name_without_vars_says_what_to_write() {
        let message = |text: &str| text.parse::<Override>().unwrap_err().to_string();
        assert!(message("epochs=3").ends_with("`vars.epochs=value`"), "{}", message("epochs=3"));
        assert!(message("stages.a=3").ends_with("`vars.name=value`"), "{}", message("stages.a=3"));
    }

    #[test]
    fn only_variables_can_be_set() {
        for bad in ["vars.x", "x=1", "vars=1", "vars.=1", "stages.train.lr=1"] {
            assert!(bad.parse::<Override>().is_err(), "{bad}");
        }
        let parsed: Override = "vars.a.b=x=1".parse().unwrap();
        assert_eq!(parsed, Override { path: vec!["a".into(), "b".into()], value: "x=1".into() });
    }
}
