//! "Did you mean ...?"

/// The candidate that a misspelt word most likely stands for.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LIKELY: f64 = 0.8;
    const LONGEST: usize = 80;
    if word.len() > LONGEST {
        return None;
    }
    let word = word.to_lowercase();
    let mut best: Option<(f64, &str)> = None;
    for candidate in candidates.into_iter().filter(|candidate| candidate.len() <= LONGEST) {
        let score = likeness(&word, &candidate.to_lowercase());
        if score >= LIKELY && best.is_none_or(|(highest, _)| score > highest) {
            best = Some((score, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Jaro and Winkler know typing errors well, but make too much of two letters swapped in a short word.
fn likeness(word: &str, candidate: &str) -> f64 {
    let one_slip = strsim::osa_distance(word, candidate) == 1 && word.len() >= 3;
    strsim::jaro_winkler(word, candidate).max(if one_slip { 0.9 } else { 0.0 })
}

/// A hint that offers the closest candidate, or else, if they are few, all of them.
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

/// `a`, `b` and 3 more; nothing for nothing.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    const MOST: usize = 12;
    let mut names = names.into_iter();
    let shown: Vec<_> = names.by_ref().take(MOST).map(|name| format!("`{name}`")).collect();
    let more = names.count();
    match (shown.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(shown.join(", ")),
        (false, more) => Some(format!("{} and {more} more", shown.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_is_offered() {
        assert_eq!(closest("eval", ["load", "evaluate", "train"]), Some("evaluate"));
        assert_eq!(closest("Trian", ["load", "train"]), Some("train"));
        assert_eq!(closest("zebra", ["load", "train"]), None);
    }

    #[test]
    fn without_a_close_name_a_few_are_listed() {
        let hint = did_you_mean("zebra", "the stages are", ["load", "train"]);
        assert_eq!(hint.as_deref(), Some("the stages are: `load`, `train`"));
        assert_eq!(did_you_mean("zebra", "the stages are", []), None);
    }
}
