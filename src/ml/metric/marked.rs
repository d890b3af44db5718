//! Values that cannot be parted from the protocol under which they were measured.
//!
//! Under the oracle protocol the labels of the evaluated rows enter the thresholds, so its figures say nothing about
//! rows whose labels are unknown. A [`Marked`] value gives its content away only together with the mark
//! ([`Marked::reveal`]), or as an honest one ([`Marked::honest`]); values are combined only within one protocol.

use serde::{Deserialize, Serialize};

pub use pipe_core::protocol::Protocol;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Marked<T> {
    protocol: Protocol,
    value: T,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "results of the honest and of the oracle protocol cannot be combined: the oracle ones have seen the \
     labels of the evaluated rows; keep them in rows of their own"
)]
pub struct MixedProtocols;

impl<T> Marked<T> {
    pub fn new(protocol: Protocol, value: T) -> Self {
        Self { protocol, value }
    }

    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The value, if it was measured honestly.
    pub fn honest(self) -> Option<T> {
        (self.protocol == Protocol::Honest).then_some(self.value)
    }

    /// The value beside its mark: for showing both.
    pub fn reveal(self) -> (Protocol, T) {
        (self.protocol, self.value)
    }

    /// Whatever is computed from the value bears its mark.
    pub fn map<U>(self, compute: impl FnOnce(T) -> U) -> Marked<U> {
        Marked { protocol: self.protocol, value: compute(self.value) }
    }

    pub fn as_ref(&self) -> Marked<&T> {
        Marked { protocol: self.protocol, value: &self.value }
    }

    /// Several values as one, if their marks agree. Of no value at all there is none.
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
    fn an_oracle_value_never_passes_for_an_honest_one() {
        assert_eq!(HONEST.honest(), Some(0.4));
        assert_eq!(ORACLE.honest(), None);
        assert_eq!(ORACLE.map(|value| value / 2.0).reveal(), (Protocol::Oracle, 0.35));
    }

    #[test]
    fn protocols_do_not_mix() {
        assert_eq!(Marked::gather([HONEST, ORACLE]), Err(MixedProtocols));
        let both = Marked::gather([ORACLE, ORACLE]).unwrap().unwrap();
        assert_eq!(both.reveal(), (Protocol::Oracle, vec![0.7, 0.7]));
        assert_eq!(Marked::<f64>::gather([]), Ok(None));
    }

    #[test]
    fn the_mark_is_written_and_a_record_without_it_is_refused() {
        let text = serde_json::to_string(&ORACLE).unwrap();
        assert_eq!(text, r#"{"protocol":"oracle","value":0.7}"#);
        assert_eq!(serde_json::from_str::<Marked<f64>>(&text).unwrap(), ORACLE);
        assert!(serde_json::from_str::<Marked<f64>>(r#"{"value":0.7}"#).is_err());
    }
}
