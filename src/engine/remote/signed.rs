//! Signed manifests: a line with signatures, followed by the sealed manifest as the local store has it.
//!
//! ```text
//! {"signatures":{"alice":"<base64>"}}
//! {"blake3":"<digest of the next line>"}
//! {"key":"<stage key>", ...}
//! ```

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::key::{PublicKey, SigningKey};
use super::settings::Trust;
use crate::store::Store;
use crate::store::manifest::Manifest;
use pipe_core::digest::StageKey;

/// Comes before what is signed, so that a signature for another purpose can never be used for a manifest.
const PURPOSE: &[u8] = b"pipe manifest 1\n";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signatures {
    signatures: BTreeMap<String, String>,
}

/// A manifest that was read from a remote and may be used.
#[derive(Debug)]
pub(super) struct TrustedManifest {
    pub(super) writer: String,
    /// The sealed manifest.
    pub(super) text: Vec<u8>,
    pub(super) manifest: Manifest,
}

/// Returns the bytes of a signed manifest.
pub(super) fn sign(sealed: &[u8], key: &SigningKey) -> Vec<u8> {
    let signature = STANDARD.encode(key.sign(&message(sealed)));
    let signatures = Signatures { signatures: BTreeMap::from([(key.name().to_owned(), signature)]) };
    let mut text = serde_json::to_vec(&signatures).unwrap_or_default();
    text.push(b'\n');
    text.extend_from_slice(sealed);
    text
}

fn message(sealed: &[u8]) -> Vec<u8> {
    [PURPOSE, sealed].concat()
}

/// Returns the manifest that `writer` stored for `key`, or the reason why it must not be used, which completes the
/// sentence "the result was refused: ...".
///
/// Nothing of the manifest is looked at before its signature was checked.
pub(super) fn open(
    text: &[u8],
    key: StageKey,
    writer: &str,
    trust: &Trust,
) -> Result<TrustedManifest, String> {
    let end = text.iter().position(|&byte| byte == b'\n').ok_or("it is cut short")?;
    let (first, sealed) = (&text[..end], &text[end + 1..]);
    let signatures: Signatures =
        serde_json::from_slice(first).map_err(|_| "its first line has no signatures")?;
    if let Trust::Keys(trusted) = trust {
        check_signature(&signatures, sealed, writer, trusted)?;
    }
    let manifest = Store::read_record(sealed).map_err(|error| error.to_string())?;
    if manifest.key != key {
        return Err(format!("it is the result of another key, {}", manifest.key.short()));
    }
    Ok(TrustedManifest { writer: writer.to_owned(), text: sealed.to_owned(), manifest })
}

fn check_signature(
    signatures: &Signatures,
    sealed: &[u8],
    writer: &str,
    trusted: &[PublicKey],
) -> Result<(), String> {
    let mut keys = trusted.iter().filter(|key| key.name() == writer).peekable();
    if keys.peek().is_none() {
        return Err("its writer is not among the `trusted:` keys".to_owned());
    }
    let signature = signatures.signatures.get(writer).ok_or("it is not signed by its writer")?;
    let signature = STANDARD.decode(signature).map_err(|_| "its signature is not base64")?;
    let message = message(sealed);
    if keys.any(|key| key.verifies(&message, &signature)) {
        Ok(())
    } else {
        Err("its signature is wrong: it was changed, or signed with another key than the trusted one"
            .to_owned())
    }
}
