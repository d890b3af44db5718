//! Text that is not YAML, or more YAML than the language has.

use crate::spec::test_kinds::{Project, loaded, names, problems};

fn bytes_problems(bytes: &[u8]) -> String {
    let files: &[(&str, &[u8])] = &[("p.yaml", bytes)];
    Project { files, set: &[], env: &[] }.load().unwrap_err().render(false)
}

#[test]
fn what_is_not_a_map_is_no_pipeline() {
    assert_shown!(
        [problems(""), problems("# only a comment\n"), problems("- a\n- b\n"), problems("just text")]
            .join("\n")
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
    assert_shown!(cases.map(problems).join("\n"));
}

#[test]
fn yaml_beyond_the_language_is_refused_with_a_way_out() {
    assert_shown!(problems(
        r#"
name: &n m
vars: { a: *n, b: !!str 5, c: !thing x }
stages: {}
"#
    ));
    assert_shown!(problems(
        r#"
name: m
vars: { <<: { a: 1 }, big: 99999999999999999999, inf: .inf, far: 1e999 }
stages:
  d: { load: { dataset: x, dataset: y } }
  d: { load: { dataset: z } }
name: n
"#
    ));
    assert_shown!(problems("name: m\n? { a: b }\n: c\n"));
}

#[test]
fn what_is_not_utf8_is_said_to_be_so() {
    assert_shown!(bytes_problems(b"name: m\nvars: { a: caf\xe9 }\n"));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let environment = |_: &str| None;
    let request = crate::spec::Request {
        file: "no/such/file.yaml".into(),
        overrides: Vec::new(),
        environment: &environment,
    };
    let text = crate::spec::load(&request, &[]).unwrap_err().render(false);
    assert!(text.starts_with("error: cannot read this file: No such file"), "{text}");
    assert!(text.contains("--> no/such/file.yaml"), "{text}");
}

#[test]
fn byte_order_marks_and_line_ends_do_not_matter() {
    let text = "\u{feff}name: m\r\nstages:\r\n  d: { load: { dataset: x } }\r\n";
    assert_eq!(names(&loaded(text)), ["d"]);
    let text = problems("\u{feff}name: m\r\nstages:\r\n  d: { lod: { dataset: x } }\r\n");
    assert!(text.contains("p.yaml:3:8"), "{text}");
    assert!(!text.contains('\r'));
}

#[test]
fn deep_nesting_is_refused() {
    let text = format!("name: m\nvars: {}{}\n", "[".repeat(100_000), "]".repeat(100_000));
    assert!(problems(&text).contains("nested more than 64 deep"));
    let block: String = (0..500).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert!(problems(&block).contains("nested more than 64 deep"));
}

#[test]
fn a_huge_file_is_refused() {
    let text = "#".repeat((16 << 20) + 1);
    assert!(problems(&text).contains("too large for a pipeline"));
}

#[test]
fn variables_cannot_fill_the_memory() {
    let mut text = "name: m\nstages: {}\nvars:\n  v0: [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        let inner = format!("\"${{vars.v{}}}\"", level - 1);
        text.push_str(&format!("  v{level}: [{}]\n", vec![inner; 10].join(", ")));
    }
    assert!(problems(&text).contains("the pipeline is too large"));
}

#[test]
fn a_long_chain_of_variables_is_refused() {
    let mut text = "name: m\nstages: {}\nvars:\n".to_owned();
    for number in 0..10_000 {
        text.push_str(&format!("  v{number}: \"${{vars.v{}}}\"\n", number + 1));
    }
    text.push_str("  v10000: 1\n");
    assert!(problems(&text).contains("more than 64 deep"));
}

#[test]
fn a_file_full_of_mistakes_shows_the_first_hundred() {
    let mut text = "name: m\nstages:\n".to_owned();
    for number in 0..150 {
        text.push_str(&format!("  s{number}: {{ nothing{number}: 1 }}\n"));
    }
    let text = problems(&text);
    assert_eq!(text.matches("error:").count(), 100);
    assert!(text.contains("50 more problems are not shown"));
}
