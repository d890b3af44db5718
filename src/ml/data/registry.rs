//! The data sets that `pipe` knows by name: their files, their sizes, their citations.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use pipe_core::suggest;

use super::format::Format;

/// A known data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownDataSet {
    pub name: String,
    pub title: String,
    pub format: Format,
    pub files: Vec<DataFile>,
    pub expected: Expected,
    pub citation: String,
    pub licence: String,
    /// What a user should know before relying on the data set.
    #[serde(default)]
    pub note: Option<String>,
}

/// A file of a data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataFile {
    pub name: String,
    pub role: FileRole,
    pub url: String,
    /// Other addresses of the same content.
    #[serde(default)]
    pub mirrors: Vec<String>,
    /// The length, for files whose checksum is known. For other files, it is recorded at first use.
    #[serde(default)]
    pub bytes: Option<u64>,
    #[serde(default)]
    pub blake3: Option<String>,
}

impl DataFile {
    /// Returns the addresses of the file in the order in which they are tried.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        [&self.url].into_iter().chain(&self.mirrors).map(String::as_str)
    }
}

/// What a file contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileRole {
    Train,
    Test,
    /// All rows, without a split.
    All,
    /// The labels of the rows, if they are in a file of their own.
    Labels,
    /// The Mulan XML file that names the labels.
    LabelXml,
    LabelNames,
    FeatureNames,
}

/// Published counts. `test_rows` is 0 for a data set without a published split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    pub rows: u64,
    #[serde(default)]
    pub test_rows: u64,
    pub features: u64,
    pub labels: u64,
}

static ENTRIES: LazyLock<Vec<KnownDataSet>> = LazyLock::new(|| {
    serde_yaml::from_str(include_str!("registry.yaml"))
        .unwrap_or_else(|error| unreachable!("the registry is invalid: {error}"))
});

/// Returns all known data sets.
pub fn entries() -> &'static [KnownDataSet] {
    &ENTRIES
}

/// The error for a name that is not in the registry.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no data set `{name}`{}; the known data sets are {}", did_you_mean(.name), known())]
pub struct UnknownDataSet {
    name: String,
}

fn did_you_mean(name: &str) -> String {
    suggest::in_brackets(name, entries().iter().map(|entry| entry.name.as_str()))
}

fn known() -> String {
    entries().iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Returns the data set with a name.
pub fn find(name: &str) -> Result<&'static KnownDataSet, UnknownDataSet> {
    let found = entries().iter().find(|entry| entry.name == name);
    found.ok_or_else(|| UnknownDataSet { name: name.to_owned() })
}

impl KnownDataSet {
    /// Returns the first file with a role.
    pub fn file(&self, role: FileRole) -> Option<&DataFile> {
        self.files.iter().find(|file| file.role == role)
    }

    /// Returns the file with a name.
    pub fn file_named(&self, name: &str) -> Option<&DataFile> {
        self.files.iter().find(|file| file.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_is_consistent() {
        assert_eq!(entries().len(), 8);
        for entry in entries() {
            let has = |role| entry.file(role).is_some();
            assert!(
                has(FileRole::Train) && has(FileRole::Test) || has(FileRole::All),
                "{}: no rows",
                entry.name
            );
            assert_eq!(has(FileRole::Test), entry.expected.test_rows > 0, "{}", entry.name);
            assert!(!entry.citation.is_empty() && !entry.licence.is_empty(), "{}", entry.name);
            for file in &entry.files {
                for url in file.sources() {
                    assert!(
                        url.starts_with("https://") && url.ends_with(&format!("/{}", file.name)),
                        "{url}"
                    );
                }
                assert!(!file.name.contains(['/', '\\']) && !file.name.starts_with('.'), "{}", file.name);
                assert_eq!(file.bytes.is_some(), file.blake3.is_some(), "{}", file.name);
                assert!(
                    file.blake3.as_ref().is_none_or(|hex| hex.parse::<pipe_core::digest::BlobId>().is_ok())
                );
            }
        }
    }

    #[test]
    fn a_similar_name_is_suggested() {
        let message = find("BibTex").unwrap_err().to_string();
        assert!(message.contains("did you mean `bibtex`?") && message.contains("citeulike-t"), "{message}");
        assert!(!find("imagenet-21k").unwrap_err().to_string().contains("did you mean"));
    }
}
