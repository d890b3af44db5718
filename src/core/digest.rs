//! Content digests. Everything that is addressed by content is addressed by one of these newtypes over blake3, so that a
//! stage key can never be passed instead of a blob id.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// 32 bytes of blake3, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Returns the digest of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Returns the digest with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the digest.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the 64 hexadecimal digits.
    pub fn to_hex(self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    /// Returns the first ten digits: enough for people, never for a lookup.
    pub fn short(self) -> String {
        self.to_hex()[..10].to_owned()
    }
}

impl From<blake3::Hash> for Digest {
    fn from(hash: blake3::Hash) -> Self {
        Self(*hash.as_bytes())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

/// A text that is not a digest.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a digest: 64 lower-case hexadecimal digits are expected")]
pub struct BadDigest(String);

impl FromStr for Digest {
    type Err = BadDigest;

    fn from_str(text: &str) -> Result<Self, BadDigest> {
        let canonical = !text.bytes().any(|b| b.is_ascii_uppercase());
        match blake3::Hash::from_hex(text) {
            Ok(hash) if canonical => Ok(hash.into()),
            _ => Err(BadDigest(text.to_owned())),
        }
    }
}

macro_rules! digest_newtype {
    ($(#[$doc:meta] $name:ident),+ $(,)?) => {$(
        #[$doc]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Digest);

        impl $name {
            /// Wraps a digest.
            pub const fn new(digest: Digest) -> Self {
                Self(digest)
            }

            /// Returns the wrapped digest.
            pub fn digest(self) -> Digest {
                self.0
            }

            /// Returns the first ten digits: enough for people, never for a lookup.
            pub fn short(self) -> String {
                self.0.short()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = BadDigest;

            fn from_str(text: &str) -> Result<Self, BadDigest> {
                text.parse().map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}

digest_newtype! {
    /// The identity of one computation: everything that can change its result.
    StageKey,
    /// The content of one file, or of a directory through its listing.
    BlobId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_can_be_read_back_from_its_text() {
        let digest = Digest::of(b"abc");
        assert_eq!(digest.to_hex().parse(), Ok(digest));
        assert_eq!(digest.to_hex(), blake3::hash(b"abc").to_hex().as_str());
    }

    #[test]
    fn a_text_other_than_64_lower_case_digits_is_refused() {
        let hex = Digest::of(b"abc").to_hex();
        for bad in ["", "abc", &hex[1..], &hex.to_uppercase(), &format!("{hex}0")] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}
