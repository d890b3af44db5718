//! The settings of a remote, as a project or the environment gives them. They are never part of a key.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The section `remote:` of the project's settings: a mapping, or only the address.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
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
    /// How fast results can be fetched, in MB per second. A run does not upload what is computed faster than it is fetched.
    #[serde(default = "usual_bandwidth", deserialize_with = "positive")]
    pub bandwidth: f64,
}

impl<'de> Deserialize<'de> for RemoteSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AddressOrMapping;
        impl<'de> Visitor<'de> for AddressOrMapping {
            type Value = RemoteSettings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address, or a mapping with the field `url`")
            }

            fn visit_str<E>(self, url: &str) -> Result<RemoteSettings, E> {
                Ok(RemoteSettings::of_url(url.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RemoteSettings, A::Error> {
                // The derived function, which reads the fields.
                RemoteSettings::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_any(AddressOrMapping)
    }
}

fn usual_bandwidth() -> f64 {
    20.0
}

fn positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    value.as_f64().filter(|value| *value > 0.0).ok_or_else(|| {
        let written = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        D::Error::custom(format!("`bandwidth` is `{written}`, but a number of MB per second is expected"))
    })
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
        let (read, write) = (Policy::Always, Policy::Never);
        Self { url, read, write, trusted: TrustedWriters::default(), bandwidth: usual_bandwidth() }
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
