//! Small JSON files whose first line holds the blake3 of the rest, so that every flipped bit and every torn write is
//! noticed. The first line is JSON, too: `jq` reads such a file as two values.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::{is_passing, read_twice};
use pipe_core::digest::Digest;

const BEFORE: &str = "{\"blake3\":\"";
const AFTER: &str = "\"}\n";
const BODY: usize = BEFORE.len() + 64 + AFTER.len();

/// Why a sealed file has no value.
#[derive(Debug)]
pub(super) enum Unsealed {
    Missing,
    /// It was read, or it can never be read, and is not what was written.
    Damaged(String),
    /// It is what was written, but this version of `pipe` does not understand it.
    Foreign(String),
    /// It could not be read at the moment, and may be undamaged.
    Unreadable(io::Error),
}

/// Returns the value as the bytes of a sealed file.
pub(super) fn encode(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut body = serde_json::to_vec(value)?;
    body.push(b'\n');
    let mut text = format!("{BEFORE}{}{AFTER}", Digest::of(&body)).into_bytes();
    text.append(&mut body);
    Ok(text)
}

/// Returns the value of a sealed file, or what is wrong with it.
pub(super) fn decode<T: DeserializeOwned>(text: &[u8]) -> Result<T, String> {
    parse(unseal(text)?)
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| format!("it cannot be read: {error}"))
}

/// Returns the content of a sealed file if it matches its seal.
fn unseal(text: &[u8]) -> Result<&[u8], String> {
    let (seal, body) = text.split_at_checked(BODY).ok_or("it is cut short")?;
    let digest = seal
        .strip_prefix(BEFORE.as_bytes())
        .and_then(|rest| rest.strip_suffix(AFTER.as_bytes()))
        .ok_or("its first line is not a seal")?;
    if Digest::of(body).to_hex().as_bytes() != digest {
        return Err("its content does not match its seal".into());
    }
    Ok(body)
}

/// Reads a sealed file.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<T, Unsealed> {
    match read_twice(|| fs::read(path)) {
        Ok(text) => parse(unseal(&text).map_err(Unsealed::Damaged)?).map_err(Unsealed::Foreign),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Unsealed::Missing),
        Err(error) if is_passing(path, &error) => Err(Unsealed::Unreadable(error)),
        Err(error) => Err(Unsealed::Damaged(format!("it cannot be read: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_noticed() {
        let good = encode(&vec!["some", "text"]).unwrap();
        assert_eq!(decode::<Vec<String>>(&good).unwrap(), ["some", "text"]);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode::<Vec<String>>(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_torn_write_is_noticed() {
        let good = encode(&vec!["some", "text"]).unwrap();
        for length in 0..good.len() {
            assert!(decode::<Vec<String>>(&good[..length]).is_err(), "{length} bytes");
        }
    }
}
