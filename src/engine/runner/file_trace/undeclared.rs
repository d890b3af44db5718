//! The undeclared files of a command, and what to write into the pipeline.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The files that a command used without declaring them. Paths in the project are relative to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndeclaredFiles {
    pub read: Vec<String>,
    /// Files outside of the working directory that were written, and that are still there.
    pub written: Vec<String>,
}

const LISTED: usize = 8;
/// If this many files of a directory are read, the directory is the input to declare.
const MANY: usize = 4;

/// Returns the first paths of a list for a sentence.
pub fn listed(paths: &[String]) -> String {
    let mut text = paths.iter().take(LISTED).map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
    if paths.len() > LISTED {
        text.push_str(&format!(" and {} more", paths.len() - LISTED));
    }
    text
}

impl UndeclaredFiles {
    /// Returns the sentence for a stage that fails because of the files that it read. `taken` are the names of its inputs.
    pub(in super::super) fn failure(&self, taken: &[&str]) -> String {
        let lines = input_lines(&self.read, taken);
        let hint = if self.read.iter().any(|path| path.starts_with("results/")) {
            " (for an output of a stage, write the stage: `NAME: STAGE`)"
        } else {
            ""
        };
        format!(
            "it read {}, which it does not declare, so that a change would not be noticed; its result was not kept. \
             Add to its `inputs:`{hint}\n    {}",
            listed(&self.read),
            lines.join("\n    ")
        )
    }
}

/// Returns the lines under `inputs:` that declare these files. `taken` are the names of the inputs that the stage has.
pub fn input_lines(paths: &[String], taken: &[&str]) -> Vec<String> {
    let directory = |path: &str| path.rsplit_once('/').map_or("", |(directory, _)| directory).to_owned();
    let mut files: BTreeMap<String, Vec<&String>> = BTreeMap::new();
    for path in paths {
        files.entry(directory(path)).or_default().push(path);
    }
    let mut taken: BTreeSet<String> = taken.iter().map(|name| variable(name)).collect();
    let mut lines = Vec::new();
    for (directory, files) in files {
        let declared = if files.len() >= MANY && !directory.is_empty() { vec![&directory] } else { files };
        for path in declared {
            lines.push(format!("{}: {{ file: {} }}", free_name(path, &mut taken), yaml(path)));
        }
    }
    lines
}

/// Returns a name for the input that no other input has.
fn free_name(path: &str, taken: &mut BTreeSet<String>) -> String {
    let stem =
        Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String =
        stem.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).chars().map(plain).collect();
    let name = if name.is_empty() { "file".to_owned() } else { name };
    let mut free = name.clone();
    let mut number = 2;
    while !taken.insert(variable(&free)) {
        free = format!("{name}_{number}");
        number += 1;
    }
    free
}

/// Returns the name as in `$PIPE_IN_<NAME>`, which has to be unique.
fn variable(name: &str) -> String {
    name.to_ascii_uppercase().replace('-', "_")
}

/// Returns a path as YAML, in quotes if it needs them.
fn yaml(path: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+');
    if path.chars().all(is_plain) && path.starts_with(|c: char| c.is_alphabetic() || c == '/' || c == '.') {
        return path.to_owned();
    }
    serde_json::to_string(path).unwrap_or_else(|_| format!("{path:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(paths: &[&str], taken: &[&str]) -> Vec<String> {
        input_lines(&paths.iter().map(|path| path.to_string()).collect::<Vec<_>>(), taken)
    }

    #[test]
    fn every_line_has_a_valid_name_of_its_own() {
        let found = lines(&["a/my data.csv", "b/data.csv", "c/data.txt", "2024.csv"], &["DATA"]);
        assert_eq!(
            found,
            [
                "file: { file: \"2024.csv\" }",
                "my_data: { file: \"a/my data.csv\" }",
                "data_2: { file: b/data.csv }",
                "data_3: { file: c/data.txt }",
            ]
        );
    }

    #[test]
    fn many_files_of_a_directory_are_one_line() {
        let found = lines(&["x.csv", "raw/1.csv", "raw/2.csv", "raw/3.csv", "raw/4.csv"], &[]);
        assert_eq!(found, ["x: { file: x.csv }", "raw: { file: raw }"]);
        assert_eq!(listed(&["a".to_owned(), "b".to_owned()]), "`a`, `b`");
    }
}
