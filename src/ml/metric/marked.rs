//! [`Marked`]: a value that cannot be separated from the protocol under which it was measured.
//!
//! Under the oracle protocol the thresholds depend on the labels of the evaluated rows, so its values say
//! nothing about rows whose labels are unknown. A [`Marked`] value is read either together with its protocol
//! ([`Marked::reveal`]) or only if it is honest ([`Marked::honest`]). Values of different protocols cannot be
//! combined.

use serde::{Deserialize, Serialize};

pub use pipe_core::protocol::Protocol;

/// A value with the protocol under which it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Marked<T> {
    protocol: Protocol,
    value: T,
}

/// The error for values of different protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "results of the honest and of the oracle protocol cannot be combined: the oracle ones have seen the \
     labels of the evaluated rows; keep them in rows of their own"
)]
pub struct MixedProtocols;

impl<T> Marked<T> {
    /// Marks a value.
    pub fn new(protocol: Protocol, value: T) -> Self {
        Self { protocol, value }
    }

    /// Returns the protocol.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Returns the value if it was measured under the honest protocol.
    pub fn honest(self) -> Option<T> {
        (self.protocol == Protocol::Honest).then_some(self.value)
    }

    /// Returns the protocol and the value, to show both.
    pub fn reveal(self) -> (Protocol, T) {
        (self.protocol, self.value)
    }

    /// Computes something from the value; the result has the same protocol.
    pub fn map<U>(self, compute: impl FnOnce(T) -> U) -> Marked<U> {
        Marked { protocol: self.protocol, value: compute(self.value) }
    }

    /// Returns a reference to the value, with the same protocol.
    pub fn as_ref(&self) -> Marked<&T> {
        Marked { protocol: self.protocol, value: &self.value }
    }

    /// Collects values of one protocol; `None` if there are no values.
    pub fn gather(values: impl IntoIterator<Item = Self>) -> Result<Option<Marked<Vec<T>>>, MixedProtocols> {
        let mut values = values.into_iter();
        let Some(first) = values.next() else { return Ok(None) };
        let protocol = first.protocol;
        let mut gathered = vec![first.value];
        for next in values {
            if next.protocol != protocol {
                return Err(MixedProtocols);
            }
            gathered.push(next.value);
        }
        Ok(Some(Marked { protocol, value: gathered }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HONEST: Marked<f64> = Marked { protocol: Protocol::Honest, value: 0.4 };
    const ORACLE: Marked<f64> = Marked { protocol: Protocol::Oracle, value: 0.7 };

    #[test]
    fn an_oracle_value_is_never_returned_as_honest() {
        assert_eq!(HONEST.honest(), Some(0.4));
        assert_eq!(ORACLE.honest(), None);
        assert_eq!(ORACLE.map(|value| value / 2.0).reveal(), (Protocol::Oracle, 0.35));
    }

    #[test]
    fn values_of_different_protocols_are_not_combined() {
        assert_eq!(Marked::gather([HONEST, ORACLE]), Err(MixedProtocols));
        let both = Marked::gather([ORACLE, ORACLE]).unwrap().unwrap();
        assert_eq!(both.reveal(), (Protocol::Oracle, vec![0.7, 0.7]));
        assert_eq!(Marked::<f64>::gather([]), Ok(None));
    }

    #[test]
    fn the_protocol_is_stored_and_a_value_without_it_is_refused() {
        let text = serde_json::to_string(&ORACLE).unwrap();
        assert_eq!(text, r#"{"protocol":"oracle","value":0.7}"#);
        assert_eq!(serde_json::from_str::<Marked<f64>>(&text).unwrap(), ORACLE);
        assert!(serde_json::from_str::<Marked<f64>>(r#"{"value":0.7}"#).is_err());
    }
}
