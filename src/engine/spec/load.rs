//! Loads a pipeline file into a plan, or reports everything that is wrong with it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::check::{CheckedInstance, Checker};
use super::deserialize::{ValueContext, read};
use super::diagnostic::{Diagnostics, SpecLocation};
use super::extends::{FileReader, LARGEST, ReadFile};
use super::index::StageIndex;
use super::interpolate::{Budget, interpolate};
use super::matrix::MOST_INSTANCES;
use super::outputs::Placer;
use super::overrides::Override;
use super::pipeline::{Input, Instance, Pipeline, UnlocatedFile};
use super::pipeline_file::PipelineFile;
use super::resolve::{InstanceMember, ReferenceResolver};
use super::scope::Scope;
use super::source_text::{SourceTexts, Span};
use super::spec_issue::{SpecIssue, SpecIssues};
use super::stages::{self, InstanceDraft, StageDraft, StageReader};
use super::user_files::user_files;
use super::yaml_node::YamlNode;
use crate::plan::Plan;
use crate::plan::graph::DependencyGraph;
use pipe_core::builtin_part::BuiltinPart;
use pipe_core::kind::Kinds;
use pipe_core::name::is_dotted_name;
use pipe_core::packages::{Interpreter, PackageRequest, Packages};

/// Returns the interpreter that packages are installed for, or a sentence if there is none.
pub type FindInterpreter<'a> = &'a dyn Fn(&PackageRequest) -> Result<Option<Interpreter>, String>;

/// Which pipeline to load, and with which variables.
pub struct LoadRequest<'a> {
    pub file: PathBuf,
    /// New values of variables, from `--set`.
    pub overrides: Vec<Override>,
    /// Reads an environment variable.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// Finds the interpreter for packages.
    pub find_interpreter: FindInterpreter<'a>,
    /// What `extends: builtin/NAME` can name.
    pub parts: &'a [BuiltinPart],
}

/// Reads, checks and expands a pipeline file.
///
/// The resulting plan is acyclic. The files of registered data sets still have to be located before it can run.
pub fn load(request: &LoadRequest, kinds: Kinds) -> Result<Plan<UnlocatedFile>, Diagnostics> {
    load_with(request, kinds, &read_file)
}

/// Reads a file, but not much more than a pipeline may have.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Loads a pipeline with another way to read files.
pub(super) fn load_with(
    request: &LoadRequest,
    kinds: Kinds,
    read: ReadFile,
) -> Result<Plan<UnlocatedFile>, Diagnostics> {
    let mut sources = SourceTexts::default();
    let mut issues = SpecIssues::default();
    let tree = read_tree(request, read, &mut sources, &mut issues);
    let sources = Arc::new(sources);
    let plan = tree.and_then(|(tree, files)| build(request, kinds, &tree, files, &sources, &mut issues));
    match (issues.into_diagnostics(&sources), plan) {
        (None, Some(plan)) => Ok(plan),
        (Some(diagnostics), _) => Err(diagnostics),
        (None, None) => unreachable!("every failure to build a pipeline reports an issue"),
    }
}

fn read_tree(
    request: &LoadRequest,
    read: ReadFile,
    sources: &mut SourceTexts,
    issues: &mut SpecIssues,
) -> Option<(YamlNode, Vec<PathBuf>)> {
    let mut tree = FileReader { read, parts: request.parts, sources, issues }.read(&request.file)?;
    let files = sources.paths();
    for override_ in &request.overrides {
        override_.apply(&mut tree, sources, issues);
    }
    Some((tree, files))
}

fn build(
    request: &LoadRequest,
    kinds: Kinds,
    tree: &YamlNode,
    files: Vec<PathBuf>,
    sources: &Arc<SourceTexts>,
    issues: &mut SpecIssues,
) -> Option<Plan<UnlocatedFile>> {
    let budget = Budget::default();
    let scope = Scope::new(tree.get("vars"), tree.get("env"), request.environment, &budget, issues);
    let header = header(tree, &scope, &budget, issues);
    let empty = YamlNode { span: tree.span, data: super::yaml_node::YamlData::Map(Vec::new()) };
    let stages_node = tree.get("stages").filter(|stages| stages.is_map()).unwrap_or(&empty);
    if tree.get("stages").is_some_and(|stages| stages.is_map() && stages.entries().is_empty()) {
        issues.push(SpecIssue::new(stages_node.span, "this pipeline has no stages"));
    }
    let stages = StageReader { kinds, scope: &scope, budget: &budget, issues }.read(stages_node);
    let expanded = stages.and_then(|stages| {
        let drafts = stages::instances(&stages, issues)?;
        Some((stages, drafts))
    });
    let Some((stages, drafts)) = expanded else {
        let message = format!("this pipeline has more than {MOST_INSTANCES} instances");
        return issues.reject(SpecIssue::new(stages_node.span, message));
    };
    let checker = Checker { scope: &scope, budget: &budget };
    let members = members(&stages, &drafts, &checker, issues);
    let mut index = StageIndex::new(members.iter().map(|member| &member.draft.id));
    for stage in &stages {
        index.add_empty(stage.name);
    }
    let resolver = ReferenceResolver { members: &members, index: &index, checker: &checker };
    let (inputs, graph) = resolver.inputs(issues);
    resolver.check_axes(issues);
    let mut placements = Vec::new();
    if let (Some(node), Some(Header { file, outputs: Some(interpolated) })) = (tree.get("outputs"), &header)
        && let Some(outputs) = &file.outputs
    {
        let pipeline = file.name.as_str();
        let mut placer = Placer { pipeline, resolver: &resolver, scope: &scope, budget: &budget, issues };
        placements = placer.place(outputs, interpolated, node);
    }
    let published = header.as_ref().and_then(|header| published(header, tree, issues));
    if !issues.is_empty() {
        return None;
    }
    let (name, graph): (String, DependencyGraph) = (header?.file.name, graph?);
    let user_files = user_files(&resolver, sources);
    let mut instances = Vec::with_capacity(members.len());
    for (member, inputs) in members.into_iter().zip(inputs) {
        instances.push(instance(member, inputs, request)?);
    }
    let unused = scope.unused(tree.span.file);
    let unused_variables =
        unused.map(|(name, span)| (name.to_owned(), SpecLocation::new(sources, span))).collect();
    let file = request.file.clone();
    let pipeline =
        Pipeline { name, file, files, instances, placements, user_files, published, unused_variables };
    Some(Plan::new(pipeline, graph))
}

/// Returns the directory of published copies, which has to be inside the project.
fn published(header: &Header, tree: &YamlNode, issues: &mut SpecIssues) -> Option<PathBuf> {
    let path = PathBuf::from(header.file.published.as_ref()?);
    let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    if !is_inside || path.as_os_str().is_empty() {
        let span = tree.get("published").map_or(tree.span, |node| node.span);
        let issue = SpecIssue::new(span, format!("`{}` is not a directory of the project", path.display()));
        issues.push(issue.hint("write it relative to the project directory, without `..`"));
    }
    Some(path)
}

/// The top level of a pipeline file.
struct Header {
    file: PipelineFile,
    /// `outputs` after interpolation.
    outputs: Option<YamlNode>,
}

/// Reads the keys at the top of the file. `vars` and `stages` have readers of their own, so only their shape is checked.
fn header(tree: &YamlNode, scope: &Scope, budget: &Budget, issues: &mut SpecIssues) -> Option<Header> {
    let mut values = Map::new();
    let mut outputs = None;
    for entry in tree.entries() {
        let value = match entry.key.as_str() {
            "vars" | "stages" if entry.value.is_map() => Value::Object(Map::new()),
            "outputs" => {
                let interpolated = interpolate(&entry.value, &mut { scope }, budget, issues)?;
                let value = interpolated.to_json();
                outputs = Some(interpolated);
                value
            }
            _ => entry.value.to_json(),
        };
        values.insert(entry.key.clone(), value);
    }
    let span = Span::whole(tree.span.file);
    let context = ValueContext { name: "a pipeline".to_owned(), key: "key", span, node: tree, note: None };
    let file: PipelineFile = read(Value::Object(values), &context, issues)?;
    if !is_dotted_name(&file.name) {
        let span = tree.get("name").map_or(tree.span, |name| name.span);
        let issue = SpecIssue::new(span, format!("`{}` cannot be the name of a pipeline", file.name));
        let rule = "it starts with a letter or `_` and continues with letters, digits, `_`, `-` and single dots; \
                    a directory of results is named after it";
        issues.push(issue.hint(rule));
    }
    Some(Header { file, outputs })
}

fn members<'a>(
    stages: &'a [StageDraft<'a>],
    drafts: &'a [Vec<InstanceDraft>],
    checker: &Checker,
    issues: &mut SpecIssues,
) -> Vec<InstanceMember<'a>> {
    let mut members = Vec::with_capacity(drafts.iter().map(Vec::len).sum());
    for (stage, drafts) in stages.iter().zip(drafts) {
        let mut text_parameters = Vec::new();
        for draft in drafts {
            let content = stage.content.as_ref();
            let checked =
                content.and_then(|content| checker.check(content, draft, &mut text_parameters, issues));
            members.push(InstanceMember { stage, draft, checked });
        }
    }
    members
}

fn instance(
    member: InstanceMember,
    inputs: Vec<Input<UnlocatedFile>>,
    request: &LoadRequest,
) -> Option<Instance<UnlocatedFile>> {
    let kind = member.stage.content.as_ref()?.kind;
    let CheckedInstance { params, body, content, resources, cluster, retries, compare, expect } =
        member.checked?;
    let environment = content.environment.into_iter().map(|name| {
        let value = (request.environment)(&name);
        (name, value)
    });
    let packages = content.packages.map(|wanted| {
        let interpreter = (request.find_interpreter)(&wanted)?;
        Ok(Packages { request: wanted, interpreter })
    });
    Some(Instance {
        id: member.draft.id.clone(),
        kind: kind.name(),
        version: content.version,
        program: kind.program(),
        params,
        body,
        inputs,
        outputs: content.outputs,
        environment: environment.collect(),
        packages,
        resources,
        cluster,
        retries,
        compare,
        expect,
    })
}
