//! Pipelines with mistakes, and the diagnostics that users see.

use super::ABLATION;
use crate::spec::test_kinds::{Project, issues, load_text};

/// Returns the issues of files that extend each other, with overrides and an environment.
fn project_issues(files: &[(&str, &[u8])], set: &[&str], env: &[(&str, &str)]) -> String {
    match (Project { files, set, env }).load() {
        Ok(_) => panic!("this should not load"),
        Err(diagnostics) => diagnostics.render(false),
    }
}

#[test]
fn unknown_keys_are_rejected_everywhere() {
    assert_shown!(issues(
        r#"
name: m
stage: {}
stages:
  d: { load: { datset: x, dataset: x } }
  i: { idf: { data: d }, retry: 2 }
  t: { train: { data: d, idf: i, optimiser: { lr: 1, momentun: 2 }, zzz: 1 } }
  r: { load: { dataset: x }, resources: { cpus: 2 } }
"#
    ));
}

#[test]
fn wrong_types_are_reported_in_plain_words() {
    assert_shown!(issues(
        r#"
name: 5
env: { A: [1] }
stages:
  d: { load: { dataset: 12, rows: many } }
  e: { load: { dataset: x, rows: -3 } }
  f: { load: { dataset: x, rows: 3.5 } }
  g: { load: [x] }
  i: { idf: { data: d } }
  t:
    train:
      data: d
      idf: i
      variant: adaptiv
      epochs: 1_000
      hidden: [1, two, 3, four]
      verbose: yes
      optimiser: { lr: [1] }
  u: { train: { data: d, idf: i, hidden: 3, optimiser: fast, variant: 7 } }
"#
    ));
}

#[test]
fn every_missing_parameter_is_named() {
    assert_shown!(issues(
        r#"
stages:
  d: { load: }
  t: { train: { seed: x, optimiser: { momentum: 1 } } }
  u: { train: { data: 5 } }
"#
    ));
}

#[test]
fn values_out_of_range_are_rejected() {
    assert_shown!(issues(
        r#"
name: m
stages:
  a: { command: { run: x }, retries: -1, resources: { cpu: 0, mem: 4 apples, gpu: -1 } }
  b: { command: { run: x }, resources: { cpu: 1.5, mem: 4 } }
  d: { load: { dataset: x } }
  i: { idf: { data: d } }
  t:
    matrix: { seed: [1, 2] }
    train: { data: d, idf: i, optimiser: { lr: -0.5 } }
"#
    ));
}

#[test]
fn a_stage_has_exactly_one_kind() {
    assert_shown!(issues(
        r#"
name: m
stages:
  none: { retries: 1 }
  nothing:
  text: load
  two: { load: { dataset: x }, idf: { data: none } }
  wrong: { lod: { dataset: x } }
"#
    ));
}

#[test]
fn names_follow_their_rules() {
    assert_shown!(issues(
        r#"
name: ../evil
vars: { "a b": 1 }
stages:
  1st: { load: { dataset: x } }
  c: { matrix: { "a.b": [1], stage: [2] }, command: { run: x } }
  d: { matrix: { include: [{ "e=f": 1 }] }, command: { run: x } }
"#
    ));
}

#[test]
fn references_must_select_something() {
    assert_shown!(issues(
        r#"
name: m
stages:
  data: { load: { dataset: x } }
  idf: { idf: { data: dta } }
  train:
    matrix: { variant: [adaptive, static], seed: [0, 1] }
    train: { data: data, idf: data, variant: "${matrix.variant}" }
  eval: { evaluate: { model: train, data: "train[adaptive,seed=0]" } }
  e2: { evaluate: { model: "train[adaptve,seed=0]", data: data.dat } }
  e3: { evaluate: { model: "train[seed=0", data: "data[x]" } }
  table: { table: { from: ["eval", "train[*]", "train[sead=1]"] } }
  c: { command: { run: x, inputs: { what: "train[static,seed=1]" } } }
  none: { table: { from: [] } }
"#
    ));
}

#[test]
fn axes_must_be_those_of_the_inputs() {
    let with_rows = |rows: &str| ABLATION.replace("title: \"after ${vars.epochs} epochs\"", rows);
    load_text(&with_rows("rows: [variant, part, f1], only: { seed: 1, part: test }")).unwrap();
    assert_shown!(issues(&with_rows(
        "rows: [varient, \"${vars.epochs}\", recal, stage], only: { sead: 1, seed: 7, part: tst }"
    )));
    let unknown = with_rows("rows: [varient]").replace("eval[*]", "evl[*]");
    assert!(!issues(&unknown).contains("has the axis"), "what flows in cannot be known");
}

#[test]
fn cycles_are_reported_with_their_members() {
    assert_shown!(issues(
        r#"
name: m
vars: { a: "${vars.b}", b: "x${vars.c.d}", c: { d: "${vars.a}" } }
stages:
  a: { command: { run: x, inputs: { from: b } } }
  b: { command: { run: x, all: [ok, "c[*]"] } }
  c: { matrix: { x: [1, 2] }, command: { run: x, inputs: { from: a } } }
  self: { command: { run: x, inputs: { from: self } } }
  e: { each: f, command: { run: x } }
  f: { each: e, command: { run: x } }
  ok: { command: { run: x } }
"#
    ));
}

#[test]
fn invalid_matrices_are_rejected() {
    assert_shown!(issues(
        r#"
name: m
stages:
  a: { matrix: {}, command: { run: x } }
  b: { matrix: { x: [] }, command: { run: x } }
  c: { matrix: { x: [1, 1.0, "1"] }, command: { run: x } }
  d: { matrix: { x: 3, y: [[1], null] }, command: { run: x } }
  e: { matrix: { x: [1, 2], exclude: [{ x: 3 }, { z: 1 }, {}] }, command: { run: x } }
  f: { matrix: { x: [1, 2], exclude: [{ x: 1 }, { x: 2 }] }, command: { run: x } }
  g: { matrix: { x: [1], y: [2], include: [{ x: 1 }, { x: 1, y: 2 }, 5] }, command: { run: x } }
  h: { matrix: [1, 2], command: { run: x } }
  i: { matrix: { x: [1], include: 7 }, command: { run: x } }
  j: { matrix: { x: [1], sample: 7 }, command: { run: x } }
  k: { matrix: { x: [1], sample: { count: 0 } }, command: { run: x } }
  l: { matrix: { x: [1], sample: { count: 1, sed: 3 } }, command: { run: x } }
  ok: { command: { run: "a", inputs: { from: b, other: a } } }
"#
    ));
}

#[test]
fn a_matrix_cannot_grow_without_bounds() {
    let axes: Vec<_> = (0..12).map(|axis| format!("a{axis}: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]")).collect();
    let text =
        format!("name: m\nstages:\n  c:\n    matrix: {{ {} }}\n    command: {{ run: x }}\n", axes.join(", "));
    assert!(issues(&text).contains("this matrix has more than 100000 combinations"));
}

#[test]
fn many_stages_cannot_grow_without_bounds_together() {
    let values: Vec<_> = (0..316).map(|value| value.to_string()).collect();
    let values = values.join(", ");
    let stage = |number| {
        format!("  s{number}:\n    matrix: {{ x: [{values}], y: [{values}] }}\n    command: {{ run: x }}\n")
    };
    let text = format!("name: m\nstages:\n{}", (0..30).map(stage).collect::<String>());
    assert!(issues(&text).contains("this pipeline has more than 100000 instances"));
    let each = format!("name: m\nstages:\n{}  e:\n    each: s0\n    command: {{ run: x }}\n", stage(0));
    assert!(issues(&each).contains("this pipeline has more than 100000 instances"));
}

#[test]
fn inputs_cannot_grow_without_bounds() {
    let values: Vec<_> = (0..1001).map(|value| value.to_string()).collect();
    let stage = |name, all| {
        let values = values.join(", ");
        format!("  {name}:\n    matrix: {{ x: [{values}] }}\n    command: {{ run: x, all: [{all}] }}\n")
    };
    let text = format!("name: m\nstages:\n{}{}", stage("a", ""), stage("b", "\"a[*]\""));
    let shown = issues(&text);
    assert!(
        shown.contains("the instances of this pipeline have more than 1000000 inputs together"),
        "{shown}"
    );
}

#[test]
fn only_the_first_misspelt_references_get_a_suggestion() {
    let stage =
        |number| format!("  s{number}: {{ command: {{ run: x, inputs: {{ from: t{number}_ }} }} }}\n");
    let text = format!("name: m\nstages:\n{}", (0..30).map(stage).collect::<String>());
    let shown = issues(&text);
    assert_eq!(shown.matches("there is no stage `t").count(), 30, "{shown}");
    assert_eq!(shown.matches("help: ").count(), 20, "{shown}");
}

#[test]
fn each_must_name_a_stage() {
    assert_shown!(issues(
        r#"
name: m
stages:
  a: { matrix: { x: [1, 2] }, command: { run: x } }
  b: { each: aa, command: { run: "${each}" } }
  c: { each: "a[x=3]", command: { run: x } }
  d: { each: a.out, command: { run: x } }
  e: { each: a, matrix: { x: [1] }, command: { run: x } }
  f: { each: [a], command: { run: x } }
"#
    ));
}

#[test]
fn placeholders_must_have_a_value() {
    let text = r#"
name: m
env: { SET: , UNSET: , COUNT: 3 }
vars: { rows: 5, list: [1], nest: { key: 1 }, bad: "${vars.rwos}" }
stages:
  a: { load: { dataset: "${vars.row}", rows: "${vars.nest.kee}" } }
  b: { load: { dataset: "${env.HOME}", rows: "${env.COUNT}" } }
  c: { load: { dataset: "x${vars.list}y ${env.UNSET}" } }
  d: { load: { dataset: "${matrix.seed} ${each}" } }
  e: { load: { dataset: "${var.x}", rows: "${vars.rows" } }
  f: { matrix: { seed: ["${matrix.x}"] }, load: { dataset: x } }
  g: { matrix: { seed: [1] }, load: { dataset: "${matrix.sed}${env.SETT}" } }
  h: { load: { dataset: "${vars.rows.deep}${each.model}" } }
  i: { load: { dataset: "${vars.bad}" } }
"#;
    let files: &[(&str, &[u8])] = &[("p.yaml", text.as_bytes())];
    assert_shown!(project_issues(files, &[], &[("SET", "1"), ("COUNT", "many")]));
}

#[test]
fn an_axis_must_name_a_key_of_the_variable() {
    assert_shown!(issues(
        r#"
name: m
vars: { rows: { small: 5 } }
stages:
  a: { matrix: { size: [smal] }, load: { dataset: x, rows: "${vars.rows[matrix.size]}" } }
  b: { matrix: { size: [small] }, load: { dataset: x, rows: "${vars.rows[matrix.sise]}" } }
  c: { load: { dataset: x, rows: "${vars.rows[matrix.size]}" } }
  d: { matrix: { size: [small] }, load: { dataset: x, rows: "${vars.rows[size]}" } }
"#
    ));
}

#[test]
fn a_secret_cannot_become_part_of_a_parameter() {
    for name in ["API_TOKEN", "db_password", "OPENAI_API_KEY", "PGPASSWORD", "MYSQL_PWD", "GITHUB_PAT"] {
        let text = format!(
            "name: m\nenv: {{ {name}: }}\nvars: {{ x: \"${{env.{name}}}\" }}\nstages:\n  a: {{ load: {{ dataset: x }} }}\n"
        );
        let shown = project_issues(&[("p.yaml", text.as_bytes())], &[], &[(name, "sk-1")]);
        assert!(shown.contains(&format!("the value of `{name}` would be readable")), "{shown}");
        assert!(shown.contains(&format!("`env: [{name}]` in the `command`")), "{shown}");
    }
    let text = "name: m\nenv: { SORT_KEY: , TOKENS: 3 }\nvars: { x: \"${env.SORT_KEY}${env.TOKENS}\" }\nstages:\n  a: { load: { dataset: x } }\n";
    let files: &[(&str, &[u8])] = &[("p.yaml", text.as_bytes())];
    for value in ["name", "https://host:8080/a@b", "https://me@host/a:b@c", "a:b@c"] {
        Project { files, set: &[], env: &[("SORT_KEY", value)] }.load().unwrap();
    }
    for value in ["https://me:secret@host/a", "db=postgres://me:s@host"] {
        let shown = project_issues(files, &[], &[("SORT_KEY", value)]);
        assert!(shown.contains("the value of `SORT_KEY` would be readable"), "{shown}");
        assert!(!shown.contains(value), "{shown}");
    }
}

#[test]
fn only_variables_that_exist_can_be_set() {
    let files: &[(&str, &[u8])] = &[("p.yaml", ABLATION.as_bytes())];
    let set = &["vars.epoch=3", "vars.seeds=[1, 1]", "vars.epochs.deep=2", "vars.epochs={"];
    assert_shown!(project_issues(files, set, &[]));
}

#[test]
fn issues_are_shown_in_the_file_that_has_them() {
    let files: &[(&str, &[u8])] = &[
        ("p/main.yaml", b"extends: base.yaml\nstages:\n  d: { load: { rows: x } }\n"),
        (
            "p/base.yaml",
            b"name: base\nstages:\n  d: { load: { dataset: [x] } }\n  e: { idf: { data: dd } }\n",
        ),
    ];
    assert_shown!(project_issues(files, &[], &[]));
}

#[test]
fn files_that_cannot_be_extended_are_named() {
    let files: &[(&str, &[u8])] = &[
        ("p/main.yaml", b"name: m\nextends: [missing.yaml, ../p/b.yaml]\nstages: {}\n"),
        ("p/b.yaml", b"extends: c.yaml\n"),
        ("p/c.yaml", b"extends: ./b.yaml\n"),
    ];
    assert_shown!(project_issues(files, &[], &[]));
    let wrong: &[(&str, &[u8])] = &[("main.yaml", b"extends: { a: b }\n")];
    assert_shown!(project_issues(wrong, &[], &[]));
}

#[test]
fn a_built_in_part_that_does_not_exist_is_reported_with_those_that_do() {
    let text = issues("name: m\nextends: builtin/bsae\n");
    assert!(
        text.contains("there is no built-in part `bsae`") && text.contains("did you mean `base`?"),
        "{text}"
    );
    let text = issues("name: m\nextends: builtin/other\n");
    assert!(text.contains("the built-in parts are: `base`, `twice`"), "{text}");
}

#[test]
fn an_issue_in_a_built_in_part_is_shown_with_its_name() {
    let text = issues("name: m\nextends: builtin/base\nvars: { set: [1] }\n");
    assert!(text.contains("builtin/base:4"), "{text}");
}

#[test]
fn outputs_stay_inside_the_project() {
    assert_shown!(issues(
        r#"
name: m
stages:
  a: { command: { run: a } }
  b: { matrix: { x: [1, 2] }, command: { run: b } }
  t: { table: { from: [a] } }
  ok: { load: { dataset: x } }
outputs:
  /etc/passwd: a
  ../up.txt: a
  cache/x.txt: a
  x.txt: b
  y.txt: aa
  results/m/same.txt: a
  same.txt: ok
  dir/file: a
  dir/file/inner: ok
  "": a
"#
    ));
}

#[test]
fn listed_outputs_must_not_collide() {
    assert_shown!(issues(
        r#"
name: m
stages:
  a: { command: { run: a } }
  b: { command: { run: b } }
outputs: [a, b, "x[", 5]
"#
    ));
    assert_shown!(issues(
        r#"
name: m
stages:
  a: { command: { run: a } }
  b: { command: { run: b } }
outputs: [a, b, c]
"#
    ));
}

#[test]
fn a_stage_with_issues_causes_none_in_others() {
    let text = issues(
        r#"
name: m
stages:
  d: { lod: { dataset: x } }
  i: { idf: { data: d } }
  m: { matrix: { x: [] }, command: { run: x } }
  e: { each: m, command: { run: "${each} ${matrix.x}" } }
  c: { command: { run: x, inputs: { from: "e[x=1]", other: "m[x=1]", d: d } } }
"#,
    );
    assert_eq!(text.matches("error:").count(), 2, "{text}");
}

#[test]
fn diagnostics_serialise_as_data() {
    let diagnostics = load_text("name: m\nstages:\n  d: { lod: { dataset: x } }\n").unwrap_err();
    let json = serde_json::to_value(&diagnostics).unwrap();
    assert_eq!(
        json,
        serde_json::json!([{
            "severity": "error",
            "message": "`lod` is neither a stage kind nor a key of a stage",
            "file": "p.yaml",
            "line": 3,
            "column": 8,
            "notes": [],
            "hint": "did you mean `load`?",
        }])
    );
}
