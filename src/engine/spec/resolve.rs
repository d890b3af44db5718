//! References -> the outputs of instances that they mean, with their types checked, and without
//! circles.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::path::PathBuf;

use super::check::{Checked, Checker, place_of};
use super::cycle::circles;
use super::index::{Index, SelectError, pick_one_hint};
use super::pipeline::{Input, InstanceId, InstanceIndex, Source};
use super::problem::{Problem, Problems};
use super::source::Span;
use super::stages::{InstanceDraft, Stage};
use pipe_core::job::Axes;
use pipe_core::kind::{ANY, ArtifactType, FILE, InputDecl, OutputDecl, SourceDecl};
use pipe_core::reference::StageRef;
use pipe_core::suggest::{did_you_mean, listed};

/// One instance on its way into the pipeline.
pub(super) struct Member<'a> {
    pub stage: &'a Stage<'a>,
    pub draft: &'a InstanceDraft,
    /// `None`: its parameters have problems.
    pub checked: Option<Checked>,
}

impl Member<'_> {
    /// Says which instance has it, where a stage has several.
    pub(super) fn problem(&self, span: Span, error: SelectError) -> Problem {
        let problem = Problem::new(span, error.message).maybe_hint(error.hint);
        let id = &self.draft.id;
        if id.axes.is_empty() { problem } else { problem.note(format!("in the instance `{id}`")) }
    }
}

pub(super) struct Resolver<'a> {
    pub members: &'a [Member<'a>],
    pub index: &'a Index<'a>,
    pub checker: &'a Checker<'a>,
}

/// Who needs an output, for messages.
#[derive(Clone, Copy)]
pub(super) enum Needs<'a> {
    /// A stage, its parameter, and every type of artifact that the parameter has to bring.
    Parameter(&'a str, &'a str, &'a [ArtifactType]),
    /// A path under `outputs`.
    Path,
}

impl fmt::Display for Needs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parameter(stage, parameter, _) => write!(f, "`{stage}.{parameter}`"),
            Self::Path => f.write_str("this path"),
        }
    }
}

impl Needs<'_> {
    /// "`model` and `scores`"
    fn types(&self, accepts: ArtifactType) -> String {
        match self {
            Self::Parameter(_, _, types) if types.len() > 1 => {
                let quoted: Vec<String> = types.iter().map(|artifact| format!("`{artifact}`")).collect();
                quoted.join(" and ")
            }
            _ => format!("`{accepts}`"),
        }
    }
}

type Found<'a> = Vec<(usize, &'a OutputDecl)>;

impl<'a> Resolver<'a> {
    /// The inputs of every member. After problems they are incomplete.
    pub(super) fn inputs(&self, problems: &mut Problems) -> Vec<Vec<Input>> {
        let inputs: Vec<Vec<Input>> = self
            .members
            .iter()
            .map(|member| {
                let declared = member.checked.as_ref().map(|checked| checked.content.inputs.as_slice());
                let declared = declared.unwrap_or_default();
                let mut told = HashSet::new();
                let input = |decl| self.input(member, decl, declared, &mut told, problems);
                declared.iter().filter_map(input).collect()
            })
            .collect();
        self.report_circles(&inputs, problems);
        inputs
    }

    /// `told` are the references, with their parameters, that problems of this member were reported of: where one
    /// parameter fills several slots, one of them says it.
    fn input<'d>(
        &self,
        member: &Member,
        decl: &'d InputDecl,
        declared: &[InputDecl],
        told: &mut HashSet<(&'d str, &'d str)>,
        problems: &mut Problems,
    ) -> Option<Input> {
        let parameter = decl.parameter();
        let siblings = declared.iter().filter(|other| other.parameter() == parameter);
        let types: Vec<ArtifactType> = siblings.map(|other| other.accepts).collect();
        let needs = Needs::Parameter(&member.draft.id.stage, parameter, &types);
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
            let span = self.span(member, parameter, "");
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
                    if told.insert((parameter, reference.text())) {
                        let span = self.span(member, parameter, reference.text());
                        problems.push(member.problem(span, error));
                    }
                }
            }
        }
        let sources = self.sources(found, many);
        (complete && !sources.is_empty()).then(|| Input { slot: decl.slot.clone(), many, sources })
    }

    /// The outputs that a reference means. Empty if that cannot be known because of a problem
    /// that was reported elsewhere.
    pub(super) fn find(
        &self,
        reference: &StageRef,
        accepts: ArtifactType,
        many: bool,
        needs: Needs,
    ) -> Result<Found<'a>, SelectError> {
        let positions = self.positions(reference)?;
        if !many && positions.len() > 1 {
            let ids: Vec<_> = positions.iter().map(|&at| self.id(at)).collect();
            let message = format!("{needs} needs one instance, but `{reference}` means {}", positions.len());
            return Err(SelectError { message, hint: pick_one_hint(reference, &ids) });
        }
        let mut found = Vec::with_capacity(positions.len());
        for at in positions {
            let Some(checked) = &self.members[at].checked else { continue };
            found.push((at, self.output(reference, &checked.content.outputs, accepts, needs)?));
        }
        Ok(found)
    }

    /// What the instances of a stage are called that has problems of its own cannot be known: then there are none.
    fn positions(&self, reference: &StageRef) -> Result<Vec<usize>, SelectError> {
        let broken = || {
            let mut stage = self.members.iter().filter(|member| member.stage.name == reference.stage());
            stage.any(|member| member.checked.is_none())
        };
        self.index.find(reference).or_else(|error| if broken() { Ok(Vec::new()) } else { Err(error) })
    }

    /// As [`output`]; where that fails, it says which stages give what is needed.
    fn output(
        &self,
        reference: &StageRef,
        outputs: &'a [OutputDecl],
        accepts: ArtifactType,
        needs: Needs,
    ) -> Result<&'a OutputDecl, SelectError> {
        output(reference, outputs, accepts, needs).map_err(|error| match (&error.hint, needs) {
            (None, Needs::Parameter(stage, _, types)) => {
                SelectError { hint: Some(self.offers(types, stage)), ..error }
            }
            _ => error,
        })
    }

    fn offers(&self, types: &[ArtifactType], asking: &str) -> String {
        let gives = |checked: &Checked| {
            let gives = |wanted: &ArtifactType| {
                *wanted == ANY || checked.content.outputs.iter().any(|output| output.artifact == *wanted)
            };
            types.iter().all(gives)
        };
        let givers = self.members.iter().filter(|member| member.checked.as_ref().is_some_and(gives));
        let mut names: Vec<&str> = givers.map(|member| member.stage.name).collect();
        names.dedup();
        match listed(names.into_iter().filter(|name| *name != asking)) {
            Some(list) => format!("stages that give it: {list}"),
            None => "no other stage of this pipeline gives it".to_owned(),
        }
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
        for at in self.positions(reference)? {
            let Some(checked) = &self.members[at].checked else { continue };
            let outputs = &checked.content.outputs;
            let meant = |output: &&OutputDecl| reference.output().is_none_or(|name| output.name == name);
            let of_type =
                |wanted| outputs.iter().filter(meant).filter(move |output| output.artifact == wanted);
            if of_type(accepts).next().is_some() {
                found.extend(of_type(accepts).map(|output| (at, output)));
            } else {
                let wanted = if of_type(FILE).next().is_some() { FILE } else { accepts };
                found.push((at, self.output(reference, outputs, wanted, needs)?));
            }
        }
        Ok(found)
    }

    /// The output that a reference names, or else all outputs, of every instance that it means.
    pub(super) fn all_outputs(&self, reference: &StageRef) -> Result<Found<'a>, SelectError> {
        if reference.output().is_some() {
            return self.find(reference, ANY, true, Needs::Path);
        }
        let members = self.positions(reference)?.into_iter().map(|at| (at, &self.members[at]));
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

    pub(super) fn id(&self, at: usize) -> &'a InstanceId {
        &self.members[at].draft.id
    }

    /// Where a reference is written.
    pub(super) fn span(&self, member: &Member, parameter: &str, text: &str) -> Span {
        let Some(content) = &member.stage.content else { return member.stage.name_span };
        let mut scope = self.checker.instance_scope(member.draft);
        let whole = content.body.get(parameter).map_or(content.kind_span, |node| node.span);
        place_of(text, parameter, content.body, &mut scope).unwrap_or(whole)
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
            (Some(decl), Some(reference)) => self.span(member, decl.parameter(), reference.text()),
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
            let (given, types) = (output.artifact, needs.types(accepts));
            let message = format!("`{stage}.{name}` gives `{given}`, but {needs} needs {types}");
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
            let message = format!("`{stage}` gives {given}, but {needs} needs {}", needs.types(accepts));
            Err(SelectError { message, hint: None })
        }
    }
}
