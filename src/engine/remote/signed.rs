//! Signed manifests: a line with signatures, followed by the sealed manifest as the local store has it.
//!
//! ```text
//! {"signatures":{"alice":"<base64>"}}
//! {"blake3":"<digest of the next line>"}
//! {"key":"<stage key>", ...}
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::key::SigningKey;
use super::trust::Trust;
use crate::store::Store;
use crate::store::manifest::Manifest;
use pipe_core::digest::StageKey;

/// What manifests are signed for, on a remote and in a bundle.
const PURPOSE: &str = "pipe manifest 1";

/// Signatures of a sealed manifest, by the name of the writer.
pub type Signatures = BTreeMap<String, String>;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstLine {
    signatures: Signatures,
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
    let first = FirstLine { signatures: signatures_of(sealed, key) };
    let mut text = serde_json::to_vec(&first).unwrap_or_default();
    text.push(b'\n');
    text.extend_from_slice(sealed);
    text
}

/// Returns the signature of a sealed manifest.
pub fn signatures_of(sealed: &[u8], key: &SigningKey) -> Signatures {
    BTreeMap::from([(key.name().to_owned(), key.sign(PURPOSE, sealed))])
}

/// Returns whether a trusted key signed a sealed manifest. A wrong signature of a trusted writer is an error, which completes the
/// sentence "it was refused: ...".
pub fn is_signed(sealed: &[u8], signatures: &Signatures, trust: &Trust) -> Result<bool, String> {
    let known = signatures.iter().filter(|(writer, _)| trust.knows(writer));
    let checked = known.map(|(writer, signature)| trust.check(PURPOSE, sealed, writer, signature));
    let checked: Vec<()> = checked.collect::<Result<_, _>>()?;
    Ok(!checked.is_empty())
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
    let FirstLine { signatures } =
        serde_json::from_slice(first).map_err(|_| "its first line has no signatures")?;
    if *trust != Trust::Anyone {
        let signature = signatures.get(writer).ok_or("it is not signed by its writer")?;
        trust.check(PURPOSE, sealed, writer, signature)?;
    }
    let manifest = Store::read_record(sealed).map_err(|error| error.to_string())?;
    if manifest.key != key {
        return Err(format!("it is the result of another key, {}", manifest.key.short()));
    }
    Ok(TrustedManifest { writer: writer.to_owned(), text: sealed.to_owned(), manifest })
}
