//! Reads the parameters of one instance through its kind.

use serde_yaml::{Mapping, Value};

use super::compare::Compare;
use super::file::{ResourceRequest, StageSettings};
use super::interpolate::{Budget, interpolate};
use super::node::{Data, Node, Step};
use super::pipeline::Resources;
use super::problem::Problems;
use super::scope::{InstanceScope, Scope};
use super::stages::{Content, InstanceDraft, settings_subject};
use super::typed::{Subject, at_mut, read, report_all, wants_text};
use pipe_core::kind::{CheckedBody, Kind};
use pipe_core::scalar::canonical_text;

/// What the parameters of an instance say.
pub(super) struct Checked {
    pub body: serde_json::Value,
    pub content: CheckedBody,
    pub resources: Resources,
    pub retries: u32,
    pub compare: Compare,
}

pub(super) struct Checker<'a> {
    pub scope: &'a Scope<'a>,
    pub budget: &'a Budget,
}

impl Checker<'_> {
    /// `None` after problems. `texts` are the parameters of this stage that were found to take
    /// interpolated numbers as text; it is shared by the instances of a stage.
    pub(super) fn check(
        &self,
        content: &Content,
        draft: &InstanceDraft,
        texts: &mut Vec<Vec<Step>>,
        problems: &mut Problems,
    ) -> Option<Checked> {
        let settings = self.settings(content, draft, problems);
        let checked = self.body(content, draft, texts, problems);
        let (settings, (body, checked)) = (settings?, checked?);
        let resources = settings.resources.as_ref().map(ResourceRequest::resources).unwrap_or_default();
        let compare = settings.compare.unwrap_or_default();
        for issue in compare.issues(&checked.outputs) {
            let subject = settings_subject(&content.varying, content.kind_span);
            problems.push(subject.issue(issue));
        }
        Some(Checked { body, content: checked, resources, retries: settings.retries.unwrap_or(0), compare })
    }

    pub(super) fn instance_scope<'s>(&'s self, draft: &'s InstanceDraft) -> InstanceScope<'s> {
        InstanceScope {
            pipeline: self.scope,
            id: &draft.id,
            values: &draft.values,
            each: draft.each.as_ref(),
        }
    }

    fn settings(
        &self,
        content: &Content,
        draft: &InstanceDraft,
        problems: &mut Problems,
    ) -> Option<StageSettings> {
        let node = &content.varying;
        if node.entries().is_empty() {
            return Some(StageSettings::default());
        }
        let value = interpolate(node, &mut self.instance_scope(draft), self.budget, problems)?;
        read(value, &settings_subject(node, content.kind_span), problems)
    }

    fn body(
        &self,
        content: &Content,
        draft: &InstanceDraft,
        texts: &mut Vec<Vec<Step>>,
        problems: &mut Problems,
    ) -> Option<(serde_json::Value, CheckedBody)> {
        let node = content.body;
        let value = if node.is_null() {
            Value::Mapping(Mapping::new())
        } else {
            interpolate(node, &mut self.instance_scope(draft), self.budget, problems)?
        };
        let kind = content.kind;
        let mut value = value;
        for path in texts.iter() {
            become_text(&mut value, path);
        }
        let subject = || Subject {
            name: format!("`{}`", kind.name()),
            key: "parameter",
            span: content.kind_span,
            node,
            note: (!draft.id.axes.is_empty()).then(|| format!("in the instance `{}`", draft.id)),
        };
        loop {
            let body = to_json(&value);
            let error = match kind.check(value) {
                Ok(checked) => {
                    for issue in &checked.issues {
                        problems.push(subject().issue(issue.clone()));
                    }
                    return checked.issues.is_empty().then_some((body, checked));
                }
                Err(error) => error,
            };
            // `check` has used the value up; only after a mistake is it needed again.
            value = serde_yaml::to_value(&body).unwrap_or(Value::Null);
            match wants_text(&error, &value).filter(|path| node.is_interpolated(path)) {
                Some(path) if become_text(&mut value, &path) => texts.push(path),
                _ => {
                    let again = |value: Value| kind.check(value).map(drop);
                    report_all(value, error, &subject(), &again, &required(kind), problems);
                    return None;
                }
            }
        }
    }
}

/// Turns a number, true or false into its text; says whether there was one. An interpolated value
/// keeps its type, but a parameter that takes text, such as an argument of a command, takes
/// `${matrix.seed}` as text.
fn become_text(value: &mut Value, path: &[Step]) -> bool {
    let Some(place) = at_mut(value, path) else { return false };
    match canonical_text(place) {
        Some(text) if !place.is_string() => {
            *place = Value::String(text);
            true
        }
        _ => false,
    }
}

/// The parameters that a kind cannot do without, as its schema says.
fn required(kind: &dyn Kind) -> Vec<String> {
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

/// Numbers are finite and keys are texts, so nothing is lost.
fn to_json(value: &Value) -> serde_json::Value {
    use serde_json::Value as Json;
    match value {
        Value::Null | Value::Tagged(_) => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::String(text) => Json::String(text.clone()),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), _, _) => Json::from(number),
            (_, Some(number), _) => Json::from(number),
            (_, _, number) => Json::from(number),
        },
        Value::Sequence(items) => Json::Array(items.iter().map(to_json).collect()),
        Value::Mapping(mapping) => {
            let pairs =
                mapping.iter().filter_map(|(key, value)| Some((key.as_str()?.to_owned(), to_json(value))));
            Json::Object(pairs.collect())
        }
    }
}

/// The place of a text among the parameters as they are written, to point at it.
pub(super) fn place_of(
    text: &str,
    parameter: &str,
    node: &Node,
    scope: &mut InstanceScope,
) -> Option<super::source::Span> {
    let named = node.get(parameter).and_then(|node| search(text, node, scope));
    named.or_else(|| search(text, node, scope))
}

pub(super) fn search(text: &str, node: &Node, scope: &mut InstanceScope) -> Option<super::source::Span> {
    match &node.data {
        Data::Map(entries) => entries.iter().find_map(|entry| search(text, &entry.value, scope)),
        Data::List(items) => items.iter().find_map(|item| search(text, item, scope)),
        Data::Scalar(_) => {
            let value = interpolate(node, scope, &Budget::default(), &mut Problems::default())?;
            contains(&value, text).then_some(node.span)
        }
    }
}

fn contains(value: &Value, text: &str) -> bool {
    match value {
        Value::String(found) => found == text,
        Value::Sequence(items) => items.iter().any(|item| contains(item, text)),
        Value::Mapping(mapping) => mapping.values().any(|value| contains(value, text)),
        scalar => canonical_text(scalar).is_some_and(|found| found == text),
    }
}
