//! Why a stage has to run, as data with old and new values, and as sentences.

use std::fmt;

use serde::{Deserialize, Serialize};

use pipe_core::key::KeyParts;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Why {
    /// No earlier run of this pipeline knows an instance of this name.
    NeverRun,
    /// It was tried, with these ingredients or before it ever succeeded, and failed in this run.
    Failed { run: String },
    /// Ingredients of the key differ from those of the last run; never empty.
    Changed { changes: Vec<Change> },
    /// The ingredients are those of the last run, but the cache no longer has the result.
    Missing,
    /// The result was there and cannot be trusted.
    Damaged { problem: String },
    /// The user asked for it.
    Forced,
    /// It ran before, but the record of what went in is gone.
    NoRecord,
}

/// One ingredient that differs. `None`: it was not there, or no longer is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub name: String,
    pub old: Option<String>,
    pub new: Option<String>,
}

impl Why {
    /// The reason for a miss, given the ingredients of the last run and of this one.
    pub fn between(old: &KeyParts, new: &KeyParts) -> Self {
        let changes = changes(old, new);
        if changes.is_empty() { Self::Missing } else { Self::Changed { changes } }
    }
}

/// Both sides are sorted by name, so one pass over the two is enough.
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
    // A new order is news only where the members are the same.
    let members: Vec<String> = changes.iter().filter_map(Change::fan_in).map(str::to_owned).collect();
    changes.retain(|change| change.ordered().is_none_or(|slot| !members.iter().any(|member| member == slot)));
    changes.sort_by(|a, b| a.name.cmp(&b.name));
    changes
}

fn change(name: &str, old: Option<&str>, new: Option<&str>) -> Change {
    Change { name: name.to_owned(), old: old.map(str::to_owned), new: new.map(str::to_owned) }
}

impl Change {
    /// `inputs.from` for a change of a fan-in's member.
    fn fan_in(&self) -> Option<&str> {
        let (slot, _) = self.name.split_once('[')?;
        slot.starts_with("inputs.").then_some(slot)
    }

    /// `inputs.from` for a change of a fan-in's order.
    fn ordered(&self) -> Option<&str> {
        self.name.strip_suffix(".order").filter(|slot| slot.starts_with("inputs."))
    }
}

/// Longer values are cut: the sentence is for people, the whole value is in the data.
const LONGEST_VALUE: usize = 60;

fn shown(value: &str) -> String {
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
        let is_input = name.starts_with("inputs.");
        match (&self.old, &self.new) {
            (Some(old), Some(new)) if is_input => {
                write!(f, "{name} changed ({} -> {})", short_digest(old), short_digest(new))
            }
            (None, Some(_)) if is_input => write!(f, "{name} is new"),
            (Some(_), None) if is_input => write!(f, "{name} is gone"),
            (Some(old), Some(new)) => write!(f, "{name} {} -> {}", shown(old), shown(new)),
            (None, Some(new)) => write!(f, "{name} is new: {}", shown(new)),
            (Some(old), None) => write!(f, "{name} is gone (was {})", shown(old)),
            (None, None) => write!(f, "{name}"),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverRun => f.write_str("never run before"),
            Self::Failed { run } => write!(f, "it failed in run {run}, and nothing is cached for it"),
            Self::Changed { changes } => {
                for (position, change) in changes.iter().enumerate() {
                    if position > 0 {
                        f.write_str(", ")?;
                    }
                    change.fmt(f)?;
                }
                Ok(())
            }
            Self::Missing => f.write_str("nothing changed, but its result is no longer in the cache"),
            // What is wrong with it is a warning of its own.
            Self::Damaged { .. } => f.write_str("its result in the cache is damaged"),
            Self::Forced => f.write_str("forced"),
            Self::NoRecord => f.write_str("it ran before, but the record of what went in is gone"),
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
    fn a_parameter_is_told_with_both_values() {
        assert_eq!(
            why(&[("params.lr", "0.0001"), ("kind", "train")], &[("params.lr", "0.0003"), ("kind", "train")]),
            "params.lr 0.0001 -> 0.0003"
        );
    }

    #[test]
    fn an_input_is_told_by_the_start_of_its_digests() {
        let (old, new) = (Digest::of(b"a").to_hex(), Digest::of(b"b").to_hex());
        let expected = format!("inputs.data changed ({}… -> {}…)", &old[..4], &new[..4]);
        assert_eq!(why(&[("inputs.data", &old)], &[("inputs.data", &new)]), expected);
    }

    #[test]
    fn what_came_and_what_went_are_both_told() {
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
    fn a_new_member_of_a_fan_in_hides_that_the_order_changed_too() {
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
    fn equal_ingredients_mean_that_the_result_is_gone() {
        assert_eq!(Why::between(&parts(&[("kind", "x")]), &parts(&[("kind", "x")])), Why::Missing);
    }

    #[test]
    fn a_long_value_is_cut_in_the_sentence_but_not_in_the_data() {
        let long = "x".repeat(500);
        let why = Why::between(&parts(&[("params.run", "a")]), &parts(&[("params.run", &long)]));
        assert!(why.to_string().chars().count() < 100);
        let Why::Changed { changes } = why else { panic!("{why:?}") };
        assert_eq!(changes[0].new.as_ref().map(String::len), Some(500));
    }
}
