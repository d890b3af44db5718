//! "Did you mean ...?": suggestions for misspelt names. Every message that suggests a name uses this module.

use std::path::{Path, PathBuf};

/// Returns the candidate that is most similar to a misspelt word, or `None` if no candidate is similar enough.
///
/// Case is ignored. Of equally similar candidates the first is returned.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const MIN_SIMILARITY: f64 = 0.8;
    const MAX_LENGTH: usize = 80;
    if word.len() > MAX_LENGTH {
        return None;
    }
    let word = word.to_lowercase();
    let mut best: Option<(f64, &str)> = None;
    for candidate in candidates.into_iter().filter(|candidate| candidate.len() <= MAX_LENGTH) {
        let score = similarity(&word, &candidate.to_lowercase());
        if score >= MIN_SIMILARITY && best.is_none_or(|(highest, _)| score > highest) {
            best = Some((score, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Returns the Jaro-Winkler similarity, but at least 0.9 for a single typing error: Jaro-Winkler penalises
/// two swapped letters in a short word too much.
fn similarity(word: &str, candidate: &str) -> f64 {
    let single_error = strsim::osa_distance(word, candidate) == 1 && word.len() >= 3;
    strsim::jaro_winkler(word, candidate).max(if single_error { 0.9 } else { 0.0 })
}

/// Returns "did you mean ...?" with the closest candidate. Without a close one, returns `what` followed by the
/// first candidates; `None` if there are no candidates.
pub fn did_you_mean<'a>(
    word: &str,
    what: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<String> {
    if let Some(candidate) = closest(word, candidates.clone()) {
        return Some(format!("did you mean `{candidate}`?"));
    }
    let list = listed(candidates)?;
    Some(format!("{what}: {list}"))
}

/// Returns " (did you mean ...?)" with the closest candidate, to follow a name inside a sentence; empty without a close one.
pub fn in_brackets<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    closest(word, candidates).map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

/// Returns the file whose name is most similar to that of a missing one, in the same directory or in one of `elsewhere`. A file of
/// the same name elsewhere, or with another ending, is as good as one of a similar name. If `endings` is not empty, the file
/// has one of them; a missing name without an ending is compared with names without theirs.
pub fn similar_file(missing: &Path, elsewhere: &[&Path], endings: &[&str]) -> Option<PathBuf> {
    let name = missing.file_name()?.to_str()?;
    let compared = |other: &str| match Path::new(name).extension() {
        Some(_) => other.to_owned(),
        None => {
            Path::new(other).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
        }
    };
    let counts = |other: &String| {
        let ending = Path::new(other).extension().and_then(|ending| ending.to_str());
        endings.is_empty() || ending.is_some_and(|ending| endings.contains(&ending))
    };
    let parent = missing.parent().unwrap_or(Path::new(""));
    for directory in std::iter::once(parent).chain(elsewhere.iter().copied()) {
        let listed = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        let entries = std::fs::read_dir(listed).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(counts).collect();
        names.sort();
        let same_stem = |other: &&String| Path::new(other).file_stem() == Path::new(name).file_stem();
        let same = names.iter().find(|other| other.as_str() == name).or_else(|| names.iter().find(same_stem));
        let similar = || {
            let shown: Vec<String> = names.iter().map(|other| compared(other)).collect();
            let found = closest(name, shown.iter().map(String::as_str))?;
            names.get(shown.iter().position(|other| other == found)?)
        };
        if let Some(found) = same.or_else(similar) {
            return Some(directory.join(found));
        }
    }
    None
}

/// Returns "did you mean ...?" for what serde says about an unknown field, which lists the fields that are known.
pub fn for_unknown_field(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("unknown field `")?;
    let (field, expected) = rest.split_once('`')?;
    let known = closest(field, expected.split('`').skip(1).step_by(2))?;
    Some(format!("did you mean `{known}`?"))
}

/// Returns up to 12 names in backquotes, followed by "and N more" if there are more; `None` for no names.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    const MAX_SHOWN: usize = 12;
    let mut names = names.into_iter();
    let shown: Vec<_> = names.by_ref().take(MAX_SHOWN).map(|name| format!("`{name}`")).collect();
    let more = names.count();
    if shown.is_empty() {
        return None;
    }
    let shown = shown.join(", ");
    Some(if more == 0 { shown } else { format!("{shown} and {more} more") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_is_suggested() {
        assert_eq!(closest("eval", ["load", "evaluate", "train"]), Some("evaluate"));
        assert_eq!(closest("Trian", ["load", "train"]), Some("train"));
        assert_eq!(closest("zebra", ["load", "train"]), None);
    }

    #[test]
    fn a_misspelt_field_is_recognised_in_a_message() {
        let message =
            "unknown field `partion`, expected one of `engine`, `partition`, `account` at line 2 column 1";
        assert_eq!(for_unknown_field(message).as_deref(), Some("did you mean `partition`?"));
        assert_eq!(for_unknown_field("unknown field `zebra`, expected `engine` or `account`"), None);
        assert_eq!(for_unknown_field("missing field `engine`"), None);
    }

    #[test]
    fn without_a_close_name_the_first_names_are_listed() {
        let hint = did_you_mean("zebra", "the stages are", ["load", "train"]);
        assert_eq!(hint.as_deref(), Some("the stages are: `load`, `train`"));
        assert_eq!(did_you_mean("zebra", "the stages are", []), None);
    }

    #[test]
    fn a_missing_file_has_a_similar_one_beside_it_or_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::create_dir(path("pipelines")).unwrap();
        for name in ["packages.csv", "pipelines/medical.yaml", "pipelines/quickstart.yaml"] {
            std::fs::write(path(name), "").unwrap();
        }
        std::fs::write(path("pipelines/medical.lock"), "").unwrap();
        let similar = |name: &str| similar_file(&path(name), &[&path("pipelines")], &[]);
        let pipeline = |name: &str| similar_file(&path(name), &[&path("pipelines")], &["yaml"]);
        assert_eq!(pipeline("medical"), Some(path("pipelines/medical.yaml")), "not the lock");
        assert_eq!(pipeline("quikstart"), Some(path("pipelines/quickstart.yaml")));
        assert_eq!(similar("package.csv"), Some(path("packages.csv")));
        assert_eq!(pipeline("pipelines/medical.yml"), Some(path("pipelines/medical.yaml")));
        assert_eq!(similar("quickstart.yaml"), Some(path("pipelines/quickstart.yaml")));
        assert_eq!(similar("something.txt"), None);
        assert_eq!(similar("no/such/packages.csv"), None);
    }
}
