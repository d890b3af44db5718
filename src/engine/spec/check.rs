//! Reads the parameters of one instance through its kind.

use serde_json::{Map, Value};

use super::compare::Compare;
use super::deserialize::{ValueContext, at_mut, path_that_expects_text, read, report_all};
use super::expect::Expect;
use super::flat_params::FlatParams;
use super::interpolate::{Budget, interpolate, interpolate_to_json};
use super::json_text::JsonText;
use super::pipeline::{ClusterRequest, Resources};
use super::pipeline_file::StageSettings;
use super::scope::{InstanceScope, Scope};
use super::source_text::Span;
use super::spec_issue::SpecIssues;
use super::stages::{InstanceDraft, StageContent, settings_context};
use super::yaml_node::{PathStep, YamlData, YamlNode};
use pipe_core::kind::{CheckedBody, Kind};
use pipe_core::scalar::{Scalar, canonical_text};

/// The typed parameters and settings of an instance.
pub(super) struct CheckedInstance {
    /// The typed parameters in canonical form, which are not in `content` any more.
    pub params: FlatParams,
    /// The parameters after interpolation, as the worker will read them.
    pub body: JsonText,
    pub content: CheckedBody,
    pub resources: Resources,
    pub cluster: ClusterRequest,
    pub retries: u32,
    pub compare: Compare,
    pub expect: Expect,
}

/// Checks instances against their kinds.
pub(super) struct Checker<'a> {
    pub scope: &'a Scope<'a>,
    pub budget: &'a Budget,
}

impl Checker<'_> {
    /// Reads the parameters and settings of an instance. `None` after issues were reported.
    ///
    /// `text_parameters` are the parameters of this stage that turned out to take interpolated numbers as text; the
    /// instances of a stage share it.
    pub(super) fn check(
        &self,
        content: &StageContent,
        draft: &InstanceDraft,
        text_parameters: &mut Vec<Vec<PathStep>>,
        issues: &mut SpecIssues,
    ) -> Option<CheckedInstance> {
        let settings = self.settings(content, draft, issues);
        let checked = self.body(content, draft, text_parameters, issues);
        let (settings, (body, mut checked)) = (settings?, checked?);
        let (params, body) = (FlatParams::from(&checked.params.take()), JsonText::from(body));
        let asked = settings.resources.unwrap_or_default();
        let (resources, cluster) = (asked.resources(), asked.of_cluster());
        let compare = settings.compare.unwrap_or_default();
        let expect = settings.expect.unwrap_or_default();
        let metrics = checked.metrics.as_ref();
        for issue in compare.issues(&checked.outputs, metrics).into_iter().chain(expect.issues(metrics)) {
            let context = settings_context(&content.varying, content.kind_span);
            issues.push(context.issue_at(issue));
        }
        let retries = settings.retries.unwrap_or(0);
        let expect = expect.and(content.kind.requirement());
        Some(CheckedInstance { params, body, content: checked, resources, cluster, retries, compare, expect })
    }

    pub(super) fn instance_scope<'s>(&'s self, draft: &'s InstanceDraft) -> InstanceScope<'s> {
        InstanceScope {
            pipeline: self.scope,
            id: &draft.id,
            values: &draft.values,
            each: draft.each.as_deref(),
        }
    }

    fn settings(
        &self,
        content: &StageContent,
        draft: &InstanceDraft,
        issues: &mut SpecIssues,
    ) -> Option<StageSettings> {
        let node = &content.varying;
        if node.entries().is_empty() {
            return Some(StageSettings::default());
        }
        let value = interpolate_to_json(node, &mut self.instance_scope(draft), self.budget, issues)?;
        read(value, &settings_context(node, content.kind_span), issues)
    }

    fn body(
        &self,
        content: &StageContent,
        draft: &InstanceDraft,
        text_parameters: &mut Vec<Vec<PathStep>>,
        issues: &mut SpecIssues,
    ) -> Option<(Value, CheckedBody)> {
        let node = content.body;
        let mut body = if node.is_null() {
            Value::Object(Map::new())
        } else {
            interpolate_to_json(node, &mut self.instance_scope(draft), self.budget, issues)?
        };
        let kind = content.kind;
        for path in text_parameters.iter() {
            convert_to_text(&mut body, path);
        }
        let context = || ValueContext {
            name: format!("`{}`", kind.name()),
            key: "parameter",
            span: content.kind_span,
            node,
            note: (!draft.id.axes.is_empty()).then(|| format!("in the instance `{}`", draft.id)),
        };
        loop {
            let error = match kind.check(&body) {
                Ok(checked) => {
                    for issue in &checked.issues {
                        issues.push(context().issue_at(issue.clone()));
                    }
                    return checked.issues.is_empty().then_some((body, checked));
                }
                Err(error) => error,
            };
            match path_that_expects_text(&error, &body).filter(|path| node.is_interpolated(path)) {
                Some(path) if convert_to_text(&mut body, &path) => text_parameters.push(path),
                _ => {
                    let check = |value: Value| kind.check(&value).map(drop);
                    report_all(body, error, &context(), &check, &required_parameters(kind), issues);
                    return None;
                }
            }
        }
    }
}

/// Replaces a number, true or false by its text; returns whether there was one. An interpolated value keeps its type,
/// but a parameter that takes text, such as an argument of a command, accepts `${matrix.seed}` as text.
fn convert_to_text(value: &mut Value, path: &[PathStep]) -> bool {
    let Some(target) = at_mut(value, path) else { return false };
    match canonical_text(target) {
        Some(text) if !target.is_string() => {
            *target = Value::String(text);
            true
        }
        _ => false,
    }
}

/// Returns the required parameters of a kind according to its schema.
fn required_parameters(kind: &dyn Kind) -> Vec<String> {
    let mut generator = super::schema::generator();
    let schema = kind.schema(&mut generator);
    let resolved = match schema.get("$ref").and_then(|reference| reference.as_str()) {
        Some(reference) => {
            let name = reference.rsplit('/').next().unwrap_or_default();
            generator.definitions().get(name).cloned().unwrap_or_default()
        }
        None => schema.to_value(),
    };
    let names = resolved.get("required").and_then(|names| names.as_array()).cloned().unwrap_or_default();
    names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Returns the place of a text in a parameter, or else in the first other parameter that contains it.
pub(super) fn place_of(
    text: &str,
    parameter: &str,
    node: &YamlNode,
    scope: &mut InstanceScope,
) -> Option<Span> {
    let in_parameter = node.get(parameter).and_then(|node| search(text, node, scope));
    in_parameter.or_else(|| search(text, node, scope))
}

/// Returns the place of the first scalar that contains a text after interpolation.
pub(super) fn search(text: &str, node: &YamlNode, scope: &mut InstanceScope) -> Option<Span> {
    match &node.data {
        YamlData::Map(entries) => entries.iter().find_map(|entry| search(text, &entry.value, scope)),
        YamlData::List(items) => items.iter().find_map(|item| search(text, item, scope)),
        YamlData::Scalar(Scalar::Text(written)) if !written.contains("${") => {
            (written == text).then_some(node.span)
        }
        YamlData::Scalar(_) => {
            let value = interpolate(node, scope, &Budget::default(), &mut SpecIssues::default())?;
            contains(&value, text).then_some(node.span)
        }
    }
}

fn contains(value: &YamlNode, text: &str) -> bool {
    match &value.data {
        YamlData::Scalar(Scalar::Text(found)) => found == text,
        YamlData::Scalar(scalar) => scalar.canonical_text().is_some_and(|found| found == text),
        YamlData::List(items) => items.iter().any(|item| contains(item, text)),
        YamlData::Map(entries) => entries.iter().any(|entry| contains(&entry.value, text)),
    }
}
