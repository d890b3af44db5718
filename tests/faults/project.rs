//! The two pipelines that faults are injected into, and the files that their users write and read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Which pipeline a trial runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pipeline {
    /// Commands: files, directories, an output that is a file for some versions of the data and a directory for others, fan-in,
    /// three stages with the same key, and a stage whose inputs stay the same when the data change. The commands use nothing that hides a failing system
    /// call: no command substitution and no pipe.
    Commands,
    /// A network that is trained in `pipe-worker`, with a checkpoint after every epoch.
    Training,
}

/// The version of the data that a project begins with. An edit makes it version 1 or 2.
pub const FIRST_VERSION: u32 = 0;

const COMMANDS: &str = r#"
name: faults
stages:
  words: { command: { run: "PAUSE cat in/a in/b > words.txt", inputs: { a: { file: data/a.txt }, b: { file: data/b.txt } }, outputs: [words.txt] } }
  tree: { command: { run: "mkdir tree; cp -r in/tree/. tree; mkdir tree/empty; ln -s x tree/link; chmod +x tree/x", inputs: { tree: { file: data/tree } }, outputs: [tree] } }
  part:
    matrix: { n: [1, 2, 3] }
    command: { run: "PAUSE sort -n in/words > part.txt; echo ${matrix.n} >> part.txt", inputs: { words: words }, outputs: [part.txt] }
  same: { matrix: { n: [1, 2, 3] }, command: { run: "PAUSE sed -n 2p in/words > same.txt", inputs: { words: words }, outputs: [same.txt] } }
  first: { command: { run: "sed -n 1p in/words > first.txt", inputs: { words: words }, outputs: [first.txt] } }
  after: { command: { run: "cat in/first > after.txt", inputs: { first: first }, outputs: [after.txt] } }
  held: { command: { run: "sh -c 'while [ -e HOLD ]; do sleep 0.02; done'; cat in/b > held.txt", inputs: { b: { file: data/b.txt } }, outputs: [held.txt] } }
  shape: { command: { run: ". ./in/script", inputs: { script: { file: data/shape.sh } }, outputs: [shape] } }
  all: { command: { run: "cat in/parts/* in/same/* in/tree/sub/y in/after in/held > all.txt", inputs: { parts: ["part[*]"], same: ["same[*]"], tree: tree, after: after, held: held }, outputs: [all.txt] } }
outputs: [all, tree, first, shape]
"#;

const TRAINING: &str = r#"
name: training
stages:
  data: { synthetic: { rows: 300, test_rows: 60, features: 100, labels: 12, labels_per_row: 2, features_per_row: 10, seed: VERSION } }
  idf: { idf: { data: data } }
  train: { train: { data: data, idf: idf, preset: honest, epochs: 12, batch: 32, net: { hidden: [8] }, device: cpu, checkpoint: { epochs: 1, minutes: 0.0001 } } }
  eval: { evaluate: { data: data, model: train } }
outputs: { model/: train.model, eval/: eval }
"#;

impl Pipeline {
    /// Writes the pipeline file and the data of a version. The commands wait `pause` seconds where their inputs matter,
    /// and the stage `held` waits until the file `hold` is removed.
    pub fn write(self, project: &Path, file: &str, hold: &Path, version: u32, pause: f64) -> Result<()> {
        let pause = if pause > 0.0 { format!("sleep {pause:.3};") } else { String::new() };
        let text = match self {
            Self::Commands => COMMANDS.replace("PAUSE ", &pause).replace("HOLD", &hold.to_string_lossy()),
            Self::Training => TRAINING.replace("VERSION", &version.to_string()),
        };
        write_if_changed(&project.join(file), &text)?;
        for (name, content) in self.data(version) {
            let path = project.join(name);
            std::fs::create_dir_all(path.parent().unwrap_or(project))?;
            write_if_changed(&path, &content)?;
        }
        Ok(())
    }

    /// Returns the input files of a version. The first line and `b.txt` are the same in all of them.
    pub fn data(self, version: u32) -> Vec<(&'static str, String)> {
        if self == Self::Training {
            return Vec::new();
        }
        let shape = if version == 1 { "mkdir shape; echo inner > shape/inner" } else { "echo outer > shape" };
        let line = |n: u32| format!("{} of version {version}\n", n * 7919 % 1000);
        vec![
            ("data/a.txt", std::iter::once("0 first\n".to_owned()).chain((1..200).map(line)).collect()),
            ("data/b.txt", "1000 last\n".to_owned()),
            ("data/tree/x", "x is the same in every version\n".to_owned()),
            ("data/tree/sub/y", format!("y of version {version}\n")),
            ("data/shape.sh", format!("# version {version}\n{shape}\n")),
        ]
    }

    /// Returns the directories with the results, relative to the project.
    pub fn placed(self) -> &'static [&'static str] {
        match self {
            Self::Commands => &["results"],
            Self::Training => &["model", "eval"],
        }
    }

    /// Returns the names that a project may contain after a run.
    pub fn may_contain(self, name: &str) -> bool {
        ["pipeline.yaml", "pipeline.lock", "renamed.yaml", "renamed.lock", "cache", "data", "engines"]
            .contains(&name)
            || self.placed().contains(&name)
    }

    /// Returns everything that was placed: the content of files, `/` for directories, the target of links.
    pub fn results(self, project: &Path) -> Result<Files> {
        let mut found = Files::new();
        for name in self.placed() {
            collect(project, Path::new(name), &mut found)?;
        }
        Ok(found)
    }
}

/// Files by relative path.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Reads everything below a directory.
pub fn collect(root: &Path, below: &Path, found: &mut Files) -> Result<()> {
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::PermissionsExt;
    let path = root.join(below);
    let Ok(metadata) = std::fs::symlink_metadata(&path) else { return Ok(()) };
    let content = if metadata.is_dir() {
        for entry in std::fs::read_dir(&path)? {
            collect(root, &below.join(entry?.file_name()), found)?;
        }
        b"/".to_vec()
    } else if metadata.is_symlink() {
        std::fs::read_link(&path)?.into_os_string().into_vec()
    } else if metadata.is_file() {
        let mut content = std::fs::read(&path)?;
        content.push(u8::from(metadata.permissions().mode() & 0o100 != 0));
        content
    } else {
        b"?".to_vec()
    };
    found.insert(below.to_owned(), content);
    Ok(())
}

/// Writes a file as an editor does, but leaves a file alone that has this text.
fn write_if_changed(path: &Path, text: &str) -> Result<()> {
    if std::fs::read(path).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(());
    }
    std::fs::write(path, text)?;
    Ok(())
}
