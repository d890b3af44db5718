//! Compares what a stage wrote with what it declared.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns a sentence if a declared output is missing or is a link. `directory` is the working directory of a command:
/// if something else is there, the sentence names it.
pub(super) fn check(outputs: &BTreeMap<String, PathBuf>, directory: &Path) -> Result<(), String> {
    let mut missing = Vec::new();
    for (name, path) in outputs {
        match path.symlink_metadata() {
            Ok(found) if found.is_symlink() => {
                return Err(format!(
                    "its output `{name}` is a symbolic link; write or copy the file itself to `{}`",
                    inside(path, directory).display()
                ));
            }
            Ok(_) => {}
            Err(_) => missing.push(format!("`{name}` (`{}`)", inside(path, directory).display())),
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let there = undeclared(outputs, directory);
    let instead = if there.is_empty() {
        "nothing else was written".to_owned()
    } else {
        format!("instead there is {}", listed(&there))
    };
    Err(format!("it succeeded but did not write what it declares: {}; {instead}", missing.join(", ")))
}

/// Returns the files and directories in the working directory of a command that it did not declare; directories end
/// with `/`. `in/` does not count.
pub(super) fn undeclared(outputs: &BTreeMap<String, PathBuf>, directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    collect(outputs, directory, directory, &mut found);
    found.sort_unstable();
    found
}

fn collect(outputs: &BTreeMap<String, PathBuf>, root: &Path, directory: &Path, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if outputs.values().any(|output| *output == path) || (directory == root && entry.file_name() == "in")
        {
            continue;
        }
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && outputs.values().any(|output| output.starts_with(&path)) {
            collect(outputs, root, &path, found);
        } else {
            let slash = if is_directory { "/" } else { "" };
            found.push(format!("{}{slash}", inside(&path, root).display()));
        }
    }
}

/// Returns a warning about undeclared files.
pub(super) fn warning(undeclared: &[String]) -> Option<String> {
    (!undeclared.is_empty()).then(|| {
        format!(
            "it also wrote {}, which it does not declare and which was not kept; \
             list it under `outputs`, or write it to $TMPDIR",
            listed(undeclared)
        )
    })
}

const LISTED: usize = 8;

fn listed(names: &[String]) -> String {
    let mut text = names.iter().take(LISTED).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > LISTED {
        text.push_str(&format!(" and {} more", names.len() - LISTED));
    }
    text
}

fn inside<'a>(path: &'a Path, directory: &Path) -> &'a Path {
    path.strip_prefix(directory).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory_with(files: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for file in files {
            let path = directory.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        directory
    }

    fn declared(directory: &tempfile::TempDir, paths: &[&str]) -> BTreeMap<String, PathBuf> {
        paths.iter().map(|path| (path.to_string(), directory.path().join(path))).collect()
    }

    #[test]
    fn undeclared_files_are_listed() {
        let directory =
            directory_with(&["in/data", "deep/table.csv", "deep/notes.txt", "log.txt", "junk/a", "model/w"]);
        let outputs = declared(&directory, &["deep/table.csv", "model"]);
        assert_eq!(check(&outputs, directory.path()), Ok(()));
        let found = undeclared(&outputs, directory.path());
        assert_eq!(found, ["deep/notes.txt", "junk/", "log.txt"]);
        assert!(warning(&found).unwrap().contains("`deep/notes.txt`, `junk/`, `log.txt`"));
        assert_eq!(warning(&[]), None);
    }

    #[test]
    fn a_missing_output_is_reported_with_what_is_there_instead() {
        let directory = directory_with(&["tabel.csv", "in/data"]);
        let error = check(&declared(&directory, &["table.csv"]), directory.path()).unwrap_err();
        assert!(error.contains("`table.csv`") && error.ends_with("instead there is `tabel.csv`"), "{error}");
    }

    #[test]
    fn a_link_is_not_an_output() {
        let directory = directory_with(&["in/data"]);
        std::os::unix::fs::symlink("in/data", directory.path().join("out")).unwrap();
        let error = check(&declared(&directory, &["out"]), directory.path()).unwrap_err();
        assert!(error.contains("symbolic link"), "{error}");
    }
}
