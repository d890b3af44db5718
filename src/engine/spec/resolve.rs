//! Resolves references to the outputs of instances, checks their types, and proves that they form no cycle.

use std::collections::{BTreeSet, HashSet};
use std::fmt;

use super::axis_check::STAGE_AXIS;
use super::check::{CheckedInstance, Checker, place_of};
use super::index::{SelectError, StageIndex, pick_one_hint};
use super::pipeline::{Input, InputSource, InstanceId, InstanceIndex, UnlocatedFile};
use super::source_text::Span;
use super::spec_issue::{SpecIssue, SpecIssues};
use super::stages::{InstanceDraft, StageDraft};
use crate::plan::graph::{DependencyGraph, producers};
use pipe_core::job::Axes;
use pipe_core::kind::{ANY, ArtifactType, FILE, InputDecl, OutputDecl, SourceDecl};
use pipe_core::reference::StageRef;
use pipe_core::suggest::{did_you_mean, listed};

/// How many inputs all instances may have together. If m instances read the results of n others, these are m times n.
const MOST_INPUTS: usize = 1_000_000;

/// One instance while it is being resolved.
pub(super) struct InstanceMember<'a> {
    pub stage: &'a StageDraft<'a>,
    pub draft: &'a InstanceDraft,
    /// `None` if its parameters have issues.
    pub checked: Option<CheckedInstance>,
}

impl InstanceMember<'_> {
    /// Returns the inputs that it declares; none if its parameters have issues.
    pub(super) fn declared(&self) -> &[InputDecl] {
        self.checked.as_ref().map(|checked| checked.content.inputs.as_slice()).unwrap_or_default()
    }

    /// Creates an issue that names the instance if the stage has several.
    pub(super) fn issue(&self, span: Span, error: SelectError) -> SpecIssue {
        let issue = SpecIssue::new(span, error.message).maybe_hint(error.hint);
        let id = &self.draft.id;
        if id.axes.is_empty() { issue } else { issue.note(format!("in the instance `{id}`")) }
    }
}

/// Resolves the references of all instances.
pub(super) struct ReferenceResolver<'a> {
    pub members: &'a [InstanceMember<'a>],
    pub index: &'a StageIndex<'a>,
    pub checker: &'a Checker<'a>,
}

/// What an output is needed for; for messages.
#[derive(Clone, Copy)]
pub(super) enum OutputConsumer<'a> {
    /// A stage, its parameter, and every type of artifact that the parameter has to provide.
    Parameter(&'a str, &'a str, &'a [ArtifactType]),
    /// A path under `outputs`.
    Path,
}

impl fmt::Display for OutputConsumer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parameter(stage, parameter, _) => write!(f, "`{stage}.{parameter}`"),
            Self::Path => f.write_str("this path"),
        }
    }
}

impl OutputConsumer<'_> {
    /// Lists the needed types: "`model` and `scores`".
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

/// Outputs that a reference selects, each with the index of its instance.
type MatchedOutputs<'a> = Vec<(usize, &'a OutputDecl)>;

impl<'a> ReferenceResolver<'a> {
    /// Returns the inputs of every member, and their graph unless there is a cycle. Incomplete after issues.
    pub(super) fn inputs(
        &self,
        issues: &mut SpecIssues,
    ) -> (Vec<Vec<Input<UnlocatedFile>>>, Option<DependencyGraph>) {
        if self.limit_inputs(issues).is_none() {
            return (Vec::new(), None);
        }
        let mut inputs = Vec::with_capacity(self.members.len());
        for member in self.members {
            let declared = member.declared();
            let mut reported = HashSet::new();
            let resolved =
                declared.iter().filter_map(|decl| self.input(member, decl, declared, &mut reported, issues));
            inputs.push(resolved.collect());
        }
        let graph = self.graph(&inputs, issues);
        (inputs, graph)
    }

    /// Reports too many inputs, before they fill the memory.
    fn limit_inputs(&self, issues: &mut SpecIssues) -> Option<()> {
        let mut left = MOST_INPUTS;
        for member in self.members {
            for decl in member.declared() {
                let sources = match &decl.source {
                    SourceDecl::Many(references) | SourceDecl::All(references) => {
                        references.iter().map(|reference| self.index.count(reference)).sum()
                    }
                    _ => 1,
                };
                let Some(fewer) = left.checked_sub(sources) else {
                    let message = format!(
                        "the instances of this pipeline have more than {MOST_INPUTS} inputs together"
                    );
                    let hint =
                        "collect the results in one stage first, and let the other stages read its output";
                    return issues.reject(SpecIssue::new(member.stage.name_span, message).hint(hint));
                };
                left = fewer;
            }
        }
        Some(())
    }

    /// Resolves one input. `reported` are the parameters and references of this member with reported issues, so that a
    /// parameter that fills several slots is reported once.
    fn input<'d>(
        &self,
        member: &InstanceMember,
        decl: &'d InputDecl,
        declared: &[InputDecl],
        reported: &mut HashSet<(&'d str, &'d str)>,
        issues: &mut SpecIssues,
    ) -> Option<Input<UnlocatedFile>> {
        let parameter = decl.parameter();
        let siblings = declared.iter().filter(|other| other.parameter() == parameter);
        let mut types: Vec<ArtifactType> = siblings.map(|other| other.accepts).collect();
        types.dedup();
        let needs = OutputConsumer::Parameter(&member.draft.id.stage, parameter, &types);
        let all = matches!(decl.source, SourceDecl::All(_));
        let from_file = |file| {
            Some(Input { slot: decl.slot.clone(), many: false, sources: vec![InputSource::File(file)] })
        };
        let (references, many) = match &decl.source {
            SourceDecl::Path(path) => return from_file(UnlocatedFile::User(path.into())),
            SourceDecl::DataFile { dataset, file } => {
                return from_file(UnlocatedFile::DataSet { dataset: dataset.clone(), file: file.clone() });
            }
            SourceDecl::One(reference) => (std::slice::from_ref(reference), false),
            SourceDecl::Many(references) | SourceDecl::All(references) => (references.as_slice(), true),
        };
        if references.is_empty() {
            let span = self.span(member, parameter, "");
            issues.push(SpecIssue::new(span, format!("{needs} needs at least one reference")));
            return None;
        }
        let mut found: MatchedOutputs = Vec::new();
        let mut complete = true;
        for reference in references {
            let matched = if all {
                self.find_fitting(reference, decl.accepts, needs)
            } else {
                self.find(reference, decl.accepts, many, needs)
            };
            match matched {
                Ok(more) => found.extend(more),
                Err(error) => {
                    complete = false;
                    if reported.insert((parameter, reference.text())) {
                        let span = self.span(member, parameter, reference.text());
                        issues.push(member.issue(span, error));
                    }
                }
            }
        }
        let uses = member.checked.as_ref().map(|checked| &checked.content.axes.uses);
        // A table with a row for each stage may have one row.
        let shows_stage = many && uses.is_some_and(|uses| uses.iter().any(|named| named.axis == STAGE_AXIS));
        let sources = self.sources(found, many, shows_stage);
        (complete && !sources.is_empty()).then(|| Input { slot: decl.slot.clone(), many, sources })
    }

    /// Returns the outputs that a reference selects. Empty if they cannot be known because of an issue that was
    /// reported elsewhere.
    pub(super) fn find(
        &self,
        reference: &StageRef,
        accepts: ArtifactType,
        many: bool,
        needs: OutputConsumer,
    ) -> Result<MatchedOutputs<'a>, SelectError> {
        let positions = self.positions(reference)?;
        if !many && positions.len() > 1 {
            let message =
                format!("{needs} needs one instance, but `{reference}` selects {}", positions.len());
            let hint = || pick_one_hint(reference, positions.iter().map(|&at| self.id(at)));
            let hint = self.index.suggestions.allowed().then(hint).flatten();
            return Err(SelectError { message, hint });
        }
        let mut found = Vec::with_capacity(positions.len());
        for at in positions {
            let Some(checked) = &self.members[at].checked else { continue };
            found.push((at, self.output(reference, &checked.content.outputs, accepts, needs)?));
        }
        Ok(found)
    }

    /// Returns the instances that a reference selects; none if the stage itself failed to check, which was reported.
    fn positions(&self, reference: &StageRef) -> Result<Vec<usize>, SelectError> {
        let stage_has_issues = || {
            let members = &self.members[self.index.positions(reference.stage())];
            members.iter().any(|member| member.checked.is_none())
        };
        self.index
            .find(reference)
            .or_else(|error| if stage_has_issues() { Ok(Vec::new()) } else { Err(error) })
    }

    /// Calls [`output`]; if that fails without a hint, lists the stages that produce what is needed.
    fn output(
        &self,
        reference: &StageRef,
        outputs: &'a [OutputDecl],
        accepts: ArtifactType,
        needs: OutputConsumer,
    ) -> Result<&'a OutputDecl, SelectError> {
        output(reference, outputs, accepts, needs).map_err(|error| match (&error.hint, needs) {
            (None, OutputConsumer::Parameter(stage, _, types)) if self.index.suggestions.allowed() => {
                SelectError { hint: Some(self.producers_hint(types, stage)), ..error }
            }
            _ => error,
        })
    }

    fn producers_hint(&self, types: &[ArtifactType], asking: &str) -> String {
        let produces_all = |checked: &CheckedInstance| {
            let outputs = &checked.content.outputs;
            types
                .iter()
                .all(|wanted| *wanted == ANY || outputs.iter().any(|output| output.artifact == *wanted))
        };
        let suitable = self.members.iter().filter(|member| member.checked.as_ref().is_some_and(produces_all));
        let mut names: Vec<&str> = suitable.map(|member| member.stage.name).collect();
        names.dedup();
        match listed(names.into_iter().filter(|name| *name != asking)) {
            Some(list) => format!("stages that produce it: {list}"),
            None => "no other stage of this pipeline produces it".to_owned(),
        }
    }

    /// Returns, for every instance that the reference selects, its outputs of the accepted type, or else its only plain
    /// file. An output that the reference names may be either. If it names an output for another slot that the same
    /// parameter fills, as `eval.evaluation` does where the decisions of `eval` are also needed, any output may be.
    fn find_fitting(
        &self,
        reference: &StageRef,
        accepts: ArtifactType,
        needs: OutputConsumer,
    ) -> Result<MatchedOutputs<'a>, SelectError> {
        let mut found = Vec::new();
        for at in self.positions(reference)? {
            let Some(checked) = &self.members[at].checked else { continue };
            let outputs = &checked.content.outputs;
            let is_for_another_slot = |name: &&str| {
                let OutputConsumer::Parameter(_, _, types) = needs else { return false };
                let named = outputs.iter().find(|output| output.name == *name);
                named.is_some_and(|named| named.artifact != accepts && types.contains(&named.artifact))
            };
            let wanted_name = reference.output().filter(|name| !is_for_another_slot(name));
            let is_selected = |output: &&OutputDecl| wanted_name.is_none_or(|name| output.name == name);
            let of_type =
                |wanted| outputs.iter().filter(is_selected).filter(move |output| output.artifact == wanted);
            if of_type(accepts).next().is_some() {
                found.extend(of_type(accepts).map(|output| (at, output)));
            } else {
                let wanted = if of_type(FILE).next().is_some() { FILE } else { accepts };
                found.push((at, self.output(reference, outputs, wanted, needs)?));
            }
        }
        Ok(found)
    }

    /// Returns the output that a reference names, or else all outputs, of every instance that it selects.
    pub(super) fn all_outputs(&self, reference: &StageRef) -> Result<MatchedOutputs<'a>, SelectError> {
        if reference.output().is_some() {
            return self.find(reference, ANY, true, OutputConsumer::Path);
        }
        let members = self.positions(reference)?.into_iter().map(|at| (at, &self.members[at]));
        let outputs =
            members.filter_map(|(at, member)| Some((at, &member.checked.as_ref()?.content.outputs)));
        Ok(outputs.flat_map(|(at, outputs)| outputs.iter().map(move |output| (at, output))).collect())
    }

    /// Turns outputs into sources. In a fan-in the axes tell the sources apart, together with the stage and the output
    /// where needed.
    fn sources(
        &self,
        found: MatchedOutputs,
        many: bool,
        shows_stage: bool,
    ) -> Vec<InputSource<UnlocatedFile>> {
        if let ([(at, output)], false) = (found.as_slice(), shows_stage) {
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
            if many && (stages.len() > 1 || shows_stage) {
                axes.push((STAGE_AXIS.to_owned(), self.id(at).stage.clone()));
            }
            if many && several_outputs {
                axes.push(("output".to_owned(), output.name.clone()));
            }
            sources.push(self.source(at, output, axes));
        }
        sources
    }

    fn source(&self, at: usize, output: &OutputDecl, mut axes: Axes) -> InputSource<UnlocatedFile> {
        axes.extend(self.id(at).axes.iter().cloned());
        let (output, artifact) = (output.name.clone(), output.artifact);
        InputSource::Output { producer: InstanceIndex(at), output, artifact, axes }
    }

    pub(super) fn id(&self, at: usize) -> &'a InstanceId {
        &self.members[at].draft.id
    }

    /// Returns the place where a reference is written.
    pub(super) fn span(&self, member: &InstanceMember, parameter: &str, text: &str) -> Span {
        let Some(content) = &member.stage.content else { return member.stage.name_span };
        let mut scope = self.checker.instance_scope(member.draft);
        let whole = content.body.get(parameter).map_or(content.kind_span, |node| node.span);
        place_of(text, parameter, content.body, &mut scope).unwrap_or(whole)
    }

    /// Builds the graph of the instances, or reports its cycles: one per set of stages, because a matrix would repeat it
    /// for each of its instances.
    fn graph(
        &self,
        inputs: &[Vec<Input<UnlocatedFile>>],
        issues: &mut SpecIssues,
    ) -> Option<DependencyGraph> {
        let dependencies: Vec<Vec<usize>> = inputs.iter().map(|inputs| producers(inputs).collect()).collect();
        let cycles = match DependencyGraph::new(&dependencies) {
            Ok(graph) => return Some(graph),
            Err(cycles) => cycles,
        };
        let mut reported = HashSet::new();
        for cycle in cycles {
            let stages: BTreeSet<&str> = cycle.iter().map(|&at| self.id(at).stage.as_str()).collect();
            if !reported.insert(stages) {
                continue;
            }
            let names: Vec<_> =
                cycle.iter().chain(cycle.first()).map(|&at| self.id(at).to_string()).collect();
            let next = cycle.get(1).unwrap_or(&cycle[0]);
            let span = self.span_of_edge(cycle[0], *next, &inputs[cycle[0]]);
            issues.push(if cycle.len() == 1 {
                SpecIssue::new(span, format!("`{}` refers to itself", names[0]))
            } else {
                let message = format!("stages refer to each other in a circle: {}", names.join(" -> "));
                SpecIssue::new(span, message)
                    .hint("each arrow points to a stage that is needed; remove one of the references")
            });
        }
        None
    }

    /// Returns the place of a reference from one instance to another.
    fn span_of_edge(&self, from: usize, to: usize, inputs: &[Input<UnlocatedFile>]) -> Span {
        let member = &self.members[from];
        let slot = inputs.iter().find(|input| producers(std::slice::from_ref(*input)).any(|at| at == to));
        let declared = member.declared();
        let decl = slot.and_then(|slot| declared.iter().find(|decl| decl.slot == slot.slot));
        let references = match decl.map(|decl| &decl.source) {
            Some(SourceDecl::One(reference)) => std::slice::from_ref(reference),
            Some(SourceDecl::Many(references) | SourceDecl::All(references)) => references.as_slice(),
            _ => &[],
        };
        let selects_it =
            |reference: &&StageRef| self.index.find(reference).is_ok_and(|found| found.contains(&to));
        match (decl, references.iter().find(selects_it)) {
            (Some(decl), Some(reference)) => self.span(member, decl.parameter(), reference.text()),
            _ => member.stage.name_span,
        }
    }
}

/// Returns the output of a stage that a reference selects: the one that it names, or else the only one that fits.
fn output<'o>(
    reference: &StageRef,
    outputs: &'o [OutputDecl],
    accepts: ArtifactType,
    needs: OutputConsumer,
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
            let message = format!("`{stage}.{name}` produces `{given}`, but {needs} needs {types}");
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
            let message = format!("`{stage}` has several outputs that fit {needs}");
            Err(SelectError { message, hint: list.map(|list| format!("write one of {list}")) })
        }
        (None, _) if outputs.is_empty() => Err(SelectError {
            message: format!("`{stage}` has no outputs, but {needs} needs one"),
            hint: None,
        }),
        (None, _) => {
            let types: BTreeSet<_> = outputs.iter().map(|output| output.artifact).collect();
            let given = listed(types).unwrap_or_default();
            let message = format!("`{stage}` produces {given}, but {needs} needs {}", needs.types(accepts));
            Err(SelectError { message, hint: None })
        }
    }
}
