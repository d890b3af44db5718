//! Reads the stages of a pipeline file and expands them into instances by `matrix` and `each`.

use std::cell::OnceCell;
use std::collections::HashMap;

use super::deserialize::{ValueContext, read};
use super::index::StageIndex;
use super::interpolate::{Budget, interpolate};
use super::matrix::{self, Expansion, MOST_INSTANCES};
use super::pipeline::InstanceId;
use super::pipeline_file::{STAGE_SETTINGS, StageSettings};
use super::scope::Scope;
use super::source_text::Span;
use super::spec_issue::{SpecIssue, SpecIssues};
use super::yaml_node::{YamlData, YamlEntry, YamlNode};
use pipe_core::kind::{Kind, Kinds};
use pipe_core::name::{NAME_RULE, is_name};
use pipe_core::reference::{Selector, StageRef};
use pipe_core::scalar::Scalar;
use pipe_core::suggest::{did_you_mean, listed};

/// One stage as written.
pub(super) struct StageDraft<'a> {
    pub name: &'a str,
    pub name_span: Span,
    /// `None` after issues were reported.
    pub content: Option<StageContent<'a>>,
}

/// The content of a stage whose kind is known.
pub(super) struct StageContent<'a> {
    pub kind: &'a dyn Kind,
    pub kind_span: Span,
    pub body: &'a YamlNode,
    /// The settings whose values may differ from instance to instance.
    pub varying: YamlNode,
    each: Option<(StageRef, Span)>,
    matrix: Option<(Expansion, Span)>,
}

/// A kind and the entry that names it.
type KindEntry<'a> = (&'a dyn Kind, &'a YamlEntry);

/// One instance before its parameters are checked.
#[derive(Debug, Clone)]
pub(super) struct InstanceDraft {
    pub id: InstanceId,
    /// The typed values of `id.axes`.
    pub values: Vec<Scalar>,
    /// The reference that `${each}` stands for.
    pub each: Option<String>,
}

/// Reads the entries under `stages:`.
pub(super) struct StageReader<'a, 'p> {
    pub kinds: Kinds<'a>,
    pub scope: &'p Scope<'a>,
    pub budget: &'p Budget,
    pub issues: &'p mut SpecIssues,
}

impl<'a> StageReader<'a, '_> {
    /// Returns the stages. `None` if their matrices have more than [`MOST_INSTANCES`] combinations together, which is noticed
    /// before they fill the memory.
    pub(super) fn read(&mut self, stages: &'a YamlNode) -> Option<Vec<StageDraft<'a>>> {
        let mut read = Vec::with_capacity(stages.entries().len());
        let mut left = MOST_INSTANCES;
        for entry in stages.entries() {
            if !is_name(&entry.key) {
                let message = format!("`{}` cannot be the name of a stage", entry.key);
                self.issues.push(SpecIssue::new(entry.key_span, message).hint(NAME_RULE));
            }
            let content = self.content(entry);
            let matrix = content.as_ref().and_then(|content| content.matrix.as_ref());
            left = left.checked_sub(matrix.map_or(1, |(matrix, _)| matrix.combinations.len()))?;
            read.push(StageDraft { name: &entry.key, name_span: entry.key_span, content });
        }
        Some(read)
    }

    fn content(&mut self, stage: &'a YamlEntry) -> Option<StageContent<'a>> {
        let YamlData::Map(entries) = &stage.value.data else {
            let issue = SpecIssue::new(
                stage.value.span,
                format!("the stage `{}` must be a map with its kind as a key", stage.key),
            );
            self.issues.push(issue.hint(self.kinds_hint()));
            return None;
        };
        let (kind, others) = self.kind(stage, entries)?;
        let (fixed, varying): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|entry| ["matrix", "each", "description"].contains(&entry.key.as_str()));
        let node = |entries: Vec<&YamlEntry>| YamlNode {
            span: stage.value.span,
            data: YamlData::Map(entries.into_iter().cloned().collect()),
        };
        let varying = node(varying);
        let (mut each, mut matrix) = (None, None);
        if !fixed.is_empty() {
            let fixed = node(fixed);
            let value = interpolate(&fixed, &mut { self.scope }, self.budget, self.issues)?;
            let settings: StageSettings =
                read(value.to_json(), &settings_context(&fixed, stage.key_span), self.issues)?;
            let each_span = fixed.get("each").map_or(stage.key_span, |node| node.span);
            each = settings.each.map(|reference| (reference, each_span));
            if let (Some(node), Some(value)) =
                (fixed.get("matrix"), value.get("matrix").filter(|value| !value.is_null()))
            {
                matrix = Some((matrix::expand(value, node, self.issues)?, node.span));
            }
        }
        let (kind, entry) = kind;
        Some(StageContent { kind, kind_span: entry.key_span, body: &entry.value, varying, each, matrix })
    }

    /// Returns the one kind of a stage, and its other entries.
    fn kind(
        &mut self,
        stage: &YamlEntry,
        entries: &'a [YamlEntry],
    ) -> Option<(KindEntry<'a>, Vec<&'a YamlEntry>)> {
        let mut found: Option<KindEntry<'a>> = None;
        let mut others = Vec::new();
        let mut wrong = false;
        for entry in entries {
            if STAGE_SETTINGS.contains(&entry.key.as_str()) {
                others.push(entry);
            } else if let Some(kind) = self.kinds.iter().find(|kind| kind.name() == entry.key) {
                if let Some((first, earlier)) = &found {
                    wrong = true;
                    let message = format!(
                        "the stage `{}` has two kinds, `{}` and `{}`",
                        stage.key,
                        first.name(),
                        kind.name()
                    );
                    let issue =
                        SpecIssue::new(entry.key_span, message).earlier("the first is at", earlier.key_span);
                    self.issues.push(issue.hint("make it two stages"));
                } else {
                    found = Some((*kind, entry));
                }
            } else {
                wrong = true;
                let known = STAGE_SETTINGS.into_iter().chain(self.kinds.iter().map(|kind| kind.name()));
                let issue = SpecIssue::new(
                    entry.key_span,
                    format!("`{}` is neither a stage kind nor a key of a stage", entry.key),
                );
                self.issues.push(issue.maybe_hint(did_you_mean(&entry.key, "there is", known)));
            }
        }
        if found.is_none() && !wrong {
            let issue = SpecIssue::new(stage.key_span, format!("the stage `{}` has no kind", stage.key));
            self.issues.push(issue.hint(self.kinds_hint()));
        }
        found.filter(|_| !wrong).map(|kind| (kind, others))
    }

    fn kinds_hint(&self) -> String {
        let kinds = listed(self.kinds.iter().map(|kind| kind.name())).unwrap_or_default();
        format!("the kind is one of {kinds}")
    }
}

/// Returns the context of the settings of a stage, for messages.
pub(super) fn settings_context(node: &YamlNode, span: Span) -> ValueContext<'_> {
    ValueContext { name: "a stage".to_owned(), key: "key", span, node, note: None }
}

/// Returns the instances of every stage, in the order of the stages. A stage whose `each` cannot be resolved has none.
/// `None` if there are more than [`MOST_INSTANCES`], which is noticed before they fill the memory.
pub(super) fn instances(stages: &[StageDraft], issues: &mut SpecIssues) -> Option<Vec<Vec<InstanceDraft>>> {
    let by_name: HashMap<&str, usize> =
        stages.iter().enumerate().map(|(at, stage)| (stage.name, at)).collect();
    let drafts: Vec<OnceCell<Vec<InstanceDraft>>> = vec![OnceCell::new(); stages.len()];
    let mut indices: HashMap<usize, StageIndex> = HashMap::new();
    let mut left = MOST_INSTANCES;
    for start in 0..stages.len() {
        // The chain of `each` from this stage to one whose instances are known.
        let mut path = vec![start];
        while let Some(&at) = path.last() {
            if drafts[at].get().is_some() {
                path.pop();
                continue;
            }
            let each = stages[at].content.as_ref().and_then(|content| content.each.as_ref());
            let expanded = match each {
                None => expand(&stages[at], None, left, issues)?,
                Some((reference, span)) => {
                    match each_target(stages, &by_name, &path, reference, *span, issues) {
                        None => Vec::new(),
                        Some(target) => {
                            let Some(through) = drafts[target].get() else {
                                path.push(target);
                                continue;
                            };
                            let index = || StageIndex::new(through.iter().map(|draft| &draft.id));
                            let index = indices.entry(target).or_insert_with(index);
                            let chosen = choose(through, index, reference, *span, issues);
                            expand(&stages[at], Some(&chosen), left, issues)?
                        }
                    }
                }
            };
            left -= expanded.len();
            // The cell is empty, so setting it succeeds.
            let _ = drafts[at].set(expanded);
        }
    }
    drop(indices);
    Some(drafts.into_iter().map(|drafts| drafts.into_inner().unwrap_or_default()).collect())
}

/// Returns the stage that `each` names. `path` are the stages that wait for it.
fn each_target(
    stages: &[StageDraft],
    by_name: &HashMap<&str, usize>,
    path: &[usize],
    reference: &StageRef,
    span: Span,
    issues: &mut SpecIssues,
) -> Option<usize> {
    let Some(&target) = by_name.get(reference.stage()) else {
        let issue = SpecIssue::new(span, format!("there is no stage `{}`", reference.stage()));
        let names = stages.iter().map(|stage| stage.name);
        let hint = issues.suggestions.did_you_mean(reference.stage(), "the stages are", names);
        return issues.reject(issue.maybe_hint(hint));
    };
    if let Some(from) = path.iter().position(|&member| member == target) {
        let members = path[from..].iter().chain([&target]);
        let members: Vec<_> = members.map(|&member| stages[member].name).collect();
        let message = format!("`each` goes in a circle: {}", members.join(" -> "));
        return issues.reject(SpecIssue::new(span, message));
    }
    Some(target)
}

fn choose<'d>(
    through: &'d [InstanceDraft],
    index: &StageIndex,
    reference: &StageRef,
    span: Span,
    issues: &mut SpecIssues,
) -> Vec<&'d InstanceDraft> {
    if let Some(output) = reference.output() {
        let issue = SpecIssue::new(span, "`each` names a stage, not one of its outputs");
        issues.push(issue.hint(format!("write `${{each}}.{output}` where the output is needed")));
        return Vec::new();
    }
    if *reference.selector() == Selector::All {
        return through.iter().collect();
    }
    match index.find(reference) {
        Ok(chosen) => chosen.into_iter().map(|at| &through[at]).collect(),
        Err(_) if through.is_empty() => Vec::new(),
        Err(error) => {
            issues.push(SpecIssue::new(span, error.message).maybe_hint(error.hint));
            Vec::new()
        }
    }
}

/// Returns the product of the instances that `each` goes through and the stage's own matrix. `None` if there are more
/// than `most`.
fn expand(
    stage: &StageDraft,
    each: Option<&[&InstanceDraft]>,
    most: usize,
    issues: &mut SpecIssues,
) -> Option<Vec<InstanceDraft>> {
    let Some(content) = &stage.content else { return Some(Vec::new()) };
    let combinations = content.matrix.as_ref().map_or(1, |(matrix, _)| matrix.combinations.len());
    if each.map_or(1, <[_]>::len) * combinations > most {
        return None;
    }
    let id = |axes| InstanceId { stage: stage.name.to_owned(), axes };
    let start: Vec<InstanceDraft> = match each {
        None => vec![InstanceDraft { id: id(Vec::new()), values: Vec::new(), each: None }],
        Some(through) => through
            .iter()
            .map(|draft| InstanceDraft {
                id: id(draft.id.axes.clone()),
                values: draft.values.clone(),
                each: Some(draft.id.to_string()),
            })
            .collect(),
    };
    let Some((Expansion { axes, combinations }, span)) = &content.matrix else { return Some(start) };
    if let Some(first) = start.first() {
        let is_inherited = |axis: &&String| first.id.axes.iter().any(|(name, _)| name == *axis);
        if let Some(axis) = axes.iter().find(is_inherited) {
            let issue = SpecIssue::new(*span, format!("the axis `{axis}` is already given by `each`"));
            issues.push(issue.hint("remove it here, or give it another name"));
            return Some(Vec::new());
        }
    }
    let mut instances = Vec::with_capacity(start.len() * combinations.len());
    for draft in &start {
        for combination in combinations {
            let mut instance = draft.clone();
            for (axis, value) in axes.iter().zip(combination) {
                instance.id.axes.push((axis.clone(), value.text.clone()));
                instance.values.push(value.value.clone());
            }
            instances.push(instance);
        }
    }
    Some(instances)
}
