//! References -> the outputs of instances that they mean, with their types checked, and without
//! circles.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::path::PathBuf;

use super::check::{Checked, Checker, place_of};
use super::cycle::circles;
use super::index::{Index, SelectError, pick_one_hint};
use super::kind::{ANY, ArtifactType, FILE, InputDecl, OutputDecl, SourceDecl};
use super::pipeline::{Input, InstanceId, InstanceIndex, Source};
use super::problem::{Problem, Problems};
use super::reference::StageRef;
use super::source::Span;
use super::stages::{InstanceDraft, Stage};
use super::suggest::{did_you_mean, listed};
use crate::protocol::Axes;

/// One instance on its way into the pipeline.
pub(super) struct Member<'a> {
    pub stage: &'a Stage<'a>,
    pub draft: &'a InstanceDraft,
    /// `None`: its parameters have problems.
    pub checked: Option<Checked>,
}

pub(super) struct Resolver<'a> {
    pub members: &'a [Member<'a>],
    pub index: &'a Index<'a>,
    pub checker: &'a Checker<'a>,
}

/// Who needs an output, for messages.
#[derive(Clone, Copy)]
pub(super) enum Needs<'a> {
    /// A stage and its slot.
    Slot(&'a str, &'a str),
    /// A path under `outputs`.
    Path,
}

impl fmt::Display for Needs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot(stage, slot) => write!(f, "`{stage}.{slot}`"),
            Self::Path => f.write_str("this path"),
        }
    }
}

type Found<'a> = Vec<(usize, &'a OutputDecl)>;

impl<'a> Resolver<'a> {
    /// The inputs of every member. After problems they are incomplete.
    pub fn inputs(&self, problems: &mut Problems) -> Vec<Vec<Input>> {
        let inputs: Vec<Vec<Input>> = self
            .members
            .iter()
            .map(|member| {
                let declared = member.checked.as_ref().map(|checked| checked.content.inputs.as_slice());
                declared
                    .unwrap_or_default()
                    .iter()
                    .filter_map(|decl| self.input(member, decl, problems))
                    .collect()
            })
            .collect();
        self.report_circles(&inputs, problems);
        inputs
    }

    fn input(&self, member: &Member, decl: &InputDecl, problems: &mut Problems) -> Option<Input> {
        let needs = Needs::Slot(&member.draft.id.stage, &decl.slot);
        let all = matches!(decl.source, SourceDecl::All(_));
        let (references, many) = match &decl.source {
            SourceDecl::Path(path) => {
                let sources = vec![Source::Path(PathBuf::from(path))];
                return Some(Input { slot: decl.slot.clone(), many: false, sources });
            }
            SourceDecl::DataFile { dataset, file } => {
                let sources = vec![Source::DataFile { dataset: dataset.clone(), file: file.clone() }];
                return Some(Input { slot: decl.slot.clone(), many: false, sources });
            }
            SourceDecl::One(reference) => (std::slice::from_ref(reference), false),
            SourceDecl::Many(references) | SourceDecl::All(references) => (references.as_slice(), true),
        };
        if references.is_empty() {
            let span = self.span(member, &decl.slot, "");
            problems.push(Problem::new(span, format!("{needs} needs at least one reference")));
            return None;
        }
        let mut found: Found = Vec::new();
        let mut complete = true;
        for reference in references {
            let meant = match all {
                true => self.find_fitting(reference, decl.accepts, needs),
                false => self.find(reference, decl.accepts, many, needs),
            };
            match meant {
                Ok(more) => found.extend(more),
                Err(error) => {
                    complete = false;
                    let span = self.span(member, &decl.slot, reference.text());
                    let problem = Problem::new(span, error.message).maybe_hint(error.hint);
                    let id = &member.draft.id;
                    problems.push(match id.axes.is_empty() {
                        true => problem,
                        false => problem.note(format!("in the instance `{id}`")),
                    });
                }
            }
        }
        let sources = self.sources(found, many);
        (complete && !sources.is_empty()).then(|| Input { slot: decl.slot.clone(), many, sources })
    }

    /// The outputs that a reference means. Empty if that cannot be known because of a problem
    /// that was reported elsewhere.
    pub fn find(
        &self,
        reference: &StageRef,
        accepts: ArtifactType,
        many: bool,
        needs: Needs,
    ) -> Result<Found<'a>, SelectError> {
        let positions = self.index.find(reference)?;
        if !many && positions.len() > 1 {
            let ids: Vec<_> = positions.iter().map(|&at| self.id(at)).collect();
            let message = format!("{needs} needs one instance, but `{reference}` means {}", positions.len());
            return Err(SelectError { message, hint: pick_one_hint(reference, &ids) });
        }
        let mut found = Vec::with_capacity(positions.len());
        for at in positions {
            let Some(checked) = &self.members[at].checked else { continue };
            found.push((at, output(reference, &checked.content.outputs, accepts, needs)?));
        }
        Ok(found)
    }

    /// Every output of the accepted type, or else the only plain file, of every instance that the
    /// reference means. An output that it names may be either.
    fn find_fitting(
        &self,
        reference: &StageRef,
        accepts: ArtifactType,
        needs: Needs,
    ) -> Result<Found<'a>, SelectError> {
        let mut found = Vec::new();
        for at in self.index.find(reference)? {
            let Some(checked) = &self.members[at].checked else { continue };
            let outputs = &checked.content.outputs;
            let meant = |output: &&OutputDecl| reference.output().is_none_or(|name| output.name == name);
            let of_type =
                |wanted| outputs.iter().filter(meant).filter(move |output| output.artifact == wanted);
            if of_type(accepts).next().is_some() {
                found.extend(of_type(accepts).map(|output| (at, output)));
            } else {
                let wanted = if of_type(FILE).next().is_some() { FILE } else { accepts };
                found.push((at, output(reference, outputs, wanted, needs)?));
            }
        }
        Ok(found)
    }

    /// The output that a reference names, or else all outputs, of every instance that it means.
    pub fn all_outputs(&self, reference: &StageRef) -> Result<Found<'a>, SelectError> {
        if reference.output().is_some() {
            return self.find(reference, ANY, true, Needs::Path);
        }
        let members = self.index.find(reference)?.into_iter().map(|at| (at, &self.members[at]));
        let outputs =
            members.filter_map(|(at, member)| Some((at, &member.checked.as_ref()?.content.outputs)));
        Ok(outputs.flat_map(|(at, outputs)| outputs.iter().map(move |output| (at, output))).collect())
    }

    /// In a fan-in the axes tell the sources apart, if need be with the stage and the output.
    fn sources(&self, found: Found, many: bool) -> Vec<Source> {
        if let [(at, output)] = found.as_slice() {
            return vec![self.source(*at, output, Vec::new())];
        }
        let stages: BTreeSet<&str> = found.iter().map(|(at, _)| self.id(*at).stage.as_str()).collect();
        let producers: HashSet<usize> = found.iter().map(|(at, _)| *at).collect();
        let unique: HashSet<(usize, &str)> =
            found.iter().map(|(at, output)| (*at, output.name.as_str())).collect();
        let several_outputs = unique.len() > producers.len();
        let mut seen = HashSet::new();
        let mut sources = Vec::with_capacity(found.len());
        for (at, output) in found {
            if !seen.insert((at, output.name.as_str())) {
                continue;
            }
            let mut axes = Vec::new();
            if many && stages.len() > 1 {
                axes.push(("stage".to_owned(), self.id(at).stage.clone()));
            }
            if many && several_outputs {
                axes.push(("output".to_owned(), output.name.clone()));
            }
            sources.push(self.source(at, output, axes));
        }
        sources
    }

    fn source(&self, at: usize, output: &OutputDecl, mut axes: Axes) -> Source {
        axes.extend(self.id(at).axes.iter().cloned());
        let (output, artifact) = (output.name.clone(), output.artifact);
        Source::Output { producer: InstanceIndex(at), output, artifact, axes }
    }

    fn id(&self, at: usize) -> &'a InstanceId {
        &self.members[at].draft.id
    }

    /// Where a reference is written.
    pub fn span(&self, member: &Member, slot: &str, text: &str) -> Span {
        let Some(content) = &member.stage.content else { return member.stage.name_span };
        let mut scope = self.checker.instance_scope(member.draft);
        let slot_span = content.body.get(slot).map_or(content.kind_span, |node| node.span);
        place_of(text, slot, content.body, &mut scope).unwrap_or(slot_span)
    }

    /// Names one circle per set of stages: a matrix would repeat it for each of its instances.
    fn report_circles(&self, inputs: &[Vec<Input>], problems: &mut Problems) {
        let edges: Vec<Vec<usize>> = inputs.iter().map(|inputs| producers(inputs).collect()).collect();
        let mut told = HashSet::new();
        for circle in circles(&edges) {
            let stages: BTreeSet<&str> = circle.iter().map(|&at| self.id(at).stage.as_str()).collect();
            if !told.insert(stages) {
                continue;
            }
            let names: Vec<_> =
                circle.iter().chain(circle.first()).map(|&at| self.id(at).to_string()).collect();
            let next = circle.get(1).unwrap_or(&circle[0]);
            let span = self.span_of_edge(circle[0], *next, &inputs[circle[0]]);
            problems.push(match circle.len() {
                1 => Problem::new(span, format!("`{}` refers to itself", names[0])),
                _ => {
                    let message = format!("stages refer to each other in a circle: {}", names.join(" -> "));
                    Problem::new(span, message)
                        .hint("each arrow points to a stage that is needed; remove one of the references")
                }
            });
        }
    }

    fn span_of_edge(&self, from: usize, to: usize, inputs: &[Input]) -> Span {
        let member = &self.members[from];
        let slot = inputs.iter().find(|input| producers(std::slice::from_ref(*input)).any(|at| at == to));
        let declared =
            member.checked.as_ref().map(|checked| checked.content.inputs.as_slice()).unwrap_or_default();
        let decl = slot.and_then(|slot| declared.iter().find(|decl| decl.slot == slot.slot));
        let references = match decl.map(|decl| &decl.source) {
            Some(SourceDecl::One(reference)) => std::slice::from_ref(reference),
            Some(SourceDecl::Many(references) | SourceDecl::All(references)) => references.as_slice(),
            _ => &[],
        };
        let meant = |reference: &&StageRef| self.index.find(reference).is_ok_and(|found| found.contains(&to));
        match (decl, references.iter().find(meant)) {
            (Some(decl), Some(reference)) => self.span(member, &decl.slot, reference.text()),
            _ => member.stage.name_span,
        }
    }
}

fn producers(inputs: &[Input]) -> impl Iterator<Item = usize> {
    inputs.iter().flat_map(|input| &input.sources).filter_map(|source| match source {
        Source::Output { producer, .. } => Some(producer.0),
        Source::Path(_) | Source::DataFile { .. } => None,
    })
}

/// The output of a stage that a reference means: the one that it names, or else the only one
/// that fits.
fn output<'o>(
    reference: &StageRef,
    outputs: &'o [OutputDecl],
    accepts: ArtifactType,
    needs: Needs,
) -> Result<&'o OutputDecl, SelectError> {
    let stage = reference.stage();
    let names = || outputs.iter().map(|output| output.name.as_str());
    let fits = |output: &&OutputDecl| accepts == ANY || output.artifact == accepts;
    if let Some(name) = reference.output() {
        let Some(output) = outputs.iter().find(|output| output.name == name) else {
            let message = format!("`{stage}` has no output `{name}`");
            return Err(SelectError { message, hint: did_you_mean(name, "its outputs are", names()) });
        };
        if !fits(&output) {
            let message =
                format!("`{stage}.{name}` gives `{}`, but {needs} needs `{accepts}`", output.artifact);
            return Err(SelectError { message, hint: None });
        }
        return Ok(output);
    }
    let mut fitting = outputs.iter().filter(fits);
    match (fitting.next(), fitting.next()) {
        (Some(output), None) => Ok(output),
        (Some(_), Some(_)) => {
            let written: Vec<_> =
                outputs.iter().filter(fits).map(|output| format!("{reference}.{}", output.name)).collect();
            let list = listed(written.iter().map(String::as_str));
            let message = format!("`{stage}` has several outputs that {needs} could mean");
            Err(SelectError { message, hint: list.map(|list| format!("write one of {list}")) })
        }
        (None, _) if outputs.is_empty() => Err(SelectError {
            message: format!("`{stage}` has no outputs, but {needs} needs one"),
            hint: None,
        }),
        (None, _) => {
            let types: BTreeSet<_> = outputs.iter().map(|output| output.artifact).collect();
            let given = listed(types).unwrap_or_default();
            let message = format!("`{stage}` gives {given}, but {needs} needs `{accepts}`");
            Err(SelectError { message, hint: None })
        }
    }
}
