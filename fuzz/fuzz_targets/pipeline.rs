//! Any bytes as a pipeline file, which must be planned or refused with diagnostics that can be rendered.

#![no_main]

use pipe_engine::spec::{self, LoadRequest};
use pipe_stages::registry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let file = temp.path().join("pipeline.yaml");
    std::fs::write(&file, bytes).expect("a temporary file");
    let request = LoadRequest {
        file,
        overrides: Vec::new(),
        environment: &|_| None,
        find_interpreter: &|_| Ok(None),
        parts: &[],
    };
    match spec::load(&request, registry::kinds()) {
        Ok(plan) => assert_eq!(plan.topological().len(), plan.pipeline().instances.len()),
        Err(diagnostics) => drop(diagnostics.render(false)),
    }
});
