//! What separates the labels inside a column.

use std::collections::HashSet;

/// The characters that are tried, the most specific one first.
const CANDIDATES: [&str; 4] = [";", "|", ",", " "];

/// Returns the separator of the labels, or `None` if every value looks like one label.
///
/// A character separates labels if the pieces repeat more than the whole values do: splitting `a,b`, `b,c`, `a,c` gives
/// fewer different texts, and splitting `Smith, J`, `Jones, A` gives more. In a small file many labels occur once, so it is enough
/// if a piece occurs twice as often as a whole value on average. Blanks are frequent inside names, so they have to halve the number.
pub(super) fn separator(values: &[&str]) -> Option<&'static str> {
    let whole = values.iter().collect::<HashSet<_>>().len();
    CANDIDATES.into_iter().find(|&candidate| {
        if !values.iter().any(|value| value.contains(candidate)) {
            return false;
        }
        let all: Vec<&str> = values.iter().flat_map(|value| pieces(value, candidate)).collect();
        let pieces: HashSet<&str> = all.iter().copied().collect();
        match candidate {
            " " => 2 * pieces.len() <= whole,
            // These are hardly ever part of a name.
            ";" | "|" => true,
            _ => {
                pieces.len() < whole
                    || all.len() * whole >= 2 * values.len() * pieces.len()
                    || are_lists(values, candidate)
            }
        }
    })
}

/// Returns whether values are lists of labels rather than names that contain the separator. The same label comes first in one
/// list and later in another; in names such as `Smith, J`, a surname always comes first and an initial never does.
fn are_lists(values: &[&str], separator: &str) -> bool {
    let first: HashSet<&str> = values.iter().filter_map(|value| pieces(value, separator).next()).collect();
    let later: HashSet<&str> = values.iter().flat_map(|value| pieces(value, separator).skip(1)).collect();
    let both = first.intersection(&later).count();
    both > 1 && 4 * both >= first.len().min(later.len())
}

fn pieces<'a>(value: &'a str, separator: &'a str) -> impl Iterator<Item = &'a str> {
    value.split(separator).map(str::trim).filter(|piece| !piece.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_separator_is_found_by_the_repetition_of_what_it_separates() {
        assert_eq!(separator(&["a; b", "b", "a;c"]), Some(";"));
        assert_eq!(separator(&["a|b", "b"]), Some("|"));
        assert_eq!(separator(&["a, b", "b, c", "a, c", "a, b, c"]), Some(","));
        let few_rows = ["a, b, c", "a, b, d", "a, b, e, f", "a, b", "a, b, g", "a, b"];
        assert_eq!(separator(&few_rows), Some(","), "5 different values, 7 different labels");
        let rare = ["a, b", "c, a", "b, d", "e, f, b", "g, c", "h", "i, a", "a, b", "h", "h", "a, b"];
        assert_eq!(separator(&rare), Some(","), "labels change their places");
        assert_eq!(separator(&["a b", "b c", "a c", "a b c", "c a", "c b"]), Some(" "));
    }

    #[test]
    fn single_labels_are_not_split() {
        assert_eq!(separator(&["a", "b", "a"]), None);
        assert_eq!(separator(&["machine learning", "machine translation", "deep learning"]), None);
        assert_eq!(separator(&["Smith, J", "Jones, A", "Smith, J"]), None);
        assert_eq!(separator(&["Toys, small", "Toys, large", "Books, small", "Toys, small"]), None);
    }
}
