//! What separates the labels inside a column.

use std::collections::HashSet;

/// The characters that are tried, the most specific one first.
const CANDIDATES: [&str; 4] = [";", "|", ",", " "];

/// Returns the separator of the labels, or `None` if every value looks like one label.
///
/// A character separates labels if the pieces repeat more than the whole values do: splitting `a,b`, `b,c`, `a,c` gives
/// fewer different texts, and splitting `Smith, J`, `Jones, A` gives more. Blanks are frequent inside names, so they have
/// to halve the number.
pub(super) fn separator(values: &[&str]) -> Option<&'static str> {
    let whole = values.iter().collect::<HashSet<_>>().len();
    CANDIDATES.into_iter().find(|&candidate| {
        if !values.iter().any(|value| value.contains(candidate)) {
            return false;
        }
        let pieces: HashSet<&str> = values.iter().flat_map(|value| pieces(value, candidate)).collect();
        match candidate {
            " " => 2 * pieces.len() <= whole,
            // These are hardly ever part of a name.
            ";" | "|" => true,
            _ => pieces.len() < whole,
        }
    })
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
        assert_eq!(separator(&["a b", "b c", "a c", "a b c", "c a", "c b"]), Some(" "));
    }

    #[test]
    fn single_labels_are_not_split() {
        assert_eq!(separator(&["a", "b", "a"]), None);
        assert_eq!(separator(&["machine learning", "machine translation", "deep learning"]), None);
        assert_eq!(separator(&["Smith, J", "Jones, A", "Smith, J"]), None);
    }
}
