//! `pipe provenance`: the crate describes what was computed, and the validator accepts it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::PipelineTest;

const SMALL: &str = "
name: small
vars: { lr: 0.1 }
stages:
  data: { command: { run: cp in/raw data.txt, inputs: { raw: { file: raw.csv } }, outputs: [data.txt] } }
  fit:
    matrix: { seed: [1, 2] }
    command: { run: \"echo ${vars.lr} ${matrix.seed} > fit.txt\", inputs: { data: data }, outputs: [fit.txt] }
  table: { command: { run: cat in/fits/* > table.tex, inputs: { fits: [\"fit[*]\"] }, outputs: [table.tex] } }
outputs: { paper/table.tex: table }
";

fn locked() -> PipelineTest {
    let test = PipelineTest::new(SMALL);
    test.write("raw.csv", "1,2\n");
    test.run().ok();
    test.pipe(&["lock", "pipeline.yaml"]).ok();
    test
}

fn entities(test: &PipelineTest) -> BTreeMap<String, Value> {
    let metadata: Value = serde_json::from_str(&test.read("crate/ro-crate-metadata.json")).unwrap();
    let entities = metadata["@graph"].as_array().unwrap().iter();
    let count = entities.len();
    let by_id: BTreeMap<String, Value> =
        entities.map(|entity| (entity["@id"].as_str().unwrap().to_owned(), entity.clone())).collect();
    assert_eq!(by_id.len(), count, "no id is used twice");
    by_id
}

fn mentioned(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            if let (Some(id), 1) = (object.get("@id").and_then(Value::as_str), object.len()) {
                found.insert(id.to_owned());
            }
            for value in object.values() {
                mentioned(value, found);
            }
        }
        Value::Array(items) => {
            for value in items {
                mentioned(value, found);
            }
        }
        _ => {}
    }
}

#[test]
fn every_instance_is_an_action_with_its_inputs_outputs_and_values() {
    let test = locked();
    test.pipe(&["provenance", "pipeline.yaml", "--ro-crate", "crate"]).ok().says("4 actions");
    let entities = entities(&test);
    let mut ids = BTreeSet::new();
    for entity in entities.values() {
        mentioned(entity, &mut ids);
    }
    ids.remove("https://w3id.org/ro/crate/1.1");
    for id in &ids {
        assert!(entities.contains_key(id), "{id} is mentioned but not described");
    }
    let actions = entities.values().filter(|entity| entity["@type"] == "CreateAction");
    assert_eq!(actions.count(), 5, "four instances and the run");
    let fit = &entities["#run/fit%5Bseed=1%5D"];
    assert_eq!(fit["instrument"]["@id"], "#tool/fit");
    assert!(fit["object"].to_string().contains("raw.csv"), "the copy has the raw file's content: {fit}");
    let lock = test.read("pipeline.lock");
    for result in fit["result"].as_array().unwrap() {
        let identifier = &entities[result["@id"].as_str().unwrap()]["identifier"];
        let digest = identifier.as_str().unwrap().strip_prefix("blake3:").unwrap();
        assert!(lock.contains(digest), "{digest}");
    }
    let table = &entities["#run/table"]["result"][0]["@id"];
    assert_eq!(table, "paper/table.tex", "a file in the crate is referred to by its path");
    assert_eq!(test.read("crate/paper/table.tex"), test.read("paper/table.tex"));
    assert!(!entities.values().any(|entity| entity["@type"] == "Person"), "nobody is named");
}

#[test]
fn a_person_is_named_only_on_request_and_nothing_is_overwritten() {
    let test = locked();
    let agent = ["--agent", "https://orcid.org/0000-0002-1825-0097", "--agent-name", "A Tester"];
    test.pipe(&[&["provenance", "pipeline.yaml", "--ro-crate", "crate"], &agent[..]].concat()).ok();
    let entities = entities(&test);
    assert_eq!(entities[agent[1]]["name"], "A Tester");
    assert_eq!(entities["#organize"]["agent"]["@id"], agent[1]);
    test.pipe(&["provenance", "pipeline.yaml", "--ro-crate", "crate"]).exits_with(2).says("crate");
    test.pipe(&["provenance", "pipeline.yaml", "--ro-crate", "x", "--agent", "a"]).exits_with(2);
}

#[test]
fn a_table_that_was_edited_is_taken_from_the_cache() {
    let test = locked();
    let table = test.read("paper/table.tex");
    test.write("paper/table.tex", "better\n");
    test.pipe(&["provenance", "pipeline.yaml", "--ro-crate", "crate"]).ok();
    assert_eq!(test.read("crate/paper/table.tex"), table);
}

/// Needs the validator from PyPI, installed once; `scripts/validate-crate` says how.
#[test]
fn the_validator_accepts_the_crate_as_a_directory_and_as_a_zip() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let installed =
        root.join(".crate-env/bin/python").exists() || std::env::var_os("PIPE_CRATE_ENV").is_some();
    if !installed && std::env::var_os("PIPE_CI").is_none() {
        eprintln!("skipped: `scripts/validate-crate` has not installed the validator here yet");
        return;
    }
    let test = locked();
    for name in ["crate", "crate.zip"] {
        test.pipe(&["provenance", "pipeline.yaml", "--ro-crate", name]).ok();
        let output = Command::new(root.join("scripts/validate-crate")).arg(test.file(name)).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
