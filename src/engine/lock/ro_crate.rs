//! Exports what was computed as a Workflow Run RO-Crate: RO-Crate 1.1 with the profiles Process, Workflow and
//! Provenance Run Crate 0.5 (<https://www.researchobject.org/workflow-run-crate/>).
//!
//! | here | in the crate |
//! |---|---|
//! | the pipeline file | the main entity, a `ComputationalWorkflow` |
//! | a stage | a `HowToStep` of it |
//! | what runs a stage: its kind and version | a `SoftwareApplication`, its parameters `FormalParameter`s |
//! | an instance | a `CreateAction` with its kind as instrument, and a `ControlAction` that ties it to the step |
//! | a value of a parameter | a `PropertyValue` |
//! | an artifact | a `File` or `Dataset` if it is in the crate, else a `CreativeWork`; known by its blake3 |
//! | the run | a `CreateAction` of the workflow, and the `OrganizeAction` of `pipe` |
//!
//! No person is named unless the caller names one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::record::{Lock, LockRecord};
use crate::plan::Plan;
use crate::spec::pipeline::{InputSource, Instance, InstanceIndex, UnlocatedFile};
use crate::store::manifest::Manifest;
use pipe_core::digest::BlobId;

/// The name of the file that makes a directory a crate.
pub const METADATA: &str = "ro-crate-metadata.json";

const PROFILES: [(&str, &str, &str); 4] = [
    ("https://w3id.org/ro/wfrun/process/0.5", "Process Run Crate", "0.5"),
    ("https://w3id.org/ro/wfrun/workflow/0.5", "Workflow Run Crate", "0.5"),
    ("https://w3id.org/ro/wfrun/provenance/0.5", "Provenance Run Crate", "0.5"),
    ("https://w3id.org/workflowhub/workflow-ro-crate/1.0", "Workflow RO-Crate", "1.0"),
];
const FORMAL_PARAMETER: &str = "https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE";
const LANGUAGE: &str = "#pipeline-language";
const ENGINE: &str = "#pipe";
const RUN: &str = "#run";

/// The content of a crate.
pub struct Crate<'a> {
    pub plan: &'a Plan<UnlocatedFile>,
    pub lock: &'a Lock,
    /// The manifests that the cache still has, by the name of the instance.
    pub manifests: &'a BTreeMap<String, Manifest>,
    /// Files and directories in the crate, by path.
    pub files: &'a BTreeMap<String, Included>,
    pub agent: Option<Agent<'a>>,
    pub license: Option<&'a str>,
}

/// A file or directory in the crate.
#[derive(Debug, Clone, PartialEq)]
pub struct Included {
    pub blob: BlobId,
    pub bytes: u64,
    pub directory: bool,
    pub what: IncludedAs,
}

/// The purpose of a file in the crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncludedAs {
    /// The pipeline, or a file that it extends.
    Pipeline,
    Lock,
    /// A generated file.
    Result,
    /// A file of the user that stages read.
    Input,
}

/// The person who ran the pipeline.
#[derive(Debug, Clone, Copy)]
pub struct Agent<'a> {
    pub id: &'a str,
    pub name: &'a str,
}

/// Returns the content of [`METADATA`].
pub fn metadata(content: &Crate) -> Value {
    let mut graph = Graph { content, entities: Vec::new(), seen: BTreeSet::new() };
    graph.build();
    json!({
        "@context": ["https://w3id.org/ro/crate/1.1/context", "https://w3id.org/ro/terms/workflow-run/context"],
        "@graph": graph.entities,
    })
}

struct Graph<'a> {
    content: &'a Crate<'a>,
    entities: Vec<Value>,
    seen: BTreeSet<String>,
}

/// The inputs and outputs of the whole workflow: pairs of parameter and artifact.
struct Ends {
    inputs: Vec<(String, String)>,
    outputs: Vec<(String, String)>,
}

fn reference(id: &str) -> Value {
    json!({ "@id": id })
}

fn references<'i>(ids: impl IntoIterator<Item = &'i String>) -> Value {
    ids.into_iter().map(|id| reference(id)).collect()
}

/// Escapes a text for the fragment of a URI.
fn fragment(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/=,".contains(&b);
    text.bytes().map(|b| if plain(b) { (b as char).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Escapes a path for a URI.
fn address(path: &str, directory: bool) -> String {
    format!("{}{}", fragment(path), if directory { "/" } else { "" })
}

impl Graph<'_> {
    fn add(&mut self, entity: Value) -> String {
        let id = entity["@id"].as_str().unwrap_or_default().to_owned();
        if self.seen.insert(id.clone()) {
            self.entities.push(entity);
        }
        id
    }

    fn build(&mut self) {
        let content = self.content;
        let pipeline = content.plan.pipeline();
        let workflow = address(&pipeline.file.display().to_string(), false);
        self.root(&workflow);
        for (path, file) in content.files {
            self.file(path, file, &workflow);
        }
        let mut steps = BTreeMap::new();
        let mut tools = BTreeSet::new();
        let mut controls = Vec::new();
        let (mut started, mut ended): (Option<String>, Option<String>) = (None, None);
        for &index in content.plan.topological() {
            let instance = content.plan.instance(index);
            let Some(record) = content.lock.stages.get(&instance.id.to_string()) else { continue };
            let tool = self.tool(instance);
            let position = steps.len() + 1;
            let step = format!("{workflow}#{}", fragment(&instance.id.stage));
            steps.entry(step.clone()).or_insert_with(|| (instance.id.stage.clone(), tool.clone(), position));
            let (action, begin, end) = self.action(index, record, &tool);
            started = [started, begin].into_iter().flatten().min();
            ended = [ended, end].into_iter().flatten().max();
            controls.push(self.add(json!({
                "@id": format!("#control/{}", fragment(&instance.id.to_string())),
                "@type": "ControlAction",
                "name": format!("run {}", instance.id),
                "instrument": reference(&step),
                "object": reference(&action),
            })));
            tools.insert(tool);
        }
        for (step, (name, tool, position)) in &steps {
            self.add(json!({
                "@id": step, "@type": "HowToStep", "name": name,
                "position": position.to_string(), "workExample": reference(tool),
            }));
        }
        let ends = self.ends();
        self.workflow(&workflow, &steps.keys().cloned().collect(), &tools, &ends);
        self.run(&workflow, &controls, &ends, (started, ended));
    }

    fn root(&mut self, workflow: &str) {
        let content = self.content;
        let name = &content.plan.pipeline().name;
        let crate_profile = "https://w3id.org/ro/crate/1.1";
        self.add(json!({
            "@id": METADATA, "@type": "CreativeWork", "about": reference("./"),
            "conformsTo": [reference(crate_profile), reference(PROFILES[3].0)],
        }));
        let parts: Vec<String> =
            content.files.iter().map(|(path, file)| address(path, file.directory)).collect();
        let newest = content.manifests.values().map(|manifest| manifest.finished.as_str()).max();
        let profiles: Vec<String> = PROFILES.iter().map(|(id, ..)| (*id).to_owned()).collect();
        let mut root = json!({
            "@id": "./", "@type": "Dataset",
            "name": format!("Results of the pipeline {name}"),
            "description": format!("What `pipe run` computed for the pipeline {name}, stage by stage, with digests"),
            "conformsTo": references(&profiles),
            "hasPart": references(&parts),
            "mainEntity": reference(workflow),
            "mentions": [reference(RUN)],
            "datePublished": newest.unwrap_or("1970-01-01T00:00:00Z"),
            "license": "not stated",
        });
        if let Some(license) = content.license {
            root["license"] = reference(license);
            self.add(json!({ "@id": license, "@type": "CreativeWork", "name": license }));
        }
        self.add(root);
        for (id, name, version) in PROFILES {
            self.add(json!({ "@id": id, "@type": "CreativeWork", "name": name, "version": version }));
        }
        if let Some(agent) = content.agent {
            self.add(json!({ "@id": agent.id, "@type": "Person", "name": agent.name }));
        }
    }

    fn file(&mut self, path: &str, file: &Included, workflow: &str) {
        let id = address(path, file.directory);
        if id == workflow {
            return;
        }
        let mut entity = json!({
            "@id": id,
            "@type": if file.directory { "Dataset" } else { "File" },
            "name": path,
            "identifier": format!("blake3:{}", file.blob),
            "contentSize": file.bytes.to_string(),
        });
        match file.what {
            IncludedAs::Lock => entity["description"] = "the lock: keys and digests of every stage".into(),
            IncludedAs::Pipeline => entity["description"] = "a pipeline that the main one extends".into(),
            IncludedAs::Result => entity["exampleOfWork"] = reference(&self.result_parameter(path)),
            IncludedAs::Input => entity["exampleOfWork"] = reference(&self.input_parameter(path)),
        }
        if let Some(format) = media_type(path).filter(|_| !file.directory) {
            entity["encodingFormat"] = format.into();
        }
        self.add(entity);
    }

    fn result_parameter(&self, path: &str) -> String {
        format!("#output/{}", fragment(path))
    }

    fn input_parameter(&self, path: &str) -> String {
        format!("#input/{}", fragment(path))
    }

    /// Returns the inputs and outputs of the workflow, each with its artifact.
    fn ends(&mut self) -> Ends {
        let content = self.content;
        let (mut inputs, mut outputs) = (BTreeMap::new(), Vec::new());
        for instance in &content.plan.pipeline().instances {
            let Some(record) = content.lock.stages.get(&instance.id.to_string()) else { continue };
            for input in &instance.inputs {
                for source in &input.sources {
                    let name = match source {
                        InputSource::Output { .. } => continue,
                        InputSource::File(file) => file_name(file),
                    };
                    let Some(blob) = recorded(record, &input.slot) else { continue };
                    let parameter = self.input_parameter(&name);
                    let artifact = self.artifact(blob, &name, None);
                    inputs.insert(parameter.clone(), artifact);
                    self.parameter(&parameter, &name, "File");
                }
            }
        }
        for (path, &blob) in &content.lock.placed {
            let parameter = self.result_parameter(path);
            let directory = content.files.get(path).is_some_and(|file| file.directory);
            self.parameter(&parameter, path, if directory { "Dataset" } else { "File" });
            outputs.push((parameter, self.artifact(blob, path, None)));
        }
        Ends { inputs: inputs.into_iter().collect(), outputs }
    }

    fn parameter(&mut self, id: &str, name: &str, kind: &str) {
        self.add(json!({
            "@id": id, "@type": "FormalParameter", "name": name, "additionalType": kind,
            "conformsTo": reference(FORMAL_PARAMETER),
        }));
        self.add(json!({
            "@id": FORMAL_PARAMETER, "@type": "CreativeWork", "name": "FormalParameter", "version": "1.0-RELEASE",
        }));
    }

    /// Adds what runs a stage: its kind, with the parameters and artifacts of the stage's instances.
    fn tool(&mut self, instance: &Instance<UnlocatedFile>) -> String {
        let id = format!("#tool/{}", fragment(&instance.id.stage));
        if self.seen.contains(&id) {
            return id;
        }
        let content = self.content;
        let (mut inputs, mut outputs) = (BTreeSet::new(), BTreeSet::new());
        for sibling in &content.plan.pipeline().instances {
            if sibling.id.stage != instance.id.stage {
                continue;
            }
            let Some(record) = content.lock.stages.get(&sibling.id.to_string()) else { continue };
            for (name, _) in record.parts.iter().filter(|(name, _)| is_value(name)) {
                let parameter = format!("{id}/{}", fragment(name));
                self.parameter(&parameter, name, "Text");
                inputs.insert(parameter);
            }
            for input in &sibling.inputs {
                let parameter = format!("{id}/in/{}", fragment(&input.slot));
                self.parameter(&parameter, &input.slot, "File");
                inputs.insert(parameter);
            }
            for (output, locked) in &record.outputs {
                let parameter = format!("{id}/out/{}", fragment(output));
                self.parameter(&parameter, output, if locked.stored.directory { "Dataset" } else { "File" });
                outputs.insert(parameter);
            }
        }
        self.add(json!({
            "@id": id, "@type": "SoftwareApplication",
            "name": format!("pipe {}", instance.kind),
            "softwareVersion": instance.version.to_string(),
            "input": references(&inputs), "output": references(&outputs),
        }))
    }

    /// Adds one instance: what it read, its parameters, and its results.
    fn action(
        &mut self,
        index: InstanceIndex,
        record: &LockRecord,
        tool: &str,
    ) -> (String, Option<String>, Option<String>) {
        let content = self.content;
        let instance = content.plan.instance(index);
        let name = instance.id.to_string();
        let id = format!("#run/{}", fragment(&name));
        let mut objects = Vec::new();
        for input in &instance.inputs {
            for source in &input.sources {
                let artifact = match source {
                    InputSource::Output { producer, output, .. } => {
                        let producer = content.plan.instance(*producer).id.to_string();
                        let locked =
                            content.lock.stages.get(&producer).and_then(|record| record.outputs.get(output));
                        locked.map(|locked| {
                            self.artifact(locked.stored.blob, &format!("{producer}.{output}"), None)
                        })
                    }
                    InputSource::File(file) => {
                        recorded(record, &input.slot).map(|blob| self.artifact(blob, &file_name(file), None))
                    }
                };
                objects.extend(artifact);
            }
        }
        for (part, value) in record.parts.iter().filter(|(part, _)| is_value(part)) {
            objects.push(self.add(json!({
                "@id": format!("{id}/{}", fragment(part)), "@type": "PropertyValue",
                "name": part, "value": value,
                "exampleOfWork": reference(&format!("{tool}/{}", fragment(part))),
            })));
        }
        let mut results = Vec::new();
        for (output, locked) in &record.outputs {
            let parameter = format!("{tool}/out/{}", fragment(output));
            results.push(self.artifact(
                locked.stored.blob,
                &format!("{name}.{output}"),
                Some((&parameter, locked.stored.bytes)),
            ));
        }
        let mut action = json!({
            "@id": id, "@type": "CreateAction", "name": name,
            "instrument": reference(tool),
            "object": references(&objects), "result": references(&results),
            "actionStatus": "http://schema.org/CompletedActionStatus",
            "identifier": format!("blake3:{}", record.key),
        });
        let manifest = content.manifests.get(&name);
        let times = manifest.map(times);
        if let Some((begin, end)) = &times {
            (action["startTime"], action["endTime"]) = (begin.clone().into(), end.clone().into());
        }
        if let Some(manifest) = manifest {
            let facts = manifest.environment.iter().map(|(fact, value)| {
                json!({ "@id": format!("{id}/environment/{}", fragment(fact)), "name": fact, "value": value })
            });
            let used = [
                ("seconds", manifest.seconds.to_string(), "SEC"),
                ("cpu-seconds", manifest.cpu_seconds.to_string(), "SEC"),
                ("memory", manifest.max_rss_bytes.to_string(), "BYTE"),
            ];
            let used = used.map(|(what, value, unit)| {
                json!({
                    "@id": format!("{id}/usage/{what}"), "name": what, "value": value,
                    "propertyID": format!("urn:pipe:usage:{what}"),
                    "unitCode": format!("http://qudt.org/vocab/unit/{unit}"),
                })
            });
            action["environment"] = self.values(facts);
            action["resourceUsage"] = self.values(used);
        }
        self.agent(&mut action);
        let (begin, end) = times.unzip();
        (self.add(action), begin, end)
    }

    fn values(&mut self, values: impl IntoIterator<Item = Value>) -> Value {
        let ids: Vec<String> = values
            .into_iter()
            .map(|mut value| {
                value["@type"] = "PropertyValue".into();
                self.add(value)
            })
            .collect();
        references(&ids)
    }

    fn agent(&self, action: &mut Value) {
        if let Some(agent) = self.content.agent {
            action["agent"] = reference(agent.id);
        }
    }

    /// Adds the entity of a content, which is the file if it is in the crate.
    fn artifact(&mut self, blob: BlobId, name: &str, output: Option<(&str, u64)>) -> String {
        let included = self.content.files.iter().find(|(_, file)| file.blob == blob);
        if let Some((path, file)) = included {
            return address(path, file.directory);
        }
        let mut entity = json!({
            "@id": format!("#blake3/{blob}"), "@type": "CreativeWork", "name": name,
            "identifier": format!("blake3:{blob}"),
        });
        if let Some((parameter, bytes)) = output {
            entity["exampleOfWork"] = reference(parameter);
            entity["size"] = bytes.to_string().into();
        }
        self.add(entity)
    }

    fn workflow(&mut self, workflow: &str, steps: &Vec<String>, tools: &BTreeSet<String>, ends: &Ends) {
        let content = self.content;
        let pipeline = content.plan.pipeline();
        let path = pipeline.file.display().to_string();
        let parameters = |ends: &[(String, String)]| references(ends.iter().map(|(parameter, _)| parameter));
        let mut entity = json!({
            "@id": workflow,
            "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
            "name": pipeline.name,
            "encodingFormat": "application/yaml",
            "programmingLanguage": reference(LANGUAGE),
            "input": parameters(&ends.inputs), "output": parameters(&ends.outputs),
            "step": references(steps),
            "hasPart": references(tools),
        });
        if let Some(file) = content.files.get(&path) {
            entity["identifier"] = format!("blake3:{}", file.blob).into();
            entity["contentSize"] = file.bytes.to_string().into();
        }
        self.add(entity);
        self.add(json!({
            "@id": LANGUAGE, "@type": "ComputerLanguage", "name": "pipe pipeline language",
            "version": env!("CARGO_PKG_VERSION"),
        }));
        self.add(json!({
            "@id": ENGINE, "@type": "SoftwareApplication", "name": "pipe",
            "softwareVersion": env!("CARGO_PKG_VERSION"),
        }));
    }

    fn run(
        &mut self,
        workflow: &str,
        controls: &Vec<String>,
        ends: &Ends,
        (started, ended): (Option<String>, Option<String>),
    ) {
        let artifacts = |ends: &[(String, String)]| -> Vec<String> {
            let mut ids: Vec<String> = ends.iter().map(|(_, artifact)| artifact.clone()).collect();
            ids.sort();
            ids.dedup();
            ids
        };
        let pipeline = &self.content.plan.pipeline().name;
        let mut run = json!({
            "@id": RUN, "@type": "CreateAction", "name": format!("a run of {pipeline}"),
            "instrument": reference(workflow),
            "object": references(&artifacts(&ends.inputs)), "result": references(&artifacts(&ends.outputs)),
            "actionStatus": "http://schema.org/CompletedActionStatus",
        });
        let mut organize = json!({
            "@id": "#organize", "@type": "OrganizeAction", "name": format!("pipe runs {pipeline}"),
            "instrument": reference(ENGINE),
            "object": references(controls), "result": reference(RUN),
        });
        for action in [&mut run, &mut organize] {
            if let (Some(started), Some(ended)) = (&started, &ended) {
                (action["startTime"], action["endTime"]) = (started.clone().into(), ended.clone().into());
            }
            self.agent(action);
        }
        self.add(run);
        self.add(organize);
    }
}

/// Returns whether a key part is a value, rather than the tool or one of its inputs.
fn is_value(part: &str) -> bool {
    part.starts_with("params.") || part.starts_with("env.")
}

/// Returns the path of a user's file, or the name of a data file with its data set.
fn file_name(file: &UnlocatedFile) -> String {
    match file {
        UnlocatedFile::User(path) => path.display().to_string(),
        UnlocatedFile::DataSet { dataset, file } => format!("{dataset}/{file}"),
    }
}

fn recorded(record: &LockRecord, slot: &str) -> Option<BlobId> {
    record.parts.get(&format!("inputs.{slot}"))?.parse().ok()
}

/// Returns when the computation started and ended. Only the end is recorded; the start is computed from the duration.
fn times(manifest: &Manifest) -> (String, String) {
    let end = manifest.finished.clone();
    let begin = end.parse::<jiff::Timestamp>().ok().and_then(|end| {
        let seconds = jiff::SignedDuration::try_from_secs_f64(manifest.seconds).ok()?;
        end.checked_sub(seconds).ok()
    });
    let begin = begin.map(|begin| begin.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    (begin.unwrap_or_else(|| end.clone()), end)
}

fn media_type(path: &str) -> Option<&'static str> {
    Some(match path.rsplit_once('.')?.1 {
        "csv" => "text/csv",
        "html" => "text/html",
        "json" => "application/json",
        "lock" | "txt" => "text/plain",
        "md" => "text/markdown",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "tex" => "application/x-tex",
        "yaml" | "yml" => "application/yaml",
        _ => return None,
    })
}
