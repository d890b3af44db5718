//! Whose signatures count: those of results on a remote, of results in a bundle, and of witnesses.

use super::key::PublicKey;
use super::settings::TrustedWriters;

/// Whose signatures count.
#[derive(Debug, Clone, PartialEq)]
pub enum Trust {
    /// Those of these keys, in the order of preference.
    Keys(Vec<PublicKey>),
    /// Nobody looks at signatures.
    Anyone,
}

impl Trust {
    /// Returns whom a project trusts. The user's own key counts like those of the list.
    pub fn new(trusted: &TrustedWriters, own: Option<PublicKey>) -> Result<Self, String> {
        let TrustedWriters::Keys(lines) = trusted else { return Ok(Self::Anyone) };
        let mut keys = Vec::new();
        for (position, line) in lines.iter().enumerate() {
            let key =
                line.parse().map_err(|error| format!("entry {} of `trusted`: {error}", position + 1))?;
            keys.push(key);
        }
        keys.extend(own.filter(|own| !keys.contains(own)));
        Ok(Self::Keys(keys))
    }

    /// Checks that `writer` signed a text for a purpose. The error completes the sentence "it was refused: ...".
    pub fn check(&self, purpose: &str, text: &[u8], writer: &str, signature: &str) -> Result<(), String> {
        let Self::Keys(trusted) = self else { return Ok(()) };
        let mut keys = trusted.iter().filter(|key| key.name() == writer).peekable();
        if keys.peek().is_none() {
            return Err("its writer is not among the `trusted:` keys".to_owned());
        }
        if keys.any(|key| key.verifies(purpose, text, signature)) {
            Ok(())
        } else {
            Err("its signature is wrong: it was changed, or signed with another key than the trusted one"
                .to_owned())
        }
    }

    /// Returns whether a writer is trusted.
    pub fn knows(&self, writer: &str) -> bool {
        match self {
            Self::Keys(keys) => keys.iter().any(|key| key.name() == writer),
            Self::Anyone => true,
        }
    }
}
