//! From a file's name to the pipeline, or to everything that is wrong with it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_yaml::{Mapping, Value};

use super::check::{Checked, Checker};
use super::diagnostic::Diagnostics;
use super::extends::{FileReader, LARGEST, ReadFile};
use super::file::PipelineFile;
use super::index::Index;
use super::interpolate::{Budget, interpolate};
use super::matrix::MOST_INSTANCES;
use super::node::Node;
use super::outputs::Placer;
use super::overrides::Override;
use super::own_file::own_files;
use super::pipeline::{Input, Instance, Pipeline};
use super::problem::{Problem, Problems};
use super::resolve::{Member, Resolver};
use super::scope::Scope;
use super::source::{Sources, Span};
use super::stages::{self, InstanceDraft, Stage, StageReader};
use super::typed::{Subject, read};
use pipe_core::kind::Kinds;
use pipe_core::name::is_dotted_name;

/// What to load, and with which variables.
pub struct Request<'a> {
    pub file: PathBuf,
    pub overrides: Vec<Override>,
    /// Reads an environment variable.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
}

/// Reads, checks and expands a pipeline.
pub fn load(request: &Request, kinds: Kinds) -> Result<Pipeline, Diagnostics> {
    load_with(request, kinds, &read_file)
}

/// Stops reading where a file cannot be a pipeline any more.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn load_with(request: &Request, kinds: Kinds, read: ReadFile) -> Result<Pipeline, Diagnostics> {
    let mut sources = Sources::default();
    let mut problems = Problems::default();
    let tree = read_tree(request, read, &mut sources, &mut problems);
    let pipeline =
        tree.and_then(|(tree, files)| build(request, kinds, &tree, files, &sources, &mut problems));
    match (problems.into_diagnostics(&sources), pipeline) {
        (None, Some(pipeline)) => Ok(pipeline),
        (Some(diagnostics), _) => Err(diagnostics),
        (None, None) => unreachable!("a pipeline that cannot be built has a problem"),
    }
}

fn read_tree(
    request: &Request,
    read: ReadFile,
    sources: &mut Sources,
    problems: &mut Problems,
) -> Option<(Node, Vec<PathBuf>)> {
    let mut tree = FileReader { read, sources, problems }.read(&request.file)?;
    let files = sources.paths();
    for override_ in &request.overrides {
        override_.apply(&mut tree, sources, problems);
    }
    Some((tree, files))
}

fn build(
    request: &Request,
    kinds: Kinds,
    tree: &Node,
    files: Vec<PathBuf>,
    sources: &Sources,
    problems: &mut Problems,
) -> Option<Pipeline> {
    let budget = Budget::default();
    let scope = Scope::new(tree.get("vars"), tree.get("env"), request.environment, &budget, problems);
    let header = header(tree, &scope, &budget, problems);
    let empty = Node { span: tree.span, data: super::node::Data::Map(Vec::new()) };
    let stages_node = tree.get("stages").filter(|stages| stages.is_map()).unwrap_or(&empty);
    if tree.get("stages").is_some_and(|stages| stages.is_map() && stages.entries().is_empty()) {
        problems.push(Problem::new(stages_node.span, "this pipeline has no stages"));
    }
    let stages = StageReader { kinds, scope: &scope, budget: &budget, problems }.read(stages_node);
    let drafts = stages::instances(&stages, problems);
    if drafts.iter().map(Vec::len).sum::<usize>() > MOST_INSTANCES {
        let message = format!("this pipeline has more than {MOST_INSTANCES} instances");
        problems.push(Problem::new(stages_node.span, message));
        return None;
    }
    let checker = Checker { scope: &scope, budget: &budget };
    let members = members(&stages, &drafts, &checker, problems);
    let mut index = Index::new(members.iter().map(|member| &member.draft.id));
    stages.iter().for_each(|stage| index.add_empty(stage.name));
    let resolver = Resolver { members: &members, index: &index, checker: &checker };
    let inputs = resolver.inputs(problems);
    resolver.check_axes(problems);
    let mut placements = Vec::new();
    if let (Some(node), Some(outputs)) =
        (tree.get("outputs"), header.as_ref().and_then(|h| h.outputs.as_ref()))
    {
        let pipeline = header.as_ref().map_or("", |header| header.name.as_str());
        let mut placer = Placer { pipeline, resolver: &resolver, scope: &scope, budget: &budget, problems };
        placements = placer.place(outputs, node);
    }
    if !problems.is_empty() {
        return None;
    }
    let own_files = own_files(&resolver, sources);
    let instance = |(member, inputs)| instance(member, inputs, request.environment);
    let instances = members.into_iter().zip(inputs).filter_map(instance).collect();
    Some(Pipeline { name: header?.name, file: request.file.clone(), files, instances, placements, own_files })
}

/// The keys at the top of the file. What has a reader of its own is only looked at for its shape.
fn header(tree: &Node, scope: &Scope, budget: &Budget, problems: &mut Problems) -> Option<PipelineFile> {
    let mut mapping = Mapping::new();
    for entry in tree.entries() {
        let value = match entry.key.as_str() {
            "vars" | "stages" if entry.value.is_map() => Value::Mapping(Mapping::new()),
            "outputs" => interpolate(&entry.value, &mut { scope }, budget, problems)?,
            _ => entry.value.to_value(),
        };
        mapping.insert(entry.key.clone().into(), value);
    }
    let span = Span::whole(tree.span.file);
    let subject = Subject { name: "a pipeline".to_owned(), key: "key", span, node: tree, note: None };
    let header: PipelineFile = read(Value::Mapping(mapping), &subject, problems)?;
    if !is_dotted_name(&header.name) {
        let span = tree.get("name").map_or(tree.span, |name| name.span);
        let problem = Problem::new(span, format!("`{}` cannot be the name of a pipeline", header.name));
        let rule = "it starts with a letter or `_` and goes on with letters, digits, `_`, `-` and single dots; \
                    a directory of results is named after it";
        problems.push(problem.hint(rule));
    }
    Some(header)
}

fn members<'a>(
    stages: &'a [Stage<'a>],
    drafts: &'a [Vec<InstanceDraft>],
    checker: &Checker,
    problems: &mut Problems,
) -> Vec<Member<'a>> {
    let mut members = Vec::with_capacity(drafts.iter().map(Vec::len).sum());
    for (stage, drafts) in stages.iter().zip(drafts) {
        let mut texts = Vec::new();
        for draft in drafts {
            let content = stage.content.as_ref();
            let checked = content.and_then(|content| checker.check(content, draft, &mut texts, problems));
            members.push(Member { stage, draft, checked });
        }
    }
    members
}

fn instance(
    member: Member,
    inputs: Vec<Input>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Option<Instance> {
    let kind = member.stage.content.as_ref()?.kind;
    let Checked { body, content, resources, retries, compare } = member.checked?;
    let environment = content.environment.into_iter().map(|name| {
        let value = environment(&name);
        (name, value)
    });
    Some(Instance {
        id: member.draft.id.clone(),
        kind: kind.name(),
        version: kind.version(),
        program: kind.program(),
        params: content.params,
        body,
        inputs,
        outputs: content.outputs,
        environment: environment.collect(),
        resources,
        retries,
        compare,
    })
}
