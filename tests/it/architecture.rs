//! What cargo cannot check: `pipe` starts without libtorch, and docs name tests that exist.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

#[test]
fn only_the_worker_loads_libtorch() {
    let libraries = |program: &str| {
        let ldd = Command::new("ldd").arg(program).output().expect("ldd comes with the C library");
        String::from_utf8(ldd.stdout).unwrap()
    };
    let pipe = libraries(env!("CARGO_BIN_EXE_pipe"));
    assert!(pipe.contains("libc.so"), "{pipe}");
    assert!(!pipe.contains("torch") && !pipe.contains("c10"), "pipe must start without libtorch:\n{pipe}");
    let worker = libraries(crate::support::worker_program().to_str().unwrap());
    assert!(worker.contains("libtorch_cpu.so => /"), "pipe-worker must find libtorch:\n{worker}");
}

#[test]
fn every_finding_of_the_first_campaign_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/faults.md")).unwrap();
    let (_, table) = page.split_once("## Findings of the first campaign and their tests").unwrap();
    let mut tests = BTreeSet::new();
    for directory in ["src", "tests"] {
        add_functions(&root.join(directory), &mut tests);
    }
    let mut findings = BTreeSet::new();
    for line in table.lines() {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let (Some(finding), Some(named)) = (cells.next(), cells.next()) else { continue };
        let Some((number, _)) = finding.split_once(':') else { continue };
        findings.insert(number.to_owned());
        let names: Vec<&str> =
            named.split('`').skip(1).step_by(2).filter(|name| name.contains('_')).collect();
        assert!(!names.is_empty() || ["L10", "L13"].contains(&number), "{number} has no test");
        for name in names {
            assert!(tests.contains(name), "docs/faults.md names the test `{name}`, which does not exist");
        }
    }
    let numbers = |letter: char, last: usize| (1..=last).map(move |number| format!("{letter}{number}"));
    let expected = numbers('H', 4).chain(numbers('M', 11)).chain(numbers('L', 18)).collect();
    assert_eq!(findings, expected, "every finding has a line");
}

/// Adds the names of all functions in the source files below a directory.
fn add_functions(directory: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_functions(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let functions =
                text.lines().filter_map(|line| line.trim_start().strip_prefix("fn ")?.split_once('('));
            names.extend(functions.map(|(name, _)| name.to_owned()));
        }
    }
}
