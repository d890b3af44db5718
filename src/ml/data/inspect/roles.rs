//! Which file contains what.

use std::path::{Path, PathBuf};

use crate::data::compress::InputFile;
use crate::data::error::DataError;

/// What a file contains. The names are those of the fields of `files:` in a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileRole {
    Train,
    Test,
    Rows,
    TrainLabels,
    TestLabels,
    Labels,
    TrainSplit,
    TestSplit,
    LabelXml,
    LabelNames,
    FeatureNames,
}

impl FileRole {
    const ALL: [Self; 11] = [
        Self::Train,
        Self::Test,
        Self::Rows,
        Self::TrainLabels,
        Self::TestLabels,
        Self::Labels,
        Self::TrainSplit,
        Self::TestSplit,
        Self::LabelXml,
        Self::LabelNames,
        Self::FeatureNames,
    ];

    /// Returns the name of the field of `files:`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Test => "test",
            Self::Rows => "rows",
            Self::TrainLabels => "train_labels",
            Self::TestLabels => "test_labels",
            Self::Labels => "labels",
            Self::TrainSplit => "train_split",
            Self::TestSplit => "test_split",
            Self::LabelXml => "label_xml",
            Self::LabelNames => "label_names",
            Self::FeatureNames => "feature_names",
        }
    }

    /// Returns the role with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// A file, with its role if the user states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenFile {
    pub role: Option<FileRole>,
    pub path: PathBuf,
}

/// Gives every file a role: the stated one, or the one that its name and its content suggest.
pub(super) fn assign(files: &[GivenFile]) -> Result<Vec<(FileRole, PathBuf)>, DataError> {
    let mut assigned = Vec::with_capacity(files.len());
    for file in files {
        let role = match file.role {
            Some(role) => role,
            None => suggested(&file.path)?,
        };
        assigned.push((role, file.path.clone()));
    }
    // Without a counterpart, a file is all there is, whatever its name.
    let has = |assigned: &[(FileRole, PathBuf)], role| assigned.iter().any(|(found, _)| *found == role);
    let rename = |assigned: &mut Vec<(FileRole, PathBuf)>, from, to| {
        for (file, (role, _)) in files.iter().zip(assigned) {
            if *role == from && file.role.is_none() {
                *role = to;
            }
        }
    };
    let (train, test) = (has(&assigned, FileRole::Train), has(&assigned, FileRole::Test));
    if test && !train {
        let (rows, labels) = if has(&assigned, FileRole::Rows) {
            ((FileRole::Rows, FileRole::Train), (FileRole::Labels, FileRole::TrainLabels))
        } else {
            ((FileRole::Test, FileRole::Rows), (FileRole::TestLabels, FileRole::Labels))
        };
        rename(&mut assigned, rows.0, rows.1);
        rename(&mut assigned, labels.0, labels.1);
    } else if train && !test && !has(&assigned, FileRole::Rows) {
        rename(&mut assigned, FileRole::Train, FileRole::Rows);
        rename(&mut assigned, FileRole::TrainLabels, FileRole::Labels);
    }
    let is_twice = |at: &usize| assigned[..*at].iter().any(|(role, _)| *role == assigned[*at].0);
    let twice = (0..assigned.len()).find(is_twice);
    let both = has(&assigned, FileRole::Rows) && has(&assigned, FileRole::Train);
    if twice.is_none() && !both {
        return Ok(assigned);
    }
    let seen: Vec<String> =
        assigned.iter().map(|(role, path)| format!("  {}={}", role.name(), path.display())).collect();
    Err(DataError::Request(format!(
        "it is unclear what each file contains. Their names suggest\n{}\nSay it with `--data ROLE=FILE ...`, for example \
         `--data train=a.csv test=b.csv`. The roles are {}",
        seen.join("\n"),
        FileRole::ALL.map(FileRole::name).join(", ")
    )))
}

fn suggested(path: &Path) -> Result<FileRole, DataError> {
    let input = InputFile::open(path, 1)?;
    let head = input.head();
    if head.trim_ascii_start().starts_with(b"<") {
        return Ok(FileRole::LabelXml);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let words: Vec<&str> = name.split(|c: char| !c.is_alphanumeric()).collect();
    let any = |candidates: &[&str]| words.iter().any(|word| candidates.contains(word));
    // A table has its labels in a column, so only arrays and lines of indices are split over two files.
    let is_table = any(&["csv", "tsv", "jsonl", "json", "arff", "svm", "libsvm"]);
    if any(&["names", "vocab", "vocabulary"]) && any(&["label", "labels"]) {
        return Ok(FileRole::LabelNames);
    }
    if any(&["names", "vocab", "vocabulary"]) && any(&["feature", "features"]) {
        return Ok(FileRole::FeatureNames);
    }
    let labels = !is_table && any(&["y", "label", "labels", "target", "targets", "tags", "ytrain", "ytest"]);
    let role = if name.contains("train") {
        if labels { FileRole::TrainLabels } else { FileRole::Train }
    } else if name.contains("test") {
        if labels { FileRole::TestLabels } else { FileRole::Test }
    } else if labels {
        FileRole::Labels
    } else {
        FileRole::Rows
    };
    Ok(role)
}
