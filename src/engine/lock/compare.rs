//! Compares a second computation of a stage with the first.

use std::collections::BTreeMap;

use super::class::EnvironmentClass;
use super::record::{LockRecord, LockedOutput};
use crate::spec::compare::{Compare, Tolerance};
use pipe_core::protocol::MetricValue;

/// How an output or a metric of the second computation compares with the first.
#[derive(Debug, Clone, PartialEq)]
pub enum CompareVerdict {
    Same,
    /// The bytes differ, which the policy allows; says what allows it.
    WithinTolerance(String),
    /// Not compared, by the policy or because the output is volatile.
    Ignored,
    /// Says what differs.
    Different(String),
}

/// The parts of a computation that are compared.
#[derive(Debug, Clone, Copy)]
pub struct ComparedSide<'a> {
    pub outputs: &'a BTreeMap<String, LockedOutput>,
    pub metrics: &'a BTreeMap<String, MetricValue>,
}

impl<'a> From<&'a LockRecord> for ComparedSide<'a> {
    fn from(record: &'a LockRecord) -> Self {
        Self { outputs: &record.outputs, metrics: &record.metrics }
    }
}

/// Reads an output of the first (`false`) or of the second side (`true`), if it is still there.
pub type ReadOutput<'a> = &'a dyn Fn(bool, &LockedOutput) -> Option<Vec<u8>>;

/// Returns one verdict per output, by name, and one per metric that differs (`metrics.f1`).
pub fn compare(
    first: ComparedSide,
    second: ComparedSide,
    policy: &Compare,
    read: ReadOutput,
) -> BTreeMap<String, CompareVerdict> {
    let mut verdicts = BTreeMap::new();
    let allowed = compare_metrics(first, second, policy, &mut verdicts);
    for (name, old) in first.outputs {
        let verdict = match second.outputs.get(name) {
            _ if old.volatile || policy.ignore.contains(name) => CompareVerdict::Ignored,
            None => CompareVerdict::Different("it is missing".into()),
            Some(new) if new.stored.blob == old.stored.blob => CompareVerdict::Same,
            Some(new) => match policy.numbers.get(name) {
                Some(&tolerance) => numbers(read(false, old), read(true, new), tolerance),
                None => match &allowed {
                    Some(allowed) => CompareVerdict::WithinTolerance(allowed.clone()),
                    None => CompareVerdict::Different(format!(
                        "{} -> {}",
                        old.stored.blob.short(),
                        new.stored.blob.short()
                    )),
                },
            },
        };
        verdicts.insert(name.clone(), verdict);
    }
    for name in second.outputs.keys().filter(|name| !first.outputs.contains_key(*name)) {
        verdicts.insert(name.clone(), CompareVerdict::Different("it is new".into()));
    }
    verdicts
}

/// Compares the metrics. If all metrics that the policy names agree, returns the sentence that allows outputs to differ.
fn compare_metrics(
    first: ComparedSide,
    second: ComparedSide,
    policy: &Compare,
    verdicts: &mut BTreeMap<String, CompareVerdict>,
) -> Option<String> {
    let mut within = Vec::new();
    let mut named = 0;
    let names = first.metrics.keys().chain(second.metrics.keys()).chain(policy.metrics.keys());
    for name in names.collect::<std::collections::BTreeSet<_>>() {
        let tolerance = policy.metrics.get(name);
        let different = |text: String| (format!("metrics.{name}"), CompareVerdict::Different(text));
        match (first.metrics.get(name), second.metrics.get(name)) {
            (Some(old), Some(new)) if old.protocol != new.protocol => {
                verdicts.extend([different("it was measured under another protocol".into())]);
            }
            (Some(MetricValue { value: old, .. }), Some(MetricValue { value: new, .. })) => {
                let allowed = tolerance.copied().unwrap_or_default().allows(*old, *new);
                match tolerance {
                    Some(tolerance) if allowed => {
                        named += 1;
                        within.push(format!("{name} {old} -> {new} within {tolerance}"));
                    }
                    None if allowed => {}
                    // If the policy names some metrics, the other metrics and the bytes may differ.
                    None if !policy.metrics.is_empty() => {}
                    _ => verdicts.extend([different(format!("{old} -> {new}"))]),
                }
            }
            (None, None) => verdicts.extend([different("the stage reports no such metric".into())]),
            (Some(old), None) => verdicts.extend([different(format!("{} is gone", old.value))]),
            (None, Some(new)) => verdicts.extend([different(format!("{} is new", new.value))]),
        }
    }
    let all_agree = named > 0 && named == policy.metrics.len();
    all_agree.then(|| within.join(", "))
}

fn numbers(old: Option<Vec<u8>>, new: Option<Vec<u8>>, tolerance: Tolerance) -> CompareVerdict {
    let (Some(old), Some(new)) = (old, new) else {
        return CompareVerdict::Different(
            "its bytes differ, and the first version is not here to compare numbers".into(),
        );
    };
    let (Ok(old), Ok(new)) = (String::from_utf8(old), String::from_utf8(new)) else {
        return CompareVerdict::Different("its bytes differ, and it is not text".into());
    };
    let (old, new) = (tokens(&old), tokens(&new));
    if old.len() != new.len() {
        return CompareVerdict::Different("the text around its numbers differs".into());
    }
    for (old, new) in old.iter().zip(&new) {
        match (old, new) {
            (Token::Number(_, a), Token::Number(_, b)) if tolerance.allows(*a, *b) => {}
            (Token::Number(a, _), Token::Number(b, _)) => {
                return CompareVerdict::Different(format!("{a} -> {b}"));
            }
            (old, new) if old == new => {}
            _ => return CompareVerdict::Different("the text around its numbers differs".into()),
        }
    }
    CompareVerdict::WithinTolerance(format!("all numbers within {tolerance}"))
}

#[derive(Debug, PartialEq)]
enum Token<'a> {
    Number(&'a str, f64),
    Text(&'a str),
}

/// Splits a text into numbers and what is between them. A sign belongs to a number unless it follows a word.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let (mut begin, mut at) = (0, 0);
    while at < bytes.len() {
        let in_word = at > 0
            && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_' || bytes[at - 1] == b'.');
        let length = if in_word { 0 } else { number_length(&bytes[at..]) };
        let number = text.get(at..at + length).filter(|text| !text.is_empty());
        match number.and_then(|text| Some((text, text.parse::<f64>().ok()?))) {
            Some((number, value)) => {
                if begin < at {
                    tokens.push(Token::Text(&text[begin..at]));
                }
                tokens.push(Token::Number(number, value));
                at += length;
                begin = at;
            }
            None => at += 1,
        }
    }
    if begin < bytes.len() {
        tokens.push(Token::Text(&text[begin..]));
    }
    tokens
}

fn number_length(bytes: &[u8]) -> usize {
    let digits =
        |from: usize| bytes[from.min(bytes.len())..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut at = usize::from(matches!(bytes.first(), Some(b'-' | b'+')));
    let whole = digits(at);
    at += whole;
    let mut fraction = 0;
    if bytes.get(at) == Some(&b'.') {
        fraction = digits(at + 1);
        at += if whole + fraction > 0 { 1 + fraction } else { 0 };
    }
    if whole + fraction == 0 {
        return 0;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'-' | b'+')));
        let exponent = digits(at + 1 + sign);
        at += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    at
}

/// Returns a sentence if two environment classes differ.
pub fn class_difference(then: &EnvironmentClass, now: &EnvironmentClass) -> Option<String> {
    (then != now).then(|| format!("it was computed on `{then}`, but this machine is `{now}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::manifest::Stored;
    use pipe_core::digest::{BlobId, Digest};
    use pipe_core::protocol::Protocol;

    fn outputs(pairs: &[(&str, &str)]) -> BTreeMap<String, LockedOutput> {
        let blob = |content: &str| BlobId::new(Digest::of(content.as_bytes()));
        let output = |content: &str| LockedOutput {
            stored: Stored { blob: blob(content), bytes: 1, directory: false },
            volatile: false,
        };
        pairs.iter().map(|(name, content)| (name.to_string(), output(content))).collect()
    }

    fn metrics(f1: f64) -> BTreeMap<String, MetricValue> {
        BTreeMap::from([("f1".to_owned(), MetricValue::unmarked(f1))])
    }

    fn judge(policy: &str, first: (&str, f64), second: (&str, f64)) -> BTreeMap<String, CompareVerdict> {
        let policy: Compare = serde_yaml::from_str(policy).unwrap();
        let (a, b) = (outputs(&[("t", first.0)]), outputs(&[("t", second.0)]));
        let (x, y) = (metrics(first.1), metrics(second.1));
        let read = |second_side: bool, _: &LockedOutput| {
            Some(if second_side { second.0 } else { first.0 }.as_bytes().to_vec())
        };
        compare(
            ComparedSide { outputs: &a, metrics: &x },
            ComparedSide { outputs: &b, metrics: &y },
            &policy,
            &read,
        )
    }

    #[test]
    fn the_exact_policy_compares_bytes_and_metrics() {
        assert_eq!(judge("exact", ("a", 0.5), ("a", 0.5))["t"], CompareVerdict::Same);
        assert!(matches!(judge("exact", ("a", 0.5), ("b", 0.5))["t"], CompareVerdict::Different(_)));
        let verdicts = judge("exact", ("a", 0.5), ("a", 0.6));
        assert_eq!(verdicts["metrics.f1"], CompareVerdict::Different("0.5 -> 0.6".into()));
    }

    #[test]
    fn a_tolerance_for_a_metric_allows_other_bytes_as_long_as_the_metric_agrees() {
        let policy = "{ metrics: { f1: { abs: 0.01 } } }";
        assert!(matches!(judge(policy, ("a", 0.5), ("b", 0.505))["t"], CompareVerdict::WithinTolerance(_)));
        let far = judge(policy, ("a", 0.5), ("b", 0.6));
        assert!(matches!(far["t"], CompareVerdict::Different(_)) && far.contains_key("metrics.f1"));
        let misspelt = judge("{ metrics: { f2: { abs: 1 } } }", ("a", 0.5), ("b", 0.5));
        assert!(
            matches!(misspelt["metrics.f2"], CompareVerdict::Different(_)),
            "a metric that the stage does not report"
        );
        assert!(matches!(misspelt["t"], CompareVerdict::Different(_)));
    }

    #[test]
    fn a_value_of_another_protocol_is_different_even_if_it_is_equal() {
        let outputs = BTreeMap::new();
        let marked = |protocol| {
            BTreeMap::from([("f1".to_owned(), MetricValue { value: 0.5, protocol: Some(protocol) })])
        };
        let (honest, oracle) = (marked(Protocol::Honest), marked(Protocol::Oracle));
        let side = |metrics| ComparedSide { outputs: &outputs, metrics };
        let loose: Compare = serde_yaml::from_str("{ metrics: { f1: { abs: 1 } } }").unwrap();
        let verdicts = compare(side(&honest), side(&oracle), &loose, &|_, _| None);
        assert!(
            matches!(&verdicts["metrics.f1"], CompareVerdict::Different(how) if how.contains("protocol"))
        );
    }

    #[test]
    fn numbers_in_text_may_differ_and_the_text_may_not() {
        let policy = "{ numbers: { t: { abs: 0.01 } } }";
        let verdict = |a, b| judge(policy, (a, 0.0), (b, 0.0))["t"].clone();
        assert!(matches!(
            verdict("f1,0.500\nx2 -3e-2", "f1,0.501\nx2 -3e-2"),
            CompareVerdict::WithinTolerance(_)
        ));
        assert_eq!(verdict("f1,0.5", "f1,0.6"), CompareVerdict::Different("0.5 -> 0.6".into()));
        assert!(
            matches!(verdict("f1,0.5", "f2,0.5"), CompareVerdict::Different(_)),
            "a digit in a word is text"
        );
        assert!(matches!(verdict("0.5,", "0.5;"), CompareVerdict::Different(_)));
    }

    #[test]
    fn volatile_and_ignored_outputs_are_not_compared() {
        assert_eq!(judge("{ ignore: [t] }", ("a", 0.0), ("b", 0.0))["t"], CompareVerdict::Ignored);
        let mut volatile = outputs(&[("t", "a")]);
        volatile.get_mut("t").unwrap().volatile = true;
        let (other, none) = (outputs(&[("t", "b")]), BTreeMap::new());
        let side = |outputs| ComparedSide { outputs, metrics: &none };
        let verdicts = compare(side(&volatile), side(&other), &Compare::default(), &|_, _| None);
        assert_eq!(verdicts["t"], CompareVerdict::Ignored);
    }
}
