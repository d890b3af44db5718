//! The data sets that `pipe` knows by name: where their files are, what is in them, whom to cite.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::report::Format;

/// One known data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub name: String,
    pub title: String,
    pub format: Format,
    pub files: Vec<DataFile>,
    pub expected: Expected,
    pub citation: String,
    pub licence: String,
    /// What a user should know before believing the rest.
    #[serde(default)]
    pub note: Option<String>,
}

/// One file of a data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataFile {
    pub name: String,
    pub role: Role,
    pub url: String,
    /// Known for files that we have had in hand; recorded on first use otherwise.
    #[serde(default)]
    pub bytes: Option<u64>,
    #[serde(default)]
    pub blake3: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    Train,
    Test,
    /// All rows; they come without a split.
    All,
    /// The labels of the rows, where they are a file of their own.
    Labels,
    LabelXml,
    LabelNames,
    FeatureNames,
}

/// Published counts. `test_rows` is 0 for a set without a split of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    pub rows: u64,
    #[serde(default)]
    pub test_rows: u64,
    pub features: u64,
    pub labels: u64,
}

static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    serde_yaml::from_str(include_str!("registry.yaml"))
        .unwrap_or_else(|error| unreachable!("the shipped registry: {error}"))
});

/// Every known data set.
pub fn entries() -> &'static [Entry] {
    &ENTRIES
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no data set `{name}`{}; known are {}", did_you_mean(.nearest), known())]
pub struct UnknownDataSet {
    name: String,
    nearest: Option<String>,
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!(", did you mean `{name}`?")).unwrap_or_default()
}

fn known() -> String {
    entries().iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>().join(", ")
}

pub fn find(name: &str) -> Result<&'static Entry, UnknownDataSet> {
    entries().iter().find(|entry| entry.name == name).ok_or_else(|| {
        let distance = |entry: &Entry| strsim::damerau_levenshtein(&entry.name, &name.to_lowercase());
        let nearest =
            entries().iter().min_by_key(|entry| distance(entry)).filter(|entry| distance(entry) <= 3);
        UnknownDataSet { name: name.to_owned(), nearest: nearest.map(|entry| entry.name.clone()) }
    })
}

impl Entry {
    pub fn file(&self, role: Role) -> Option<&DataFile> {
        self.files.iter().find(|file| file.role == role)
    }

    pub fn file_named(&self, name: &str) -> Option<&DataFile> {
        self.files.iter().find(|file| file.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_is_sound() {
        assert_eq!(entries().len(), 8);
        for entry in entries() {
            let has = |role| entry.file(role).is_some();
            assert!(has(Role::Train) && has(Role::Test) || has(Role::All), "{}: no rows", entry.name);
            assert_eq!(has(Role::Test), entry.expected.test_rows > 0, "{}", entry.name);
            assert!(!entry.citation.is_empty() && !entry.licence.is_empty(), "{}", entry.name);
            for file in &entry.files {
                assert!(file.url.starts_with("https://"), "{}", file.url);
                assert!(file.url.ends_with(&format!("/{}", file.name)), "{}", file.url);
                assert!(!file.name.contains(['/', '\\']) && !file.name.starts_with('.'), "{}", file.name);
                assert_eq!(file.bytes.is_some(), file.blake3.is_some(), "{}", file.name);
                assert!(
                    file.blake3.as_ref().is_none_or(|hex| hex.parse::<pipe_core::digest::BlobId>().is_ok())
                );
            }
        }
    }

    #[test]
    fn a_name_that_is_nearly_right_is_suggested() {
        let message = find("BibTex").unwrap_err().to_string();
        assert!(message.contains("did you mean `bibtex`?") && message.contains("citeulike-t"), "{message}");
        assert!(!find("imagenet-21k").unwrap_err().to_string().contains("did you mean"));
    }
}
