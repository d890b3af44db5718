//! The reason why an instance has to run, as data with old and new values, and as text.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::shorten::shorten;
use pipe_core::digest::Digest;
use pipe_core::key::KeyParts;

/// The reason why an instance has to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Why {
    /// No earlier run of this pipeline had an instance of this name.
    NeverRun,
    /// It failed in this run, with the same key or before it ever succeeded.
    Failed {
        run: String,
        /// The parts of the key that differ from those of its last result; empty if there is none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<Change>,
    },
    /// Parts of the key differ from those of the last run; never empty.
    Changed { changes: Vec<Change> },
    /// The key is that of the last run, but the cache no longer has the result.
    Missing,
    /// The cache has the result, but it is damaged.
    Damaged { problem: String },
    /// Requested with `--force`.
    Forced,
    /// Requested with `--try`.
    Tried,
    /// It ran before, but the record of its key parts is gone.
    NoRecord,
}

/// One part of the key that differs. `None`: the part did not exist then, or does not exist now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub name: String,
    pub old: Option<String>,
    pub new: Option<String>,
}

impl Why {
    /// Returns the reason for a cache miss, given the key parts of the last run and of this one.
    pub fn between(old: &KeyParts, new: &KeyParts) -> Self {
        let changes = changes(old, new);
        if changes.is_empty() { Self::Missing } else { Self::Changed { changes } }
    }

    /// Returns the parts of the key that have changed, as far as they are the reason.
    pub fn changes(&self) -> &[Change] {
        match self {
            Self::Changed { changes } | Self::Failed { changes, .. } => changes,
            _ => &[],
        }
    }
}

impl Why {
    /// Returns the text with the first two changes at most, for one line.
    pub fn brief(&self) -> String {
        const SHOWN: usize = 2;
        match self {
            Self::Changed { changes } if changes.len() > SHOWN => {
                let (first, more) = changes.split_at(SHOWN);
                format!("{} and {} more", joined(first), more.len())
            }
            other => other.to_string(),
        }
    }
}

/// Returns the differences, sorted by name.
fn changes(old: &KeyParts, new: &KeyParts) -> Vec<Change> {
    let mut changes = Vec::new();
    for (name, value) in old.iter() {
        let now = new.get(name);
        if now != Some(value) {
            changes.push(change(name, Some(value), now));
        }
    }
    for (name, value) in new.iter() {
        if old.get(name).is_none() {
            changes.push(change(name, None, Some(value)));
        }
    }
    // A new order is only reported if the members are the same.
    let members: Vec<String> = changes.iter().filter_map(Change::fan_in).map(str::to_owned).collect();
    changes.retain(|change| change.ordered().is_none_or(|slot| !members.iter().any(|member| member == slot)));
    changes.sort_by(|a, b| a.name.cmp(&b.name));
    changes
}

fn change(name: &str, old: Option<&str>, new: Option<&str>) -> Change {
    Change { name: name.to_owned(), old: old.map(str::to_owned), new: new.map(str::to_owned) }
}

impl Change {
    /// Returns whether an input has another content.
    pub fn is_input(&self) -> bool {
        self.name.starts_with("inputs.")
    }

    /// Returns `inputs.from` for a change of a member of that fan-in.
    fn fan_in(&self) -> Option<&str> {
        let (slot, _) = self.name.split_once('[')?;
        slot.starts_with("inputs.").then_some(slot)
    }

    /// Returns `inputs.from` for a change of the order of that fan-in.
    fn ordered(&self) -> Option<&str> {
        self.name.strip_suffix(".order").filter(|slot| slot.starts_with("inputs."))
    }
}

/// Longer values are cut in texts; the data has the whole value.
const LONGEST_VALUE: usize = 60;

fn shown(value: &str) -> String {
    if value.parse::<Digest>().is_ok() {
        return short_digest(value);
    }
    if value.chars().count() <= LONGEST_VALUE {
        return value.to_owned();
    }
    let start: String = value.chars().take(LONGEST_VALUE - 1).collect();
    format!("{start}…")
}

fn short_digest(value: &str) -> String {
    let start: String = value.chars().take(4).collect();
    format!("{start}…")
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        if let Some(slot) = self.ordered() {
            return write!(f, "{slot} comes in another order");
        }
        let is_input = self.is_input();
        match (&self.old, &self.new) {
            (Some(old), Some(new)) if is_input => {
                write!(f, "{name} changed ({} -> {})", short_digest(old), short_digest(new))
            }
            (None, Some(_)) if is_input => write!(f, "{name} is new"),
            (Some(_), None) if is_input => write!(f, "{name} is gone"),
            (Some(old), Some(new)) => {
                let is_digest = [old, new].iter().any(|value| value.parse::<Digest>().is_ok());
                let (old, new) = if is_digest { (shown(old), shown(new)) } else { shorten(old, new) };
                write!(f, "{name} {old} -> {new}")
            }
            (None, Some(new)) => write!(f, "{name} is new: {}", shown(new)),
            (Some(old), None) => write!(f, "{name} is gone (was {})", shown(old)),
            (None, None) => write!(f, "{name}"),
        }
    }
}

fn joined(changes: &[Change]) -> String {
    changes.iter().map(Change::to_string).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverRun => f.write_str("never run before"),
            Self::Failed { run, changes } => {
                write!(f, "it failed in run {run}, and nothing is cached for it")?;
                if changes.is_empty() {
                    Ok(())
                } else {
                    write!(f, "; since its last result, {}", joined(changes))
                }
            }
            Self::Changed { changes } => f.write_str(&joined(changes)),
            Self::Missing => f.write_str("nothing changed, but its result is no longer in the cache"),
            // A separate warning describes the damage.
            Self::Damaged { .. } => f.write_str("its result in the cache is damaged"),
            Self::Forced => f.write_str("forced"),
            Self::Tried => f.write_str("to try it out"),
            Self::NoRecord => {
                f.write_str("it ran before, but the record of its inputs and parameters is gone")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_core::digest::Digest;

    fn parts(pairs: &[(&str, &str)]) -> KeyParts {
        KeyParts::new(pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect())
    }

    fn why(old: &[(&str, &str)], new: &[(&str, &str)]) -> String {
        Why::between(&parts(old), &parts(new)).to_string()
    }

    #[test]
    fn after_a_failure_the_changes_since_the_last_result_are_still_known() {
        let changes = changes(&parts(&[("params.lr", "1")]), &parts(&[("params.lr", "2")]));
        let why = Why::Failed { run: "R".to_owned(), changes };
        assert_eq!(
            why.to_string(),
            "it failed in run R, and nothing is cached for it; since its last result, params.lr 1 -> 2"
        );
        let old: Why = serde_json::from_str(r#"{"reason":"failed","run":"R"}"#).unwrap();
        assert_eq!(old.changes(), [], "in the log of an earlier version");
    }

    #[test]
    fn a_changed_parameter_is_shown_with_both_values() {
        assert_eq!(
            why(&[("params.lr", "0.0001"), ("kind", "train")], &[("params.lr", "0.0003"), ("kind", "train")]),
            "params.lr 0.0001 -> 0.0003"
        );
    }

    #[test]
    fn a_changed_input_is_shown_by_the_start_of_its_digests() {
        let (old, new) = (Digest::of(b"a").to_hex(), Digest::of(b"b").to_hex());
        let expected = format!("inputs.data changed ({}… -> {}…)", &old[..4], &new[..4]);
        assert_eq!(why(&[("inputs.data", &old)], &[("inputs.data", &new)]), expected);
    }

    #[test]
    fn added_and_removed_parts_are_both_shown() {
        assert_eq!(
            why(&[("env.HOME", "\"/a\"")], &[("params.depth", "3")]),
            "env.HOME is gone (was \"/a\"), params.depth is new: 3"
        );
        assert_eq!(
            why(&[("inputs.old", "ab")], &[("inputs.idf", "cd")]),
            "inputs.idf is new, inputs.old is gone"
        );
    }

    #[test]
    fn a_new_order_is_not_shown_if_the_members_changed() {
        let old = [("inputs.from.order", "[seed=0]"), ("inputs.from[seed=0]", "aa")];
        let new = [
            ("inputs.from.order", "[seed=0][seed=1]"),
            ("inputs.from[seed=0]", "aa"),
            ("inputs.from[seed=1]", "bb"),
        ];
        assert_eq!(why(&old, &new), "inputs.from[seed=1] is new");
        let old = [("inputs.from.order", "[a][b]")];
        assert_eq!(why(&old, &[("inputs.from.order", "[b][a]")]), "inputs.from comes in another order");
    }

    #[test]
    fn equal_key_parts_mean_that_the_result_is_gone() {
        assert_eq!(Why::between(&parts(&[("kind", "x")]), &parts(&[("kind", "x")])), Why::Missing);
    }

    #[test]
    fn two_long_values_are_shown_where_they_differ() {
        let long = |end: &str| format!("\"{}{end}\"", "x".repeat(100));
        let text = why(&[("params.run", &long("old"))], &[("params.run", &long("new"))]);
        assert!(text.contains("xold\" -> …") && text.ends_with("xnew\""), "{text}");
    }

    #[test]
    fn a_short_text_has_two_changes_at_most() {
        let changes = |count: usize| {
            let names: Vec<String> = (0..count).map(|at| format!("params.p{at}")).collect();
            let new: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
            Why::between(&parts(&[]), &parts(&new)).brief()
        };
        assert_eq!(changes(2), "params.p0 is new: 1, params.p1 is new: 1");
        assert_eq!(changes(5), "params.p0 is new: 1, params.p1 is new: 1 and 3 more");
        assert_eq!(Why::Forced.brief(), "forced");
    }

    #[test]
    fn a_long_value_is_cut_in_the_text_but_not_in_the_data() {
        let long = "x".repeat(500);
        let why = Why::between(&parts(&[("params.run", "a")]), &parts(&[("params.run", &long)]));
        assert!(why.to_string().chars().count() < 100);
        let Why::Changed { changes } = why else { panic!("{why:?}") };
        assert_eq!(changes[0].new.as_ref().map(String::len), Some(500));
    }
}
