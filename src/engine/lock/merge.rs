//! Merges two locks with a common ancestor record by record, as a merge driver of `git`.

use std::collections::{BTreeMap, BTreeSet};

use super::record::Lock;

/// Returns a lock with the changes of both sides, or the names of the records that both changed differently.
pub fn merge(base: &Lock, ours: &Lock, theirs: &Lock) -> Result<Lock, Vec<String>> {
    let mut conflicts = Vec::new();
    let mut merged = Lock {
        pipeline: ours.pipeline.clone(),
        stages: three_way(&base.stages, &ours.stages, &theirs.stages, &mut conflicts),
        placed: three_way(&base.placed, &ours.placed, &theirs.placed, &mut conflicts),
        edited: BTreeSet::new(),
    };
    merged.edited = ours.edited.union(&theirs.edited).cloned().collect();
    if ours.pipeline != theirs.pipeline {
        conflicts.push("pipeline".to_owned());
    }
    if conflicts.is_empty() { Ok(merged) } else { Err(conflicts) }
}

fn three_way<V: Clone + PartialEq>(
    base: &BTreeMap<String, V>,
    ours: &BTreeMap<String, V>,
    theirs: &BTreeMap<String, V>,
    conflicts: &mut Vec<String>,
) -> BTreeMap<String, V> {
    let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let mut merged = BTreeMap::new();
    for name in names {
        let (base, ours, theirs) = (base.get(name), ours.get(name), theirs.get(name));
        let kept = if ours == theirs || theirs == base {
            ours
        } else if ours == base {
            theirs
        } else {
            conflicts.push(name.clone());
            ours
        };
        if let Some(value) = kept {
            merged.insert(name.clone(), value.clone());
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_core::digest::{BlobId, Digest};

    fn lock(placed: &[(&str, &str)]) -> Lock {
        let blob = |content: &str| BlobId::new(Digest::of(content.as_bytes()));
        let placed = placed.iter().map(|(path, content)| (path.to_string(), blob(content))).collect();
        Lock { pipeline: "p".into(), placed, ..Lock::default() }
    }

    #[test]
    fn changes_of_both_sides_are_kept_and_conflicts_are_named() {
        let base = lock(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let ours = lock(&[("a", "2"), ("b", "1"), ("c", "1"), ("new", "1")]);
        let theirs = lock(&[("a", "1"), ("b", "3")]);
        assert_eq!(merge(&base, &ours, &theirs), Ok(lock(&[("a", "2"), ("b", "3"), ("new", "1")])));
        let contrary = lock(&[("a", "9"), ("b", "1"), ("c", "1")]);
        assert_eq!(merge(&base, &ours, &contrary), Err(vec!["a".to_owned()]));
    }
}
