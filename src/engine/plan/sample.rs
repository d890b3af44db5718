//! Small pipelines for the tests of `plan`, `runner` and `lock`.

use std::path::PathBuf;

use serde_json::Value;

use super::graph::{DependencyGraph, Plan, producers};
use crate::spec::pipeline::{Input, InputSource, Instance, InstanceId, InstanceIndex, Pipeline, Resources};
use pipe_core::kind::{FILE, OutputDecl, Program};

/// Returns the plan of a pipeline that must have no cycle.
pub(crate) fn plan(pipeline: Pipeline) -> Plan {
    let instances = pipeline.instances.iter();
    let dependencies: Vec<Vec<usize>> =
        instances.map(|instance| producers(&instance.inputs).collect()).collect();
    let graph = DependencyGraph::new(&dependencies).unwrap();
    Plan::new(pipeline, graph)
}

/// Returns a pipeline without placements.
pub(crate) fn pipeline(instances: Vec<Instance>) -> Pipeline {
    let file = PathBuf::from("sample.yaml");
    Pipeline {
        name: "sample".into(),
        files: vec![file.clone()],
        file,
        instances,
        placements: Vec::new(),
        user_files: Vec::new(),
        published: None,
        unused_variables: Vec::new(),
    }
}

/// Returns a stage with one output, `out`, and one input `in<N>` from each `N`th stage in `needs`.
pub(crate) fn stage(name: &str, needs: &[usize]) -> Instance {
    let input = |&producer: &usize| Input {
        slot: format!("in{producer}"),
        many: false,
        sources: vec![InputSource::Output {
            producer: InstanceIndex(producer),
            output: "out".into(),
            artifact: FILE,
            axes: Vec::new(),
        }],
    };
    Instance {
        id: InstanceId { stage: name.into(), axes: Vec::new() },
        kind: "sample",
        version: 1,
        program: Program::Pipe,
        params: (&serde_json::json!({ "name": name })).into(),
        body: Value::Null.into(),
        inputs: needs.iter().map(input).collect(),
        outputs: vec![OutputDecl { name: "out".into(), artifact: FILE, file_name: "out".into() }],
        environment: Vec::new(),
        packages: None,
        resources: Resources::default(),
        cluster: Default::default(),
        retries: 0,
        compare: Default::default(),
        expect: Default::default(),
    }
}
