//! Pipelines that load, and their expansion.

use std::path::Path;

use serde_json::json;

use super::ABLATION;
use crate::spec::pipeline::{
    Input, InputSource, Instance, InstanceIndex, Pipeline, Resources, UnlocatedFile,
};
use crate::spec::select;
use crate::spec::test_kinds::{Project, loaded, names};

fn instance<'p>(pipeline: &'p Pipeline<UnlocatedFile>, name: &str) -> &'p Instance<UnlocatedFile> {
    pipeline.instances.iter().find(|instance| instance.id.to_string() == name).unwrap()
}

/// Returns `train[adaptive,seed=0].model` for each source of an input.
fn sources(pipeline: &Pipeline<UnlocatedFile>, input: &Input<UnlocatedFile>) -> Vec<String> {
    let shown = |source: &InputSource<UnlocatedFile>| match source {
        InputSource::Output { producer, output, .. } => {
            format!("{}.{output}", pipeline.instances[producer.0].id)
        }
        InputSource::File(UnlocatedFile::User(path)) => path.display().to_string(),
        InputSource::File(UnlocatedFile::DataSet { dataset, file }) => format!("{dataset}/{file}"),
    };
    input.sources.iter().map(shown).collect()
}

fn placed(pipeline: &Pipeline<UnlocatedFile>) -> Vec<String> {
    let shown = |placement: &crate::spec::pipeline::Placement| {
        let id = &pipeline.instances[placement.instance.0].id;
        format!("{id}.{} -> {}", placement.output, placement.path.display())
    };
    pipeline.placements.iter().map(shown).collect()
}

#[test]
fn an_ablation_expands_in_file_and_matrix_order() {
    let pipeline = loaded(ABLATION);
    assert_eq!(
        names(&pipeline),
        [
            "data",
            "idf",
            "train[adaptive,seed=0]",
            "train[adaptive,seed=1]",
            "train[static,seed=0]",
            "train[static,seed=1]",
            "eval[adaptive,seed=0]",
            "eval[adaptive,seed=1]",
            "eval[static,seed=0]",
            "eval[static,seed=1]",
            "table1",
        ]
    );
    let train = instance(&pipeline, "train[static,seed=1]");
    assert_eq!(train.kind, "train");
    assert_eq!(train.params.value()["variant"], json!("static"));
    assert_eq!(train.params.value()["seed"], json!(1));
    assert_eq!(train.params.value()["epochs"], json!(150));
    assert_eq!(train.params.value()["data"], json!(null), "a stage's name must not reach its key");
    assert_eq!(train.body.value()["data"], json!("data"));
    assert_eq!(sources(&pipeline, &train.inputs[0]), ["data.data"]);
    assert_eq!(sources(&pipeline, &train.inputs[1]), ["idf.idf"]);
    let eval = instance(&pipeline, "eval[static,seed=1]");
    assert_eq!(sources(&pipeline, &eval.inputs[0]), ["train[static,seed=1].model"]);
    let table = instance(&pipeline, "table1");
    assert_eq!(table.params.value()["title"], json!("after 150 epochs"));
    assert_eq!(table.inputs[0].sources.len(), 4);
    assert!(table.inputs[0].many);
    let InputSource::Output { axes, .. } = &table.inputs[0].sources[1] else { panic!() };
    assert_eq!(axes, &[("variant".into(), "adaptive".into()), ("seed".into(), "1".into())]);
    assert_eq!(
        placed(&pipeline),
        ["table1.tex -> results/bibtex/table.tex", "table1.csv -> results/bibtex/table.csv"]
    );
}

#[test]
fn formatting_does_not_change_the_parameters() {
    let one = loaded(
        "name: a\nstages:\n  d: { load: { dataset: x } }\n  i: { idf: { data: d } }\n  t:\n    train: { data: d, idf: i, optimiser: { lr: 1e-4, momentum: 1 } }\n",
    );
    let twin = loaded(
        "# a comment\nname: b\nstages:\n  source: { load: { dataset: \"x\" } }\n  weights: { idf: { data: source.data } }\n  fit:\n    retries: 3\n    description: other words\n    train:\n      optimiser: { momentum: 1.0, lr: 0.0001 }\n      epochs: 0\n      idf: weights\n      data: source\n",
    );
    for (one, twin) in one.instances.iter().zip(&twin.instances) {
        assert_eq!(one.params, twin.params);
        assert_eq!(one.params.value().to_string(), twin.params.value().to_string());
    }
}

#[test]
fn include_and_exclude_shape_the_matrix() {
    let pipeline = loaded(
        r#"
name: m
stages:
  c:
    matrix:
      x: [a, b]
      y: [1, 2]
      exclude: [{ x: a, y: 1.0 }]
      include: [{ y: 9, x: z }]
    command: { run: "${matrix.x}${matrix.y}" }
  only:
    matrix: { include: [{ k: 1, l: 2 }, { l: 3, k: 4 }] }
    command: { run: x }
"#,
    );
    assert_eq!(
        names(&pipeline),
        ["c[a,y=2]", "c[b,y=1]", "c[b,y=2]", "c[z,y=9]", "only[k=1,l=2]", "only[k=4,l=3]"]
    );
    assert_eq!(pipeline.instances[3].body.value()["run"], json!("z9"));
}

#[test]
fn a_sample_of_a_matrix_grows_by_new_draws_and_depends_on_the_seed() {
    let drawn = |sample: &str| {
        let text = format!(
            "name: m\nstages:\n  c:\n    matrix: {{ x: [1, 2, 3, 4, 5], y: [a, b, c, d], exclude: [{{ x: 1 }}], \
             {sample} include: [{{ x: 9, y: z }}] }}\n    command: {{ run: x }}\n"
        );
        names(&loaded(&text))
    };
    let (all, five, six) =
        (drawn(""), drawn("sample: { count: 5 },"), drawn("sample: { count: 6, seed: 0 },"));
    assert_eq!((all.len(), five.len(), six.len()), (17, 6, 7));
    assert!(five.iter().all(|name| six.contains(name)) && six.iter().all(|name| all.contains(name)));
    assert_eq!(five.last(), all.last(), "`include` is not drawn from");
    assert_eq!(drawn("sample: { count: 99 },"), all);
    assert!((1..4).any(|seed| drawn(&format!("sample: {{ count: 5, seed: {seed} }},")) != five));
}

#[test]
fn each_selects_inherits_and_multiplies() {
    let pipeline = loaded(
        r#"
name: m
stages:
  late:
    each: mid[x=b]
    matrix: { z: [p, q] }
    command: { run: "${matrix.x} ${matrix.y} ${matrix.z}", inputs: { from: "${each}.out" } }
  mid:
    each: first
    matrix: { y: [1, 2] }
    command: { run: "${matrix.y}", inputs: { from: "${each}" } }
  first:
    matrix: { x: [a, b] }
    command: { run: "${matrix.x}" }
"#,
    );
    assert_eq!(
        names(&pipeline),
        [
            "late[b,y=1,z=p]",
            "late[b,y=1,z=q]",
            "late[b,y=2,z=p]",
            "late[b,y=2,z=q]",
            "mid[a,y=1]",
            "mid[a,y=2]",
            "mid[b,y=1]",
            "mid[b,y=2]",
            "first[a]",
            "first[b]",
        ]
    );
    let late = &pipeline.instances[3];
    assert_eq!(late.body.value()["run"], json!("b 2 q"));
    assert_eq!(sources(&pipeline, &late.inputs[0]), ["mid[b,y=2].out"]);
}

#[test]
fn a_fan_in_of_several_stages_has_the_axis_stage() {
    let pipeline = loaded(
        r#"
name: m
stages:
  a: { command: { run: a } }
  b: { matrix: { x: [1, 2] }, command: { run: b } }
  all: { command: { run: c, all: [a, "b[*]", "b[x=1]"] } }
"#,
    );
    let axes = |source: &InputSource<UnlocatedFile>| match source {
        InputSource::Output { axes, .. } => {
            axes.iter().map(|(axis, value)| format!("{axis}={value}")).collect()
        }
        InputSource::File(_) => Vec::new(),
    };
    let all: Vec<Vec<String>> = pipeline.instances[3].inputs[0].sources.iter().map(axes).collect();
    assert_eq!(all, [vec!["stage=a"], vec!["stage=b", "x=1"], vec!["stage=b", "x=2"]]);
}

#[test]
fn a_whole_value_keeps_its_type_and_an_embedded_one_becomes_text() {
    let pipeline = loaded(
        r#"
name: m
vars:
  layers: { small: [1, 2], big: "${vars.sizes}" }
  sizes: [30, 40]
  lr: 1e-4
stages:
  d: { load: { dataset: "lr-${vars.lr}", rows: 3 } }
  i: { idf: { data: d } }
  t: { train: { data: d, idf: i, hidden: "${ vars.layers.big }", optimiser: { lr: "${vars.lr}" } } }
  c: { command: { run: "cost $${x} $5 ${vars.sizes.first}" } }
"#
        .replace("${vars.sizes.first}", "")
        .as_str(),
    );
    assert_eq!(pipeline.instances[0].body.value()["dataset"], json!("lr-0.0001"));
    assert_eq!(pipeline.instances[2].params.value()["hidden"], json!([30, 40]));
    assert_eq!(pipeline.instances[2].params.value()["optimiser"]["lr"], json!(0.0001));
    assert_eq!(pipeline.instances[3].body.value()["run"], json!("cost ${x} $5 "));
}

#[test]
fn an_interpolated_number_is_text_where_text_is_expected() {
    let pipeline = loaded(
        r#"
name: m
vars: { flag: true }
stages:
  c: { matrix: { seed: [1, word, 2.50] }, command: { run: "${matrix.seed}", env: ["${vars.flag}", x] } }
"#,
    );
    let runs: Vec<_> =
        pipeline.instances.iter().map(|instance| instance.params.value()["run"].clone()).collect();
    assert_eq!(runs, [json!("1"), json!("word"), json!("2.5")]);
    assert_eq!(pipeline.instances[1].body.value(), json!({ "run": "word", "env": ["true", "x"] }));
}

#[test]
fn a_variable_can_have_a_value_for_each_value_of_an_axis() {
    let pipeline = loaded(
        r#"
name: m
vars: { sizes: { rows: { small: 5, large: 80 } } }
stages:
  d: { matrix: { size: [small, large] }, load: { dataset: x, rows: "${vars.sizes.rows[matrix.size]}" } }
"#,
    );
    let rows: Vec<_> =
        pipeline.instances.iter().map(|instance| instance.params.value()["rows"].clone()).collect();
    assert_eq!(rows, [json!(5), json!(80)]);
}

const ENV: &str = r#"
name: m
env: { WHO: , MODE: fast, ROWS: 10 }
stages:
  d: { load: { dataset: "${env.WHO}-${env.MODE}", rows: "${env.ROWS}" } }
  c: { command: { run: x, env: [PATH, NONE] } }
"#;

#[test]
fn environment_variables_have_the_type_of_their_default() {
    let project = |env| {
        Project { files: &[("p.yaml", ENV.as_bytes())], set: &[], env }
            .load()
            .unwrap_or_else(|d| panic!("{d}"))
    };
    let pipeline = project(&[("WHO", "12e5"), ("PATH", "/bin")]);
    assert_eq!(pipeline.instances[0].params.value()["dataset"], json!("12e5-fast"));
    assert_eq!(pipeline.instances[0].params.value()["rows"], json!(10));
    assert_eq!(
        pipeline.instances[1].environment,
        [("PATH".to_owned(), Some("/bin".to_owned())), ("NONE".to_owned(), None)]
    );
    let other = project(&[("WHO", "me"), ("MODE", "slow"), ("ROWS", "7")]);
    assert_eq!(other.instances[0].params.value()["dataset"], json!("me-slow"));
    assert_eq!(other.instances[0].params.value()["rows"], json!(7));
}

#[test]
fn variables_are_set_from_the_command_line() {
    let files: &[(&str, &[u8])] = &[("p.yaml", ABLATION.as_bytes())];
    let set = &["vars.epochs=3", "vars.seeds=[7]"];
    let pipeline = Project { files, set, env: &[] }.load().unwrap();
    assert_eq!(instance(&pipeline, "train[static,seed=7]").params.value()["epochs"], json!(3));
    assert_eq!(pipeline.instances.len(), 7);
}

#[test]
fn a_file_overrides_the_files_that_it_extends() {
    let main = br#"
extends: [base/common.yaml, base/extra.yaml]
vars: { rows: 5 }
env: { NEEDED: }
stages:
  data: { load: { rows: "${vars.rows}" } }
  other: { load: { dataset: "now-loaded" } }
  gone: null
  new: { command: { run: "${env.NEEDED}" } }
"#;
    let common = br#"
name: common
extends: deep.yaml
vars: { rows: 1, keep: kept }
env: { NEEDED: default }
stages:
  data: { load: { dataset: "${vars.keep}" } }
  other: { retries: 2, command: { run: x } }
"#;
    let deep = b"stages: { gone: { command: { run: y } }, last: { command: { run: deep } } }";
    let extra = b"vars: { keep: extra }";
    let files: &[(&str, &[u8])] = &[
        ("p/main.yaml", main),
        ("p/base/common.yaml", common),
        ("p/base/deep.yaml", deep),
        ("p/base/extra.yaml", extra),
    ];
    let pipeline =
        Project { files, set: &[], env: &[("NEEDED", "set")] }.load().unwrap_or_else(|d| panic!("{d}"));
    assert_eq!(pipeline.name, "common");
    assert_eq!(names(&pipeline), ["last", "data", "other", "new"]);
    assert_eq!(instance(&pipeline, "data").body.value(), json!({ "dataset": "extra", "rows": 5 }));
    assert_eq!(instance(&pipeline, "other").kind, "load");
    assert_eq!(instance(&pipeline, "other").retries, 2);
}

#[test]
fn variables_of_the_file_that_nothing_uses_are_known() {
    let main =
        b"extends: base.yaml\nname: m\nvars: { used: 1, through: 2, other: '${vars.through}', prior: 3 }\n\
        stages: { a: { load: { rows: '${vars.used}', dataset: '${vars.other}' } } }\n";
    let files: &[(&str, &[u8])] = &[("p/main.yaml", main), ("p/base.yaml", b"vars: { of_the_base: 1 }\n")];
    let pipeline = Project { files, set: &[], env: &[] }.load().unwrap_or_else(|d| panic!("{d}"));
    let unused = pipeline.unused_variables.iter().map(|(name, place)| format!("{name} {}", place.line()));
    assert_eq!(unused.collect::<Vec<_>>(), ["prior p/main.yaml:3"]);
}

#[test]
fn a_file_does_not_inherit_where_another_pipeline_publishes() {
    let base = b"name: base\npublished: docs\nstages: { a: { command: { run: x } } }";
    let main = |own: &'static [u8]| {
        let files: &[(&str, &[u8])] = &[("p/main.yaml", own), ("p/base.yaml", base)];
        Project { files, set: &[], env: &[] }.load().unwrap_or_else(|d| panic!("{d}")).published
    };
    assert_eq!(main(b"extends: base.yaml\nname: m\n"), None);
    assert_eq!(main(b"extends: base.yaml\nname: m\npublished: mine\n"), Some("mine".into()));
}

#[test]
fn a_file_can_extend_a_built_in_part_which_is_not_one_of_its_files() {
    let files: &[(&str, &[u8])] = &[
        ("p/main.yaml", b"extends: [builtin/twice, ./builtin/base]\nname: m\nvars: { set: mine }\n"),
        ("p/builtin/base", b"stages:\n  f: { load: { dataset: c } }\n"),
    ];
    let pipeline = Project { files, set: &[], env: &[] }.load().unwrap_or_else(|d| panic!("{d}"));
    assert_eq!(names(&pipeline), ["d", "e", "f"]);
    assert_eq!(instance(&pipeline, "d").body.value(), json!({ "dataset": "mine" }));
    assert_eq!(pipeline.files, ["p/main.yaml", "p/builtin/base"].map(std::path::PathBuf::from));
}

#[test]
fn resources_and_retries_may_differ_between_instances() {
    let pipeline = loaded(
        r#"
name: m
stages:
  c:
    matrix: { threads: [1, 4] }
    resources: { cpu: "${matrix.threads}", mem: 1.5GB, gpu: 1 }
    retries: 2
    command: { run: x }
  plain: { command: { run: x } }
"#,
    );
    assert_eq!(pipeline.instances[1].resources, Resources { cpu: 4, mem: 1_500_000_000, gpu: 1 });
    assert_eq!(pipeline.instances[1].retries, 2);
    assert_eq!(pipeline.instances[2].resources, Resources::default());
}

#[test]
fn outputs_are_placed_by_path_or_by_name() {
    let pipeline = loaded(
        r#"
name: m
vars: { where: paper }
stages:
  a: { command: { run: a } }
  b: { matrix: { x: [1, "p/q"] }, command: { run: b } }
outputs:
  a.txt: a
  ${vars.where}/tables/b1.txt: b[x=1].out
  ./all/: b
"#,
    );
    assert_eq!(
        placed(&pipeline),
        [
            "a.out -> results/m/a.txt",
            "b[x=1].out -> paper/tables/b1.txt",
            "b[x=1].out -> all/x=1/out.txt",
            "b[p/q].out -> all/x=p_q/out.txt",
        ]
    );
}

#[test]
fn files_of_the_user_become_inputs() {
    let pipeline = loaded("name: m\nstages:\n  d: { load: { dataset: x, file: data/x.csv } }\n");
    let [InputSource::File(UnlocatedFile::User(path))] = pipeline.instances[0].inputs[0].sources.as_slice()
    else {
        panic!()
    };
    assert_eq!(path, Path::new("data/x.csv"));
}

#[test]
fn targets_are_selected_by_reference() {
    let pipeline = loaded(ABLATION);
    let selected = |text| select(&pipeline, text).map_err(|error| error.to_string());
    assert_eq!(selected("idf"), Ok(vec![InstanceIndex(1)]));
    assert_eq!(selected("train[seed=1]"), Ok(vec![InstanceIndex(3), InstanceIndex(5)]));
    assert_eq!(selected("eval[*]").unwrap().len(), 4);
    assert_eq!(selected("evl"), Err("there is no stage `evl`; did you mean `eval`?".to_owned()));
    let output =
        "`train[seed=1].model` names an output; a target is a stage or an instance; write `train[seed=1]`";
    assert_eq!(selected("train[seed=1].model"), Err(output.to_owned()));
    assert!(selected("train[").unwrap_err().contains("is not a reference"));
}
