//! The settings of a remote, as a project or the environment gives them. They are never part of a key.

use serde::Deserialize;

use super::key::PublicKey;

/// The section `remote:` of the project's settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteSettings {
    /// A directory, `https://...` or `s3://bucket/prefix`.
    pub url: String,
    /// Whether runs take results.
    #[serde(default = "always")]
    pub read: Policy,
    /// Whether runs upload results.
    #[serde(default)]
    pub write: Policy,
    /// Whose results are used.
    #[serde(default)]
    pub trusted: TrustedWriters,
}

/// Whether a run uses the remote in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    #[default]
    Never,
    Always,
}

fn always() -> Policy {
    Policy::Always
}

impl RemoteSettings {
    /// Returns the settings of a remote that is read, never written, and trusts nobody.
    pub fn of_url(url: String) -> Self {
        Self { url, read: Policy::Always, write: Policy::Never, trusted: TrustedWriters::default() }
    }
}

/// The field `trusted:`: lines that `pipe key show` prints, or the word `anyone`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "`trusted` is a list of keys, as `pipe key show` prints them, or the word `anyone`"
)]
pub enum TrustedWriters {
    Keys(Vec<String>),
    Anyone(Anyone),
}

impl Default for TrustedWriters {
    fn default() -> Self {
        Self::Keys(Vec::new())
    }
}

/// The word `anyone`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Anyone {
    Anyone,
}

/// Whose results may be used.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Trust {
    /// In the order of preference.
    Keys(Vec<PublicKey>),
    Anyone,
}

impl TrustedWriters {
    pub(super) fn parse(&self) -> Result<Trust, String> {
        let Self::Keys(lines) = self else { return Ok(Trust::Anyone) };
        let mut keys = Vec::new();
        for (position, line) in lines.iter().enumerate() {
            let key =
                line.parse().map_err(|error| format!("entry {} of `trusted`: {error}", position + 1))?;
            keys.push(key);
        }
        Ok(Trust::Keys(keys))
    }
}
