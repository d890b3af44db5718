//! Keys that sign results, written as in Nix: the name of the writer, a colon, and 32 bytes in base64.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

const KEY_BYTES: usize = 32;
const LONGEST_NAME: usize = 64;

/// Returns whether a text can name a writer. Such a name is also a safe file name.
pub fn is_writer_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.@".contains(&byte);
    name.len() <= LONGEST_NAME
        && name.bytes().all(allowed)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Why a text is not a key. It does not repeat the text, which may be secret.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    #[error("a key is a name, a colon and 44 characters of base64, as `pipe key show` prints it")]
    Form,
    #[error(
        "the name of a writer has at most {LONGEST_NAME} lower-case letters, digits, `-`, `_`, `.` and `@`, and starts with \
         a letter or a digit"
    )]
    Name,
}

fn parse(text: &str) -> Result<(String, [u8; KEY_BYTES]), BadKey> {
    let (name, encoded) = text.trim().split_once(':').ok_or(BadKey::Form)?;
    if !is_writer_name(name) {
        return Err(BadKey::Name);
    }
    let bytes = STANDARD.decode(encoded).map_err(|_| BadKey::Form)?;
    Ok((name.to_owned(), bytes.try_into().map_err(|_| BadKey::Form)?))
}

/// The public key of a writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    name: String,
    bytes: [u8; KEY_BYTES],
}

impl PublicKey {
    /// Returns the name of the writer.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether this writer signed a text for a purpose.
    pub(super) fn verifies(&self, purpose: &str, text: &[u8], signature: &str) -> bool {
        let Ok(signature) = STANDARD.decode(signature) else { return false };
        let key = UnparsedPublicKey::new(&ED25519, &self.bytes);
        key.verify(&message(purpose, text), &signature).is_ok()
    }
}

impl FromStr for PublicKey {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<Self, BadKey> {
        let (name, bytes) = parse(text)?;
        Ok(Self { name, bytes })
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, STANDARD.encode(self.bytes))
    }
}

/// The secret key of a writer. Neither its `Debug` nor an error shows the secret.
pub struct SigningKey {
    name: String,
    seed: [u8; KEY_BYTES],
    pair: Ed25519KeyPair,
}

impl SigningKey {
    /// Creates a new key for a writer.
    pub fn generate(name: &str) -> Result<Self, BadKey> {
        if !is_writer_name(name) {
            return Err(BadKey::Name);
        }
        let mut seed = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut seed).map_err(|_| BadKey::Form)?;
        Self::new(name.to_owned(), seed)
    }

    fn new(name: String, seed: [u8; KEY_BYTES]) -> Result<Self, BadKey> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| BadKey::Form)?;
        Ok(Self { name, seed, pair })
    }

    /// Returns the text to keep in a file that only its owner can read.
    pub fn secret_text(&self) -> String {
        format!("{}:{}", self.name, STANDARD.encode(self.seed))
    }

    /// Returns the key that others need to check signatures.
    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; KEY_BYTES];
        bytes.copy_from_slice(self.pair.public_key().as_ref());
        PublicKey { name: self.name.clone(), bytes }
    }

    /// Returns the name of the writer.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the signature of a text, in base64. It is of no use for another purpose.
    pub fn sign(&self, purpose: &str, text: &[u8]) -> String {
        STANDARD.encode(self.pair.sign(&message(purpose, text)))
    }
}

fn message(purpose: &str, text: &[u8]) -> Vec<u8> {
    [purpose.as_bytes(), b"\n", text].concat()
}

impl FromStr for SigningKey {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<Self, BadKey> {
        let (name, seed) = parse(text)?;
        Self::new(name, seed)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_text_and_only_its_own_signature_verifies() {
        let [alice, mallory] = ["alice", "alice"].map(|name| SigningKey::generate(name).unwrap());
        let again: SigningKey = alice.secret_text().parse().unwrap();
        let public: PublicKey = alice.public().to_string().parse().unwrap();
        assert_eq!(again.public(), public);
        assert!(public.verifies("test", b"text", &again.sign("test", b"text")));
        assert!(!public.verifies("test", b"other", &again.sign("test", b"text")));
        assert!(!public.verifies("other", b"text", &again.sign("test", b"text")));
        assert!(!public.verifies("test", b"text", &mallory.sign("test", b"text")));
        assert!(!public.verifies("test", b"text", ""));
        assert!(!public.verifies("test", b"text", "not base64!"));
    }

    /// The first test vector of RFC 8032, section 7.1.
    #[test]
    fn signatures_are_those_of_the_standard() {
        let hex = |text: &str| -> Vec<u8> {
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
        };
        let seed = hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
        let key: SigningKey = format!("a:{}", STANDARD.encode(seed)).parse().unwrap();
        let expected = "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b";
        assert_eq!(key.pair.sign(b"").as_ref(), hex(expected));
    }

    #[test]
    fn a_name_that_is_no_file_name_is_refused() {
        for name in ["", "..", "a/b", "Alice", "a b", ".hidden", "é", &"a".repeat(65)] {
            assert!(!is_writer_name(name), "{name}");
            assert!(matches!(SigningKey::generate(name), Err(BadKey::Name)), "{name}");
        }
        assert!(is_writer_name("ci-main@lab.example_1"));
    }

    #[test]
    fn an_error_does_not_show_the_secret() {
        let text = SigningKey::generate("alice").unwrap().secret_text();
        let cut = &text[..text.len() - 5];
        let error = cut.parse::<SigningKey>().unwrap_err().to_string();
        assert!(!error.contains(&cut[6..]), "{error}");
        assert_eq!(format!("{:?}", text.parse::<SigningKey>().unwrap()), "SigningKey(alice)");
    }
}
