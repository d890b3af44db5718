//! Checks the axes that parameters mention against the axes of the inputs.

use std::collections::BTreeSet;

use super::check::search;
use super::index::SelectError;
use super::resolve::{InstanceMember, ReferenceResolver};
use super::source_text::Span;
use super::spec_issue::SpecIssues;
use pipe_core::kind::{AxisUse, AxisUses, InputDecl, SourceDecl};
use pipe_core::reference::StageRef;
use pipe_core::suggest::{closest, did_you_mean, listed};

/// The axis that distinguishes the inputs of several stages, and that a stage may ask for if there is one.
pub(super) const STAGE_AXIS: &str = "stage";

/// The axes of the inputs with their values, each once.
#[derive(Default)]
struct KnownAxes<'a>(Vec<(&'a str, BTreeSet<&'a str>)>);

impl<'a> KnownAxes<'a> {
    fn add(&mut self, axis: &'a str, values: impl IntoIterator<Item = &'a str>) {
        match self.0.iter_mut().find(|(known, _)| *known == axis) {
            Some((_, known)) => known.extend(values),
            None => self.0.push((axis, values.into_iter().collect())),
        }
    }

    fn values(&self, axis: &str) -> Option<&BTreeSet<&'a str>> {
        self.0.iter().find(|(known, _)| *known == axis).map(|(_, values)| values)
    }

    fn names(&self) -> impl Iterator<Item = &'a str> + Clone {
        self.0.iter().map(|(axis, _)| *axis)
    }
}

impl<'a> ReferenceResolver<'a> {
    /// Reports axes and values that no input has.
    pub(super) fn check_axes(&self, issues: &mut SpecIssues) {
        // The issue of another stage may be the reason why a value is missing.
        let values_known = self.members.iter().all(|member| member.checked.is_some());
        for member in self.members {
            let Some(checked) = &member.checked else { continue };
            let wanted = &checked.content.axes;
            if wanted.uses.is_empty() {
                continue;
            }
            let Some(known) = self.known_axes(&checked.content.inputs, wanted) else { continue };
            for named in wanted.uses.iter().filter(|named| values_known || named.value.is_none()) {
                if let Some(error) = missing(named, wanted, &known, &member.draft.id.stage) {
                    issues.push(member.issue(self.axis_span(member, named), error));
                }
            }
        }
    }

    /// Returns the axes of the inputs. `None` if they cannot be known because of an issue that was reported elsewhere.
    fn known_axes(&self, inputs: &[InputDecl], wanted: &'a AxisUses) -> Option<KnownAxes<'a>> {
        let mut known = KnownAxes::default();
        let mut found = false;
        for input in inputs.iter().filter(|input| wanted.slots.contains(&input.slot)) {
            let references = match &input.source {
                SourceDecl::One(reference) => std::slice::from_ref(reference),
                SourceDecl::Many(references) | SourceDecl::All(references) => references.as_slice(),
                SourceDecl::Path(_) | SourceDecl::DataFile { .. } => return None,
            };
            let is_one = matches!(input.source, SourceDecl::One(_));
            let shows_stage = !is_one && wanted.uses.iter().any(|named| named.axis == STAGE_AXIS);
            self.add_axes(references, shows_stage, &mut known)?;
            found = true;
        }
        for (axis, values) in &wanted.given {
            known.add(axis, values.iter().copied());
        }
        found.then_some(known)
    }

    fn add_axes(&self, references: &[StageRef], shows_stage: bool, known: &mut KnownAxes<'a>) -> Option<()> {
        let mut stages = BTreeSet::new();
        for reference in references {
            let positions = self.index.find(reference).ok().filter(|positions| !positions.is_empty())?;
            for id in positions.into_iter().map(|at| self.id(at)) {
                stages.insert(id.stage.as_str());
                for (axis, value) in &id.axes {
                    known.add(axis, [value.as_str()]);
                }
            }
        }
        if stages.len() > 1 || shows_stage {
            known.add(STAGE_AXIS, stages);
        }
        Some(())
    }

    fn axis_span(&self, member: &InstanceMember, named: &AxisUse) -> Span {
        let Some(content) = &member.stage.content else { return member.stage.name_span };
        let Some(field) = content.body.get(named.field) else { return content.kind_span };
        let mut scope = self.checker.instance_scope(member.draft);
        let place = match &named.value {
            Some(value) => search(value, field.get(&named.axis).unwrap_or(field), &mut scope),
            None => {
                let key = field.entry(&named.axis).map(|entry| entry.key_span);
                key.or_else(|| search(&named.axis, field, &mut scope))
            }
        };
        place.unwrap_or(field.span)
    }
}

fn missing(named: &AxisUse, wanted: &AxisUses, known: &KnownAxes, stage: &str) -> Option<SelectError> {
    let AxisUse { axis, value, .. } = named;
    match (known.values(axis), value) {
        (Some(values), Some(value)) if !values.contains(value.as_str()) => Some(SelectError {
            message: format!("no input of `{stage}` has the value `{value}` on the axis `{axis}`"),
            hint: did_you_mean(value, "its values are", values.iter().copied()),
        }),
        // An unknown axis is reported where it is named.
        (Some(_), _) | (None, Some(_)) => None,
        (None, None) => {
            let others = wanted.others.as_ref().filter(|_| named.or_other);
            let noun = others.map(|others| format!(", and there is no {} of that name", others.noun));
            let message = format!("no input of `{stage}` has the axis `{axis}`{}", noun.unwrap_or_default());
            let words = others.into_iter().flat_map(|others| others.words.iter().copied());
            let close = closest(axis, known.names().chain(words));
            let hint = match (close, listed(known.names())) {
                (Some(close), _) => Some(format!("did you mean `{close}`?")),
                (None, list) => list.map(|list| format!("the axes are: {list}")),
            };
            Some(SelectError { message, hint })
        }
    }
}
