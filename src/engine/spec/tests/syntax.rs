//! Text that is not valid YAML, and YAML features that the pipeline language does not have.

use crate::spec::test_kinds::{Project, issues, loaded, names};

fn issues_of_bytes(bytes: &[u8]) -> String {
    let files: &[(&str, &[u8])] = &[("p.yaml", bytes)];
    Project { files, set: &[], env: &[] }.load().unwrap_err().render(false)
}

#[test]
fn a_file_that_is_not_a_map_is_rejected() {
    assert_shown!(
        [issues(""), issues("# only a comment\n"), issues("- a\n- b\n"), issues("just text")].join("\n")
    );
}

#[test]
fn broken_yaml_comes_with_advice() {
    let cases = [
        "name: m\nstages:\n\td: { load: { dataset: x } }\n",
        "name: m\nstages:\n  d:\n    load: { dataset: x }\n   e: 1\n",
        "name: m\nstages: { d: { load: { dataset: ${vars.x} } } }\n",
        "name: m\nstages: { d: { table: { from: eval[*] } } }\n",
        "name: m: n\n",
        "name: \"m\nstages: {}\n",
        "name: m\nstages: { d: { load: { dataset: x }\n",
        "name: m\n---\nname: n\n",
        "name: @m\n",
    ];
    assert_shown!(cases.map(issues).join("\n"));
}

#[test]
fn unsupported_yaml_is_rejected_with_an_alternative() {
    assert_shown!(issues(
        r#"
name: &n m
vars: { a: *n, b: !!str 5, c: !thing x }
stages: {}
"#
    ));
    assert_shown!(issues(
        r#"
name: m
vars: { <<: { a: 1 }, big: 99999999999999999999, inf: .inf, far: 1e999 }
stages:
  d: { load: { dataset: x, dataset: y } }
  d: { load: { dataset: z } }
name: n
"#
    ));
    assert_shown!(issues("name: m\n? { a: b }\n: c\n"));
}

#[test]
fn a_file_that_is_not_utf8_is_rejected() {
    assert_shown!(issues_of_bytes(b"name: m\nvars: { a: caf\xe9 }\n"));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let environment = |_: &str| None;
    let request = crate::spec::LoadRequest {
        file: "no/such/file.yaml".into(),
        overrides: Vec::new(),
        environment: &environment,
        find_interpreter: &|_| Ok(None),
        parts: &[],
    };
    let text = crate::spec::load(&request, &[]).unwrap_err().render(false);
    assert!(text.starts_with("error: cannot read this file: No such file"), "{text}");
    assert!(text.contains("--> no/such/file.yaml"), "{text}");
}

#[test]
fn byte_order_marks_and_line_ends_do_not_matter() {
    let text = "\u{feff}name: m\r\nstages:\r\n  d: { load: { dataset: x } }\r\n";
    assert_eq!(names(&loaded(text)), ["d"]);
    let text = issues("\u{feff}name: m\r\nstages:\r\n  d: { lod: { dataset: x } }\r\n");
    assert!(text.contains("p.yaml:3:8"), "{text}");
    assert!(!text.contains('\r'));
}

#[test]
fn deep_nesting_is_rejected() {
    let text = format!("name: m\nvars: {}{}\n", "[".repeat(100_000), "]".repeat(100_000));
    assert!(issues(&text).contains("nested more than 64 deep"));
    let block: String = (0..500).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert!(issues(&block).contains("nested more than 64 deep"));
}

#[test]
fn a_huge_file_is_rejected() {
    let text = "#".repeat((16 << 20) + 1);
    assert!(issues(&text).contains("too large for a pipeline"));
}

#[test]
fn variables_cannot_fill_the_memory() {
    let mut text = "name: m\nstages: {}\nvars:\n  v0: [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        let inner = format!("\"${{vars.v{}}}\"", level - 1);
        text.push_str(&format!("  v{level}: [{}]\n", vec![inner; 10].join(", ")));
    }
    assert!(issues(&text).contains("the pipeline is too large"));
}

#[test]
fn a_long_chain_of_variables_is_rejected() {
    let mut text = "name: m\nstages: {}\nvars:\n".to_owned();
    for number in 0..10_000 {
        text.push_str(&format!("  v{number}: \"${{vars.v{}}}\"\n", number + 1));
    }
    text.push_str("  v10000: 1\n");
    assert!(issues(&text).contains("more than 64 deep"));
}

#[test]
fn a_file_full_of_mistakes_shows_the_first_hundred() {
    let mut text = "name: m\nstages:\n".to_owned();
    for number in 0..150 {
        text.push_str(&format!("  s{number}: {{ nothing{number}: 1 }}\n"));
    }
    let text = issues(&text);
    assert_eq!(text.matches("error:").count(), 100);
    assert!(text.contains("50 more issues are not shown"));
}
